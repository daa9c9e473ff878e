"""The states of a pool's member, or of its way to one destination, and what leads from one to another (SPEC B1, B2).

Pure: each function takes a frozen Health and gives the next one. Times are monotonic seconds.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Final

from cloudretry.core.cooldown import forgiven, nominal_pause, one_more, spread
from cloudretry.core.tries import Reason

if TYPE_CHECKING:
    from random import Random

    from cloudretry.core.outcome import Phase
    from cloudretry.core.pool_settings import Cooldown

__all__ = [
    "Failure",
    "Health",
    "Rules",
    "State",
    "coolings",
    "failed",
    "missed",
    "proven",
    "rejected",
    "released",
    "slowed",
    "withheld",
]

_REJECTIONS: Final = 2
"""One 407 may be a proxy that has just lost its directory; two in a row are the credentials."""


class State(str, Enum):
    """What may go through a member."""

    ELIGIBLE = "eligible"  # ordinary work
    COOLING = "cooling"  # nothing, until a deadline
    PROBE_ALLOWED = "probe_allowed"  # trials, which judge whether it has recovered
    DISABLED = "disabled"  # nothing, until somebody or a lasting condition lets it


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What transitions depend on.

    Args:
        successes: trials in a row that must succeed.
        slow: slow answers in a row that cool; None: they are counted alone.
    """

    cooldown: Cooldown
    successes: int
    slow: int | None
    rng: Random = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Failure:
    """What happened, where and when. `grants`: how many requests had been admitted to the pool by then."""

    reason: Reason
    phase: Phase | None
    now: float
    grants: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """What is known of a member.

    Args:
        since: when it came into this state.
        until: when it leaves `cooling` or `disabled` by itself; None: never.
        reason: why it is withheld, and where that happened; None where it is eligible.
        row: coolings in a row, as of `since`.
        epoch: a request that was admitted as this one of the pool, or before, began before the member was last withheld.
        broken: failures in a row; `timeouts`, `rejections` and `slow` are counted apart.
        passed: trials in a row that succeeded.
        missed: destinations that failed through it, without a success between.
    """

    state: State = State.ELIGIBLE
    since: float = 0.0
    until: float | None = None
    reason: Reason | None = None
    phase: Phase | None = None
    row: int = 0
    epoch: int = 0
    broken: int = 0
    timeouts: int = 0
    rejections: int = 0
    slow: int = 0
    passed: int = 0
    missed: frozenset[str] = frozenset()

    @property
    def spotless(self) -> bool:
        """Whether a success would change nothing."""
        failures = self.broken or self.timeouts or self.rejections or self.slow or self.missed
        return self.state is State.ELIGIBLE and not failures


def coolings(health: Health, now: float, rules: Cooldown) -> int:
    """How many in a row count by now."""
    return forgiven(health.row, now - health.since, rules) if health.state is State.ELIGIBLE else health.row


def proven(health: Health, now: float, rules: Rules) -> Health:
    """A request came through: the member did its work."""
    if health.spotless:
        return health
    return _passed(replace(health, broken=0, timeouts=0, rejections=0, slow=0, missed=frozenset()), now, rules)


def failed(health: Health, failure: Failure, rules: Rules) -> Health:
    """The member did not do its work. A trial that fails cools at once, any other failure as often as the settings say."""
    timeout = failure.reason is Reason.TIMEOUT
    health = replace(health, broken=health.broken + (not timeout), timeouts=health.timeouts + timeout, passed=0)
    enough = health.broken >= rules.cooldown.failures or health.timeouts >= rules.cooldown.timeouts
    return _cooled(health, failure, rules) if enough or health.state is State.PROBE_ALLOWED else health


def missed(health: Health, destination: str, failure: Failure, rules: Rules) -> Health:
    """A destination could not be reached through the member, which itself could be.

    Destinations are remembered beyond the cooling, until a success: otherwise each trial would need as many again.
    """
    seen = health.missed if len(health.missed) >= rules.cooldown.destinations else health.missed | {destination}
    health = replace(health, broken=0, timeouts=0, rejections=0, missed=seen)
    return _cooled(health, failure, rules) if len(seen) >= rules.cooldown.destinations else health


def rejected(health: Health, failure: Failure, rules: Rules) -> Health:
    """The member does not take our credentials."""
    health = replace(health, rejections=health.rejections + 1, passed=0)
    if health.rejections >= _REJECTIONS:
        return withheld(health, failure, until=failure.now + rules.cooldown.auth_recheck)
    return _cooled(health, failure, rules) if health.state is State.PROBE_ALLOWED else health


def slowed(health: Health, failure: Failure, rules: Rules) -> Health:
    """A request came through, too slowly. As with `missed`, the count outlives the cooling."""
    health = replace(health, broken=0, timeouts=0, rejections=0, slow=health.slow + 1, missed=frozenset())
    if rules.slow is not None and health.slow >= rules.slow:
        return _cooled(health, failure, rules)
    return _passed(health, failure.now, rules)


def withheld(health: Health, failure: Failure, *, until: float | None) -> Health:
    """Take it out: by an operator, or for a lasting condition."""
    return replace(
        health,
        state=State.DISABLED,
        since=failure.now,
        until=until,
        reason=failure.reason,
        phase=failure.phase,
        epoch=failure.grants,
        passed=0,
    )


def released(health: Health, now: float) -> Health:
    """Let trials judge it, from `now` on."""
    return replace(health, state=State.PROBE_ALLOWED, since=now, until=None, passed=0)


def _passed(health: Health, now: float, rules: Rules) -> Health:
    if health.state is not State.PROBE_ALLOWED:
        return health
    if health.passed + 1 < rules.successes:
        return replace(health, passed=health.passed + 1)
    return replace(health, state=State.ELIGIBLE, since=now, until=None, reason=None, phase=None, passed=0)


def _cooled(health: Health, failure: Failure, rules: Rules) -> Health:
    row = one_more(coolings(health, failure.now, rules.cooldown), rules.cooldown)
    pause = spread(nominal_pause(row, rules.cooldown), rules.cooldown, rules.rng)
    return replace(withheld(health, failure, until=failure.now + pause), state=State.COOLING, row=row, broken=0, timeouts=0)
