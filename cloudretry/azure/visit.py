"""One fetch of a token: what its requests came to, and whether to try another round when a throttle came through.

MSAL answers a throttled token request from its own memory for as long as the Retry-After said, without asking the server
again; another round before that is in vain.
"""

from __future__ import annotations

import re
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from cloudretry.azure.carry import carried, put_on
from cloudretry.core.call import Call
from cloudretry.core.headers import ERROR_TEXT, Headers, HeaderSource, Unit, asked_delay
from cloudretry.core.history import History
from cloudretry.core.machine import ANSWERED
from cloudretry.core.outcome import Kind, Outcome
from cloudretry.core.settings import for_credentials
from cloudretry.runtime.clock import current_clock
from cloudretry.runtime.engine import Engine

if TYPE_CHECKING:
    from azure.core.exceptions import ClientAuthenticationError
    from typing_extensions import Self

    from cloudretry.core.machine import RetryMachine
    from cloudretry.core.settings import RetrySettings
    from cloudretry.runtime.engine import Bounds

__all__ = ["Visit", "current_visit"]

_PATIENCE: Final = 70.0
"""Seconds for all waits between the rounds of one fetch: MSAL's longest pause of its own, 60 s, fits in."""
_ROUNDS: Final = 2  # after the first
_LONGEST_PAUSE: Final = 3600

_SAYS_THROTTLED: Final = re.compile(
    r"AADSTS90055|\b429\b|throttl|temporarily_unavailable|too many (?:incoming )?requests", re.IGNORECASE
)
"""What a command-line tool prints, or MSAL remembers; there is nothing else to read then."""


@dataclass(frozen=True, slots=True)
class _Note:
    """A request of the credential that failed: its history, and the Retry-After as MSAL will read it."""

    history: History
    retry_after: str | None

    @property
    def throttled(self) -> bool:
        """Whether its last attempt was."""
        return bool(self.history.attempts) and self.history.attempts[-1].outcome == Kind.THROTTLED.value

    def pause(self, default: int, now: float) -> float:
        """Seconds until a request can come through: MSAL reads whole seconds alone, the server may have asked for more."""
        try:
            of_msal = min(int(self.retry_after), _LONGEST_PAUSE) if self.retry_after else default
        except ValueError:
            of_msal = default
        asked = self.history.retry_at.timestamp() - now if self.history.retry_at else 0.0
        return max(float(of_msal), asked, 0.0)


class Visit:
    """One fetch of a token, to which the requests in the credential's own pipelines belong. A context manager.

    Attributes:
        single: the credential was made for one attempt; there is no second round.
    """

    def __init__(self, engine: Engine, credential: object, *, pause: int) -> None:
        self.engine = _TokenEngine(engine)
        self._call = Call(provider="azure", service="azure-identity", operation=type(credential).__name__)
        self._machine: RetryMachine | None = None
        self._notes: list[_Note] = []
        self._pause = pause
        self.single = False

    def __enter__(self) -> Self:
        self._before = _visit.set(self)
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        _visit.reset(self._before)
        self.engine.settle(got=error is None)
        if self._machine is not None:
            self._end(self._machine, error)
        elif isinstance(error, Exception) and self._notes and carried(error) is None:
            put_on(error, self._notes[-1].history)

    @property
    def machine(self) -> RetryMachine:
        """Decides about rounds; there is one as soon as a throttle came through."""
        if self._machine is None:
            self._machine = self.engine.begin(self._call, _rounds)
        return self._machine

    def note(self, failed: Any, retry_after: str | None = None) -> None:
        """Remember a response or an exception with which a request of the credential ended."""
        raw = carried(failed)
        if raw is not None:
            self._notes.append(_Note(History.from_dict(raw), retry_after))

    def throttled(self, error: ClientAuthenticationError) -> Outcome | None:
        """What a round came to, if it was throttled; None: another round would fail too."""
        notes, now, text = [note for note in self._notes if note.throttled], current_clock().wall(), str(error)
        if self.single or not (notes or _SAYS_THROTTLED.search(text)):
            return None
        self._notes.clear()  # the next round is judged by its own
        last = notes[-1].history.attempts[-1] if notes else None
        said = asked_delay(_FROM_TEXT, {}, error_text=text, wall=now)
        pause = max((note.pause(self._pause, now) for note in notes), default=said or float(self._pause))
        return Outcome(
            kind=Kind.THROTTLED,
            status=last.status if last else None,
            code=last.code if last else type(error).__name__,
            request_id=last.request_id if last else None,
            headers=Headers({_AFTER.name: str(pause)}),
            exception=error,
            wall=now,
        )

    def _end(self, machine: RetryMachine, error: BaseException | None) -> None:
        if error is None:
            machine.answered()
        elif machine.ended is None and isinstance(error, Exception):
            machine.abandon(Outcome(kind=Kind.FATAL, code=type(error).__name__, exception=error))
        elif machine.ended is None:
            machine.cancel()
        if isinstance(error, Exception):
            put_on(error, machine.history())
        self.engine.tell_end(machine)


_visit: Final[ContextVar[Visit | None]] = ContextVar("cloudretry_token_visit", default=None)
current_visit: Final = _visit.get
"""The fetch to which a request belongs that is sent here; None: to none of ours."""

_AFTER: Final = HeaderSource("Retry-After", Unit.SECONDS)
_FROM_TEXT: Final = (HeaderSource(ERROR_TEXT, Unit.SECONDS),)


def _rounds(retry: RetrySettings) -> RetrySettings:
    """Few of them, and none before it can come through."""
    return replace(
        retry,
        strategy="response_header",
        response_header=(_AFTER,),
        max_retries=min(_ROUNDS, retry.max_retries),
        max_header_delay=min(_PATIENCE, retry.max_header_delay),
        time_budget=min(_PATIENCE, retry.time_budget),
    )


class _TokenEngine(Engine):
    """A command's engine for the requests of one visit. What failed on the way to a token that came is no lost call."""

    def __init__(self, engine: Engine) -> None:
        vars(self).update(vars(engine))  # the same settings, listeners and plugins
        self._held: list[RetryMachine] = []

    def begin(self, call: Call, bounds: Bounds | None = None) -> RetryMachine:
        """Start a call that everybody waits for. One more token does no harm, so it may be sent twice."""
        machine = super().begin(replace(call, replayable=True), bounds or for_credentials)
        machine.place = None  # and nobody waits in a queue for it
        return machine

    def end(self, machine: RetryMachine) -> None:
        """Tell of an answer now, and of anything else when the visit ends."""
        if machine.ended is None or machine.ended is ANSWERED:
            super().end(machine)
        else:
            self._held.append(machine)

    def settle(self, *, got: bool) -> None:
        """The visit ends, with or without a token."""
        for machine in self._held:
            if got:
                machine.ended = ANSWERED
            super().end(machine)
        self._held.clear()

    def tell_end(self, machine: RetryMachine) -> None:
        """Tell how the visit's own machine ended."""
        super().end(machine)
