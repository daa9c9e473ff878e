from __future__ import annotations

from dataclasses import replace

from cloudretry.demo.compare import Counted, Run, remarks, table
from cloudretry.demo.discovery import LostCall

KEYS = [("111122223333", "global", "iam:role", f"role-{number}") for number in range(10)]
THERE = frozenset(KEYS)
GONE = LostCall("iam:ListRolePolicies@111122223333/us-east-1", "role-1", "Throttling at attempt 3, the last")
PAGE = LostCall("iam:ListRoles@111122223333/us-east-1", "page 2", "Throttling at attempt 3, the last", ends_list=True)
PLAIN = Run(
    name="plain boto3",
    found=frozenset(KEYS[:7]),
    complete=frozenset(KEYS[:5]),
    calls=30,
    attempts=40,
    throttled=15,
    lost=(GONE, GONE, GONE, PAGE, GONE),
    seconds=2.04,
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
    counted=Counted(attempts=50, throttled=17, lost=0),
)
COUNTED = (
    "cloudretry counted 50 attempts, 17 of them throttled, and 0 lost calls: "
    "exactly what the simulated AWS and the discovery counted."
)


def test_the_table_is_side_by_side() -> None:
    assert table(THERE, [PLAIN, RETRIED]) == [
        ("", "plain boto3", "cloudretry"),
        ("resources found, of 10", "7", "10"),
        ("  with all their details", "5", "10"),
        ("calls", "30", "33"),
        ("attempts (requests sent)", "40", "50"),
        ("throttled attempts", "15", "17"),
        ("lost calls", "5", "0"),
        ("time", "2.0 s", "9.5 s"),
    ]


def test_the_remarks_say_what_was_measured() -> None:
    lines = remarks(THERE, [PLAIN, RETRIED])
    assert lines == [
        "plain boto3 was done 7.5 s earlier and gave up 5 calls; cloudretry gave up 0.",
        "plain boto3 lost 5 calls, among them:",
        "  iam:ListRoles@111122223333/us-east-1 page 2: Throttling at attempt 3, the last",
        *[f"  {GONE}"] * 2,
        "A CMDB fed by plain boto3 would have retired 3 resources that exist, and kept 2 with details missing.",
        COUNTED,
        "cloudretry lost no call.",
    ]


def test_what_speaks_against_us_is_said_too() -> None:
    ours = replace(RETRIED, found=frozenset(KEYS[:9]), complete=frozenset(KEYS[:9]), lost=(GONE,), attempts=51)
    lines = "\n".join(remarks(THERE, [PLAIN, ours]))
    assert "cloudretry counted 50 attempts, 17 of them throttled, and 0 lost calls. THIS DIFFERS" in lines
    assert "A CMDB fed by cloudretry would have retired 1 resources that exist" in lines


def test_nothing_is_said_of_time_when_the_quicker_run_lost_nothing() -> None:
    lines = remarks(THERE, [replace(PLAIN, seconds=20.0), RETRIED])
    assert not any("earlier" in line for line in lines)


def test_resources_that_do_not_exist_are_told_and_not_counted_as_found() -> None:
    ghost = replace(RETRIED, found=THERE | {("1", "2", "3", "ghost")})
    assert table(THERE, [ghost])[1] == ("resources found, of 10", "10")
    assert "cloudretry found 1 resources that do not exist." in remarks(THERE, [ghost])
