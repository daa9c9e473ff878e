"""Which of the members that can be used now is used: the algorithms of SPEC C2. Pure.

Backups come after all others, whatever the algorithm says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from cloudretry.core.hash_ring import HashRing
from cloudretry.core.lazy_heap import LazyHeap
from cloudretry.core.seat import Seat, by_load, by_time, by_turn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from cloudretry.core.pool_settings import Algorithm

__all__ = ["Balancer"]

_RANKS: Final = {
    "least_connections": by_load,
    "round_robin": by_turn,
    "least_response_time": by_time,
    "hash": by_load,  # for those without a key, and where nobody near a key's home can be used
}
_FROM_HOME: Final = 16
"""Points of the ring that are looked at. Where none of them can be used most of the pool is gone; the least load decides."""


class _Tier:
    """The usable members of one rank of importance: those that are eligible, and those that wait for a trial."""

    __slots__ = ("eligible", "on_trial", "ring")

    def __init__(self) -> None:
        self.eligible: LazyHeap[Seat] = LazyHeap()
        self.on_trial: LazyHeap[Seat] = LazyHeap()
        self.ring = HashRing(())

    def first(self, allowed: Callable[[Seat], bool] | None, *, trials_first: bool) -> Seat | None:
        """The member that ranks first."""
        sooner, later = (self.on_trial, self.eligible) if trials_first else (self.eligible, self.on_trial)
        found = sooner.first(allowed) or later.first(allowed)
        return found[1] if found else None


class Balancer:
    """The members that can be used now, in order. Each method costs the logarithm of their number at most."""

    __slots__ = ("_backups", "_hashed", "_heaps", "_primaries", "_rank", "_seats", "_turn")

    def __init__(self, algorithm: Algorithm, seats: Iterable[Seat]) -> None:
        self._rank: Callable[[Seat], float] = _RANKS[algorithm]
        self._hashed = algorithm == "hash"
        self._primaries, self._backups = _Tier(), _Tier()
        self._heaps: dict[Seat, LazyHeap[Seat]] = {}  # where each member stands that can be used
        self._seats = {seat.member.name: seat for seat in seats}
        self._turn = 0.0  # how far round robin has come
        if self._hashed:
            members = [seat.member for seat in self._seats.values()]
            self._primaries.ring = HashRing((member.name, member.weight) for member in members if not member.backup)
            self._backups.ring = HashRing((member.name, member.weight) for member in members if member.backup)

    def __bool__(self) -> bool:
        return bool(self._heaps)

    def put(self, seat: Seat, *, on_trial: bool) -> None:
        """A member can be used now; or what is known of it has changed."""
        tier = self._backups if seat.member.backup else self._primaries
        heap = tier.on_trial if on_trial else tier.eligible
        before = self._heaps.get(seat)
        if before is not heap:
            self.drop(seat)
            self._heaps[seat] = heap
            seat.turn = max(seat.turn, self._turn)  # what it has missed is not made up for
        heap.put(seat, self._rank(seat))

    def drop(self, seat: Seat) -> None:
        """A member can't be used now."""
        heap = self._heaps.pop(seat, None)
        if heap is not None:
            heap.drop(seat)

    def pick(self, key: str | None, allowed: Callable[[Seat], bool] | None, *, trials_first: bool) -> Seat | None:
        """The member whose turn it is, if any can be used.

        Args:
            key: of `hash`: what belongs together.
            allowed: which members the call may get; None: all.
            trials_first: a member that waits for a trial is taken before others, or else after them.
        """
        if not self._heaps:
            return None
        for tier in (self._primaries, self._backups):
            seat = self._near_home(tier, key, allowed, trials=trials_first) if self._hashed and key is not None else None
            seat = seat or tier.first(allowed, trials_first=trials_first)
            if seat is not None:
                self._turn = max(self._turn, seat.turn)
                seat.turn += 1.0 / seat.member.weight
                return seat
        return None

    def _near_home(self, tier: _Tier, key: str, allowed: Callable[[Seat], bool] | None, *, trials: bool) -> Seat | None:
        for name in tier.ring.along(key, _FROM_HOME):
            seat = self._seats[name]
            heap = self._heaps.get(seat)
            usable = heap is tier.eligible or (trials and heap is tier.on_trial)
            if usable and (allowed is None or allowed(seat)):
                return seat
        return None
