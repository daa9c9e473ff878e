"""Runs the demo: a simulated AWS, the same discovery twice, and the comparison."""

from __future__ import annotations

import random
import time
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from cloudretry.demo.clients import plain_boto3, sealed_environment, under_cloudretry
from cloudretry.demo.compare import Counted, Run, remarks, table
from cloudretry.demo.display import Display, Standing
from cloudretry.demo.inventory import Inventory
from cloudretry.report import Report
from cloudretry.simcloud import PUBLISHED, Limit, Rule, SimulatedAws, simulated_aws

if TYPE_CHECKING:
    from cloudretry.demo.discovery import MakeClient

__all__ = ["FAST", "FULL", "PLAIN", "RETRIED", "Size", "discover", "run_demo"]

PLAIN: Final = "plain boto3"
RETRIED: Final = "cloudretry"


@dataclass(frozen=True, slots=True)
class Size:
    """How much there is to discover, and behind which limits."""

    accounts: int
    regions: tuple[str, ...]
    limits: tuple[Rule, ...] = PUBLISHED


def _faster(rule: Rule, factor: float) -> Rule:
    return replace(rule, limit=Limit(rule.limit.burst, rule.limit.refill * factor))


FULL: Final = Size(3, ("eu-central-1", "eu-west-1", "us-east-1", "us-west-2"))
FAST: Final = Size(1, ("eu-west-1", "us-east-1"), tuple(_faster(rule, 4) for rule in PUBLISHED))


def run_demo(folder: Path, display: Display, *, seed: int, size: Size = FULL) -> list[Run]:
    """Run it, write the inventories into the folder, and return what each run came to.

    Raises:
        MissingExtra: boto3 or the simulated cloud are not installed.
    """
    with sealed_environment():
        display.say(f"Starting a simulated AWS: {size.accounts} accounts in {len(size.regions)} regions, seed {seed}")
        with simulated_aws(seed=seed, accounts=size.accounts, regions=size.regions, limits=size.limits) as aws:
            runs = _run_both(aws, folder, display, seed)
    _tell(aws, folder, display, runs)
    return runs


def _run_both(aws: SimulatedAws, folder: Path, display: Display, seed: int) -> list[Run]:
    make_client = plain_boto3(aws, connections=25)
    display.say(f"It answers at {aws.url} and holds {len(aws.resources)} resources. Discovering them, twice:")
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
    )


def _standing(name: str, aws: SimulatedAws, discovery: Any, inventory: Inventory, seconds: float) -> Standing:
    return Standing(
        name=name,
        found=inventory.found,
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
    display.say(f"Both inventories, as JSONL and SQLite: {folder}")
