"""One call's place at its quota, over all its attempts."""

from __future__ import annotations

import math
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Final

from cloudretry.core.outcome import Kind, Outcome, Phase
from cloudretry.runtime.clock import current_clock
from cloudretry.runtime.pacing import PACING

if TYPE_CHECKING:
    from cloudretry.core.call import Call
    from cloudretry.core.machine import RetryMachine
    from cloudretry.core.pacing_settings import PacingSettings
    from cloudretry.runtime.turns import Turn, Turns

__all__ = ["Place", "turn_of"]

_LOCKS: Final = frozenset(
    {
        "PriorRequestNotComplete",  # Route 53
        "ReplicatedWriteConflictException",
        "RetryableErrorDueToAnotherOperation",  # Azure's network provider
        "TransactionInProgressException",
    }
)
"""Codes that count as throttles and are none: somebody else's change is under way, and the rate has nothing to do with it."""


_LONGEST_PAUSE: Final = 3600.0
"""Seconds. The longest window that is known is Compute's, of 30 minutes; whatever says more, such as a point in time where a
duration was due, must not end a quota for good."""


_LONGEST_WINDOW: Final = 60.0
"""Seconds. Of the windows that answers tell, Resource Graph's is 5 s; one that says more than this is asked again."""


class Place:
    """Not shared between threads.

    Args:
        settings: of the provider's pacing.

    Attributes:
        principal: who calls, where no account is known; never a secret.
        unfiltered: an EC2 request with neither filters nor a page size, which is metered apart.
        turn: of the attempt that is under way; None as soon as it is told what that came to.
        until: monotonic seconds; the caller wants to wait no longer.
        waited: seconds spent on waiting for turns.
    """

    __slots__ = ("_again", "_settings", "principal", "turn", "unfiltered", "until", "waited")

    def __init__(self, settings: PacingSettings) -> None:
        self._settings = settings
        self.principal: str | None = None
        self.unfiltered = False
        self._again = False  # a call that was throttled has waited once already, and enters at the front
        self.turn: Turn | None = None
        self.until = math.inf
        self.waited = 0.0

    @property
    def has_turn(self) -> bool:
        """Whether there is a turn that was not used yet."""
        return self.turn is not None and self.turn.sent is None

    def take(self, call: Call) -> None:
        """Wait for a turn. Raises TurnTimeout; nothing is left behind then, nor after Ctrl-C."""
        turns, began = self._turns(call), current_clock().monotonic()
        try:
            self.turn = turns.take(not_before=began if self._again else None, patience=self._patience())
        finally:
            self._waited(began)

    async def take_async(self, call: Call) -> None:
        """The async twin, for any asyncio loop."""
        turns, began = self._turns(call), current_clock().monotonic()
        try:
            self.turn = await turns.take_async(not_before=began if self._again else None, patience=self._patience())
        finally:
            self._waited(began)

    def tell(self, outcome: Outcome | None, asked: float | None, remaining: tuple[float, float | None] | None = None) -> None:
        """What the attempt came to. `asked`: seconds for which its answer asked for silence; `remaining`: as of the engine."""
        turn = self.turn
        if turn is None:
            return
        if outcome is None or _is_an_answer(outcome):
            calls, resets = remaining or (None, None)
            turn.accepted(remaining=calls, resets_after=resets and min(resets, _LONGEST_WINDOW))
        elif outcome.kind is Kind.THROTTLED and outcome.code not in _LOCKS:
            self._again = True
            turn.throttled(min(asked or 0.0, _LONGEST_PAUSE))
        self.leave()

    def leave(self) -> None:
        """The attempt is over; a turn that was not used is somebody else's."""
        if self.turn is not None:
            self.turn.give_back()
            self.turn = None

    def _turns(self, call: Call) -> Turns:
        self.leave()
        return PACING.turns(call, self._settings, principal=self.principal, unfiltered=self.unfiltered)

    def _patience(self) -> float:
        return max(0.0, min(self._settings.queue_timeout - self.waited, self.until - current_clock().monotonic()))

    def _waited(self, began: float) -> None:
        self.waited += current_clock().monotonic() - began


def _is_an_answer(outcome: Outcome) -> bool:
    """Whether the provider itself took the call and answered, however badly; a proxy's page is none, and a throttle neither."""
    return outcome.kind is not Kind.THROTTLED and outcome.status is not None and outcome.phase is Phase.DONE


_UNPACED: Final = nullcontext()


def turn_of(machine: RetryMachine) -> Any:
    """The turn to send with, to be entered."""
    place = machine.place
    return _UNPACED if place is None or place.turn is None else place.turn
