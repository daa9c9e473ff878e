"""samples/discover_azure.py finds exactly what is there, on threads and on a loop, and says what it could not see."""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from cloudretry.simcloud import UNLIMITED, AzureRule, Limit, RetryAfter, SimulatedAzure, simulated_azure

LIMITS = (
    AzureRule(provider="Microsoft.Resources", operations=("GET res*",), limit=Limit(2, 20), source="this test"),
    AzureRule(provider="Microsoft.Compute", operations=("GET *",), limit=Limit(1, 20), source="this test"),
    AzureRule(provider="Microsoft.ResourceGraph", operations=("POST *",), limit=Limit(1, 20), source="this test"),
)
SOON = RetryAfter(seconds=0.05, headers=("retry-after-ms",))
NEVER = AzureRule(provider="Microsoft.Compute", operations=("GET *",), limit=Limit(1, 0), source="this test")
HURRY = {f"CLOUDRETRY__AZURE__{name}": "10ms" for name in ("BASE_DELAY", "MAX_DELAY", "ADDITIONAL_DELAY_WINDOW")}
GROUP, MACHINE = "Microsoft.Resources/resourceGroups", "Microsoft.Compute/virtualMachines"
LISTS: dict[str, Callable[[str], bool]] = {
    "resource groups": lambda kind: kind == GROUP,
    "resources": lambda kind: kind != GROUP,
    "virtual machines": lambda kind: kind == MACHINE,
    "Resource Graph": lambda kind: kind != GROUP,
}
# The SQL of the sample's docstring.
RETIRE = """
select c.id from cmdb c join coverage s using (subscription, list)
where s.status = 'complete' and (c.subscription, c.list, c.id) not in (select subscription, list, id from resources)
"""

pytestmark = pytest.mark.wire


@pytest.fixture(scope="module")
def azure() -> Iterator[SimulatedAzure]:
    with simulated_azure(subscriptions=2, size=0.3, page_size=5, limits=LIMITS, retry_after=[SOON]) as running:
        yield running


def rows(folder: Path, sql: str, name: str = "inventory") -> list[Any]:
    with closing(sqlite3.connect(folder / f"{name}.sqlite")) as database:
        return database.execute(sql).fetchall()


def there(azure: SimulatedAzure) -> set[tuple[str, str, str]]:
    """What each list should hold."""
    return {
        (subscription, name, resource)
        for subscription, _, kind, resource in azure.resources
        for name, holds in LISTS.items()
        if holds(kind)
    }


def environment(azure: SimulatedAzure) -> dict[str, str]:
    return azure.environment() | HURRY


def test_throttled_on_threads_and_on_a_loop_it_finds_what_there_is_without_limits(
    azure: SimulatedAzure, run_sample: Any, tmp_path: Path
) -> None:
    with simulated_azure(subscriptions=2, size=0.3, page_size=5, limits=UNLIMITED) as free:
        assert free.resources == azure.resources  # the same seed
        unthrottled = run_sample("discover_azure.py", "--out", "free", environment=environment(free))
        assert free.counters()["throttled"] == 0
    found = rows(tmp_path, "select * from resources order by 1, 2, 3", "free")
    assert {row[:3] for row in found} == there(azure)
    assert unthrottled.stdout.splitlines()[:-1] == [*_counts(azure), "complete; lists: 8 complete, 0 partial, 0 denied"]
    for name, aio in {"threads": (), "loop": ("--aio",)}.items():
        azure.reset()
        done = run_sample("discover_azure.py", *aio, "--out", name, environment=environment(azure))
        assert (done.returncode, done.stderr) == (0, "")
        assert azure.counters()["throttled"] > 0
        assert rows(tmp_path, "select * from resources order by 1, 2, 3", name) == found
        assert done.stdout.splitlines()[:-1] == unthrottled.stdout.splitlines()[:-1]
        assert re.fullmatch(rf"{name}.sqlite; \d+ calls, [1-9]\d* throttled, 0 lost", done.stdout.splitlines()[-1])


