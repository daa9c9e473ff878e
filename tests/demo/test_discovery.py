"""The discovery, the clients and the files, against a small simulated AWS."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cloudretry.core.builtin import BUILTIN
from cloudretry.core.settings import Settings
from cloudretry.demo.clients import plain_boto3, sealed_environment, under_cloudretry
from cloudretry.demo.discovery import Discovery, work_items
from cloudretry.demo.display import PlainDisplay
from cloudretry.demo.run import discover
from cloudretry.report import Report
from cloudretry.simcloud import UNLIMITED, Limit, Rule, simulated_aws

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cloudretry.demo.compare import Run
    from cloudretry.demo.discovery import Key

REGION = "eu-west-1"
TIGHT = (
    Rule(service="iam", actions=("*",), limit=Limit(5, 100), source="test", shared=True),
    Rule(service="s3", actions=("*",), limit=Limit(5, 100), source="test"),
)


def quick(settings: Settings) -> Settings:
    """The same rules with waits of milliseconds, and more of them: the simulated cloud runs in real time."""
    aws = settings.providers["aws"]
    retry = replace(aws.retry, base_delay=0.005, max_delay=0.05, additional_delay_window=0.01, max_retries=100)
    return Settings(providers={"aws": replace(aws, retry=retry)})


@pytest.fixture(autouse=True)
def _sealed() -> Iterator[None]:
    with sealed_environment():
        yield


@pytest.fixture(scope="module")
def unthrottled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, frozenset[Key], Path]:
    folder = tmp_path_factory.mktemp("unthrottled")
    with sealed_environment(), simulated_aws(seed=3, accounts=1, regions=(REGION,), limits=UNLIMITED) as aws:
        return discover("plain", aws, plain_boto3(aws, connections=25), folder, PlainDisplay()), aws.resources, folder


def test_without_limits_plain_boto3_finds_exactly_what_is_there(unthrottled: tuple[Run, frozenset[Key], Path]) -> None:
    run, there, _ = unthrottled
    assert run.found == run.complete == there
    assert (run.attempts, run.throttled, run.lost) == (run.calls, 0, ())


def test_jsonl_and_sqlite_agree(unthrottled: tuple[Run, frozenset[Key], Path]) -> None:
    run, _, folder = unthrottled
    lines = [json.loads(line) for line in (folder / "plain.jsonl").read_text().splitlines()]
    with closing(sqlite3.connect(folder / "plain.sqlite")) as database:
        rows = database.execute("select account, region, type, id, complete, details from resources").fetchall()
        assert database.execute("select count(*) from lost_calls").fetchone() == (0,)
    assert len(lines) == len(rows) == len(run.found)
    assert {tuple(line.values())[:5] for line in lines} == {row[:5] for row in rows}
    assert {row[2:4]: json.loads(row[5]) for row in rows} == {(line["type"], line["id"]): line["details"] for line in lines}


def test_throttled_and_retried_it_finds_the_same_and_both_sides_count_the_same(
    unthrottled: tuple[Run, frozenset[Key], Path], tmp_path: Path
) -> None:
    report = Report()
    with simulated_aws(seed=3, accounts=1, regions=(REGION,), limits=TIGHT) as aws:
        make_client = under_cloudretry(plain_boto3(aws, connections=25), report, seed=3, settings=quick(BUILTIN))
        run = discover("retried", aws, make_client, tmp_path, PlainDisplay())
    assert run.found == run.complete == unthrottled[1]  # another simulated AWS with the same seed
    total = report.total
    assert run.throttled > 0
    assert (total.calls, total.attempts, total.throttled) == (run.calls, run.attempts, run.throttled)
    assert (total.lost, run.lost) == (0, ())


def test_what_throttling_hides_is_a_hole_that_is_told(unthrottled: tuple[Run, frozenset[Key], Path], tmp_path: Path) -> None:
    shut = (Rule(service="iam", actions=("ListRoles", "ListAccessKeys"), limit=Limit(1, 0), source="test"),)
    report = Report()
    once = replace(BUILTIN.providers["aws"], retry=replace(BUILTIN.providers["aws"].retry, max_retries=0))
    with simulated_aws(seed=4, accounts=1, regions=(REGION,), limits=shut) as aws:
        make_client = under_cloudretry(
            plain_boto3(aws, connections=25), report, seed=3, settings=Settings(providers={"aws": once})
        )
        run = discover("shut", aws, make_client, tmp_path, PlainDisplay())
        missing = {key[2] for key in aws.resources - run.found}
        users = sum(key[2] == "iam:user" for key in aws.resources)
        account = aws.accounts[0]
    assert aws.resources != unthrottled[1]  # another seed
    assert missing == {"iam:role"}
    assert {key[2] for key in run.found - run.complete} == {"iam:user"}
    lost = sorted(map(str, run.lost))
    assert len(lost) == report.total.lost == 1 + users - 1
    assert lost[-1] == f"iam:ListRoles@{account}/us-east-1 page 2: Throttling, gave up after 1 attempt"
    assert sorted((tmp_path / "lost-shut.txt").read_text().splitlines()) == lost
    with closing(sqlite3.connect(tmp_path / "shut.sqlite")) as database:
        assert database.execute("select count(*) from lost_calls").fetchone() == (len(lost),)


def test_neighbouring_work_items_belong_to_different_accounts() -> None:
    items = work_items(("1", "2", "3"), ("a", "b"))
    assert len(items) == len(set(items)) == 3 * (2 * 3 + 2)
    assert all(one.account != other.account for one, other in pairwise(items))


def test_both_runs_get_the_same_clients() -> None:
    with simulated_aws(accounts=1, regions=(REGION,), size=0.01) as aws:
        make_client = plain_boto3(aws, connections=1)
        hooked = under_cloudretry(make_client, Report(), seed=1)
        assert hooked(aws.accounts[0], "iam", REGION) is make_client(aws.accounts[0], "iam", REGION)


def test_an_error_in_the_discovery_itself_is_raised() -> None:
    def make_client(*_: str) -> object:
        return object()

    with pytest.raises(AttributeError):
        Discovery(make_client, lambda _: None).run(work_items(("1",), ("a",)), lambda: None)
