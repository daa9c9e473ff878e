"""The pools of this process: what one configuration calls by a name is one pool for all engines that were made of it."""

from __future__ import annotations

import logging
import os
from functools import cache
from threading import Lock
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary, WeakSet, WeakValueDictionary

from cloudretry.core.member_health import State
from cloudretry.egress.pool import EgressPool
from cloudretry.errors import ConfigurationError
from cloudretry.runtime.pool_states import PoolStates

if TYPE_CHECKING:
    from cloudretry.core.member_changes import MemberChanged
    from cloudretry.core.pool_settings import PoolSettings
    from cloudretry.runtime.engine import Engine

__all__ = ["pool_of", "show"]

logger = logging.getLogger("cloudretry")


class _Users:
    """The engines that use a pool; all their listeners are told of its changes."""

    def __init__(self) -> None:
        self.engines: WeakSet[Engine] = WeakSet()

    def __call__(self, change: MemberChanged) -> None:
        _log(change)
        for engine in list(self.engines):
            engine.tell(change)
        _states().changed()


def _log(change: MemberChanged) -> None:
    """One line for whoever is called at 3 a.m.: what is out, for how long, why; and that it is back."""
    step = change.transition
    what = change.member if step.destination is None else f"{change.member} to {step.destination}"
    if step.after is State.ELIGIBLE:
        logger.warning("egress pool %s: %s is back", change.pool, what)
    elif step.after is not State.PROBE_ALLOWED:
        reason, phase = (None if part is None else part.value for part in (step.reason, step.phase))
        pause = "" if step.pause is None else f" for {step.pause:.1f} s"
        logger.warning("egress pool %s: %s is %s%s: %s, phase %s", change.pool, what, step.after.value, pause, reason, phase)


@cache
def _states() -> PoolStates:
    """What `cloudretry pool status` reads of this process."""
    return PoolStates.of_user(lambda: [pool.snapshot() for pool in list(_users)])


_lock: Final = Lock()
if hasattr(os, "register_at_fork"):  # a child must not find it held by a thread that it does not have
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)
_users: Final[WeakKeyDictionary[EgressPool, _Users]] = WeakKeyDictionary()
_pools: Final[WeakValueDictionary[PoolSettings, EgressPool]] = WeakValueDictionary()
_of_engines: Final[WeakKeyDictionary[Engine, dict[str, tuple[PoolSettings, EgressPool]]]] = WeakKeyDictionary()


def pool_of(engine: Engine, name: str) -> EgressPool:
    """The pool that an engine's settings call so, with the settings of now. Thread-safe.

    Engines whose settings are equal share it. One whose settings have changed takes its pool along, with what is known of it.
    Raises ConfigurationError where there is no pool of that name.
    """
    settings = engine.settings.pools.get(name)
    known = _of_engines.get(engine, {}).get(name)
    if known is not None and (settings is known[0] or settings is None):  # taken out while the call was under way
        _states().look()
        return known[1]
    if settings is None:
        raise ConfigurationError(f"the pool {name} is no longer configured")
    with _lock:
        pool = known[1] if known is not None else _pools.get(settings)
        if pool is None:
            users = _Users()
            pool = EgressPool(settings, tell=users)
            _users[pool] = users
        elif pool.settings != settings:
            _pools.pop(pool.settings, None)
            pool.reconfigure(settings)
        _pools[settings] = pool
        _users[pool].engines.add(engine)
        _of_engines.setdefault(engine, {})[name] = (settings, pool)
    show()
    return pool


def show() -> None:
    """Let `cloudretry pool status` see the pools as they are now, within a second, though no member's state has changed."""
    _states().changed()
