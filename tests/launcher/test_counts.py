"""The files in which processes count: nothing that was lost is missing there, or it is seen that something is."""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cloudretry.core.call import Call
from cloudretry.core.decision import Stop, StopReason
from cloudretry.core.events import BodyCut, CallEnded
from cloudretry.core.lost import Page
from cloudretry.core.machine import ANSWERED
from cloudretry.core.outcome import Kind, Outcome
from cloudretry.launcher.counts import Counts
from cloudretry.launcher.files import AppendedFile
from cloudretry.launcher.report_folder import ReportFolder
from cloudretry.launcher.summary import Summary, merge
from cloudretry.report import OperationReport

CALL = Call(provider="aws", service="ec2", operation="DescribeVpcs", region="eu-west-1", account="111122223333")
ANSWER = CallEnded(CALL, 1, None, ANSWERED, 0.0)
LOSS = CallEnded(CALL, 9, Outcome(kind=Kind.THROTTLED, status=503), Stop(StopReason.MAX_RETRIES), 31.7)
REFUSAL = replace(LOSS, outcome=Outcome(kind=Kind.FATAL, status=403, code="AccessDenied"), stop=Stop(StopReason.NOT_RETRYABLE))
ABSENCE = replace(REFUSAL, outcome=Outcome(kind=Kind.FATAL, status=404, code="NoSuchTagSet"))
LEADS_ON = replace(ANSWER, page=Page(1, leads_on=True))
CUT = BodyCut(CALL, Outcome(kind=Kind.TRANSIENT, code="reset"))
ENDLESS = 1e9  # seconds until an answered call is written


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "processes"
    made.mkdir()
    return made


