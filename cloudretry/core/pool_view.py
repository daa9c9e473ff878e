"""Draws the picture of a pool that people see. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cloudretry.core.member_health import coolings
from cloudretry.core.pool_snapshot import Change, MemberState, PairState, PoolSnapshot, Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cloudretry.core.member_changes import Instant, Transition
    from cloudretry.core.member_health import Health
    from cloudretry.core.pairs import Pair
    from cloudretry.core.pool import Pool, Wanted
    from cloudretry.core.pool_settings import Cooldown, Member
    from cloudretry.core.seat import Seat

__all__ = ["snapshot", "unavailable"]


def snapshot(pool: Pool, at: Instant, *, waiting: int = 0) -> PoolSnapshot:
    """A pool at this moment. `waiting`: calls that wait for a member."""
    pool.see_deadlines(at)
    return PoolSnapshot(
        pool=pool.settings.name,
        taken=at.wall,
        waiting=waiting,
        members=_members(pool, at),
        pairs=_pairs(pool, pool.records.pairs, at),
    )


def unavailable(pool: Pool, wanted: Wanted, at: Instant, *, waited: float) -> Unavailable:
    """Why a call gets no member."""
    soonest = pool.outlook(wanted, at).soonest
    return Unavailable(
        pool=pool.settings.name,
        destination=wanted.destination,
        soonest=None if soonest is None else max(0.0, soonest - at.monotonic),
        waited=waited,
        members=tuple(member for member in _members(pool, at) if not member.removed),
        pairs=_pairs(pool, pool.records.pairs.to(wanted.destination).values(), at),
    )


def _members(pool: Pool, at: Instant) -> tuple[MemberState, ...]:
    order = {member.name: place for place, member in enumerate(pool.settings.members)}
    seats = sorted(pool.records.seats.values(), key=lambda seat: order.get(seat.member.name, len(order)))
    return tuple(_member(seat, at, pool.settings.cooldown) for seat in seats)


def _member(seat: Seat, at: Instant, cooldown: Cooldown) -> MemberState:
    health, member = seat.health, seat.member
    return MemberState(
        name=member.name,
        kind=_kind(member),
        state=health.state.value,
        reason=None if health.reason is None else health.reason.value,
        phase=None if health.phase is None else health.phase.value,
        since=_wall(health, at),
        remaining=_remaining(health, at),
        coolings=coolings(health, at.monotonic, cooldown),
        in_flight=seat.in_flight,
        trials=len(seat.trials),
        ramp=None if seat.ramp is None else seat.ramp.most(at.monotonic),
        weight=member.weight,
        backup=member.backup,
        removed=seat.removed,
        answered=seat.answered,
        counters={reason.value: count for reason, count in sorted(seat.counters.items())},
        history=tuple(map(_change, seat.history)),
    )


def _pairs(pool: Pool, pairs: Iterable[Pair], at: Instant) -> tuple[PairState, ...]:
    shown = []
    for pair in pairs:
        pool.records.see_pair_deadline(pair, at)
        health = pair.health
        shown.append(
            PairState(
                member=pair.member,
                destination=pair.destination,
                state=health.state.value,
                reason=None if health.reason is None else health.reason.value,
                phase=None if health.phase is None else health.phase.value,
                since=_wall(health, at),
                remaining=_remaining(health, at),
                coolings=coolings(health, at.monotonic, pool.settings.cooldown),
            )
        )
    return tuple(shown)


def _change(transition: Transition) -> Change:
    return Change(
        before=transition.before.value,
        after=transition.after.value,
        reason=None if transition.reason is None else transition.reason.value,
        phase=None if transition.phase is None else transition.phase.value,
        at=transition.at.wall,
        by=transition.by.value,
        call=transition.call,
        pause=transition.pause,
        destination=transition.destination,
    )


def _kind(member: Member) -> str:
    if member.url is not None:
        return member.url.partition("://")[0]
    return "direct" if member.direct else "connect_to"


def _remaining(health: Health, at: Instant) -> float | None:
    return None if health.until is None else max(0.0, health.until - at.monotonic)


def _wall(health: Health, at: Instant) -> float:
    return at.wall - (at.monotonic - health.since)
