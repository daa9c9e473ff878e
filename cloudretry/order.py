"""The order of work: which call comes next matters more than how it is paced. Standard library alone.

A pool of threads that works off account by account stands still: all its threads wait for the one quota that is hot, while
the tokens of every other quota are lost. That costs five to fifteen times the ideal, with any pacing
(benchmarks/pacing_virtual.py).
"""

from __future__ import annotations

from heapq import merge
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator

__all__ = ["interleave"]

T = TypeVar("T")


def interleave(items: Iterable[T], quota: Callable[[T], Hashable]) -> Iterator[T]:
    """Yield items so that those of each quota are spread evenly over the whole; each quota's own keep their order.

    Evenly, not in rounds: a quota with ten times the work comes ten times as often, and all end at about the same time.

        tasks = [(account, region, list_) for account in accounts for region in regions for list_ in lists]
        with ThreadPoolExecutor(32) as pool:
            for task in interleave(tasks, quota=lambda task: task[:2]):      # account and region
                pool.submit(discover, *task)

    Args:
        items: read to its end before the first one is yielded.
        quota: what an item's calls are metered by, as far as is known: the account and the region at AWS, the subscription at
            Azure. Rather too much under one key than too little: keys that all have a single item leave the order as it is.
    """
    groups: dict[Hashable, list[T]] = {}
    for item in items:
        groups.setdefault(quota(item), []).append(item)
    spread = (_positions(number, group) for number, group in enumerate(groups.values()))
    for _, _, item in merge(*spread, key=_place):
        yield item


def _positions(number: int, group: list[T]) -> Iterator[tuple[float, int, T]]:
    return (((index + 0.5) / len(group), number, item) for index, item in enumerate(group))


def _place(entry: tuple[float, int, object]) -> tuple[float, int]:
    return entry[:2]
