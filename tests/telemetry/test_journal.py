"""The journal: what stands in it, what never does, and that it is whole whoever writes and however they end."""

from __future__ import annotations

import logging
import os
import signal
import stat
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cloudretry.core.call import Call
from cloudretry.core.decision import Retry, RetryReason, Source, Stop, StopReason
from cloudretry.core.events import AttemptFailed, CallEnded
from cloudretry.core.headers import Headers
from cloudretry.core.outcome import Kind, Outcome, Phase
from cloudretry.telemetry.journal import Journal, read_journal

CALL = Call(provider="aws", service="ec2", operation="DescribeInstances", region="eu-west-1", account="111122223333", host="h")
THROTTLED = Outcome(
    kind=Kind.THROTTLED,
    status=503,
    code="RequestLimitExceeded",
    message="secret-message",
    request_id="0f9d",
    headers=Headers({"authorization": "secret-header"}),
    wall=1764489600.1234,
)
FAILED = AttemptFailed(CALL, 1, THROTTLED, Retry(0.71239, RetryReason.THROTTLED, Source.EXPONENTIAL))
ENDED = CallEnded(CALL, 2, THROTTLED, Stop(StopReason.ANSWERED), 0.71239)


def test_a_failed_attempt_and_an_end(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j", wall=lambda: 1764489601.0)
    journal(FAILED)
    journal(ENDED)
    head = {"provider": "aws", "call": "ec2:DescribeInstances", "account": "111122223333", "region": "eu-west-1"}
    assert list(read_journal(tmp_path / "j")) == [
        {
            "time": 1764489600.123,
            **head,
            "attempt": 1,
            "outcome": "throttled",
            "phase": "done",
            "status": 503,
            "code": "RequestLimitExceeded",
            "request_id": "0f9d",
            "delay": 0.712,
            "source": "exponential",
        },
        {"time": 1764489601.0, **head, "ended": "answered", "attempts": 2, "waited": 0.712},
    ]
    assert "secret" not in (tmp_path / "j").read_text()
    assert stat.S_IMODE((tmp_path / "j").stat().st_mode) == 0o600


def test_a_call_that_was_given_up_without_an_answer(tmp_path: Path) -> None:
    call = Call(provider="azure", service="Microsoft.Compute", operation="GET disks")
    broken = Outcome(kind=Kind.NOT_SENT, phase=Phase.CONNECT, code="ConnectionRefusedError", member="egress-a:3128", wall=5.0)
    journal = Journal(tmp_path / "j", wall=lambda: 6.0)
    journal(AttemptFailed(call, 4, broken, Stop(StopReason.POOL_EXHAUSTED)))
    journal(CallEnded(call, 4, broken, Stop(StopReason.POOL_EXHAUSTED), 0.0, 1.5))
    first, second = read_journal(tmp_path / "j")
    assert (first["member"], first["phase"], first["stop"]) == ("egress-a:3128", "connect", "pool_exhausted")
    assert second == {
        "time": 6.0,
        "provider": "azure",
        "call": "Microsoft.Compute:GET disks",
        "ended": "pool_exhausted",
        "attempts": 4,
        "queued": 1.5,
    }


def test_what_a_server_says_forges_no_line(tmp_path: Path) -> None:
    outcome = Outcome(kind=Kind.FATAL, code='x"}\n{"call":"forged"}', request_id="é" * 100_000, wall=1.0)
    Journal(tmp_path / "j")(AttemptFailed(CALL, 1, outcome, None))
    (entry,) = read_journal(tmp_path / "j")
    assert (entry["call"], entry["code"], len(entry["request_id"])) == ("ec2:DescribeInstances", 'x"}?{"call":"forged"}', 128)


def test_threads_and_processes_write_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "j"
    others = [subprocess.Popen([sys.executable, "-c", WRITES, str(path), str(number)]) for number in range(3)]
    journal = Journal(path)
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda _: journal(ENDED), range(2000)))
    assert [other.wait(60) for other in others] == [0, 0, 0]
    assert Counter(entry["attempts"] for entry in read_journal(path)) == {2: 2000, 100: 1000, 101: 1000, 102: 1000}
    assert len(path.read_bytes().splitlines()) == 5000


def test_what_was_told_is_there_after_a_kill(tmp_path: Path) -> None:
    path = tmp_path / "j"
    with subprocess.Popen([sys.executable, "-c", WRITES_FOR_EVER, str(path)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        told = int(process.stdout.readline())
        os.kill(process.pid, signal.SIGKILL)
    assert [entry["attempts"] for entry in read_journal(path)][:told] == list(range(told))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is full")
def test_a_full_disk_ends_the_journal_and_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    journal = Journal("/dev/full")
    with caplog.at_level(logging.WARNING, "cloudretry"):
        journal(FAILED)
        journal(ENDED)
    assert [record.getMessage() for record in caplog.records] == ["the journal ends here: [Errno 28] No space left on device"]


def test_half_a_line_and_what_is_no_entry_are_skipped(tmp_path: Path) -> None:
    path = tmp_path / "j"
    path.write_bytes(b'{"call":"a:b"}\n[1]\n{"call":1}\n' + b"[" * 70_000 + b'\n\xff\n{"call":"c:d","time":1')
    assert list(read_journal(path)) == [{"call": "a:b"}]
    with path.open("ab") as file:
        file.write(b"\n")
    Journal(path)(ENDED)
    assert [entry["call"] for entry in read_journal(path)] == ["a:b", "ec2:DescribeInstances"]


def test_what_stands_behind_half_a_line_is_read(tmp_path: Path) -> None:
    path = tmp_path / "j"
    path.write_bytes(b'{"time":1.0,"provider":"aws","call":"ec2:Desc')
    Journal(path)(ENDED)
    Journal(path)(FAILED)
    assert [entry.get("attempts") for entry in read_journal(path)] == [2, None]


def test_a_daemon_that_closes_all_files_loses_no_line_and_finds_none_in_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    journal = Journal("j")
    journal(ENDED)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    os.close(journal._file)
    with (tmp_path / "its own").open("wb") as own:
        assert own.fileno() == journal._file
        journal(ENDED)
        assert own.fileno() != journal._file
        os.close(journal._file)
        journal(ENDED)
    assert (tmp_path / "its own").read_bytes() == b""
    assert len(list(read_journal(tmp_path / "j"))) == 3


def test_what_is_told_after_closing_goes_nowhere(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j")
    journal(ENDED)
    journal.close()
    with (tmp_path / "other").open("wb") as other:
        journal(ENDED)
        journal._failed = False  # as a thread saw it that is in the middle
        journal(ENDED)
        journal.close()
        other.write(b"mine")
    assert (tmp_path / "other").read_bytes() == b"mine"
    assert len(list(read_journal(tmp_path / "j"))) == 1


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="link"):
        Journal(tmp_path / "link")
    assert not (tmp_path / "elsewhere").exists()


SETUP = """
import sys
from cloudretry.core.call import Call
from cloudretry.core.decision import Stop, StopReason
from cloudretry.core.events import CallEnded
from cloudretry.telemetry.journal import Journal

journal = Journal(sys.argv[1])
call = Call(provider="aws", service="s", operation="o")
def write(attempts):
    journal(CallEnded(call, attempts, None, Stop(StopReason.ANSWERED), 0.0))
"""
WRITES = SETUP + "for _ in range(1000): write(100 + int(sys.argv[2]))"
WRITES_FOR_EVER = (
    SETUP
    + """
for number in range(10_000_000):
    if number == 500:
        print(number, flush=True)
    write(number)
"""
)
