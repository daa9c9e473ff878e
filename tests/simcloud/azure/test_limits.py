"""The gates and their buckets, and what the table of limits says."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloudretry.errors import ConfigurationError
from cloudretry.simcloud import PUBLISHED_AZURE, UNLIMITED, AzureRule, Limit
from cloudretry.simcloud.azure.calls import Call, parse_target
from cloudretry.simcloud.azure.limits import AzureMeter, Window

SUBSCRIPTION = "/subscriptions/s1"
MACHINES = f"{SUBSCRIPTION}/providers/Microsoft.Compute/virtualMachines"
MACHINE = f"{SUBSCRIPTION}/resourceGroups/g/providers/Microsoft.Compute/virtualMachines/vm"

counts = st.integers(1, 50)
pauses = st.lists(st.integers(0, 64).map(lambda n: n / 32), max_size=300)


def ask(path: str = f"{SUBSCRIPTION}/resourcegroups", method: str = "GET", principal: str = "p1") -> Call:
    return Call(principal=principal, target=parse_target(method, path))


def rule(count: float, refill: float = 0, **changes: object) -> AzureRule:
    values = {"provider": "*", "operations": ("*",), "limit": Limit(count, refill), "source": "test"} | changes
    return AzureRule(**values)  # type: ignore[arg-type]


def admitted(meter: AzureMeter, *calls: Call, now: float = 0.0) -> list[bool]:
    return [meter.admit(call, now).stopped is None for call in calls]


@given(counts, st.integers(1, 8), pauses)
def test_no_window_admits_more_than_its_count(count: int, seconds: int, waits: list[float]) -> None:
    window, now, taken = Window(Limit(count, count / seconds), 0.0), 0.0, [0.0] * 0
    for wait in waits:
        now += wait
        told = window.tokens(now), window.wait(now)
        assert window.take(now) == (told[0] >= 1) == (told[1] == 0)
        if told[0] >= 1:
            taken.append(now)
    for start in taken:  # any stretch of that length meets two windows at most
        assert sum(start <= each < start + seconds for each in taken) <= 2 * count


def test_a_window_gives_all_back_at_once_when_it_ends() -> None:
    window = Window(Limit(2, 0.4), now=10.0)
    assert [window.take(now) for now in (10.0, 11.0, 12.0, 14.9)] == [True, True, False, False]
    assert (window.wait(12.0), window.ends(12.0)) == (3.0, 3.0)
    assert [window.take(now) for now in (15.0, 15.0, 15.0)] == [True, True, False]


def test_principals_and_subscriptions_have_buckets_of_their_own() -> None:
    meter = AzureMeter([rule(1)])
    calls = ask(), ask(principal="p2"), ask("/subscriptions/s2/resourcegroups"), ask("/subscriptions")
    assert admitted(meter, *calls) == [True] * 4
    assert admitted(meter, *calls) == [False] * 4
    meter.reset()
    assert admitted(meter, *calls) == [True] * 4


def test_a_request_takes_a_token_at_every_gate_up_to_the_one_that_stops_it() -> None:
    meter = AzureMeter([rule(3), rule(2, gate="subscription", per=("subscription",), name="all"), rule(9, gate="provider")])
    assert admitted(meter, ask(), ask(principal="p2"), ask(principal="p3")) == [True, True, False]
    stopped = meter.admit(ask(), 0.0)
    assert stopped.stopped is not None
    assert (stopped.stopped.rule.name, stopped.stopped.wait) == ("all", math.inf)
    assert [gauge.tokens for gauge in stopped.passed] == [1]
    assert admitted(meter, ask(), ask()) == [False, False]
    empty = meter.admit(ask(), 0.0).stopped
    assert empty is not None
    assert empty.rule.gate == "principal"


def test_the_first_rule_of_a_gate_counts() -> None:
    meter = AzureMeter([rule(1, operations=("GET resourceGroups",)), rule(5)])
    assert admitted(meter, *[ask()] * 2) == [True, False]
    assert admitted(meter, *[ask(MACHINES)] * 6) == [True] * 5 + [False]


def test_locations_and_resources_can_have_buckets_of_their_own() -> None:
    by_place = AzureMeter([rule(1, per=("location",))])
    places = [ask(f"{SUBSCRIPTION}/providers/Microsoft.Compute/locations/{name}/virtualMachines") for name in ("a", "b", "A")]
    assert admitted(by_place, *places) == [True, True, False]
    by_resource = AzureMeter([rule(1, per=("resource",))])
    assert admitted(by_resource, ask(MACHINE), ask(MACHINE + "2"), ask(MACHINE.lower())) == [True, True, False]


def test_without_rules_everything_is_admitted() -> None:
    assert all(admitted(AzureMeter(UNLIMITED), *[ask()] * 1000))


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("GET", f"{SUBSCRIPTION}/resourcegroups", {"subscription-reads": (250, 25), "subscription-global-reads": (3750, 375)}),
        (
            "DELETE",
            f"{SUBSCRIPTION}/resourcegroups/g",
            {"subscription-deletes": (200, 10), "subscription-global-deletes": (3000, 150)},
        ),
        (
            "PUT",
            f"{SUBSCRIPTION}/resourcegroups/g",
            {"subscription-writes": (200, 10), "subscription-global-writes": (3000, 150)},
        ),
        ("GET", "/subscriptions", {"subscription-reads": (250, 25)}),
        ("GET", MACHINES, {"HighCostGet": (900, 5), "subscription-reads": (250, 25), "subscription-global-reads": (3750, 375)}),
        (
            "POST",
            "/providers/Microsoft.ResourceGraph/resources",
            {"user-quota": (15, 3), "tenant-resource-requests": (150, 15)},
        ),
    ],
)
def test_the_table(method: str, path: str, expected: dict[str, tuple[float, float]]) -> None:
    passed = AzureMeter(PUBLISHED_AZURE).admit(ask(path, method), 0.0).passed
    assert {gauge.rule.name: (gauge.rule.limit.burst, gauge.rule.limit.refill) for gauge in passed} == expected


def test_one_machine_is_limited_too() -> None:
    passed = AzureMeter(PUBLISHED_AZURE).admit(ask(MACHINE), 0.0).passed
    assert {gauge.rule.name: round(gauge.tokens) for gauge in passed[2:]} == {"LowCostGet": 23_999, "LowCostGetResource": 35}


def test_a_token_endpoint_is_not_resource_manager() -> None:
    meter = AzureMeter(PUBLISHED_AZURE)
    rules = [each for each in PUBLISHED_AZURE if each.provider in {"login", "imds"}]
    assert {each.source for each in rules} == {"assumed"}
    target = replace(parse_target("GET", "/tenant/.well-known/openid-configuration"), provider="login")
    assert meter.admit(Call(principal="p1", target=target), 0.0).passed == []
    assert list(meter.standings(0.0)) == []


def test_how_the_buckets_stand() -> None:
    meter = AzureMeter(PUBLISHED_AZURE)
    meter.admit(ask(MACHINES), 0.0)
    meter.admit(ask("/subscriptions"), 0.0)
    standings = [(s.account, s.region, s.actions, s.tokens) for s in meter.standings(0.0)]
    assert standings == [
        ("s1", "p1", "*.*: subscription-reads", 249),
        ("s1", "*", "*.*: subscription-global-reads", 3749),
        ("s1", "*", "Microsoft.Compute: HighCostGet", 899),
        ("tenant", "p1", "*.*: subscription-reads", 249),
    ]


@pytest.mark.parametrize("wrong", [{"per": ("team",)}, {"window": True, "limit": Limit(1, 0)}])
def test_impossible_rules_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(wrong))):
        rule(1, **wrong)
