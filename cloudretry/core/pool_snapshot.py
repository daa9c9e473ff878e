"""What a pool looks like at one moment, for people and for files.

Plain data: no secrets, and no monotonic stamps, which mean nothing elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["Change", "MemberState", "PairState", "PoolSnapshot", "Unavailable"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One transition. `at` is epoch seconds; `pause` seconds; the rest are values of the enums of the same names."""

    before: str
    after: str
    reason: str | None
    phase: str | None
    at: float
    by: str
    call: str | None
    pause: float | None
    destination: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberState:
    """One member.

    Args:
        kind: `http`, `https`, `socks5`, `socks5h`, `connect_to` or `direct`.
        reason: why it is withheld, and `phase` where that happened.
        since: epoch seconds.
        remaining: seconds until it may be tried again; None: it can be used, or only an operator brings it back.
        coolings: in a row.
        ramp: how many requests it admits within any 50 ms; None: as many as there are.
        removed: no longer in the configuration.
    """

    name: str
    kind: str
    state: str
    reason: str | None
    phase: str | None
    since: float
    remaining: float | None
    coolings: int
    in_flight: int
    trials: int
    ramp: int | None
    weight: int
    backup: bool
    removed: bool
    answered: int
    counters: Mapping[str, int]
    history: tuple[Change, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PairState:
    """One member's way to one destination, where that has failed; the fields are those of MemberState."""

    member: str
    destination: str
    state: str
    reason: str | None
    phase: str | None
    since: float
    remaining: float | None
    coolings: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSnapshot:
    """All members in the order of the configuration, removed ones last. `taken` is epoch seconds."""

    pool: str
    taken: float
    waiting: int
    members: tuple[MemberState, ...]
    pairs: tuple[PairState, ...]

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready; `from_dict` gives back an equal value."""
        return asdict(self)

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> PoolSnapshot:
        """Read what `to_dict` gave. Raises KeyError or TypeError for anything else."""
        members = tuple(_member(item) for item in raw["members"])
        pairs = tuple(PairState(**item) for item in raw["pairs"])
        return cls(pool=raw["pool"], taken=raw["taken"], waiting=raw["waiting"], members=members, pairs=pairs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unavailable:
    """No member could be used at a call's first pick.

    Args:
        soonest: seconds until one may be tried again; None: nothing comes back by itself.
        waited: seconds that the call has waited for one.
    """

    pool: str
    destination: str
    soonest: float | None
    waited: float
    members: tuple[MemberState, ...]
    pairs: tuple[PairState, ...]

    def __str__(self) -> str:
        """One line for the pool and one for each member."""
        back = "nothing comes back by itself" if self.soonest is None else f"next trial in {self.soonest:.1f}s"
        head = f"no member of pool {self.pool} is available for {self.destination} (waited {self.waited:.1f}s, {back}):"
        own = {pair.member: pair for pair in self.pairs}
        return "\n".join([head, *(f"  {member.name}: {_line(own.get(member.name), member)}" for member in self.members)])


def _line(pair: PairState | None, member: MemberState) -> str:
    usable = member.state == "eligible" and pair is not None
    shown, way = (pair, " to this destination") if usable and pair else (member, "")
    why = f" after {shown.reason} ({shown.phase or '-'})" if shown.reason else ""
    when = f", next trial in {shown.remaining:.1f}s" if shown.remaining is not None else ""
    return f"{shown.state}{way}{why}{when}"


def _member(raw: Mapping[str, Any]) -> MemberState:
    return MemberState(**{**raw, "history": tuple(Change(**item) for item in raw["history"])})
