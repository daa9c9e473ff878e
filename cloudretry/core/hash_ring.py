"""Consistent hashing: the same key leads to the same member as long as it can be used, and a change moves few keys. Pure."""

from __future__ import annotations

from bisect import bisect
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["HashRing"]

_POINT: Final = 8  # bytes
_POINTS_IN_A_DIGEST: Final = 8
_MOST_POINTS: Final = 65_536  # of the ring; a member of weight 1 gets from 8 to 128
_FEWEST_DIGESTS, _MOST_DIGESTS = 1, 16


class HashRing:
    """Names on a ring, each at many points. Frozen once it is made.

    Args:
        weights: name → how many times the points of weight 1 it has.
    """

    __slots__ = ("_names", "_points")

    def __init__(self, weights: Iterable[tuple[str, int]]) -> None:
        members = list(weights)
        total = sum(weight for _, weight in members)
        share = _MOST_POINTS // (_POINTS_IN_A_DIGEST * max(1, total))
        digests = min(_MOST_DIGESTS, max(_FEWEST_DIGESTS, share))
        placed = sorted((point, name) for name, weight in members for point in _points(name, weight * digests))
        self._points = [point for point, _ in placed]
        self._names = [name for _, name in placed] * 2  # twice, so that a walk may go on over the end

    def along(self, key: str, most: int) -> list[str]:
        """The names at the `most` next points from a key's place; the first is its home. Names may come again."""
        place = bisect(self._points, _place(key))
        return self._names[place : place + most]


@lru_cache(maxsize=4096)
def _place(key: str) -> int:
    return _number(blake2b(key.encode(), digest_size=_POINT).digest())


def _points(name: str, digests: int) -> Iterator[int]:
    for number in range(digests):
        digest = blake2b(f"{number}:{name}".encode(), digest_size=_POINT * _POINTS_IN_A_DIGEST).digest()
        yield from (_number(digest[start : start + _POINT]) for start in range(0, len(digest), _POINT))


def _number(digest: bytes) -> int:
    return int.from_bytes(digest, "big")
