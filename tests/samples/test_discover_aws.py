"""samples/discover_aws.py finds exactly what is there, and says what it could not see."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config

from cloudretry.simcloud import Limit, Rule, SimulatedAws, simulated_aws

REGIONS = ("eu-west-1", "us-east-1")
LIMITS = (
    Rule(
        service="iam", actions=("ListRoles",), limit=Limit(2, 0), source="this test"
    ),  # two pages for each account, and no more
    Rule(service="s3", actions=("GetBucketLocation",), limit=Limit(10, 20), source="this test"),
)
HURRY = {
    "CLOUDRETRY__AWS__BASE_DELAY": "10ms",
    "CLOUDRETRY__AWS__MAX_DELAY": "200ms",
    "CLOUDRETRY__AWS__ADDITIONAL_DELAY_WINDOW": "10ms",
}
# The SQL of the sample's docstring.
RETIRE = """
select c.id from cmdb c join coverage s on (s.account, s.region, s.type) = (c.account, c.listed_in, c.type)
where s.status = 'complete' and (c.account, c.listed_in, c.type, c.id) not in
(select account, listed_in, type, id from resources)
"""

pytestmark = pytest.mark.wire


@pytest.fixture(scope="module")
def _aws() -> Iterator[SimulatedAws]:
    with simulated_aws(accounts=2, regions=REGIONS, limits=LIMITS) as running:
        yield running


@pytest.fixture
def aws(_aws: SimulatedAws) -> SimulatedAws:
    """The same for all tests, with its buckets full again."""
    _aws.reset()
    return _aws


def user_of(aws: SimulatedAws, account: int = 0) -> dict[str, str]:
    """The environment of a user of one of the accounts."""
    keys = {name.upper(): str(value) for name, value in aws.credentials(aws.accounts[account]).items()}
    return {"AWS_ENDPOINT_URL": aws.url, **keys, **HURRY}


def client(aws: SimulatedAws, service: str) -> Any:
    """Of the same user."""
    keys = aws.credentials(aws.accounts[0])
    session = boto3.Session(keys["aws_access_key_id"], keys["aws_secret_access_key"], region_name=REGIONS[1])
    return session.client(service, endpoint_url=aws.url, config=Config(proxies={}))  # type: ignore[call-overload]


def rows(folder: Path, sql: str) -> list[Any]:
    with closing(sqlite3.connect(folder / "inventory.sqlite")) as database:
        return database.execute(sql).fetchall()


def test_it_finds_exactly_what_is_there(aws: SimulatedAws, run_sample: Any, tmp_path: Path) -> None:
    places = ["--organization", "--role", "audit", "--regions", *REGIONS]
    done = run_sample("discover_aws.py", *places, "--threads", "2", environment=user_of(aws))
    total = f"inventory.jsonl, inventory.sqlite: {len(aws.resources)} resources; lists: 34 complete, 0 partial, 0 denied\n"
    assert (done.returncode, done.stdout, done.stderr) == (0, total, "")
    found = rows(tmp_path, "select account, region, type, id from resources")
    assert len(found) == len(aws.resources)
    assert set(found) == aws.resources
    lines = [json.loads(line) for line in (tmp_path / "inventory.jsonl").read_text("utf-8").splitlines()]
    assert Counter((line["account"], line["region"], line["type"], line["id"]) for line in lines) == Counter(aws.resources)
    # 3 lists without regions and 7 in each region, in each account
    assert rows(tmp_path, "select account, status, count(*) from coverage group by 1, 2 order by 1") == [
        (account, "complete", 3 + 7 * len(REGIONS)) for account in aws.accounts
    ]
    assert aws.counters()["throttled"] > 0
    _assert_accounts_took_turns(aws)


def _assert_accounts_took_turns(aws: SimulatedAws) -> None:
    asked = [account for _, account, *_ in aws.log()]
    first = [asked.index(account) for account in aws.accounts]
    last = [len(asked) - 1 - asked[::-1].index(account) for account in aws.accounts]
    assert max(first) < min(last) / 4  # nobody had to wait until the other was done


def test_a_lost_call_makes_a_partial_list_and_an_exit_code(aws: SimulatedAws, run_sample: Any, tmp_path: Path) -> None:
    client(aws, "iam").list_roles(MaxItems=1)  # leaves one page, so that the second is throttled for ever
    given_up_soon = {**user_of(aws), "CLOUDRETRY__AWS__MAX_RETRIES": "2"}
    done = run_sample("discover_aws.py", "--regions", *REGIONS, environment=given_up_soon)
    assert done.returncode == 3, done.stderr
    account = aws.accounts[0]
    hole, total = done.stdout.splitlines()
    assert hole.startswith(f"partial: {account} global iam:role, 1 pages seen: An error occurred (Throttling)")
    assert total.endswith("lists: 16 complete, 1 partial, 0 denied")
    there = {resource for resource in aws.resources if resource[0] == account}
    found = set(rows(tmp_path, "select account, region, type, id from resources"))
    assert found < there
    assert {kind for _, _, kind, _ in there - found} == {"iam:role"}
    assert _retired(tmp_path, there) == ["gone", "i-gone"]


def _retired(folder: Path, there: set[tuple[str, str, str, str]]) -> list[str]:
    """What a CMDB would retire that knows all there is, and three things that are not there: one where nobody looked."""
    ((account, *_), *_) = there
    without_regions = ("iam:", "s3:")
    known = [(account, "global" if kind.startswith(without_regions) else region, kind, name) for _, region, kind, name in there]
    gone = [(account, REGIONS[1], "ec2:instance", "i-gone"), (account, "global", "s3:bucket", "gone")]
    unseen = [(account, "mars-north-1", "ec2:instance", "i-unseen")]
    with closing(sqlite3.connect(folder / "inventory.sqlite")) as database, database:
        database.execute("create table cmdb (account, listed_in, type, id)")
        database.executemany("insert into cmdb values (?, ?, ?, ?)", [*known, *gone, *unseen])
    return sorted(name for (name,) in rows(folder, RETIRE))


@pytest.fixture
def answer(Answer: Any) -> Any:
    return Answer


IDENTITY = b"""<GetCallerIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><GetCallerIdentityResult>
<Arn>arn:aws:iam::111122223333:user/audit</Arn><UserId>AIDA</UserId><Account>111122223333</Account>
</GetCallerIdentityResult></GetCallerIdentityResponse>"""
FORBIDDEN = b"<ErrorResponse><Error><Code>AccessDenied</Code><Message>No.</Message></Error></ErrorResponse>"


def test_what_an_account_forbids_is_denied_and_no_loss(
    serve: Callable[..., Any], answer: Any, run_sample: Any, tmp_path: Path
) -> None:
    keys = {"AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE", "AWS_SECRET_ACCESS_KEY": "fake-secret"}
    server = serve(answer(200, IDENTITY), answer(403, FORBIDDEN))
    places = ["--accounts", "444455556666", "--role", "audit", "--regions", "eu-west-1"]
    done = run_sample("discover_aws.py", *places, environment={**keys, "AWS_ENDPOINT_URL": server.url})
    assert done.returncode == 0, done.stderr
    assert rows(tmp_path, "select account, status, pages, count(*) from coverage group by 1, 2, 3") == [
        ("444455556666", "denied", 0, 10)
    ]
    assert "AssumeRole" in done.stdout
    assert done.stdout.endswith("inventory.jsonl, inventory.sqlite: 0 resources; lists: 0 complete, 0 partial, 10 denied\n")
    assert rows(tmp_path, "select * from resources") == []


def test_an_organization_without_accounts_is_no_success(aws: SimulatedAws, run_sample: Any, tmp_path: Path) -> None:
    member = user_of(aws, account=1)  # sees none
    done = run_sample("discover_aws.py", "--organization", "--role", "audit", "--regions", *REGIONS, environment=member)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "no account to look at\n")
    assert list(tmp_path.glob("inventory*")) == []


@pytest.mark.parametrize("name", ["today.jsonl", "today.sqlite"])
def test_an_inventory_is_never_overwritten(run_sample: Any, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("of yesterday")
    done = run_sample("discover_aws.py", "--out", "today")
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"{name} exists; choose another --out\n")
    assert (tmp_path / name).read_text() == "of yesterday"
    assert len(list(tmp_path.glob("today*"))) == 1


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({}, "Unable to locate credentials"),
        ({"AWS_PROFILE": "nowhere"}, "The config profile (nowhere) could not be found"),
    ],
)
def test_without_credentials_it_ends_with_one_line(run_sample: Any, environment: dict[str, str], said: str) -> None:
    done = run_sample("discover_aws.py", environment={"AWS_ENDPOINT_URL": "http://127.0.0.1:9", **environment})
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"{said}\n")


def test_other_accounts_need_a_role(run_sample: Any) -> None:
    done = run_sample("discover_aws.py", "--organization")
    assert done.returncode == 2
    assert "--role" in done.stderr
