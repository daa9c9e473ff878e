"""The next member when the connection can't be established: SPEC C1 for one call. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

from cloudretry.core.tries import Reason

if TYPE_CHECKING:
    from cloudretry.core.pool_settings import ExhaustedAnswer
    from cloudretry.core.tries import TryEnd

__all__ = ["AGAIN", "DONE", "Again", "Done", "Exhausted", "Failover", "Spent", "Step"]


@dataclass(frozen=True, slots=True)
class Again:
    """Ask for a member again, at once."""


@dataclass(frozen=True, slots=True)
class Done:
    """Hand over the answer or the error of this attempt: the retry framework decides what follows."""


@dataclass(frozen=True, slots=True)
class Exhausted:
    """No member is left: an HTTP 500 that names those that were tried, in their order. Never retried."""

    tried: tuple[str, ...]
    ends: tuple[TryEnd, ...] = field(default=(), compare=False)

    def __str__(self) -> str:
        return _told(self.tried, self.ends)


@dataclass(frozen=True, slots=True)
class Spent:
    """The original error of the last try, unchanged. Never retried."""

    tried: tuple[str, ...]
    ends: tuple[TryEnd, ...] = field(default=(), compare=False)

    def __str__(self) -> str:
        return _told(self.tried, self.ends)


Step: TypeAlias = "Again | Done | Exhausted | Spent"
AGAIN: Final = Again()
DONE: Final = Done()


class Failover:
    """What one call has tried. Kept over its attempts: R is spent per call.

    Args:
        retries: R, how many further members the call may try.

    Attributes:
        tried: members whose connection could not be established in this call, in their order; `ends`, how.
        afresh: the next try is a fresh connection to the same member.
        begun: an attempt is under way, so the next member is not its first.
    """

    __slots__ = ("_answer", "_members_run_out", "_retries", "_tries", "afresh", "begun", "ends", "tried")

    def __init__(self, retries: int, exhausted_answer: ExhaustedAnswer = "500") -> None:
        self.tried: tuple[str, ...] = ()
        self.ends: tuple[TryEnd, ...] = ()
        self.afresh = False
        self.begun = False
        self._answer = exhausted_answer
        self._retries = retries
        self._tries = 0
        self._members_run_out = True

    def begin(self, available: int) -> None:
        """Start an attempt at which `available` members (S) that this call has not tried could be used."""
        self.begun = True
        self._tries = min(available, self._retries + 1)
        self._members_run_out = available <= self._retries

    def ended(self, member: str, end: TryEnd) -> Step:
        """Decide after a try."""
        was_afresh, self.afresh = self.afresh, False
        if end.answered or end.written or end.reason is Reason.CANCELLED:
            self.begun = False
            return DONE
        if end.reused and end.reason is Reason.RESET and not was_afresh:  # closed while it was idle, which says nothing
            self.afresh = True
            return AGAIN
        self.tried, self.ends = (*self.tried, member), (*self.ends, end)
        if end.reason is Reason.CERTIFICATE:  # somebody else may be listening: a human must see that
            return self._spent()
        self._tries -= 1
        if self._tries > 0:
            self._retries -= 1
            return AGAIN
        return self.ran_out() if self._members_run_out else self._spent()

    def ran_out(self) -> Exhausted | Spent:
        """Decide where the next member is wanted and none is left, because others have failed meanwhile too."""
        if self._answer == "connection_error":
            return self._spent()
        self.begun = False
        return Exhausted(self.tried, self.ends)

    def _spent(self) -> Spent:
        self.begun = False
        return Spent(self.tried, self.ends)


def _told(tried: tuple[str, ...], ends: tuple[TryEnd, ...]) -> str:
    """`egress-a: refused (connect), egress-b: forbidden (proxy_handshake, 403)`."""
    return ", ".join(f"{member}: {end}" for member, end in zip(tried, ends, strict=False))