@pytest.fixture
def counts(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Counts:
    monkeypatch.setattr(atexit, "register", lambda *_: None)
    monkeypatch.setattr(os, "register_at_fork", lambda **_: None)
    return Counts(str(folder), "program.py")


def read(folder: Path) -> Summary:
    return merge(str(path) for path in sorted(folder.iterdir()))


def thinned(counts: Counts) -> None:
    counts._due = ENDLESS


@pytest.mark.parametrize(
    ("event", "name"),
    [(LOSS, "lost"), (REFUSAL, "refused"), (CUT, "cut"), (LEADS_ON, "unfinished")],
    ids=["loss", "refusal", "cut", "a page that leads on"],
)
def test_what_is_missing_is_written_at_once(counts: Counts, folder: Path, event: CallEnded | BodyCut, name: str) -> None:
    for number in range(1, 4):
        thinned(counts)
        counts(event)
        assert getattr(read(folder).total, name) == number
    assert not read(folder).unreadable


def test_a_signal_handler_that_raises_in_the_middle_takes_nothing_away(
    counts: Counts, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def raises(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(AppendedFile, "append", raises)
        with pytest.raises(KeyboardInterrupt):
            counts(LOSS)
    counts.write()
    assert (read(folder).total.lost, len(read(folder).lost)) == (1, 1)


@pytest.mark.parametrize("event", [ANSWER, ABSENCE], ids=["answer", "absence"])
def test_answers_wait_for_the_next_write(counts: Counts, folder: Path, event: CallEnded) -> None:
    counts(event)
    thinned(counts)
    counts(event)
    assert read(folder).total.calls == 1
    counts(LOSS)
    assert (read(folder).total.calls, read(folder).total.lost) == (3, 1)


def test_what_is_answered_after_all_is_written_at_once(counts: Counts, folder: Path) -> None:
    for key in ("a", "b", "b"):
        counts(replace(LOSS, key=key))
    thinned(counts)
    counts(replace(ANSWER, key="b"))
    summary = read(folder)
    assert (summary.total.lost, summary.total.recovered) == (1, 2)
    assert (len(summary.lost), len(summary.recovered)) == (1, 2)


def test_a_line_holds_only_what_has_changed(counts: Counts, folder: Path) -> None:
    for number in range(1000):
        counts(replace(ANSWER, call=replace(CALL, region=f"r-{number}")))
    counts.write()
    for _ in range(3):
        counts(LOSS)
    (path,) = folder.iterdir()
    assert max(map(len, path.read_bytes().splitlines()[-3:])) < 2000
    assert (len(read(folder).operations), read(folder).total.lost, len(read(folder).lost)) == (1001, 3, 3)


def test_a_signal_handler_that_calls_while_something_is_written(
    counts: Counts, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, interrupted = os.write, False

    def write(descriptor: int, data: bytes) -> int:
        nonlocal interrupted
        if not interrupted:
            interrupted = True
            counts(LOSS)  # its line stands before the one that knows less
        return real(descriptor, data)

    monkeypatch.setattr(os, "write", write)
    counts(LOSS)
    assert (read(folder).total.lost, len(read(folder).lost)) == (2, 2)


def test_threads_write_each_loss_once_and_before_it_is_told(counts: Counts, folder: Path) -> None:
    def lose(thread: int) -> int:
        for _ in range(50):
            counts(replace(LOSS, call=replace(CALL, region=f"r-{thread % 2}")))
        return sum(each.lost for each in read(folder).operations.values())

    with ThreadPoolExecutor(8) as pool:
        assert max(pool.map(lose, range(8))) == 400
    assert (read(folder).total.lost, len(read(folder).lost), read(folder).unreadable) == (400, 400, [])


def test_calls_that_differ_in_what_is_not_counted_by_are_added_up(counts: Counts, folder: Path) -> None:
    for host in ("a", "b", "b"):
        counts(replace(LOSS, call=replace(CALL, host=host)))
    assert [each.lost for each in read(folder).operations.values()] == [3]


def test_a_full_disk_is_seen_and_what_was_written_stays(counts: Counts, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counts(LOSS)
    real = os.write

    def writes_some(descriptor: int, data: bytes) -> int:
        if len(data) < 20:
            raise OSError(28, "No space left on device")
        return real(descriptor, data[:-10])

    monkeypatch.setattr(os, "write", writes_some)
    for _ in range(3):  # the descriptor is cut once
        counts(LOSS)
        counts.write()
    summary = read(folder)
    assert (summary.total.lost, len(summary.unreadable), summary.is_incomplete) == (1, 1, True)
    monkeypatch.setattr(os, "write", real)
    counts.write()
    summary = read(folder)
    assert (summary.total.lost, len(summary.lost), summary.unreadable) == (4, 4, [])


def test_a_file_that_never_got_anything_is_seen(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    AppendedFile(str(folder / "1-00000000.jsonl"))
    assert read(folder).is_incomplete


def test_a_file_that_could_not_be_made_is_seen(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def used_up(*_: Any) -> int:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(atexit, "register", lambda *_: None)
    with monkeypatch.context() as patch:
        patch.setattr(os, "register_at_fork", lambda **_: None)
        patch.setattr(os, "open", used_up)
        made = Counts(str(folder), "program.py")
        made(LOSS)
    assert read(folder).is_incomplete


def test_a_process_that_calls_nothing_misses_nothing(counts: Counts, folder: Path) -> None:
    counts.write()
    assert (len(list(folder.iterdir())), read(folder).is_incomplete, read(folder).processes) == (1, False, 0)


def test_a_descriptor_that_the_program_closed_and_took_is_left_alone(counts: Counts, folder: Path) -> None:
    counts(LOSS)
    assert counts._file is not None
    number = counts._file._descriptor
    with (folder.parent / "theirs").open("w+b") as file:
        os.dup2(file.fileno(), number)
        counts(LOSS)
        assert os.fstat(number).st_size == 0
    os.close(number)
    assert read(folder).total.lost == 2


def test_a_standard_stream_that_is_closed_is_not_taken(folder: Path) -> None:
    text = (
        "import os, sys\nfrom cloudretry.launcher.files import AppendedFile\n"
        "os.close(1)\nfile = AppendedFile(sys.argv[1])\nprint('x', file=sys.stderr)\n"
        "try:\n    os.write(1, b'of the program')\nexcept OSError:\n    sys.exit(5)\n"
    )
    path = folder / "1-00000000.jsonl"
    assert subprocess.run([sys.executable, "-c", text, str(path)], check=False).returncode == 5
    assert not path.read_bytes().strip()


ROW: dict[str, Any] = {
    **dict.fromkeys(("region", "account", "principal")),
    **dict(zip(("row", "provider", "service", "operation"), (0, "aws", "s", "o"), strict=True)),
    **dict.fromkeys(OperationReport.__slots__, 0),
}


def line(*, process: str = "1", **changed: Any) -> str:
    operations = [{**ROW, "calls": 1, "attempts": 1, **changed}]
    return json.dumps({"process": process, "number": 1, "operations": operations, "lost": [], "recovered": []})


BAD = {
    "deep": "[" * 100_000,
    "no count": line(calls=None),
    "a text for a count": line(calls="7"),
    "no number": line(lost=float("nan")),
    "endless": line(waited=float("inf")),
    "a list for an account": line(account=["x"]),
    "a text for a record": '{"process": "1", "number": 1, "operations": [], "lost": ["x"], "recovered": []}',
    "a byte order mark": f"\ufeff{line()}x",
    "torn": line()[:-9],
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD.keys())
def test_a_bad_line_is_named_and_the_others_count(folder: Path, bad: str) -> None:
    (folder / "1-00000000.jsonl").write_text(f"{line()}\n{bad}\n{line(process='2')}\n")
    summary = read(folder)
    assert (summary.total.calls, summary.processes, summary.is_incomplete) == (2, 2, True)
    assert list(summary.lines())[-1].startswith(f"cloudretry: {folder / '1-00000000.jsonl'}: can't be read")
    assert json.loads(summary.as_json({}))["total"]["calls"] == 2
    assert json.loads(summary.completeness(finished=True)) == {"-": {"-": {"s:o": "partial"}}}


def test_a_line_without_an_end_counts_and_is_named(folder: Path) -> None:
    (folder / "1-00000000.jsonl").write_text(line())
    assert (read(folder).total.calls, read(folder).is_incomplete) == (1, True)


def test_an_account_is_the_same_as_a_number_and_as_a_text(folder: Path) -> None:
    (folder / "1-00000000.jsonl").write_text(f"{line(account=5)}\n{line(account='5', row=1)}\n")
    summary = read(folder)
    assert (list(summary.operations), summary.total.calls) == ([("aws", "s", "o", "", "5", "")], 2)
    assert json.loads(summary.completeness(finished=True)) == {"5": {"-": {"s:o": "complete"}}}
    assert json.loads(summary.as_json({}))["operations"][0]["account"] == "5"


@pytest.mark.parametrize(
    "make", [os.mkfifo, os.mkdir, lambda path: Path(path).symlink_to("/dev/zero")], ids=["fifo", "dir", "link"]
)
def test_what_is_no_file_is_named(folder: Path, make: Callable[[str], None]) -> None:
    make(str(folder / "1-00000000.jsonl"))
    assert read(folder).unreadable == [str(folder / "1-00000000.jsonl")]


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: Path(path).symlink_to("/dev/zero")], ids=["fifo", "link"])
def test_a_report_that_is_no_file_is_replaced(folder: Path, make: Callable[[str], None]) -> None:
    for name in ("report.json", "completeness.json", "journal.jsonl"):
        make(str(folder / name))
    assert ReportFolder(str(folder)).write(Summary(), finished=True) == []
    assert (folder / "report.json").is_file()
    assert not (folder / "report.json").is_symlink()
