"""The quotas of this process: one for all clients, threads and event loops, because the provider meters them together."""

from __future__ import annotations

import atexit
import os
from collections import deque
from threading import RLock
from typing import TYPE_CHECKING, Final, TypeAlias

from cloudretry.core.pacer import Pacer, PacerState
from cloudretry.core.priors import published
from cloudretry.core.quota import RULES, GroupRule, Quota, quota_of
from cloudretry.core.rate import Learning, Limit
from cloudretry.runtime.clock import current_clock
from cloudretry.runtime.remembered import RememberedLimits
from cloudretry.runtime.turns import Turns

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from cloudretry.core.call import Call
    from cloudretry.core.pacing_settings import PacingSettings
    from cloudretry.runtime.turns import Turn

    _Key: TypeAlias = tuple[Call, str | None, bool]

__all__ = ["PACING", "Pacing"]

_BELIEVED: Final = 0.1  # share of a published rate; less was measured beside others, or by a mistake
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
        rules: a user's own groups, in front of ours (core/quota.py) and behind those of the settings.
        memory: what earlier processes have measured.
    """

    def __init__(self, *, rules: Iterable[GroupRule] = (), memory: RememberedLimits | None = None) -> None:
        self._rules = (*rules, *RULES)
        self._memory = memory or RememberedLimits(lambda: None)
        self._begin({})

    def turns(self, call: Call, settings: PacingSettings, *, principal: str | None = None, unfiltered: bool = False) -> Turns:
        """Where a call waits for its turn. Ask anew for each attempt: quotas that nobody uses are dropped.

        Other settings than before hold at once, for all who use the quota.
        """
        key = call, principal, unfiltered
        found = self._calls.get(key)
        if found is not None and (found.settings is settings or found.settings == settings):
            if found.turns.used >= self._memory.due:
                self.keep()
            return found.turns
        with self._lock:
            rules = (*settings.groups, *self._rules) if settings.groups else self._rules
            quota = quota_of(call, principal=principal, unfiltered=unfiltered, rules=rules)
            metered = self._quotas.get(quota)
            if metered is None:
                metered = self._open(quota, call, settings)
            elif metered.settings != settings:
                metered.limit(settings)
            before = self._calls.get(key)
            if before is not metered:  # new, or other settings have other groups
                if before is not None:
                    before.keys.remove(key)
                self._calls[key] = metered
                metered.keys.append(key)
            return metered.turns

    def states(self) -> dict[Quota, PacerState]:
        """What is known of each quota in use."""
        with self._lock:
            quotas = dict(self._quotas)
        return {quota: metered.turns.state() for quota, metered in quotas.items()}

    def keep(self, *, last: bool = False) -> None:
        """Let later processes know what was measured, where the settings want it. `last`: this one ends."""
        self._memory.keep(self._worth_keeping, last=last)

    def _worth_keeping(self) -> Iterator[tuple[Quota, Limit]]:
        with self._lock:
            wanted = [(quota, metered.turns) for quota, metered in self._quotas.items() if metered.settings.remember]
        for quota, turns in wanted:
            limit = _measured(turns.state())
            if limit is not None:
                yield quota, limit

    def forget(self) -> None:
        """Know nothing again. Who waits keeps waiting, with those who waited before."""
        self._begin({})

    def after_fork(self) -> None:
        """In a child process: keep what was learned, and nobody's turns or locks."""
        self._memory.after_fork()
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
        known, measured = settings.known_rate(call), self._measured_before(quota, settings)
        prior = Limit(known.rate, known.burst) if known else measured or published(quota)
        pacer: Pacer[Turn] = Pacer(
            now,
            reserve=settings.reserve,
            max_rate=settings.max_rate,
            max_in_flight=settings.max_in_flight,
            prior=prior,
        )
        if measured is not None and prior is measured:
            pacer.rate.doubt()
        metered = self._quotas[quota] = _Metered(Turns(pacer, str(quota), now), settings)
        self._round.append(quota)
        return metered

    def _measured_before(self, quota: Quota, settings: PacingSettings) -> Limit | None:
        """By this process, or by another one: not far less than what is published, for to start much too low costs most."""
        learned = self._learned.get(quota)
        if learned is not None or not settings.remember:
            return learned
        recalled, told = self._memory.recall(quota), published(quota)
        return recalled if recalled and (told is None or recalled.rate >= told.rate * _BELIEVED) else None

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
                if metered.settings.remember:
                    self._memory.note(quota, limit)
            for key in metered.keys:
                del self._calls[key]
            del self._quotas[quota]


def _measured(state: PacerState) -> Limit | None:
    """The limit, where it was measured and is not just being measured anew."""
    return state.limit if state.verified and state.learning is Learning.TRACK else None


PACING: Final = Pacing(memory=RememberedLimits())
"""This process's."""

atexit.register(PACING.keep, last=True)

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=PACING.after_fork)
