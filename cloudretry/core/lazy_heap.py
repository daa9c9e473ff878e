"""A heap whose items can be moved and dropped cheaply: what is out of date is thrown away when it comes to the top."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from math import inf
from typing import TYPE_CHECKING, Final, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["LazyHeap"]

T = TypeVar("T")

_SLACK: Final = 64


class LazyHeap(Generic[T]):
    """Items by their key, the smallest first; among equals the one that was put there first. Items need only be hashable."""

    __slots__ = ("_heap", "_number", "_numbers")

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, T]] = []
        self._numbers: dict[T, int] = {}  # item → number of its entry that counts
        self._number = 0

    def __len__(self) -> int:
        return len(self._numbers)

    def __contains__(self, item: T) -> bool:
        return item in self._numbers

    def __iter__(self) -> Iterator[T]:
        return iter(self._numbers)

    @property
    def smallest(self) -> float:
        """No item has a smaller key; infinite where there is none."""
        return self._heap[0][0] if self._heap else inf

    def put(self, item: T, key: float) -> None:
        """Add an item, or move it."""
        self._number += 1
        self._numbers[item] = self._number
        heappush(self._heap, (key, self._number, item))
        if len(self._heap) > 2 * len(self._numbers) + _SLACK:
            self._heap = [entry for entry in self._heap if self._numbers.get(entry[2]) == entry[1]]
            heapify(self._heap)

    def drop(self, item: T) -> None:
        """Remove an item, if it is there."""
        self._numbers.pop(item, None)

    def first(self, allowed: Callable[[T], bool] | None = None) -> tuple[float, T] | None:
        """The key and item that come first among those that are allowed. It stays where it is.

        Costs as much more as items that are not allowed stand before it.
        """
        heap, numbers = self._heap, self._numbers
        aside: list[tuple[float, int, T]] = []
        while heap:
            _, number, item = entry = heap[0]
            if numbers.get(item) == number:
                if allowed is None or allowed(item):
                    break
                aside.append(entry)
            heappop(heap)
        found = (heap[0][0], heap[0][2]) if heap else None
        for entry in aside:
            heappush(heap, entry)
        return found
