"""The quotas of this process: one for all clients, threads and event loops, because the provider meters them together."""

from __future__ import annotations

import os
from collections import deque
from threading import RLock
from typing import TYPE_CHECKING, Final, TypeAlias

from cloudretry.core.pacer import Pacer, PacerState
from cloudretry.core.priors import published
from cloudretry.core.quota import RULES, GroupRule, Quota, quota_of
from cloudretry.core.rate import Learning, Limit
from cloudretry.runtime.clock import current_clock
from cloudretry.runtime.turns import Turns

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from cloudretry.core.call import Call
    from cloudretry.core.pacing_settings import PacingSettings
    from cloudretry.runtime.turns import Turn

    _Key: TypeAlias = tuple[Call, str | None, bool]

__all__ = ["PACING", "Pacing"]

_IDLE: Final = 600.0  # s after which a quota is dropped; what was learned of it stays, in a fraction of the space
_CHECKED: Final = 2  # quotas looked at for each new one: their number stays in proportion to those in use


class _Metered:
    """A quota in use."""

    __slots__ = ("keys", "settings", "turns")

    def __init__(self, turns: Turns, settings: PacingSettings) -> None:
        self.turns = turns
        self.settings = settings
        self.keys: list[_Key] = []

    def limit(self, settings: PacingSettings) -> None:
        self.settings = settings
        self.turns.limit(reserve=settings.reserve, max_rate=settings.max_rate, max_in_flight=settings.max_in_flight)


class Pacing:
    """Finds the turns for a call. Thread-safe.

    Args:
        rules: a user's own groups, in front of ours (core/quota.py).
    """

    def __init__(self, *, rules: Iterable[GroupRule] = ()) -> None:
        self._rules = (*rules, *RULES)
        self._begin({})

    def turns(self, call: Call, settings: PacingSettings, *, principal: str | None = None, unfiltered: bool = False) -> Turns:
        """Where a call waits for its turn. Ask anew for each attempt: quotas that nobody uses are dropped.

        Other settings than before hold at once, for all who use the quota.
        """
        key = call, principal, unfiltered
        found = self._calls.get(key)
        if found is not None and (found.settings is settings or found.settings == settings):
            return found.turns
        with self._lock:
            quota = quota_of(call, principal=principal, unfiltered=unfiltered, rules=self._rules)
            metered = self._quotas.get(quota)
            if metered is None:
                metered = self._open(quota, call, settings)
            elif metered.settings != settings:
                metered.limit(settings)
            if key not in self._calls:
                self._calls[key] = metered
                metered.keys.append(key)
            return metered.turns

    def states(self) -> dict[Quota, PacerState]:
        """What is known of each quota in use."""
        with self._lock:
            quotas = dict(self._quotas)
        return {quota: metered.turns.state() for quota, metered in quotas.items()}

    def learned(self) -> dict[Quota, Limit]:
        """The limits that were measured, of quotas in use and of earlier ones; to be kept for a later process."""
        measured = {quota: limit for quota, state in self.states().items() if (limit := _measured(state))}
        with self._lock:
            return {**self._learned, **measured}

    def recall(self, limits: Mapping[Quota, Limit]) -> None:
        """Start learning at these, for quotas that are not in use yet."""
        with self._lock:
            self._learned.update(limits)

    def forget(self) -> None:
        """Know nothing again. Who waits keeps waiting, with those who waited before."""
        self._begin({})

    def after_fork(self) -> None:
        """In a child process: keep what was learned, and nobody's turns or locks."""
        learned = dict(self._learned)
        for quota, metered in self._quotas.items():
            rate = metered.turns.pacer.rate
            if rate.verified and rate.learning is Learning.TRACK:
                learned[quota] = Limit(rate.rate, rate.burst)
        self._begin(learned)

    def _begin(self, learned: dict[Quota, Limit]) -> None:
        self._lock = RLock()
        self._calls: dict[_Key, _Metered] = {}
        self._quotas: dict[Quota, _Metered] = {}
        self._round: deque[Quota] = deque()
        self._learned = learned

    def _open(self, quota: Quota, call: Call, settings: PacingSettings) -> _Metered:
        now = current_clock().monotonic()
        self._drop_idle(now)
        known = settings.known_rate(call)
        pacer: Pacer[Turn] = Pacer(
            now,
            reserve=settings.reserve,
            max_rate=settings.max_rate,
            max_in_flight=settings.max_in_flight,
            prior=Limit(known.rate, known.burst) if known else self._learned.get(quota) or published(quota),
        )
        metered = self._quotas[quota] = _Metered(Turns(pacer, str(quota), now), settings)
        self._round.append(quota)
        return metered

    def _drop_idle(self, now: float) -> None:
        for _ in range(min(_CHECKED, len(self._round))):
            quota = self._round.popleft()
            metered = self._quotas[quota]
            if not metered.turns.is_idle(now, _IDLE):
                self._round.append(quota)
                continue
            limit = _measured(metered.turns.state())
            if limit is not None:
                self._learned[quota] = limit
            for key in metered.keys:
                del self._calls[key]
            del self._quotas[quota]


def _measured(state: PacerState) -> Limit | None:
    """The limit, where it was measured and is not just being measured anew."""
    return state.limit if state.verified and state.learning is Learning.TRACK else None


PACING: Final = Pacing()
"""This process's."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=PACING.after_fork)
