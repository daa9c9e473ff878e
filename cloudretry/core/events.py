"""What listeners are told: frozen values. A listener can never break a call."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cloudretry.core.decision import StopReason
from cloudretry.core.member_changes import MemberChanged
from cloudretry.core.outcome import Kind, is_absent

if TYPE_CHECKING:
    from cloudretry.core.call import Call
    from cloudretry.core.decision import Decision, Stop
    from cloudretry.core.lost import LostCall, Page
    from cloudretry.core.outcome import Outcome

__all__ = ["AttemptFailed", "BodyCut", "CallEnded", "Event", "Listener", "MemberChanged", "is_lost"]


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

    A call is lost when it ended without the provider's answer to it, for a refusal is an answer. `key` tells which call it was,
    where it is lost, and where it was answered after it had been lost just before, so that what was lost is no hole any more.
    `lost`: its record, with what only the engine knows of it. `page`: of a listing, where the call asked for one.
    """

    call: Call
    attempts: int
    outcome: Outcome | None
    stop: Stop
    waited: float
    queued: float = 0.0
    rounds: int = 0
    key: Hashable | None = None
    lost: LostCall | None = field(default=None, compare=False)
    page: Page | None = None

    @property
    def is_lost(self) -> bool:
        """Whether there is no answer."""
        return is_lost(self.stop, self.outcome)

    @property
    def is_absence(self) -> bool:
        """Whether it was refused because what it asked about is not there. Of a page behind the first that is no answer."""
        is_later = self.page is not None and self.page.number != 1
        return not self.is_lost and self.outcome is not None and is_absent(self.outcome) and not is_later

    @property
    def leads_on(self) -> bool:
        """Whether the answer gave a token for a next page. Of listings that are read to their ends, as many calls follow."""
        return self.page is not None and self.page.leads_on

    @property
    def follows(self) -> bool:
        """Whether it asked for a page to which an answer of this process had led, and nobody had gone there yet."""
        return self.page is not None and self.page.follows

    @property
    def listing(self) -> Hashable | None:
        """Of which listing a page was lost, or which one was begun anew just after that and is read to its end now."""
        return None if self.page is None or self.page.leads_on else self.page.listing


def is_lost(stop: Stop, outcome: Outcome | None) -> bool:
    """Whether a call that ended so has no answer. `outcome`: of its last failed attempt."""
    if stop.reason is StopReason.ANSWERED:
        return False
    return outcome is None or outcome.kind is not Kind.FATAL or outcome.status is None  # of an interrupted attempt is none


@dataclass(frozen=True, slots=True)
class BodyCut:
    """A streamed body broke off while the program was reading it: its call had been answered. The program has the SDK's error.

    `outcome.code`: what happened, such as `reset` or `timeout`.
    """

    call: Call
    outcome: Outcome


Event = AttemptFailed | CallEnded | BodyCut | MemberChanged
Listener = Callable[[Event], None]