def _counts(azure: SimulatedAzure) -> list[str]:
    counts = Counter(one[:2] for one in there(azure))
    return [
        f"{subscription}: " + ", ".join(f"{counts[subscription, name]} {name}" for name in sorted(LISTS))
        for subscription in sorted(azure.subscriptions)
    ]


@pytest.mark.parametrize("aio", [(), ("--aio",)], ids=["threads", "aio"])
def test_a_lost_call_makes_a_partial_list_advice_and_an_exit_code(
    run_sample: Any, tmp_path: Path, aio: tuple[str, ...]
) -> None:
    later = RetryAfter(match="Microsoft.Compute:*", seconds=900)  # longer than anybody waits
    with simulated_azure(subscriptions=1, size=0.5, page_size=5, limits=[NEVER], retry_after=[later]) as azure:
        done = run_sample("discover_azure.py", *aio, environment=environment(azure))
        (one,) = azure.subscriptions
        known = there(azure)
    assert done.returncode == 3, done.stderr
    _, hole, advice, total, calls = done.stdout.splitlines()
    assert hole.startswith(f"partial: {one} virtual machines, 1 pages seen: Microsoft.Compute:GET virtualMachines@{one}")
    assert "reason=max_header_delay" in hole
    assert re.fullmatch(rf"  what to do: run again with --subscriptions {one}, not before \d\d \w+ \d\d:\d\d:\d\d UTC", advice)
    assert total == "INCOMPLETE; lists: 3 complete, 1 partial, 0 denied"
    assert calls.endswith("1 lost")
    found = {row[:3] for row in rows(tmp_path, "select * from resources")}
    assert found < known
    assert {name for _, name, _ in known - found} == {"virtual machines"}
    assert _retired(tmp_path, known) == ["gone from resources"]


def _retired(folder: Path, known: set[tuple[str, str, str]]) -> list[str]:
    """What a CMDB would retire that knows all there is, and things that are gone: from two lists, and where nobody looked."""
    ((one, *_), *_) = known
    gone = [(one, name, f"gone from {name}") for name in ("resources", "virtual machines")]
    with closing(sqlite3.connect(folder / "inventory.sqlite")) as database, database:
        database.execute("create table cmdb (subscription, list, id)")
        database.executemany(
            "insert into cmdb values (?, ?, ?)", [*known, *gone, ("elsewhere", "resources", "gone from there")]
        )
    return sorted(name for (name,) in rows(folder, RETIRE))


def test_what_is_forbidden_is_denied_and_no_loss(azure: SimulatedAzure, run_sample: Any, tmp_path: Path) -> None:
    azure.reset()
    nobodys = "00000000-0000-4000-8000-000000000000"
    done = run_sample("discover_azure.py", "--subscriptions", azure.subscriptions[0], nobodys, environment=environment(azure))
    assert done.returncode == 0, done.stderr
    assert rows(tmp_path, "select subscription, list, pages from coverage where status = 'denied' order by 2") == [
        (nobodys, name, 0) for name in sorted(set(LISTS) - {"Resource Graph"})
    ]
    assert "what to do: check the id, and that this identity has the role Reader there" in done.stdout
    assert "INCOMPLETE; lists: 5 complete, 0 partial, 3 denied" in done.stdout


@pytest.mark.parametrize("aio", [(), ("--aio",)], ids=["threads", "aio"])
def test_without_a_credential_that_holds_it_says_so_and_leaves_nothing(
    azure: SimulatedAzure, run_sample: Any, tmp_path: Path, aio: tuple[str, ...]
) -> None:
    wrong = environment(azure) | {"AZURE_CLIENT_SECRET": "fake-secret"}
    done = run_sample("discover_azure.py", *aio, environment=wrong)
    assert (done.returncode, done.stdout) == (1, "")
    assert "AADSTS7000215" in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.glob("inventory*")) == []


def test_an_inventory_is_never_overwritten(run_sample: Any, tmp_path: Path) -> None:
    (tmp_path / "today.sqlite").write_text("of yesterday")
    done = run_sample("discover_azure.py", "--out", "today")
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "today.sqlite exists; choose another --out\n")
    assert (tmp_path / "today.sqlite").read_text() == "of yesterday"
