"""Decides what happens after each attempt of one call. Pure: time, randomness and the user's strategy are passed in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cloudretry.core.backoff import exponential_delay, header_delay
from cloudretry.core.context import BackoffContext
from cloudretry.core.decision import Ask, Decision, Retry, RetryReason, Source, Stop, StopReason
from cloudretry.core.headers import asked_delay
from cloudretry.core.history import Attempt, History, moment
from cloudretry.core.outcome import Kind, Outcome, Phase
from cloudretry.core.settings import THROTTLING

if TYPE_CHECKING:
    from random import Random

    from cloudretry.core.call import Call
    from cloudretry.core.lost import Page
    from cloudretry.core.settings import RetrySettings

__all__ = ["ANSWERED", "RetryMachine"]

ANSWERED = Stop(StopReason.ANSWERED)
_NOT_RETRYABLE = Stop(StopReason.NOT_RETRYABLE)

_TRANSIENT_STATUSES = frozenset({500, 502, 503, 504})
_NOTHING_WRITTEN = frozenset({Phase.DNS, Phase.CONNECT, Phase.PROXY_HANDSHAKE, Phase.TLS})


class RetryMachine:
    """The state of one call. `record` each attempt's outcome and do what it returns; not shared between threads.

    Args:
        started: monotonic seconds when the call began.

    Attributes:
        again: whether the same call was lost just before; the engine sets it.
        attempts: how many attempts have ended.
        outcome: what the last failed attempt came to; None while none has failed.
        ended: why the call does not go out again; None while it goes on.
        held: seconds that it has waited for a member of an egress pool; the adapter sets it.
        journey: the call's way through an egress pool, for the adapter that sends it; nothing here looks at it.
        listing: gives a hash of the listing of which the call asks for a page; for the engine, as above.
        page: which page of a listing the call asks for, where the adapter knows; nothing here looks at it.
        parameters: gives a hash of what the call asks for; for the engine, as above.
        place: the call's place at its quota, for the engine; as above.
        rewindable: whether the request's body can be sent from its start again; the adapter may set it.
        rounds: how often the same call was given up just before; the engine sets it.
        told: whether listeners know that the call ended; the engine sets it.
    """

    __slots__ = (
        "_delays",
        "_notes",
        "_rng",
        "_transient",
        "again",
        "attempts",
        "call",
        "ended",
        "held",
        "journey",
        "listing",
        "outcome",
        "page",
        "parameters",
        "place",
        "rewindable",
        "rounds",
        "settings",
        "started",
        "told",
    )

    def __init__(self, call: Call, settings: RetrySettings, *, started: float, rng: Random) -> None:
        self.call = call
        self.settings = settings
        self.started = started
        self.rewindable = True
        self.told = False
        self.held = 0.0
        self.journey: Any = None
        self.place: Any = None
        self.page: Page | None = None
        self.parameters: Any = None
        self.listing: Any = None
        self.again = False
        self.rounds = 0
        self.attempts = 0
        self.outcome: Outcome | None = None
        self.ended: Stop | None = None
        self._rng = rng
        self._notes: list[Attempt] = []
        self._delays: list[float] = []
        self._transient = 0

    @property
    def retry_number(self) -> int:
        """The number of the next retry: 1 before the first."""
        return len(self._delays) + 1

    @property
    def waited(self) -> float:
        """Seconds of all waits so far, as decided, and of those for members."""
        return sum(self._delays) + self.held

    def answered(self) -> None:
        """Note that the provider answered: there is nothing to decide."""
        self.attempts += 1
        self.ended = ANSWERED

    def record(self, outcome: Outcome, now: float) -> Decision | Ask:
        """Decide what follows from an attempt that failed at `now` (monotonic seconds)."""
        self.attempts += 1
        self.outcome = outcome
        cause = self._cause(outcome)
        if isinstance(cause, StopReason):
            return self._stop(cause)
        if len(self._delays) >= self.settings.max_retries:
            return self._stop(StopReason.MAX_RETRIES)
        if cause is RetryReason.THROTTLED:
            return self._throttled(outcome, now)
        if self._transient >= self.settings.transient_retries:
            return self._stop(StopReason.TRANSIENT_RETRIES)
        self._transient += 1
        return self._retry(self._exponential(), cause, Source.EXPONENTIAL)

    def answer(self, delay: float | None) -> Decision:
        """Take the reply to an Ask: seconds to wait, or None to stop."""
        if delay is None:
            return self._stop(StopReason.PLUGIN)
        return self._retry(delay, RetryReason.THROTTLED, Source.PLUGIN)

    def fall_back(self) -> Decision:
        """Go on without the reply to an Ask, because the plugin gave nothing usable."""
        return self._retry(self._exponential(), RetryReason.THROTTLED, Source.FALLBACK)

    def cancel(self) -> Stop:
        """End the call during a wait, or while its plugin is asked; the wait that was cut short stays in the history."""
        if len(self._notes) < self.attempts:
            self._note(None, None)
        self.ended = Stop(StopReason.CANCELLED)
        return self.ended

    def interrupt(self) -> Stop:
        """End the call in the middle of an attempt, which counts, although nobody will know what it came to."""
        self.attempts += 1
        self.ended = Stop(StopReason.CANCELLED)
        return self.ended

    def abandon(self, outcome: Outcome, stop: Stop = _NOT_RETRYABLE) -> None:
        """End the call without another attempt: the request did not come as far as being sent."""
        self.outcome = outcome
        self.ended = stop

    def observe(self, outcome: Outcome) -> None:
        """Note an attempt that failed, while the SDK decides what follows."""
        self.attempts += 1
        self.outcome = outcome
        self.ended = Stop(StopReason.SDK, self.asked(outcome))
        self._note(None, None)

    def history(self) -> History:
        """What happened so far. Raises nothing; `reason` is empty while the call goes on."""
        last = self.outcome
        after = self.ended.retry_after if self.ended else None
        return History(
            call=str(self.call),
            attempts=tuple(self._notes),
            total_wait=self.waited,
            reason=self.ended.reason.value if self.ended else "",
            retry_at=moment(last.wall + after) if last is not None and after is not None else None,
        )

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        """None in another process: SDK errors are pickled with the request that they belong to, and a machine rides on it."""
        return type(None), ()

    def __deepcopy__(self, memo: object) -> RetryMachine:
        """Itself: a copied request still belongs to the same call."""
        return self

    def _cause(self, outcome: Outcome) -> RetryReason | StopReason:
        """Why to try again, or why not, before any counting."""
        if outcome.stop is not None:
            return outcome.stop
        cause = self._kind_of_retry(outcome)
        if isinstance(cause, RetryReason) and not self.rewindable and outcome.phase not in _NOTHING_WRITTEN:
            return StopReason.BODY_NOT_REWINDABLE
        return cause

    def _kind_of_retry(self, outcome: Outcome) -> RetryReason | StopReason:
        if self._counts_as_throttled(outcome):
            return RetryReason.THROTTLED
        broken = outcome.kind is Kind.TRANSIENT or (outcome.kind is Kind.THROTTLED and outcome.status in _TRANSIENT_STATUSES)
        if not self.settings.transient_errors or not (broken or outcome.kind is Kind.NOT_SENT):
            return StopReason.NOT_RETRYABLE
        if outcome.kind is Kind.NOT_SENT:
            return RetryReason.NOT_SENT
        return RetryReason.TRANSIENT if self.call.replayable else StopReason.NOT_REPLAYABLE

    def _counts_as_throttled(self, outcome: Outcome) -> bool:
        codes = self.settings.response_codes
        if outcome.kind is Kind.THROTTLED and THROTTLING in codes:
            return True
        if outcome.status is None:  # nobody answered: `code` is an exception's name, and the server may have acted
            return False
        return outcome.status in codes or outcome.code in codes

    def _throttled(self, outcome: Outcome, now: float) -> Decision | Ask:
        if self.settings.strategy == "custom":
            return Ask(self._context(outcome, now))
        if self.settings.strategy != "response_header":
            return self._retry(self._exponential(), RetryReason.THROTTLED, Source.EXPONENTIAL)
        asked = self.asked(outcome)
        if asked is None:
            return self.fall_back()
        if asked > self.settings.max_header_delay:
            return self._stop(StopReason.MAX_HEADER_DELAY)
        delay = header_delay(asked, window=self.settings.additional_delay_window, rng=self._rng)
        return self._retry(delay, RetryReason.THROTTLED, Source.RESPONSE_HEADER)

    def _exponential(self) -> float:
        return exponential_delay(
            self.retry_number,
            base=self.settings.base_delay,
            cap=self.settings.max_delay,
            window=self.settings.additional_delay_window,
            rng=self._rng,
        )

    def asked(self, outcome: Outcome) -> float | None:
        """Seconds that an answer asks us to wait, by the headers that the settings name; None: it doesn't."""
        return asked_delay(self.settings.response_header, outcome.headers, error_text=outcome.message, wall=outcome.wall)

    def _retry(self, delay: float, reason: RetryReason, source: Source) -> Decision:
        """Retry, unless the sleep would end past the time budget: such a sleep is not begun."""
        if self.waited + delay > self.settings.time_budget:
            return self._stop(StopReason.TIME_BUDGET)
        self._note(delay, source)
        self._delays.append(delay)
        self.ended = None
        return Retry(delay, reason, source)

    def _stop(self, reason: StopReason) -> Stop:
        self._note(None, None)
        self.ended = Stop(reason, self.asked(self.outcome) if self.outcome else None)
        return self.ended

    def _note(self, delay: float | None, source: Source | None) -> None:
        outcome = self.outcome
        if outcome is None:
            return
        self._notes.append(
            Attempt(
                number=self.attempts,
                ended=outcome.wall,
                outcome=outcome.kind.value,
                phase=outcome.phase.value,
                status=outcome.status,
                code=outcome.code,
                request_id=outcome.request_id,
                member=outcome.member,
                delay=delay,
                source=source.value if source else None,
            )
        )

    def _context(self, outcome: Outcome, now: float) -> BackoffContext:
        return BackoffContext(
            provider=self.call.provider,
            service=self.call.service,
            operation=self.call.operation,
            region=self.call.region,
            account=self.call.account,
            retry_number=self.retry_number,
            max_retries=self.settings.max_retries,
            status=outcome.status,
            error_code=outcome.code,
            error_message=outcome.message,
            headers=outcome.headers,
            exception=outcome.exception,
            elapsed_ms=(now - self.started) * 1000.0,
            previous_delays_ms=tuple(delay * 1000.0 for delay in self._delays),
            wall=outcome.wall,
            settings=self.settings,
            random=self._rng,
        )
