"""SPEC C2: which of the members that can be used is used."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloudretry.core.hash_ring import HashRing
from cloudretry.core.lazy_heap import LazyHeap
from cloudretry.core.member_changes import Instant
from cloudretry.core.outcome import Phase
from cloudretry.core.pool import Pool, Wanted
from cloudretry.core.pool_records import Grant
from cloudretry.core.pool_settings import Member, PoolSettings
from cloudretry.core.tries import Hop, Reason, TryEnd

AT = Instant(0.0, 0.0)
OK = TryEnd(phase=Phase.DONE)
REFUSED = TryEnd(phase=Phase.CONNECT, hop=Hop.MEMBER, reason=Reason.REFUSED)


def pool(*members: Member, **changes: Any) -> Pool:
    return Pool(PoolSettings(name="corp", members=members, **changes), AT, Random(1))


def members(count: int, **changes: Any) -> list[Member]:
    return [Member(name=f"m{i}", url=f"http://m{i}", **changes) for i in range(count)]


def pick(some: Pool, at: Instant = AT, **wanted: Any) -> Grant:
    grant = some.pick(Wanted("ec2", **wanted), at)
    assert grant is not None
    return grant


def names(some: Pool, count: int, **wanted: Any) -> list[str]:
    """Who is picked while nothing ends."""
    return [pick(some, **wanted).member.name for _ in range(count)]


def test_least_connections_fills_all_alike_and_refills_where_work_ended() -> None:
    some = pool(*members(3))
    assert names(some, 6) == ["m0", "m1", "m2", "m0", "m1", "m2"]
    grant = pick(some, tried=("m0", "m2"))
    some.finish(grant, OK, AT)
    some.finish(Grant(1, some.settings.members[2], "ec2", None, judges_member=False, judges_pair=False), OK, AT)
    assert names(some, 1) == ["m2"]


def test_least_connections_goes_round_where_nothing_is_under_way() -> None:
    some, seen = pool(*members(4)), []
    for _ in range(8):
        grant = pick(some)
        seen.append(grant.member.name)
        some.finish(grant, OK, AT)
    assert Counter(seen) == dict.fromkeys(("m0", "m1", "m2", "m3"), 2)


@pytest.mark.parametrize("algorithm", ["least_connections", "round_robin"])
def test_weights_share_the_work(algorithm: str) -> None:
    some = pool(Member(name="a", url="http://a", weight=3), Member(name="b", url="http://b"), algorithm=algorithm)
    assert Counter(names(some, 40)) == {"a": 30, "b": 10}


def test_round_robin_ignores_what_is_under_way_and_does_not_make_up_for_an_absence() -> None:
    some = pool(*members(3), algorithm="round_robin")
    some.disable("m2", AT)
    assert names(some, 20) == ["m0", "m1"] * 10
    some.enable("m2", AT)
    some.finish(pick(some), OK, AT)  # its trial
    later = Instant(10.0, 10.0)
    assert Counter(pick(some, later).member.name for _ in range(30)) == {"m0": 10, "m1": 10, "m2": 10}


def test_least_response_time_prefers_the_quicker_and_tries_the_slower_again_in_time() -> None:
    some, seen, now = pool(*members(2), algorithm="least_response_time"), Counter[str](), 0.0
    for _ in range(1000):
        now += 0.2
        grant = pick(some, Instant(now, now))
        slow = grant.member.name == "m0"
        some.finish(grant, TryEnd(phase=Phase.DONE, first_byte=0.8 if slow else 0.05), Instant(now, now))
        seen[grant.member.name] += 1
    assert seen["m1"] > 950
    assert seen["m0"] > 3


def test_least_response_time_counts_what_is_under_way() -> None:
    assert Counter(names(pool(*members(4), algorithm="least_response_time"), 40)) == dict.fromkeys(("m0", "m1", "m2", "m3"), 10)


def test_backups_are_used_only_while_no_other_is_available() -> None:
    some = pool(*members(2), Member(name="spare", url="http://spare", backup=True))
    assert set(names(some, 20)) == {"m0", "m1"}
    some.finish(pick(some, tried=("m1",)), REFUSED, AT)
    assert set(names(some, 20)) == {"m1"}
    assert names(some, 1, tried=("m1",)) == ["spare"]
    some.disable("m1", AT)
    assert set(names(some, 20)) == {"spare"}


def test_a_member_that_waits_for_a_trial_comes_first_but_not_for_a_call_that_was_one() -> None:
    some = pool(*members(3))
    some.disable("m2", AT)
    some.enable("m2", AT)
    assert "m2" not in names(some, 10, trials_first=False)
    assert names(some, 2)[0] == "m2"


def test_a_backup_is_not_tried_out_while_others_work() -> None:
    some = pool(*members(1), Member(name="spare", url="http://spare", backup=True))
    some.disable("spare", AT)
    some.enable("spare", AT)
    assert set(names(some, 5)) == {"m0"}


# hash


def home(some: Pool, key: str) -> str:
    grant = pick(some, key=key)
    some.finish(grant, OK, AT)
    return grant.member.name


def test_a_key_keeps_its_member_and_only_those_of_a_lost_member_move() -> None:
    some, keys = pool(*members(8), algorithm="hash"), [f"{n:012d}" for n in range(400)]
    before = {key: home(some, key) for key in keys}
    assert before == {key: home(some, key) for key in keys}
    some.disable("m3", AT)
    after = {key: home(some, key) for key in keys}
    assert {key for key in keys if before[key] != after[key]} == {key for key in keys if before[key] == "m3"}
    assert len({after[key] for key in keys if before[key] == "m3"}) > 4


def test_keys_are_spread_by_weight() -> None:
    some = pool(Member(name="a", url="http://a", weight=2), *members(3), algorithm="hash")
    shares = Counter(home(some, f"account {n}") for n in range(5000))
    assert 1600 < shares["a"] < 2400
    assert all(750 < shares[f"m{n}"] < 1250 for n in range(3))


def test_a_new_member_takes_keys_from_others_and_moves_none_between_them() -> None:
    keys = [f"account {n}" for n in range(1000)]
    few, more = pool(*members(5), algorithm="hash"), pool(*members(6), algorithm="hash")
    moved = {home(more, key) for key in keys if home(few, key) != home(more, key)}
    assert moved == {"m5"}


def test_where_all_members_near_its_home_are_gone_a_key_gets_another() -> None:
    some = pool(*members(100), algorithm="hash")
    for name in [f"m{n}" for n in range(99)]:
        some.disable(name, AT)
    assert {home(some, f"account {n}") for n in range(50)} == {"m99"}


def test_hash_without_a_key_is_least_connections() -> None:
    assert names(pool(*members(3), algorithm="hash"), 3) == ["m0", "m1", "m2"]


def test_a_ring_without_members_leads_nowhere() -> None:
    assert list(HashRing(()).along("key", 16)) == []


# the heap


@given(st.lists(st.tuples(st.integers(0, 9), st.one_of(st.none(), st.integers(0, 5)))), st.sets(st.integers(0, 9)))
def test_the_heap_agrees_with_a_sorted_list(steps: list[tuple[int, int | None]], excluded: set[int]) -> None:
    heap, model = LazyHeap[int](), dict[int, tuple[int, int]]()
    for number, (item, key) in enumerate(steps):
        if key is None:
            heap.drop(item)
            model.pop(item, None)
        else:
            heap.put(item, key)
            model[item] = (key, number)
        for allowed in (set(range(10)), set(range(10)) - excluded):
            expected = min((place, item) for item, place in [*model.items(), (-1, (99, 0))] if item in allowed or item == -1)
            found = heap.first(lambda item, allowed=allowed: item in allowed)  # type: ignore[misc]
            assert (None if found is None else found[1]) == (None if expected[1] == -1 else expected[1])
        assert (len(heap), set(heap)) == (len(model), set(model))
        assert heap.smallest <= min((place[0] for place in model.values()), default=float("inf"))


def test_the_heap_does_not_grow_with_the_moves() -> None:
    heap = LazyHeap[int]()
    for number in range(10_000):
        heap.put(number % 7, -number)
    assert len(heap._heap) < 200
