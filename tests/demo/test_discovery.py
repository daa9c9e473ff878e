"""The discovery, the clients and the files, against a small simulated cloud of each kind."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cloudretry.config import Configuration, load_configuration
from cloudretry.demo.aws import Aws
from cloudretry.demo.azure import Azure
from cloudretry.demo.discovery import Discovery
from cloudretry.demo.display import PlainDisplay
from cloudretry.demo.environment import sealed_environment
from cloudretry.demo.inventory import Inventory
from cloudretry.demo.run import discover
from cloudretry.report import Report
from cloudretry.simcloud import UNLIMITED, AzureRule, Limit, Rule

if TYPE_CHECKING:
    from cloudretry.demo.cloud import Cloud, Key, Simulated
    from cloudretry.demo.compare import Run

AWS = Aws(accounts=1, regions=("eu-west-1",), share=1.0, limits=UNLIMITED)
AZURE = Azure(subscriptions=1, share=0.5, limits=UNLIMITED)
CLOUDS: dict[str, Cloud] = {"aws": AWS, "azure": AZURE}
TIGHT: dict[str, Cloud] = {
    "aws": replace(
        AWS,
        limits=(
            Rule(service="iam", actions=("*",), limit=Limit(5, 100), source="test", shared=True),
            Rule(service="s3", actions=("*",), limit=Limit(5, 100), source="test"),
        ),
    ),
    "azure": replace(
        AZURE,
        limits=(
            AzureRule(provider="Microsoft.ResourceGraph", operations=("POST *",), limit=Limit(2, 50), source="test"),
            AzureRule(provider="*", operations=("GET *",), limit=Limit(5, 100), source="test"),
        ),
    ),
}
# The same rules with waits of milliseconds, and more of them: the simulated cloud runs in real time.
QUICK = {
    "strategy": "exponential",
    "base_delay": "5ms",
    "max_delay": "50ms",
    "additional_delay_window": "10ms",
    "max_retries": 100,
}
ONCE = {"max_retries": 0, "pacing": {"mode": "off"}}


def configured(**settings: Any) -> Configuration:
    return load_configuration({"aws": settings, "azure": settings}, environ={}, cwd="/nowhere")


def run_once(cloud: Cloud, running: Simulated, folder: Path, name: str, *hooks: Any) -> Run:
    with closing(Inventory(folder, name)) as inventory:
        return discover(name, running, cloud.source(running, *hooks), inventory, PlainDisplay())


@pytest.fixture(autouse=True)
def _sealed() -> Iterator[None]:
    with sealed_environment():
        yield


@dataclass(frozen=True)
class Unthrottled:
    cloud: str
    run: Run
    there: frozenset[Key]
    folder: Path


@pytest.fixture(scope="module", params=["aws", "azure"])
def unthrottled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Unthrottled:
    cloud, folder = CLOUDS[request.param], tmp_path_factory.mktemp("unthrottled")
    with sealed_environment(), cloud.simulated(3) as running:
        return Unthrottled(request.param, run_once(cloud, running, folder, "plain"), running.resources, folder)


def test_without_limits_the_plain_sdk_finds_exactly_what_is_there(unthrottled: Unthrottled) -> None:
    run = unthrottled.run
    assert run.found == run.complete == unthrottled.there
    assert (run.attempts, run.throttled, run.lost) == (run.calls, 0, ())


def test_jsonl_and_sqlite_agree(unthrottled: Unthrottled) -> None:
    lines = [json.loads(line) for line in (unthrottled.folder / "plain.jsonl").read_text().splitlines()]
    with closing(sqlite3.connect(unthrottled.folder / "plain.sqlite")) as database:
        rows = database.execute("select account, region, type, id, complete, details from resources").fetchall()
        assert database.execute("select count(*) from lost_calls").fetchone() == (0,)
    assert len(lines) == len(rows) == len(unthrottled.run.found)
    assert {tuple(line.values())[:5] for line in lines} == {row[:5] for row in rows}
    assert {row[2:4]: json.loads(row[5]) for row in rows} == {(line["type"], line["id"]): line["details"] for line in lines}


def test_throttled_and_retried_it_finds_the_same_and_both_sides_count_the_same(
    unthrottled: Unthrottled, tmp_path: Path
) -> None:
    report, cloud = Report(), TIGHT[unthrottled.cloud]
    with cloud.simulated(3) as running:
        run = run_once(cloud, running, tmp_path, "retried", report, configured(**QUICK))
    assert run.found == run.complete == unthrottled.there  # another simulated cloud with the same seed
    total = report.total
    assert run.throttled > 0
    assert (total.calls, total.attempts, total.throttled) == (run.calls, run.attempts, run.throttled)
    assert (total.lost, run.lost) == (0, ())


def test_what_throttling_hides_on_aws_is_a_hole_that_is_told(tmp_path: Path) -> None:
    shut = (Rule(service="iam", actions=("ListRoles", "ListAccessKeys"), limit=Limit(1, 0), source="test"),)
    report, cloud = Report(), replace(AWS, limits=shut)
    with cloud.simulated(4) as aws:
        run = run_once(cloud, aws, tmp_path, "shut", report, configured(**ONCE))
        users = sum(key[2] == "iam:user" for key in aws.resources)
    assert {key[2] for key in aws.resources - run.found} == {"iam:role"}
    assert {key[2] for key in run.found - run.complete} == {"iam:user"}
    lost = sorted(map(str, run.lost))
    assert len(lost) == report.total.lost == 1 + users - 1
    assert lost[-1] == f"iam:ListRoles@{aws.accounts[0]}/us-east-1 page 2: Throttling, gave up after 1 attempt"
    _assert_listed(tmp_path, lost)


def test_what_throttling_hides_on_azure_is_a_hole_that_is_told(tmp_path: Path) -> None:
    shut = tuple(
        AzureRule(provider=provider, operations=(operation,), limit=Limit(1, 0), source="test")
        for provider, operation in {"Microsoft.Resources": "GET resources", "Microsoft.ResourceGraph": "POST *"}.items()
    )
    report, cloud = Report(), replace(AZURE, limits=shut)
    with cloud.simulated(4) as azure:
        run = run_once(cloud, azure, tmp_path, "shut", report, configured(**ONCE))
        groups = sum(key[2] == "Microsoft.Resources/resourceGroups" for key in azure.resources)
    hidden = {key[2] for key in azure.resources - run.found}
    assert hidden
    assert not hidden & {"Microsoft.Resources/resourceGroups", "Microsoft.Compute/virtualMachines"}
    assert {key[2] for key in run.found - run.complete} == {"Microsoft.Resources/resourceGroups"}
    lost = sorted(map(str, run.lost))
    assert len(lost) == report.total.lost == 1 + groups - 1
    assert lost[-1] == f"Microsoft.Resources:GET resources@{azure.subscriptions[0]} page 2: 429 SubscriptionRequestsThrottled"
    _assert_listed(tmp_path, lost)


def _assert_listed(folder: Path, lost: list[str]) -> None:
    assert sorted((folder / "lost-shut.txt").read_text().splitlines()) == lost
    with closing(sqlite3.connect(folder / "shut.sqlite")) as database:
        assert database.execute("select count(*) from lost_calls").fetchone() == (len(lost),)


@pytest.mark.parametrize(
    "cloud",
    [replace(AWS, accounts=3, regions=("eu-west-1", "us-east-1"), share=0.01), replace(AZURE, subscriptions=3, share=0.01)],
    ids=["aws", "azure"],
)
def test_neighbouring_work_items_belong_to_different_accounts(cloud: Cloud) -> None:
    with cloud.simulated(1) as running:
        items = cloud.source(running).items
        accounts = {key[0] for key in running.resources}
    assert len(items) == len(set(items))
    assert {item.account for item in items} == accounts
    assert len(accounts) == 3
    assert all(one.account != other.account for one, other in pairwise(items))


class Broken:
    """A source with a mistake in it."""

    items = ("the only one",)
    errors = (OSError,)

    def lists(self, _: object) -> Iterator[Any]:
        return iter([object()])

    reason: Callable[..., str] = str


def test_an_error_in_the_discovery_itself_is_raised() -> None:
    with pytest.raises(AttributeError):
        Discovery(Broken(), lambda _: None).run(lambda: None)  # type: ignore[arg-type]  # that is its mistake
