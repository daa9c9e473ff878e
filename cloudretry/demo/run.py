"""Runs the demo: a simulated AWS, the same discovery twice, and the comparison."""

from __future__ import annotations

import random
import time
from contextlib import closing
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from cloudretry.demo.clients import plain_boto3, sealed_environment, under_cloudretry
from cloudretry.demo.compare import Counted, Run, counted, remarks, table
from cloudretry.demo.display import Display, Standing
from cloudretry.demo.inventory import Inventory
from cloudretry.errors import MissingExtra
from cloudretry.report import Report
from cloudretry.simcloud import PUBLISHED, Limit, Rule, Settings, SimulatedAws, run_simulated_aws

if TYPE_CHECKING:
    from cloudretry.demo.discovery import MakeClient

__all__ = ["FAST", "FULL", "PLAIN", "RETRIED", "Size", "check_extras", "discover", "run_demo"]

PLAIN: Final = "plain boto3"
RETRIED: Final = "cloudretry"

# moto brings boto3, so this order asks for one installation at most.
_NEEDED: Final = {"moto": "simulate", "aiohttp": "simulate", "flask": "simulate", "flask_cors": "simulate", "boto3": "aws"}
_NEXT: Final = (
    "Now your own script: boto3.client(...) -> cloudretry.AwsApiCommand().client(...)",
    "To try it against the simulated AWS: cloudretry simulate aws",
)


@dataclass(frozen=True, slots=True)
class Size:
    """How much there is to discover, and behind which limits. `share` of what such accounts hold by default."""

    accounts: int
    regions: tuple[str, ...]
    share: float
    limits: tuple[Rule, ...] = PUBLISHED


def _sooner(rule: Rule) -> Rule:
    """Throttles a small inventory as the published limits do a large one: empty at once, full again quickly."""
    return replace(rule, limit=Limit(max(1.0, rule.limit.burst / 60), rule.limit.refill * 2))


FULL: Final = Size(3, ("eu-central-1", "eu-west-1", "us-east-1", "us-west-2"), 0.75)
FAST: Final = Size(1, ("eu-west-1", "us-east-1"), 0.2, tuple(map(_sooner, PUBLISHED)))


def check_extras() -> None:
    """Raise MissingExtra if boto3 or the simulated cloud are not installed."""
    for module, extra in _NEEDED.items():
        if find_spec(module) is None:
            raise MissingExtra(extra)


def run_demo(folder: Path, display: Display, *, seed: int, size: Size = FULL) -> list[Run]:
    """Run it, write the inventories into the folder, and return what each run came to.

    Raises:
        MissingExtra: boto3 or the simulated cloud are not installed.
    """
    check_extras()
    places = f"{counted(size.accounts, 'account')} in {counted(len(size.regions), 'region')}"
    display.say(f"Starting a simulated AWS with {places}, seed {seed} ...")
    settings = Settings(seed=seed, accounts=size.accounts, regions=size.regions, size=size.share, limits=size.limits)
    with sealed_environment(), run_simulated_aws(settings) as (aws, _):
        runs = _run_both(aws, folder, display, seed)
    _tell(aws, folder, display, runs)
    return runs


def _run_both(aws: SimulatedAws, folder: Path, display: Display, seed: int) -> list[Run]:
    from cloudretry.demo.discovery import work_items

    make_client = plain_boto3(aws, connections=50)
    display.say(f"It answers at {aws.url} and holds {counted(len(aws.resources), 'resource')}. Making clients ...")
    for item in work_items(aws.accounts, aws.regions):
        make_client(item.account, item.service, item.region)  # slow, and the same for both runs
    display.say("Discovering them, twice:")
    with display.live():
        random.seed(seed)  # botocore draws its waits from here
        plain = discover(PLAIN, aws, make_client, folder, display)
        aws.reset()
        report = Report()
        retried = discover(RETRIED, aws, under_cloudretry(make_client, report, seed=seed), folder, display)
    total = report.total
    return [plain, replace(retried, counted=Counted(total.attempts, total.throttled, total.lost))]


def discover(name: str, aws: SimulatedAws, make_client: MakeClient, folder: Path, display: Display) -> Run:
    """Run the discovery once and write its inventory."""
    from cloudretry.demo.discovery import Discovery, work_items

    with closing(Inventory(folder, name.replace(" ", "-"))) as inventory:
        discovery = Discovery(make_client, inventory.add)
        started = time.monotonic()

        def watch() -> None:
            display.show(_standing(name, aws, discovery, inventory, time.monotonic() - started))

        watch()
        discovery.run(work_items(aws.accounts, aws.regions), watch)
        seconds = time.monotonic() - started
        watch()
        inventory.finish(discovery.lost)
        counters = aws.counters()
        found = [
            (tuple(line[part] for part in ("account", "region", "type", "id")), line["complete"]) for line in inventory.read()
        ]
    return Run(
        name=name,
        found=frozenset(key for key, _ in found),
        complete=frozenset(key for key, complete in found if complete),
        calls=discovery.calls,
        attempts=counters["accepted"] + counters["throttled"],
        throttled=counters["throttled"],
        lost=tuple(discovery.lost),
        seconds=seconds,
        lost_file=inventory.lost.name,
    )


def _standing(name: str, aws: SimulatedAws, discovery: Any, inventory: Inventory, seconds: float) -> Standing:
    return Standing(
        name=name,
        complete=inventory.complete,
        there=len(aws.resources),
        calls=discovery.calls,
        throttled=aws.counters()["throttled"],
        lost=len(discovery.lost),
        seconds=seconds,
    )


def _tell(aws: SimulatedAws, folder: Path, display: Display, runs: list[Run]) -> None:
    display.table(table(aws.resources, runs))
    for line in remarks(aws.resources, runs):
        display.say(line)
    display.say()
    display.say(f"Both inventories (JSONL, SQLite) and all lost calls: {folder}")
    for line in _NEXT:
        display.say(line)
