from __future__ import annotations

from dataclasses import replace

import pytest

from cloudretry.demo.compare import Counted, Run, remarks, table
from cloudretry.demo.discovery import LostCall

KEYS = [("111122223333", "global", "iam:role", f"role-{number}") for number in range(10)]
THERE = frozenset(KEYS)
GONE = LostCall("iam:ListRolePolicies@111122223333/us-east-1", "role-1", "Throttling, gave up after 3 attempts")
PAGE = LostCall("iam:ListRoles@111122223333/us-east-1", "page 2", "Throttling, gave up after 3 attempts", ends_list=True)
PLAIN = Run(
    name="plain boto3",
    found=frozenset(KEYS[:7]),
    complete=frozenset(KEYS[:5]),
    calls=30,
    attempts=40,
    throttled=15,
    lost=(GONE, GONE, GONE, PAGE, GONE),
    seconds=2.04,
    lost_file="lost-plain-boto3.txt",
)
RETRIED = Run(
    name="cloudretry",
    found=THERE,
    complete=THERE,
    calls=33,
    attempts=50,
    throttled=17,
    lost=(),
    seconds=9.5,
    lost_file="lost-cloudretry.txt",
    counted=Counted(attempts=50, throttled=17, lost=0),
)


def test_the_table_is_side_by_side() -> None:
    assert table("AWS", THERE, [PLAIN, RETRIED]) == [
        ("AWS", "plain boto3", "cloudretry"),
        ("complete resources, of 10", "5", "10"),
        ("found, details missing or not", "7", "10"),
        ("calls", "30", "33"),
        ("attempts (requests sent)", "40", "50"),
        ("throttled attempts", "15", "17"),
        ("lost calls", "5", "0"),
        ("time", "2.0 s", "9.5 s"),
    ]


def test_the_remarks_say_what_was_measured() -> None:
    assert remarks(THERE, [PLAIN, RETRIED]) == [
        "Fed by plain boto3, a CMDB would retire 3 resources that exist and keep 2 with details missing.",
        "plain boto3 lost 5 calls, all in lost-plain-boto3.txt:",
        "    1 x iam:ListRoles@111122223333/us-east-1 page 2: Throttling, gave up after 3 attempts",
        "    4 x iam:ListRolePolicies@111122223333/us-east-1 Throttling, gave up after 3 attempts",
        "cloudretry found every resource with all its details, 7.5 s after plain boto3.",
    ]


@pytest.mark.parametrize(
    ("found", "complete", "said"),
    [
        (9, 9, "retire 1 resource that exists."),
        (8, 8, "retire 2 resources that exist."),
        (10, 9, "keep 1 resource with details missing."),
        (10, 8, "keep 2 resources with details missing."),
        (9, 8, "retire 1 resource that exists and keep 1 with details missing."),
    ],
)
def test_what_is_zero_is_not_said(found: int, complete: int, said: str) -> None:
    run = replace(PLAIN, found=frozenset(KEYS[:found]), complete=frozenset(KEYS[:complete]))
    assert remarks(THERE, [run])[0] == f"Fed by plain boto3, a CMDB would {said}"


def test_what_speaks_against_us_is_said_too() -> None:
    ours = replace(RETRIED, found=frozenset(KEYS[:9]), complete=frozenset(KEYS[:9]), lost=(GONE,), attempts=51)
    lines = "\n".join(remarks(THERE, [PLAIN, ours]))
    assert "cloudretry's own report is WRONG" in lines
    assert "Fed by cloudretry, a CMDB would retire 1 resource that exists." in lines
    assert "cloudretry lost 1 call, all in lost-cloudretry.txt:" in lines


def test_nothing_is_said_of_time_by_the_quicker_run() -> None:
    lines = remarks(THERE, [replace(PLAIN, seconds=20.0), RETRIED])
    assert lines[-1] == "cloudretry found every resource with all its details."


def test_lines_fit_a_hundred_columns() -> None:
    lost = LostCall("ec2:DescribeSecurityGroups@111122223333/ap-southeast-1", "page 12", "x" * 90, ends_list=True)
    assert max(map(len, remarks(THERE, [replace(PLAIN, lost=(lost,) * 12345)]))) == 100


def test_resources_that_do_not_exist_are_told_and_not_counted_as_found() -> None:
    ghost = replace(RETRIED, found=THERE | {("1", "2", "3", "ghost")})
    assert table("AWS", THERE, [ghost])[2] == ("found, details missing or not", "10")
    assert "cloudretry found resources that do not exist: 1." in remarks(THERE, [ghost])
