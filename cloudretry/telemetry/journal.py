"""An append-only file with a line of JSON for each failed attempt and each end of a call: what a run did, even if killed.

    {"time":1764489600.123,"provider":"aws","call":"ec2:DescribeInstances","account":"111122223333","region":"eu-west-1",
     "attempt":1,"outcome":"throttled","phase":"done","status":503,"code":"RequestLimitExceeded","delay":0.71,"source":"exponential"}
    {"time":1764489601.002,"provider":"aws","call":"ec2:DescribeInstances","account":"111122223333","region":"eu-west-1",
     "ended":"answered","attempts":2,"waited":0.71}

`"body":"reset"` and the like: an answer's body broke off while the program was reading it. Times are epoch seconds, waits are
seconds; what is not known or zero is left out. Parameters, messages, headers and credentials are never in it.
"""

from __future__ import annotations

import json
import logging
import os
import time
from typing import TYPE_CHECKING, Any, Final

from cloudretry.core.decision import Retry, Stop
from cloudretry.core.events import AttemptFailed, BodyCut, CallEnded
from cloudretry.core.history import printable
from cloudretry.core.member_changes import MemberChanged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cloudretry.core.call import Call
    from cloudretry.core.events import Event

__all__ = ["Journal", "read_journal"]

logger = logging.getLogger("cloudretry")

_OPEN: Final = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
_MOST_HEADS: Final = 10_000
_LONGEST_LINE: Final = 65_536  # bytes; ours have some hundreds
_BEGIN: Final = b'{"time":'
_encode: Final = json.JSONEncoder(separators=(",", ":")).encode


class Journal:
    """A listener that writes, for `Report(Journal(path))`.

    Thread-safe; several processes may write the same file, and forked ones go on doing so. A line is written by one call on a
    file that is open for appending, so that lines are never mixed, and all that was told is in the file when the process is
    killed. If writing fails, for instance because the disk is full, that is logged once and nothing more is written.

    Args:
        path: made with mode 0600 if it is not there.
        wall: gives the time of an end, in epoch seconds.

    Raises:
        OSError: it can't be opened.
    """

    def __init__(self, path: str | os.PathLike[str], *, wall: Callable[[], float] = time.time) -> None:
        self._path = os.path.abspath(path)  # noqa: PTH100 - a daemon changes its folder
        self._open()
        self._wall = wall
        self._heads: dict[Call, dict[str, Any]] = {}
        self._failed = False

    def __call__(self, event: Event) -> None:
        """Write an event; this is what makes a journal a listener."""
        if self._failed or isinstance(event, MemberChanged):
            return
        line = f"{_encode(self._entry(event))}\n".encode()
        try:
            if not self._is_ours():
                self._open()
            written = os.write(self._file, line)
        except OSError as error:
            self._give_up(str(error))
        else:
            if written < len(line):
                self._give_up(f"{written} of {len(line)} bytes were written")

    def close(self) -> None:
        """Write no more. Another thread may be about to: the file's number stays ours, and leads nowhere."""
        self._failed = True
        nowhere = os.open(os.devnull, os.O_WRONLY)
        if self._is_ours():
            os.dup2(nowhere, self._file, inheritable=False)
            self._identity = _identity(nowhere)
        os.close(nowhere)

    def _open(self) -> None:
        self._file = os.open(self._path, _OPEN, 0o600)
        self._identity = _identity(self._file)

    def _is_ours(self) -> bool:
        """A program may close all files, as daemons do, and get one of its own under the same number."""
        try:
            return _identity(self._file) == self._identity
        except OSError:
            return False

    def _give_up(self, why: str) -> None:
        self._failed = True
        logger.warning("the journal ends here: %s", why)

    def _entry(self, event: AttemptFailed | BodyCut | CallEnded) -> dict[str, Any]:
        head = self._heads.get(event.call)
        if head is None:
            if len(self._heads) >= _MOST_HEADS:
                self._heads = {}
            head = self._heads[event.call] = _head(event.call)
        if isinstance(event, CallEnded):
            return {"time": round(self._wall(), 3), **head, **_end(event)}
        if isinstance(event, BodyCut):
            return {"time": round(event.outcome.wall, 3), **head, "body": event.outcome.code or "cut"}
        return {"time": round(event.outcome.wall, 3), **head, **_attempt(event)}


def _identity(file: int) -> tuple[int, int]:
    status = os.fstat(file)
    return status.st_dev, status.st_ino


def read_journal(path: str | os.PathLike[str]) -> Iterator[dict[str, Any]]:
    """The entries of a journal, in the order in which they were written.

    What is no entry is skipped, such as the half line that a full disk leaves; one that stands behind it in its line is not.
    """
    with open(path, "rb") as file:  # noqa: PTH123 - os.PathLike or str
        while line := file.readline(_LONGEST_LINE):
            entry = _parsed(line) or _parsed(line[max(0, line.rfind(_BEGIN)) :])
            if entry is not None:
                yield entry


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return entry if isinstance(entry, dict) and isinstance(entry.get("call"), str) else None


def _head(call: Call) -> dict[str, Any]:
    known = {"account": call.account, "principal": call.principal, "region": call.region}
    return {
        "provider": call.provider,
        "call": f"{call.service}:{call.operation}",
        **{name: value for name, value in known.items() if value is not None},
    }


def _attempt(event: AttemptFailed) -> dict[str, Any]:
    outcome, decision = event.outcome, event.decision
    entry: dict[str, Any] = {"attempt": event.number, "outcome": outcome.kind.value, "phase": outcome.phase.value}
    if outcome.status is not None:
        entry["status"] = outcome.status
    for name, value in (("code", outcome.code), ("request_id", outcome.request_id), ("member", outcome.member)):
        if value is not None:
            entry[name] = printable(value)
    if isinstance(decision, Retry):
        entry["delay"], entry["source"] = round(decision.delay, 3), decision.source.value
    elif isinstance(decision, Stop):
        entry["stop"] = decision.reason.value
    return entry


def _end(event: CallEnded) -> dict[str, Any]:
    entry: dict[str, Any] = {"ended": event.stop.reason.value, "attempts": event.attempts}
    for name, seconds in (("waited", event.waited), ("queued", event.queued)):
        if seconds:
            entry[name] = round(seconds, 3)
    return entry
