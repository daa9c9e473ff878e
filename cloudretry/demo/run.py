"""Runs the demo: for each cloud a simulated one, the same discovery twice, and the comparison."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cloudretry.config import load_configuration
from cloudretry.demo.aws import Aws
from cloudretry.demo.azure import Azure
from cloudretry.demo.compare import Counted, Run, counted, remarks, table
from cloudretry.demo.discovery import Discovery
from cloudretry.demo.display import Display, Standing
from cloudretry.demo.environment import sealed_environment
from cloudretry.demo.ideal import about_limits, buckets, limits_table
from cloudretry.demo.inventory import Inventory
from cloudretry.errors import MissingExtra
from cloudretry.report import Report
from cloudretry.runtime.pacing import PACING
from cloudretry.simcloud import PUBLISHED, PUBLISHED_AZURE, AzureRule, Limit, Rule

if TYPE_CHECKING:
    from typing import TypeVar

    from cloudretry.demo.cloud import Cloud, Simulated, Source

    AnyRule = TypeVar("AnyRule", Rule, AzureRule)

__all__ = ["FAST", "FULL", "RETRIED", "choose_clouds", "discover", "run_demo"]

RETRIED: Final = "cloudretry"


def _sooner(rule: AnyRule, burst: float, refill: float) -> AnyRule:
    """Throttles a small inventory as the published limits do a large one: empty at once, full again quickly."""
    limit = Limit(max(1.0, rule.limit.burst * burst), rule.limit.refill * refill)
    return replace(rule, limit=limit)


_FORGETFUL: Final = {"pacing": {"remember": False}}
"""Each demo begins without knowledge, and leaves none."""
FULL: Final[Mapping[str, Cloud]] = {
    "aws": Aws(accounts=3, regions=("eu-central-1", "us-east-1"), share=0.65),
    "azure": Azure(subscriptions=3, share=0.9),
}
FAST: Final[Mapping[str, Cloud]] = {
    "aws": Aws(
        accounts=1,
        regions=("eu-west-1", "us-east-1"),
        share=0.2,
        limits=tuple(_sooner(rule, 1 / 60, 2) for rule in PUBLISHED),
    ),
    "azure": Azure(subscriptions=1, share=0.3, limits=tuple(_sooner(rule, 1 / 60, 1) for rule in PUBLISHED_AZURE)),
}


def choose_clouds(sizes: Mapping[str, Cloud], wanted: str) -> tuple[list[Cloud], list[str]]:
    """The clouds to show, of `wanted`, or of `both` those that can be; and a line for each that can't.

    Raises:
        MissingExtra: there is none.
    """
    clouds = list(sizes.values()) if wanted == "both" else [sizes[wanted]]
    shown = [cloud for cloud in clouds if all(map(_is_there, cloud.needs))]
    if not shown:
        raise MissingExtra("demo")
    return shown, [f"Without {cloud.name}: {MissingExtra('demo')}" for cloud in clouds if cloud not in shown]


def _is_there(module: str) -> bool:
    package = module.rpartition(".")[0]
    return (not package or _is_there(package)) and find_spec(module) is not None


def run_demo(folder: Path, display: Display, clouds: Sequence[Cloud], *, seed: int) -> None:
    """Show one cloud after the other, and write the inventories into the folder."""
    for cloud in clouds:
        _show(cloud, folder, display, seed)
    display.say(f"All inventories (JSONL, SQLite) and all lost calls: {folder}")
    for line in [hint for cloud in clouds for hint in cloud.hints]:
        display.say(line)


def _show(cloud: Cloud, folder: Path, display: Display, seed: int) -> None:
    display.say(f"Starting a simulated {cloud.name} with {cloud.places}, seed {seed} ...")
    with sealed_environment(), cloud.simulated(seed) as running:
        display.say(f"It answers at {running.url} and holds {counted(len(running.resources), 'resource')}. Making clients ...")
        report = Report()
        builtin = load_configuration(dict.fromkeys(("aws", "azure"), _FORGETFUL), environ={}, cwd=os.devnull)
        sources = {cloud.alone: cloud.source(running), RETRIED: cloud.source(running, report, builtin)}
        display.say("Discovering them, twice:")
        runs = []
        with display.live():
            for name, source in sources.items():
                running.reset()
                random.seed(seed)  # botocore draws its waits from here
                with closing(Inventory(folder, f"{cloud.name} {name}".lower().replace(" ", "-"))) as inventory:
                    runs.append(discover(name, running, source, inventory, display))
        met = buckets(cloud.metered(running), PACING.states())
    total = report.total
    runs[-1] = replace(runs[-1], counted=Counted(total.attempts, total.throttled, total.lost))
    display.table(table(cloud.name, running.resources, runs))
    if felt := limits_table(met):
        display.table(felt)
    for line in [*remarks(running.resources, runs), *about_limits(RETRIED, runs[-1].seconds, met)]:
        display.say(line)
    display.say()


def discover(name: str, running: Simulated, source: Source, inventory: Inventory, display: Display) -> Run:
    """Run the discovery once and write its inventory."""
    discovery = Discovery(source, inventory.add)
    started = time.monotonic()

    def watch() -> None:
        display.show(
            Standing(
                name=name,
                complete=inventory.complete,
                there=len(running.resources),
                calls=discovery.calls,
                throttled=running.counters()["throttled"],
                lost=len(discovery.lost),
                seconds=time.monotonic() - started,
            )
        )

    watch()
    discovery.run(watch)
    seconds = time.monotonic() - started
    watch()
    inventory.finish(discovery.lost)
    counters = running.counters()
    found = {tuple(line[part] for part in ("account", "region", "type", "id")): line["complete"] for line in inventory.read()}
    return Run(
        name=name,
        found=frozenset(found),
        complete=frozenset(key for key, complete in found.items() if complete),
        calls=discovery.calls,
        attempts=counters["accepted"] + counters["throttled"],
        throttled=counters["throttled"],
        lost=tuple(discovery.lost),
        seconds=seconds,
        lost_file=inventory.lost.name,
    )
