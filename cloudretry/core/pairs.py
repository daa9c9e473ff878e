"""What is known of members' ways to single destinations, in a table that forgets the oldest (SPEC B1). Pure."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from cloudretry.core.member_health import Health, State
from cloudretry.core.trials import Trials

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from cloudretry.core.pool_settings import Probe

__all__ = ["MOST_PAIRS", "Pair", "Pairs"]

MOST_PAIRS: Final = 4096
_NONE: Final[Mapping[str, Pair]] = {}


@dataclass(slots=True, eq=False)
class Pair:
    """One member's way to one destination."""

    member: str
    destination: str
    health: Health
    trials: Trials = field(default_factory=Trials)

    def open_at(self, now: float, probe: Probe) -> float | None:
        """When a request may pass; `now`: at once; None: not by itself."""
        if self.health.state is State.ELIGIBLE:
            return now
        if self.health.state is State.PROBE_ALLOWED:
            return self.trials.free_at(now, probe)
        return self.health.until


class Pairs:
    """Pairs that have failed, by destination. One that is healthy again and forgiven need not be kept."""

    __slots__ = ("_by_destination", "_order")

    def __init__(self) -> None:
        self._by_destination: dict[str, dict[str, Pair]] = {}
        self._order: OrderedDict[Pair, None] = OrderedDict()  # the one that failed longest ago comes first

    def __len__(self) -> int:
        return len(self._order)

    def __iter__(self) -> Iterator[Pair]:
        return iter(self._order)

    def to(self, destination: str) -> Mapping[str, Pair]:
        """The pairs of a destination, by member."""
        return self._by_destination.get(destination, _NONE)

    def find(self, member: str, destination: str) -> Pair | None:
        """A pair, if it is known."""
        return self._by_destination.get(destination, _NONE).get(member)

    def failing(self, member: str, destination: str, now: float) -> Pair:
        """The pair, known from now on; where the table is full the one that failed longest ago is forgotten."""
        pair = self.find(member, destination) or Pair(member, destination, Health(since=now))
        self._by_destination.setdefault(destination, {})[member] = pair
        self._order[pair] = None
        self._order.move_to_end(pair)
        if len(self._order) > MOST_PAIRS:
            self.forget(next(iter(self._order)))
        return pair

    def forget(self, pair: Pair) -> None:
        """Remove a pair."""
        del self._order[pair]
        pairs = self._by_destination[pair.destination]
        del pairs[pair.member]
        if not pairs:
            del self._by_destination[pair.destination]

    def forget_member(self, member: str) -> None:
        """Remove all pairs of a member: it leads elsewhere now."""
        for pair in [pair for pair in self._order if pair.member == member]:
            self.forget(pair)
