"""The shortest time that limits allow, and learned rates beside the true ones."""

from __future__ import annotations

from typing import Any

import pytest

from cloudretry.core.pacer import PacerState
from cloudretry.core.quota import Quota
from cloudretry.core.rate import Learning, Limit
from cloudretry.demo.azure import Azure
from cloudretry.demo.ideal import Bucket, Meter, Metered, about_limits, buckets, limits_table
from cloudretry.demo.run import FULL
from cloudretry.simcloud import Limit as Granted


def state(rate: float, learning: Learning = Learning.TRACK, *, verified: bool = True) -> PacerState:
    return PacerState(
        learning=learning,
        limit=Limit(rate, 10.0),
        verified=verified,
        accepted=1,
        throttled=1,
        waiting=0,
        in_flight=0,
        hold=0.0,
    )


def quota(group: str, host: str = "") -> Quota:
    return Quota(provider="aws", owner="1", host=host, region="eu-west-1", service="rds", group=group)


@pytest.mark.parametrize(
    ("calls", "window", "seconds"),
    [(0, False, 0.0), (100, False, 0.0), (160, False, 3.0), (100, True, 0.0), (101, True, 5.0), (300, True, 10.0)],
)
def test_the_ideal_time_of_a_bucket(calls: int, seconds: float, *, window: bool) -> None:
    assert Bucket(Meter("a", Granted(100, 20), window), calls).ideal == seconds


TIGHT, WIDE = Meter("tight", Granted(10, 2)), Meter("wide", Granted(100, 20))
ROWS = [
    Metered(20, quota("a"), [WIDE, TIGHT]),
    Metered(10, quota("a"), [WIDE, TIGHT]),
    Metered(90, quota("b"), [WIDE]),
    Metered(7, quota("c"), []),
]


def test_calls_are_added_up_at_each_meter_and_the_tightest_comes_first() -> None:
    found = buckets(ROWS, {})
    assert [(bucket.meter.name, bucket.calls, bucket.ideal) for bucket in found] == [("tight", 30, 10.0), ("wide", 120, 1.0)]


def test_what_was_learned_stands_beside_the_tightest_meter_of_its_quota() -> None:
    states = {
        quota("a", "127.0.0.1:1"): state(1.9),
        quota("b", "127.0.0.1:1"): state(18.0),
        quota("c", "127.0.0.1:1"): state(5.0),
        quota("elsewhere"): state(6.0),
    }
    found = buckets(ROWS, states)
    assert [(bucket.meter.name, bucket.learned) for bucket in found] == [("tight", [1.9]), ("wide", [18.0])]
    assert limits_table(found) == [
        ("limits that were felt", "calls", "at best", "calls/s granted", "calls/s learned"),
        ("tight", "30", "10.0 s", "2", "1.9"),
        ("wide", "120", "1.0 s", "20", "18"),
    ]


@pytest.mark.parametrize("known", [state(2.0, verified=False), state(2.0, Learning.MEASURE), state(2.0, Learning.OPEN)])
def test_what_was_only_supposed_was_not_learned(known: PacerState) -> None:
    assert buckets(ROWS, {quota("a"): known})[0].learned == []


def test_limits_that_nobody_felt_are_not_shown() -> None:
    assert limits_table(buckets([ROWS[2]], {quota("b"): state(18.0)})) == []


def test_of_several_quotas_at_one_meter_the_span_is_told() -> None:
    rows = [Metered(20, quota(group), [TIGHT]) for group in "ab"]
    (tight,) = buckets(rows, {quota("a"): state(0.5), quota("b"): state(1.25)})
    assert limits_table([tight])[1][-1] == "0.5 to 1.25, 2 shares"


def test_the_time_is_told_in_multiples_of_the_ideal_one() -> None:
    found = buckets(ROWS, {})
    assert about_limits("cloudretry", 11.5, found) == [
        "These limits allow it in 10.0 s at best; cloudretry needed 1.15 times that."
    ]
    assert about_limits("cloudretry", 11.5, []) == about_limits("cloudretry", 1.0, buckets([ROWS[2]], {})) == []


class Running:
    def __init__(self, *rows: dict[str, Any]) -> None:
        self._rows = rows

    def counters(self) -> dict[str, Any]:
        return {"rows": self._rows}


@pytest.mark.parametrize(
    ("service", "action", "group", "name", "limit"),
    [
        ("iam", "ListRolePolicies", "reads", "iam:Get*/List*@1/us-east-1", Granted(60, 15)),
        ("lambda", "ListTags", "control plane", "lambda:*@1/us-east-1", Granted(15, 15)),
        ("ec2", "DescribeSecurityGroups", "DescribeSecurityGroups unfiltered", "ec2:DescribeSecurityGroups@1/us-east-1",
         Granted(50, 10)),
        ("ec2", "DescribeInstances", "DescribeInstances", "ec2:DescribeInstances@1/us-east-1", Granted(100, 20)),
    ],
)  # fmt: skip
def test_calls_of_aws_are_metered_as_the_simulated_one_does(
    service: str, action: str, group: str, name: str, limit: Granted
) -> None:
    row = {"account": "1", "region": "us-east-1", "service": service, "action": action, "accepted": 3, "throttled": 9}
    (metered,) = FULL["aws"].metered(Running(row))
    assert (metered.calls, metered.quota.group, metered.meters) == (3, group, [Meter(name, limit)])


def test_calls_of_azure_pass_every_gate() -> None:
    cloud = FULL["azure"]
    assert isinstance(cloud, Azure)
    row: dict[str, Any] = {"subscription": "12345678-9", "principal": "abcdefgh-1", "provider": "Microsoft.Storage"}
    row |= {"operation": "GET storageAccounts", "accepted": 3, "throttled": 9}
    graph = {**row, "subscription": "tenant", "provider": "Microsoft.ResourceGraph", "operation": "POST resources"}
    storage, query = cloud.metered(Running(row, graph))  # type: ignore[arg-type]
    assert storage.meters == [
        Meter("subscription-reads of 12345678 abcdefgh", Granted(250, 25)),
        Meter("subscription-global-reads of 12345678", Granted(3750, 375)),
        Meter("List of 12345678", Granted(100, 1 / 3), window=True),
    ]
    assert (storage.quota.owner, storage.quota.group) == ("12345678-9", "lists")
    assert [meter.name for meter in query.meters] == ["tenant-resource-requests of abcdefgh", "user-quota of abcdefgh"]
    assert (query.quota.owner, query.quota.group) == ("", "queries")
