"""Counts what the calls of one process come to, in a file that is there however the process ends."""

from __future__ import annotations

import atexit
import json
import os
import secrets
from collections.abc import Iterable
from contextlib import suppress
from threading import Lock
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from cloudretry.core.decision import StopReason
from cloudretry.core.events import CallEnded
from cloudretry.report import Report

if TYPE_CHECKING:
    from cloudretry.core.events import Event

__all__ = ["CALL_FIELDS", "Counts"]

CALL_FIELDS: Final = ("provider", "service", "operation", "region", "account", "principal")
"""What tells the counts of one operation from those of another."""

_LONGEST_WAIT: Final = 1.0
_SHARE: Final = 20
_SHARE_OF_LOST: Final = 2
"""A write that took one unit is followed by the next after so many: less than a twentieth of the time goes into writing."""


class Counts:
    """A listener. Thread-safe; a forked child counts anew, into a file of its own.

    Written when a call has ended, unless that was just done, and at the program's end: what a killed process leaves lacks the
    answered calls of its last milliseconds.

    Args:
        folder: where the file goes.
        program: the name of the script.
    """

    def __init__(self, folder: str, program: str) -> None:
        self._folder = folder
        self._program = program
        self._begin()
        atexit.register(self.write, wait=_LONGEST_WAIT)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._begin)

    def _begin(self) -> None:
        self._report = Report()
        self._writing = Lock()
        self._written = self._took = 0.0
        self._path = os.path.join(self._folder, f"{os.getpid()}-{secrets.token_hex(4)}")  # noqa: PTH118 - paths stay text

    def __call__(self, event: Event) -> None:
        """Count an event."""
        self._report(event)
        if isinstance(event, CallEnded):
            share, wait = (_SHARE, 0.0) if event.stop.reason is StopReason.ANSWERED else (_SHARE_OF_LOST, _LONGEST_WAIT)
            if perf_counter() >= self._written + share * self._took:
                self.write(wait)

    def write(self, wait: float = 0.0) -> None:
        """Replace the file in one step, if there is anything to tell. Where that fails, the parent misses it.

        `wait`: seconds for another thread that is writing what it knows.
        """
        if not self._report.operations or not self._writing.acquire(timeout=wait):
            return
        try:
            started = perf_counter()
            with suppress(OSError):
                written = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
                with os.fdopen(written, "w", encoding="utf-8") as file:
                    json.dump(self._document(), file)
                os.replace(self._path, f"{self._path}.json")  # noqa: PTH105 - paths stay text
            self._written = perf_counter()
            self._took = self._written - started
        finally:
            self._writing.release()

    def _document(self) -> dict[str, Any]:
        return {
            "process": os.getpid(),
            "program": self._program,
            "operations": [
                {**_values(call, CALL_FIELDS), **_values(counts, counts.__slots__)}
                for call, counts in self._report.operations.items()
            ],
            "lost": [lost.to_dict() for lost in self._report.lost],
            "recovered": [lost.to_dict() for lost in self._report.recovered],
        }


def _values(thing: object, names: Iterable[str]) -> dict[str, Any]:
    """What `asdict` gives, many times faster."""
    return {name: getattr(thing, name) for name in names}
