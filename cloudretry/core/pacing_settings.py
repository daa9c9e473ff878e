"""The frozen settings of pacing (SPEC D). Standard library alone; durations in seconds, rates in calls per second."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from cloudretry.core.call import Call
    from cloudretry.core.match import Match
    from cloudretry.core.quota import GroupRule

__all__ = ["KnownRate", "PacingMode", "PacingSettings"]

PacingMode = Literal["adaptive", "off"]


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownRate:
    """A limit of which somebody knows beforehand. It is where learning starts, not a cap.

    Args:
        match: the calls that the provider meters by it, each quota (account, region, …) for itself.
        rate: calls per second that the provider grants in the long run; above 0.
        burst: calls that it takes at once after a rest; at least 1.
    """

    match: Match
    rate: float
    burst: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PacingSettings:
    """How the calls of one provider wait for their turn.

    Args:
        mode: `off`: nobody waits for a turn.
        reserve: the share of the learned rate left to the other workloads of the account; 0 to 0.9.
        max_rate: most calls per second for each quota, whatever was learned; None: no cap.
        max_in_flight: most calls in flight for each quota; None: no cap.
        rates: known limits.
        groups: which calls are metered together, in front of our own rules.
        remember: whether limits that were measured are kept for later processes, and where learning starts at such.
        queue_timeout: longest wait of one call for its turns.
    """

    mode: PacingMode = "adaptive"
    reserve: float = 0.1
    max_rate: float | None = None
    max_in_flight: int | None = None
    rates: tuple[KnownRate, ...] = ()
    groups: tuple[GroupRule, ...] = ()
    remember: bool = True
    queue_timeout: float = 900.0

    def known_rate(self, call: Call) -> KnownRate | None:
        """The last of `rates` that matches, as with overrides."""
        return next((known for known in reversed(self.rates) if known.match.matches(call)), None)
