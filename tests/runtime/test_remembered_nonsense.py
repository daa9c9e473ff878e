"""Nothing that stands in the file of remembered limits can do harm."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cloudretry.core.call import Call
from cloudretry.core.pacing_settings import PacingSettings
from cloudretry.core.quota import quota_of
from cloudretry.core.rate import Limit
from cloudretry.runtime.pacing import Pacing
from cloudretry.runtime.remembered import RememberedLimits
from cloudretry.runtime.state_folder import StateFolder
from cloudretry.testing import VirtualClock, virtual_clock

CALL = Call(
    provider="aws",
    service="sqs",
    operation="ListQueues",
    region="eu-west-1",
    account="111122223333",
    host="sqs.eu-west-1.amazonaws.com",
)
QUOTA = quota_of(CALL)
KEY = ["aws", "111122223333", "sqs.eu-west-1.amazonaws.com", "eu-west-1", "sqs", "ListQueues"]
DAY = 86_400.0


@pytest.fixture
def clock() -> Iterator[VirtualClock]:
    with virtual_clock() as clock:
        yield clock


@pytest.fixture
def folder(tmp_path: Path) -> StateFolder:
    return StateFolder(str(tmp_path / "state"), "pacing", largest=2 * 1_048_576)


def file_of(folder: StateFolder) -> Path:
    return Path(folder.path) / "limits.json"


def write(folder: StateFolder, *limits: Any) -> None:
    folder.write("limits.json", {"format": 1, "limits": limits})


def started(folder: StateFolder) -> tuple[RememberedLimits, Limit | None]:
    """A process, and where it starts."""
    memory = RememberedLimits(lambda: folder)
    return memory, Pacing(memory=memory).turns(CALL, PacingSettings()).state().limit


@pytest.mark.parametrize("age", [-301.0, -1e9, 15 * DAY, 1e300])
def test_a_stamp_of_long_ago_or_of_the_future_is_not_believed(folder: StateFolder, clock: VirtualClock, age: float) -> None:
    write(folder, [KEY, 40.0, 80.0, clock.wall() - age])
    assert started(folder)[1] is None


@pytest.mark.parametrize(
    "text",
    [
        "", "\x00\xff", "null", "[]", "3", '"limits"', "{", '{"format": 1}', '{"format": 1, "limits": {}}',
        '{"format": 1, "limits": [null, 3, "x", [], [[]], {}, [[1, 2, 3, 4, 5, 6], 1, 1, 1], [null, 40, 80, NOW]]}',
        '{"format": 1, "limits": [[["aws"], 40, 80, NOW]]}',
        '{"format": 0, "limits": [[KEY, 40, 80, NOW]]}',
        '{"limits": [[KEY, 40, 80, NOW]]}',
        '{"format": 1, "limits": [[KEY, 40, 80]]}',
        '{"format": 1, "limits": [[KEY, 40, 80, NOW, 1]]}',
        *(f'{{"format": 1, "limits": [[KEY, {rate}, 80, NOW]]}}' for rate in
          ("0", "-1", "-1e400", "NaN", "Infinity", "1e400", "1e9", "1" + "0" * 400, "1e-300", "true", '"40"', "null", "[40]")),
        *(f'{{"format": 1, "limits": [[KEY, 40, {burst}, NOW]]}}' for burst in
          ("0", "-80", "NaN", "Infinity", "1e9", "1" + "0" * 400, "false", '"80"')),
        *(f'{{"format": 1, "limits": [[KEY, 40, 80, {measured}]]}}' for measured in
          ("NaN", "Infinity", "-1", '"now"', "null", "1" + "0" * 400)),
        "[" * 100_000,
        " " * (3 * 1_048_576) + '{"format": 1, "limits": [[KEY, 40, 80, NOW]]}',
    ],
)  # fmt: skip
def test_nonsense_is_as_good_as_nothing(folder: StateFolder, clock: VirtualClock, text: str) -> None:
    write(folder)
    path = file_of(folder)
    path.write_text(text.replace("KEY", json.dumps(KEY)).replace("NOW", str(clock.wall())), encoding="latin-1")
    memory, limit = started(folder)
    assert limit is None
    memory.keep(lambda: [(QUOTA, Limit(7.0, 70.0))], last=True)
    assert folder.read("limits.json")["limits"] == [[KEY, 7.0, 70.0, clock.wall()]]


def test_the_same_file_without_the_fault_is_believed(folder: StateFolder, clock: VirtualClock) -> None:
    write(folder, None, [KEY, 40, 80, clock.wall()], [KEY, -1, 80, clock.wall()])
    assert started(folder)[1] == Limit(40.0, 80.0)


def test_a_file_in_which_others_may_write_is_foreign(folder: StateFolder, clock: VirtualClock) -> None:
    write(folder, [KEY, 40.0, 80.0, clock.wall()])
    file_of(folder).chmod(0o622)
    assert started(folder)[1] is None


def test_a_link_is_foreign(folder: StateFolder, clock: VirtualClock, tmp_path: Path) -> None:
    write(folder, [KEY, 40.0, 80.0, clock.wall()])
    file_of(folder).rename(tmp_path / "elsewhere.json")
    file_of(folder).symlink_to(tmp_path / "elsewhere.json")
    assert started(folder)[1] is None
