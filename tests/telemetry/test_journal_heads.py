"""What a journal keeps of calls: little, and who made them where no account is known."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from cloudretry.core.call import Call
from cloudretry.core.events import CallEnded
from cloudretry.core.machine import ANSWERED
from cloudretry.telemetry.journal import Journal, read_journal

if TYPE_CHECKING:
    import pytest


def call(number: int) -> Call:
    return Call(provider="azure", service="Microsoft.Compute", operation=f"GET {number}", account=str(number))


def test_its_memory_is_bounded_and_its_entries_are_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cloudretry.telemetry.journal._MOST_HEADS", 3)
    journal = Journal(tmp_path / "j")
    for number in [*range(8), 0]:
        journal(CallEnded(call(number), 1, None, ANSWERED, 0.0))
        assert len(journal._heads) <= 3
    assert [entry["account"] for entry in read_journal(tmp_path / "j")] == [*"01234567", "0"]


def test_who_called_is_named_where_no_account_is_known(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j")
    journal(CallEnded(Call(provider="aws", service="sts", operation="X", principal="key:3f9a"), 1, None, ANSWERED, 0.0))
    (entry,) = read_journal(tmp_path / "j")
    assert (entry["principal"], "account" in entry) == ("key:3f9a", False)
