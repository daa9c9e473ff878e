"""Recognises a program's own retry loop around calls that were given up. Pure: time is passed in; not thread-safe.

Without this, layers multiply: eight rounds of a script's decorator around nine attempts of ours are 72 requests to a provider
that is overloaded already. A call that comes again soon after it was given up gets a single attempt in each round, so that the
layers add.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Hashable

__all__ = ["OuterLoops"]

_SOON: Final = 120.0  # s; the pauses of known tools' loops are about a minute at most
_MOST: Final = 10_000  # calls that are kept, as many as a report lists


class OuterLoops:
    """The calls that were lost lately. Falsy while there are none."""

    def __init__(self) -> None:
        self._given_up: OrderedDict[Hashable, tuple[float, int]] = OrderedDict()  # oldest first: when, how often

    def __bool__(self) -> bool:
        return bool(self._given_up)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._given_up

    def rounds(self, key: Hashable, now: float) -> int:
        """How often this call was given up, the last time just before."""
        while self._given_up:
            oldest, (when, _) = next(iter(self._given_up.items()))
            if now - when <= _SOON:
                break
            del self._given_up[oldest]
        return self._given_up.get(key, (now, 0))[1]

    def gave_up(self, key: Hashable, now: float, *, tried: bool = True) -> None:
        """Note that a call ended without an answer. `tried`: after all its retries, which makes it a round of a loop."""
        rounds = self.rounds(key, now) + tried
        self._given_up[key] = now, rounds
        self._given_up.move_to_end(key)
        if len(self._given_up) > _MOST:
            self._given_up.popitem(last=False)

    def answered(self, key: Hashable) -> None:
        """Note that a call was answered: the next one is new."""
        self._given_up.pop(key, None)
