"""What listeners are told: frozen values. A listener can never break a call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cloudretry.core.member_changes import MemberChanged

if TYPE_CHECKING:
    from cloudretry.core.call import Call
    from cloudretry.core.decision import Decision, Stop
    from cloudretry.core.outcome import Outcome

__all__ = ["AttemptFailed", "CallEnded", "Event", "Listener", "MemberChanged"]


@dataclass(frozen=True, slots=True)
class AttemptFailed:
    """An attempt did not get an answer. `number` counts from 1; `decision` is None in observe mode, where the SDK decides."""

    call: Call
    number: int
    outcome: Outcome
    decision: Decision | None


@dataclass(frozen=True, slots=True)
class CallEnded:
    """A call ended, after `attempts`. `outcome` is the last failed attempt's, if any failed.

    `waited`: seconds between attempts, as decided; `queued`: seconds spent on waiting for turns, those before throttled retries
    among them; `rounds`: how often the same call was given up just before, by a retry loop of the program's own.
    """

    call: Call
    attempts: int
    outcome: Outcome | None
    stop: Stop
    waited: float
    queued: float = 0.0
    rounds: int = 0


Event = AttemptFailed | CallEnded | MemberChanged
Listener = Callable[[Event], None]
