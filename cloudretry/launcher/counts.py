"""Counts what the calls of one process come to, in a file that is there however the process ends."""

from __future__ import annotations

import atexit
import json
import os
import secrets
import sys
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from threading import RLock
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from cloudretry.core.decision import StopReason
from cloudretry.core.events import BodyCut, CallEnded
from cloudretry.launcher.files import AppendedFile
from cloudretry.report import OperationReport, Report

if TYPE_CHECKING:
    from cloudretry.core.call import Call
    from cloudretry.core.events import Event

__all__ = ["CALL_FIELDS", "Counts"]

CALL_FIELDS: Final = ("provider", "service", "operation", "region", "account", "principal")
"""What tells the counts of one operation from those of another."""

_SHARE: Final = 20
"""A write that took one unit is followed by the next after so many: less than a twentieth of the time goes into writing."""
_SHARE_OF_AGE: Final = 50
"""A process that has counted for so many units waits for one, so that its file does not grow with each call."""


class Counts:
    """A listener. Thread-safe; a forked child counts anew, into a file of its own.

    Each line of the file has the rows that have changed, as they stand, and the calls that were lost or recovered since the
    line before. What was lost, refused or cut short is written before the program is told. Answered calls follow with the
    next write, at the program's end at the latest: those of the last fiftieth of its time are missing where a process is
    killed or ends by `os._exit`.

    Where nothing can be written, the file is left so that whoever reads it sees it: see AppendedFile.

    Args:
        folder: where the file goes.
        program: the name of the script.
    """

    def __init__(self, folder: str, program: str) -> None:
        self._folder = folder
        self._program = program
        self._file: AppendedFile | None = None
        self._begin()
        self._open()
        atexit.register(self.write)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._begin)

    def _begin(self) -> None:
        self._report = _Changes()
        self._writing = RLock()  # a signal handler may call while its thread is in here
        self._began = perf_counter()
        self._due = 0.0
        self._is_own = self._has_failed = False
        self._process = f"{os.getpid()}-{secrets.token_hex(4)}"

    def __call__(self, event: Event) -> None:
        """Count an event."""
        self._report(event)
        if isinstance(event, CallEnded | BodyCut):
            if perf_counter() < self._due and (self._has_failed or not _is_news(event)):
                return
            self.write()

    def write(self) -> None:
        """Write what has changed. Where that fails, it is tried again with the next change."""
        with self._writing:
            started = perf_counter()
            change = self._report.take()
            if not change.calls:
                return
            self._has_failed = True
            try:
                self._append(change.document)
                self._has_failed = False
            except OSError:
                pass
            finally:  # a signal handler of the program's own may have raised
                if self._has_failed:
                    self._report.give_back(change)
            ended = perf_counter()
            self._due = ended + max(_SHARE * (ended - started), (ended - self._began) / _SHARE_OF_AGE)

    def _append(self, document: dict[str, Any]) -> None:
        if not self._is_own:
            self._open()
        if self._file is None:
            raise OSError
        known = {"process": self._process, "program": self._program}
        self._file.append(json.dumps({**known, **document}, default=str).encode())

    def _open(self) -> None:
        """Make the file. A child that can't have one, being another user by now, goes on in that of its parent."""
        path = os.path.join(self._folder, f"{self._process}.jsonl")  # noqa: PTH118 - paths stay text
        try:
            file = AppendedFile(path)
        except OSError as error:
            if self._file is None:
                with suppress(OSError):  # a link takes neither a descriptor nor room, and is not readable as a file
                    os.symlink(error.strerror or "not written", path)  # noqa: PTH211 - as above
            return
        if self._file is not None:
            self._file.close()
        self._file, self._is_own = file, True
        multiprocessing: Any = sys.modules.get("multiprocessing.util")
        if multiprocessing is not None:  # whose forked children end without atexit
            multiprocessing.Finalize(None, self.write, exitpriority=0)


def _is_news(event: CallEnded | BodyCut) -> bool:
    """Whether it changes what may be believed: for the worse, or because what was lost before has been answered now."""
    if isinstance(event, BodyCut) or event.is_lost or event.key is not None or event.listing is not None:
        return True
    if event.leads_on and not event.follows:
        return True
    return event.stop.reason is not StopReason.ANSWERED and not event.is_absence


@dataclass(frozen=True, slots=True)
class _Change:
    """What is to be written, and what it takes to give it back. `told`: how many records of lost and recovered were before."""

    calls: set[Call]
    told: tuple[int, int]
    document: dict[str, Any]


class _Changes(Report):
    """Knows what has changed since it was last asked. Thread-safe."""

    def __init__(self) -> None:
        super().__init__()
        self._rows: dict[Call, int] = {}
        self._changed: set[Call] = set()
        self._told = 0, 0
        self._taken = 0

    def _counts_of(self, call: Call) -> OperationReport:
        self._changed.add(call)
        return super()._counts_of(call)

    def take(self) -> _Change:
        """The rows as they stand, each with a number of its own, and the records that are new.

        `number`: of a row that is there twice, the line with the higher one holds.
        """
        with self._lock:
            calls, self._changed = self._changed, set()
            told, (lost, recovered) = self._told, (self._ledger.listed, self._ledger.recovered)
            self._told = len(lost), len(recovered)
            self._taken += 1
            document = {
                "number": self._taken,
                "operations": [self._row(call) for call in calls],
                "lost": [each.to_dict() for each in lost[told[0] :]],
                "recovered": [each.to_dict() for each in recovered[told[1] :]],
            }
            return _Change(calls, told, document)

    def give_back(self, change: _Change) -> None:
        """It was not written."""
        with self._lock:
            self._changed |= change.calls
            self._told = min(self._told, change.told)

    def _row(self, call: Call) -> dict[str, Any]:
        number, counts = self._rows.setdefault(call, len(self._rows)), self._operations[call]
        known = _values(call, CALL_FIELDS) | _values(counts, counts.__slots__)
        return {"row": number, **known, "unfinished": max(0, counts.unfinished)}  # as in `operations`


def _values(thing: object, names: Iterable[str]) -> dict[str, Any]:
    """What `asdict` gives, many times faster."""
    return {name: getattr(thing, name) for name in names}
