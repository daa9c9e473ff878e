"""Counts what calls came to, while they end. A listener like any other; thread-safe."""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from threading import RLock
from typing import TYPE_CHECKING, Final
from weakref import WeakSet

from cloudretry.core.decision import StopReason
from cloudretry.core.events import AttemptFailed, BodyCut, CallEnded, Event, Listener, MemberChanged
from cloudretry.core.lost import LostCall
from cloudretry.core.outcome import Kind, is_denied
from cloudretry.errors import CallsLost

if TYPE_CHECKING:
    from cloudretry.core.call import Call

__all__ = ["OperationReport", "Report"]

_MOST_LISTED: Final = 10_000  # the counts stay exact; what is listed must not eat the memory of a run in which all fails


@dataclass(slots=True)
class OperationReport:
    """Counts of one operation in one account and region.

    `waited` and `queued` are seconds, summed over all threads: between the attempts of a call, and for turns. `retried`: calls
    that were answered after more than one attempt.

    A call is lost when it ended without the provider's answer to it: throttled, broken or not sent to the end. One that the
    provider refused is `refused`; of these, `denied` was for want of a right, and `absent` was about what is not there: that is
    an answer. `repeated`: calls that came again just after they were given up, because the program has a retry loop of its own.
    `cut`: answers whose streamed body broke off while the program was reading it; it has the SDK's error, and may ask again.
    `recovered`: lost calls that are not counted as lost any more, because the same call was answered just after.
    `unfinished`: pages to which an answer led and for which nobody asked: each is a listing whose end was not seen, so what
    is not in it may be there. It is no loss. A page that another process asked for counts here too.
    """

    calls: int = 0
    attempts: int = 0
    throttled: int = 0
    broken: int = 0
    retried: int = 0
    refused: int = 0
    denied: int = 0
    absent: int = 0
    lost: int = 0
    recovered: int = 0
    cut: int = 0
    repeated: int = 0
    unfinished: int = 0
    waited: float = 0.0
    queued: float = 0.0

    def add(self, other: OperationReport) -> None:
        """Count the other's calls too."""
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    @classmethod
    def sum(cls, parts: Iterable[OperationReport]) -> OperationReport:
        """All of them together."""
        total = cls()
        for part in parts:
            total.add(part)
        return total


class Report:
    """What the calls of a command or session came to. Read it at any time, from any thread.

        report = Report(Journal("journal.jsonl"), OpenTelemetry(), print)

    Args:
        listeners: are told each event as it happens (AttemptFailed, CallEnded and MemberChanged of cloudretry.core.events), in
            the thread of the call. They should be quick; one that raises is logged once and never breaks a call.
    """

    def __init__(self, *listeners: Listener) -> None:
        if strange := [listener for listener in listeners if not callable(listener)]:
            raise TypeError(f"a listener is called with each event; {strange[0]!r} can't be")
        self.listeners = listeners
        self._lock = RLock()  # a signal handler may read it while its thread is in here
        _REPORTS.add(self)
        self._operations: dict[Call, OperationReport] = {}
        self._ledger = _Ledger()

    @property
    def operations(self) -> Mapping[Call, OperationReport]:
        """A copy of the counts by operation, account and region."""
        with self._lock:
            return {call: replace(counts, unfinished=max(0, counts.unfinished)) for call, counts in self._operations.items()}

    @property
    def total(self) -> OperationReport:
        """The sum over all operations."""
        return OperationReport.sum(self.operations.values())

    @property
    def lost(self) -> tuple[LostCall, ...]:
        """A record of each call that was given up or cut short, the first 10 000 of them; `str()` of one is a line."""
        with self._lock:
            return tuple(lost for _, lost in self._ledger.lost.values())

    @property
    def recovered(self) -> tuple[LostCall, ...]:
        """Those that were lost at first, and answered when the program's own loop called again."""
        with self._lock:
            return tuple(self._ledger.recovered)

    def raise_if_lost(self) -> None:
        """Raise CallsLost if any call was given up, so that an incomplete inventory is not taken for a complete one."""
        if self.total.lost:
            raise CallsLost(*map(str, self.lost))

    def __str__(self) -> str:
        """The sums, in one line."""
        return str(self.total)

    def __call__(self, event: Event) -> None:
        """Count an event; this is what makes a report a listener."""
        if isinstance(event, MemberChanged):
            return
        with self._lock:
            counts = self._counts_of(event.call)
            if isinstance(event, AttemptFailed):
                _count_attempt(counts, event)
            elif isinstance(event, BodyCut):
                counts.cut += 1
            else:
                self._count_call(counts, event)

    def _counts_of(self, call: Call) -> OperationReport:
        """To be changed now."""
        counts = self._operations.get(call)
        if counts is None:
            counts = self._operations[call] = OperationReport()
        return counts

    def _count_call(self, counts: OperationReport, event: CallEnded) -> None:
        counts.calls += 1
        counts.attempts += event.attempts
        counts.waited += event.waited
        counts.queued += event.queued
        counts.repeated += event.rounds > 0
        if event.page is not None:
            counts.unfinished += event.leads_on - event.follows  # below 0 where the page before was told to another report
        if event.is_lost:
            counts.lost += 1
            self._ledger.add(event)
        elif event.stop.reason is StopReason.ANSWERED:
            counts.retried += event.attempts > 1
            for key in (event.key, event.listing):
                if key is not None:
                    self._recover(key)
        elif event.outcome is not None:
            counts.refused += 1
            counts.denied += is_denied(event.outcome)
            counts.absent += event.is_absence

    def _recover(self, key: Hashable) -> None:
        for call in self._ledger.recover(key):
            counts = self._counts_of(call)  # which may lack the account that is known by now
            counts.lost -= 1
            counts.recovered += 1

    def __reduce__(self) -> tuple[type[Report], tuple[()]]:
        """A copy in another process starts to count anew, and tells nobody."""
        return Report, ()


class _Ledger:
    """The records of lost calls, as many as are kept. What is not on the list can't recover. Not thread-safe."""

    def __init__(self) -> None:
        self.lost: dict[int, tuple[Call, LostCall]] = {}
        self.recovered: list[LostCall] = []
        self.listed: list[LostCall] = []  # also what has recovered since
        self._of: dict[Hashable, list[int]] = {}

    def add(self, event: CallEnded) -> None:
        number = len(self.listed)
        if number >= _MOST_LISTED:
            return
        self.listed.append(event.lost or LostCall.of(event))
        self.lost[number] = event.call, self.listed[number]
        for key in (event.key, event.listing):
            if key is not None:
                self._of.setdefault(key, []).append(number)

    def recover(self, key: Hashable) -> list[Call]:
        """The call was answered: what was lost of it is no hole. Gives under what that was counted."""
        found = [self.lost.pop(number) for number in self._of.pop(key, ()) if number in self.lost]
        self.recovered += (lost for _, lost in found)
        return [call for call, _ in found]


def _count_attempt(counts: OperationReport, event: AttemptFailed) -> None:
    if event.outcome.kind is Kind.THROTTLED:
        counts.throttled += 1
    elif event.outcome.kind is not Kind.FATAL:
        counts.broken += 1


_REPORTS: Final[WeakSet[Report]] = WeakSet()


def _fresh_locks() -> None:
    """A forked child has no thread that could give back a lock which another held at that moment."""
    for report in list(_REPORTS):
        report._lock = RLock()  # noqa: SLF001 - its own module


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_fresh_locks)
