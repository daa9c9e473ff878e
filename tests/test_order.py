"""Work is interleaved by quota."""

from __future__ import annotations

from collections import Counter
from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from cloudretry.order import interleave


def test_equal_shares_take_turns() -> None:
    work = list(product("ab", range(3)))
    assert list(interleave(work, lambda item: item[0])) == [("a", 0), ("b", 0), ("a", 1), ("b", 1), ("a", 2), ("b", 2)]


def test_a_quota_with_more_work_comes_more_often() -> None:
    work = ["hot"] * 9 + ["cold"] * 3
    order = list(interleave(work, str))
    assert [order[index : index + 4].count("hot") for index in (0, 4, 8)] == [3, 3, 3]


def test_nothing_is_nothing() -> None:
    assert list(interleave([], str)) == []


def test_items_need_no_order_of_their_own() -> None:
    assert len(list(interleave([object(), object()], lambda _: 1))) == 2


@given(st.lists(st.tuples(st.integers(0, 5), st.integers())))
def test_each_item_comes_once_and_each_quota_keeps_its_order(work: list[tuple[int, int]]) -> None:
    order = list(interleave(work, lambda item: item[0]))
    assert Counter(order) == Counter(work)
    for quota in range(6):
        assert [item for item in order if item[0] == quota] == [item for item in work if item[0] == quota]


@given(st.dictionaries(st.integers(0, 8), st.integers(1, 60), min_size=1))
def test_every_prefix_has_of_each_quota_its_share(counts: dict[int, int]) -> None:
    order = list(interleave([quota for quota, count in counts.items() for _ in range(count)], int))
    seen: Counter[int] = Counter()
    for done, quota in enumerate(order, start=1):
        seen[quota] += 1
        for each, count in counts.items():
            assert abs(seen[each] - count * done / len(order)) <= len(counts)
