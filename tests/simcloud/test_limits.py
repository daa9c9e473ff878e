"""The arithmetic of the buckets, and what the table of limits says."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloudretry.errors import ConfigurationError
from cloudretry.simcloud import PUBLISHED, UNLIMITED, Limit, Rule
from cloudretry.simcloud.identity import Identity, Protocol
from cloudretry.simcloud.limits import Meter, TokenBucket

limits = st.builds(Limit, st.integers(1, 200), st.integers(0, 400).map(lambda n: n / 8))
pauses = st.lists(st.integers(0, 64).map(lambda n: n / 32), max_size=300)  # exact in binary, like the refills


def ask(service: str = "ec2", action: str = "DescribeVpcs", **changes: object) -> Identity:
    values = {"account": "1", "region": "eu-west-1", "protocol": Protocol.EC2, "bare": False} | changes
    return Identity(service=service, action=action, **values)  # type: ignore[arg-type]


@given(limits, pauses)
def test_no_stretch_of_time_admits_more_than_burst_and_refill(limit: Limit, waits: list[float]) -> None:
    bucket, now, admitted = TokenBucket(limit, 0.0), 0.0, [0.0] * 0
    for wait in waits:
        now += wait
        if bucket.take(now):
            admitted.append(now)
    for first, start in enumerate(admitted):
        for count, end in enumerate(admitted[first:], start=1):
            assert count <= limit.burst + (end - start) * limit.refill


@given(limits, pauses)
def test_a_request_is_refused_only_without_a_whole_token(limit: Limit, waits: list[float]) -> None:
    bucket, now, level = TokenBucket(limit, 0.0), 0.0, limit.burst
    for wait in waits:
        now += wait
        level = min(limit.burst, level + wait * limit.refill)
        assert bucket.take(now) == (level >= 1)
        level -= level >= 1


def test_a_clock_that_runs_backwards_refills_nothing() -> None:
    bucket = TokenBucket(Limit(1, 1), now=100.0)
    assert bucket.take(100.0)
    assert [bucket.take(now) for now in (50.0, 100.5, 100.9, 101.0)] == [False, False, False, True]


@pytest.mark.parametrize(("burst", "refill"), [(0, 1), (0.5, 1), (1, -1), (math.nan, 1), (1, math.nan), (math.inf, 1)])
def test_impossible_limits_are_refused(burst: float, refill: float) -> None:
    with pytest.raises(ConfigurationError):
        Limit(burst, refill)


def test_every_account_region_and_action_has_its_own_bucket() -> None:
    meter = Meter((Rule(service="*", actions=("*",), limit=Limit(1, 0), source="test"),))
    different = [ask(), ask(account="2"), ask(region="us-east-1"), ask(action="DescribeHosts"), ask(service="rds")]
    assert [meter.admit(each, 0.0) for each in different] == [True] * 5
    assert [meter.admit(each, 0.0) for each in different] == [False] * 5


def test_a_shared_rule_is_one_bucket_for_all_its_actions() -> None:
    meter = Meter((Rule(service="lambda", actions=("*",), limit=Limit(2, 0), source="test", shared=True),))
    actions = ("GetFunction", "ListTags", "ListFunctions")
    assert [meter.admit(ask("lambda", action), 0.0) for action in actions] == [True, True, False]


def test_the_first_rule_that_matches_counts() -> None:
    narrow = Rule(service="ec2", actions=("DescribeV*",), limit=Limit(1, 0), source="test")
    wide = Rule(service="ec2", actions=("Describe*",), limit=Limit(3, 0), source="test")
    meter = Meter((narrow, wide))
    assert [meter.admit(ask(), 0.0) for _ in range(2)] == [True, False]
    assert [meter.admit(ask(action="DescribeHosts"), 0.0) for _ in range(4)] == [True, True, True, False]


def test_a_bare_request_and_a_paged_one_have_separate_buckets() -> None:
    meter = Meter(PUBLISHED)
    bare, paged = (ask(action="DescribeInstances", bare=value) for value in (True, False))
    assert sum(meter.admit(bare, 0.0) for _ in range(200)) == 50
    assert sum(meter.admit(paged, 0.0) for _ in range(200)) == 100


def test_reset_fills_every_bucket() -> None:
    meter = Meter((Rule(service="*", actions=("*",), limit=Limit(1, 0), source="test"),))
    assert [meter.admit(ask(), 0.0) for _ in range(2)] == [True, False]
    meter.reset()
    assert meter.admit(ask(), 0.0)


def test_without_rules_everything_is_admitted() -> None:
    meter = Meter(UNLIMITED)
    assert all(meter.admit(ask(), 0.0) for _ in range(1000))


@pytest.mark.parametrize(
    ("service", "action", "bare", "burst", "refill"),
    [
        ("ec2", "DescribeVpcs", True, 100, 20),
        ("ec2", "DescribeInstances", True, 50, 10),
        ("ec2", "DescribeInstances", False, 100, 20),
        ("ec2", "DescribeInstanceAttribute", False, 100, 20),
        ("ec2", "DescribeMovingAddresses", True, 1, 1),
        ("ec2", "StopInstances", False, 50, 5),
        ("ec2", "RunInstances", False, 5, 2),
        ("ec2", "CreateTags", False, 100, 10),
        ("lambda", "GetFunction", False, 15, 15),
        ("lambda", "Invoke", False, 10_000, 10_000),
        ("cloudformation", "DescribeStacks", False, 5, 5),
        ("s3", "GetBucketTagging", False, 50, 25),
        ("s3", "GetObject", False, 5_500, 5_500),
        ("iam", "ListAttachedRolePolicies", False, 60, 15),
        ("iam", "CreateRole", False, 20, 5),
        ("somethingnew", "ListThings", False, 100, 50),
    ],
)
def test_the_table(service: str, action: str, bare: bool, burst: float, refill: float) -> None:  # noqa: FBT001 - a column
    question = ask(service, action, bare=bare)
    assert next(rule.limit for rule in PUBLISHED if rule.matches(question)) == Limit(burst, refill)


def test_every_row_of_the_table_says_how_far_it_can_be_trusted() -> None:
    assert {rule.source for rule in PUBLISHED if rule.service == "ec2"} == {"EC2 API throttling page"}
    assert {rule.source for rule in PUBLISHED if rule.service in {"iam", "rds", "*"}} == {"assumed"}
    remembered = {"lambda", "sts", "route53"}
    assert {rule.source for rule in PUBLISHED if rule.service in remembered} == {
        "assumed, after what AWS publishes, not looked up"
    }
    reported = {(rule.service, rule.actions) for rule in PUBLISHED if rule.source == "seen in issues of discovery tools"}
    assert reported == {
        ("athena", ("List*",)),
        ("cloudcontrolapi", ("*",)),
        ("cloudformation", ("Describe*",)),
        ("servicequotas", ("ListServiceQuotas",)),
        ("servicequotas", ("ListTagsForResource",)),
    }


def test_how_the_buckets_stand() -> None:
    meter = Meter(PUBLISHED)
    for bare in (True, False):
        assert meter.admit(ask(action="DescribeInstances", bare=bare), 0.0)
    for action in ("ListTags", "GetFunction"):
        assert meter.admit(ask("lambda", action), 0.0)
    standings = {standing.actions: (standing.tokens, standing.limit.burst) for standing in meter.standings(0.1)}
    assert standings == {
        "ec2:DescribeInstances with neither filter nor page size": (50, 50),
        "ec2:DescribeInstances": (100, 100),
        "lambda: *, together": (14.5, 15),
    }


def test_the_wait_of_an_unlimited_request_is_none() -> None:
    assert Meter(UNLIMITED).wait(ask(), 0.0) == 0.0
