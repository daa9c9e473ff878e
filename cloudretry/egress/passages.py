"""Which pool a client's request takes, if any. One set of passages per client, or for clients that share a transport."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from cloudretry.egress.passage import Passage
from cloudretry.egress.pools import pool_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from cloudretry.core.machine import RetryMachine
    from cloudretry.core.pool_settings import Member, PoolSettings
    from cloudretry.egress.pool import EgressPool
    from cloudretry.egress.ways import Ways
    from cloudretry.runtime.engine import Engine

__all__ = ["Passages"]

logger = logging.getLogger("cloudretry")

W = TypeVar("W", bound=Any)


class Passages(Generic[W]):
    """By pool. Thread-safe.

    Args:
        make: what sends through one member.
        get: a complete exchange through one member, as Passage takes it.
    """

    def __init__(self, make: Callable[[Member, PoolSettings], W], get: Callable[..., Any]) -> None:
        self._make = make
        self._get = get
        self._passages: dict[EgressPool, Passage[W]] = {}

    def of(self, engine: Engine, machine: RetryMachine, destination: str, why_not: str | None) -> Passage[W] | None:
        """The one that a request to this host (or host and port) takes; None: it goes out by itself.

        `why_not`: why this client, or this request, can't use a pool; said once, if a pool is configured for it.
        """
        name = machine.settings.pool
        if name is None:
            return None
        if why_not is not None:
            _say_once(name, why_not)
            return None
        pool = pool_of(engine, name)
        passage = self._passages.get(pool)
        if passage is None:
            passage = self._passages.setdefault(pool, Passage(pool, self._make, self._get))
        return None if passage.skips(destination) else passage

    def ways(self) -> list[Ways[W]]:
        """All that were used so far, to be closed."""
        return [passage.ways for passage in self._passages.values()]


_said: Final[set[tuple[str, str]]] = set()


def _say_once(pool: str, why: str) -> None:
    if (pool, why) not in _said:
        _said.add((pool, why))
        logger.warning("a client does not use the egress pool %s: %s", pool, why)
