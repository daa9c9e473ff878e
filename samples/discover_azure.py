"""Finds what is in your Azure subscriptions and says what it could not see. Copy it and put your own lists into `calls`.

    python discover_azure.py                                        # all subscriptions that your identity sees
    python discover_azure.py --subscriptions ID ID --out today --aio

Needs azure-identity, azure-mgmt-compute, azure-mgmt-resource and azure-mgmt-resourcegraph; from azure-mgmt-resource 26 on also
azure-mgmt-resource-subscriptions; for --aio aiohttp. It signs in with what DefaultAzureCredential finds.

Writes OUT.sqlite with two tables: `resources`, and `coverage`, which says for each subscription and list whether the list is
complete, partial or denied. Let a CMDB retire only what is missing from a *complete* list:

    select c.id from cmdb c join coverage s using (subscription, list)
    where s.status = 'complete' and (c.subscription, c.list, c.id) not in (select subscription, list, id from resources)

but nothing for "Resource Graph" alone, which is minutes behind the others.

Exit codes: 0 all was seen, but for what was denied; 1 it could not begin or broke; 2 it was called wrongly, or OUT exists;
3 calls were lost, some lists are partial. A simulated cloud will do too: cloudretry simulate azure prints what leads there.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sqlite3
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import AsyncExitStack, ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from azure import identity
from azure.core.exceptions import AzureError, HttpResponseError
from azure.identity import aio as identity_aio
from azure.mgmt import compute, resourcegraph
from azure.mgmt.compute import aio as compute_aio

# These two hold for every azure-mgmt-resource; 26 has no more `from azure.mgmt.resource import ResourceManagementClient`.
from azure.mgmt.resource import resources, subscriptions
from azure.mgmt.resource.resources import aio as resources_aio
from azure.mgmt.resource.subscriptions import aio as subscriptions_aio
from azure.mgmt.resourcegraph import aio as resourcegraph_aio
from azure.mgmt.resourcegraph.models import QueryRequest, QueryRequestOptions

from cloudretry import AzureApiCommand, CloudRetryError, Report, history, interleave

GRAPH, GROUPS, MACHINES, RESOURCES = "Resource Graph", "resource groups", "virtual machines", "resources"
QUERY = "resources | project id, type, location, name, resourceGroup, tags, properties"
DENIED = {401, 403, 404}  # 404: no such subscription, for this identity
SCHEMA = """
create table resources (subscription, list, id, type, location, details, primary key (subscription, list, id));
create table coverage (subscription, list, status, pages, reason, advice, primary key (subscription, list));
"""
Row = tuple[Any, ...]


def calls(*, aio: bool) -> dict[str, tuple[type, str]]:
    """List → whom to ask, and for what."""
    manager = resources_aio.ResourceManagementClient if aio else resources.ResourceManagementClient
    machines = compute_aio.ComputeManagementClient if aio else compute.ComputeManagementClient
    graph = resourcegraph_aio.ResourceGraphClient if aio else resourcegraph.ResourceGraphClient
    return {
        GROUPS: (manager, "resource_groups.list"),
        RESOURCES: (manager, "resources.list"),
        MACHINES: (machines, "virtual_machines.list_all"),
        GRAPH: (graph, "resources"),  # no pages, but a token for the next call
    }


@dataclass
class Seen:
    """What was seen of a list. One that breaks off keeps what it has."""

    az: AzureApiCommand
    name: str
    pages: int = 0
    items: list[Any] = field(default_factory=list)
    error: AzureError | None = None
    token: str | None = None

    def add(self, page: Iterable[Any]) -> None:
        """One page more."""
        self.items.extend(page)
        self.pages += 1

    def query(self) -> QueryRequest:
        """For the next page. Of one subscription, so that a hole has its place."""
        options = QueryRequestOptions(skip_token=self.token, result_format="objectArray")
        return QueryRequest(query=QUERY, subscriptions=[self.az.subscription_id or ""], options=options)

    def has_more(self, answer: Any) -> bool:
        """Add Resource Graph's answer; whether there is another page."""
        self.add(answer.data)
        self.token = answer.skip_token
        if answer.result_truncated == "true" and not self.token:
            raise AzureError("the answer was cut short, and has no token for the rest")
        return bool(self.token)

    def rows(self) -> list[Row]:
        """For the table `resources`."""
        found = [item if isinstance(item, dict) else item.as_dict() for item in self.items]
        where = self.az.subscription_id, self.name
        return [(*where, one["id"], one["type"], one.get("location"), json.dumps(one, default=str)) for one in found]

    def coverage(self) -> Row:
        """For the table of this name: how far the list goes, why no farther, and what to do."""
        where = self.az.subscription_id, self.name
        if self.error is None:
            return *where, "complete", self.pages, "", ""
        told = history(self.error)
        reason = str(told or self.error).partition("\n")[0]
        if isinstance(self.error, HttpResponseError) and self.error.status_code in DENIED and not self.pages:
            return *where, "denied", 0, reason, "check the id, and that this identity has the role Reader there"
        later = f", not before {told.retry_at:%d %B %H:%M:%S} UTC" if told and told.retry_at else ""
        return *where, "partial", self.pages, reason, f"run again with --subscriptions {self.az.subscription_id}{later}"


def read(az: AzureApiCommand, name: str, client: type, operation: str) -> Seen:
    """A list, as far as it comes."""
    seen = Seen(az, name)
    try:
        if name == GRAPH:
            while seen.has_more(az.execute(client, operation, seen.query())):
                pass
        else:
            for page in az.execute(client, operation).by_page():
                seen.add(page)
    except AzureError as error:
        seen.error = error
    return seen


async def read_aio(az: AzureApiCommand, name: str, client: type, operation: str) -> Seen:
    """The same on the loop."""
    seen = Seen(az, name)
    try:
        if name == GRAPH:
            while seen.has_more(await az.execute(client, operation, seen.query())):
                pass
        else:
            async for page in az.execute(client, operation).by_page():
                seen.add([item async for item in page])
    except AzureError as error:
        seen.error = error
    return seen


def discover(args: argparse.Namespace, report: Report, database: sqlite3.Connection) -> None:
    """Read all lists, on threads; this one writes."""
    with ExitStack() as stack:
        credential = stack.enter_context(identity.DefaultAzureCredential())
        tenant = stack.enter_context(AzureApiCommand(credential, report=report))
        ids = args.subscriptions or ids_in(
            read(tenant, "subscriptions", subscriptions.SubscriptionClient, "subscriptions.list")
        )
        commands = [stack.enter_context(AzureApiCommand(credential, each, report=report)) for each in ids]
        plan = planned(commands, database, aio=False)
        pool = stack.enter_context(ThreadPoolExecutor(args.at_once))
        for done in as_completed([pool.submit(read, *work) for work in plan]):
            save(done.result(), database)


async def discover_aio(args: argparse.Namespace, report: Report, database: sqlite3.Connection) -> None:
    """The same on the loop."""
    turns = asyncio.Semaphore(args.at_once)

    async def in_turn(work: tuple[AzureApiCommand, str, type, str]) -> Seen:
        async with turns:
            return await read_aio(*work)

    async with AsyncExitStack() as stack:
        credential = await stack.enter_async_context(identity_aio.DefaultAzureCredential())
        tenant = await stack.enter_async_context(AzureApiCommand(credential, report=report))
        ids = args.subscriptions or ids_in(
            await read_aio(tenant, "subscriptions", subscriptions_aio.SubscriptionClient, "subscriptions.list")
        )
        commands = [await stack.enter_async_context(AzureApiCommand(credential, each, report=report)) for each in ids]
        for done in asyncio.as_completed([in_turn(work) for work in planned(commands, database, aio=True)]):
            save(await done, database)


def ids_in(seen: Seen) -> list[str]:
    """The subscriptions of this list. Without the whole of it there is no beginning."""
    if seen.error is not None:
        raise seen.error
    if not seen.items:
        raise AzureError("no subscription to look at")
    return [item.subscription_id for item in seen.items]


def planned(
    commands: list[AzureApiCommand], database: sqlite3.Connection, *, aio: bool
) -> list[tuple[AzureApiCommand, str, type, str]]:
    """The arguments of each `read`, so that the quotas of the subscriptions are drawn on in turns."""
    tasks = [(az, name, *whom) for az in commands for name, whom in calls(aio=aio).items()]
    plan = list(interleave(tasks, quota=lambda task: task[0].subscription_id))
    # A run that dies must leave no list that looks complete.
    write(
        database, "coverage", [(az.subscription_id, name, "partial", 0, "not finished", "run again") for az, name, *_ in plan]
    )
    return plan


def save(seen: Seen, database: sqlite3.Connection) -> None:
    """What a list holds, and how far it goes."""
    write(database, "resources", seen.rows())
    write(database, "coverage", [seen.coverage()])


def write(database: sqlite3.Connection, table: str, rows: list[Row]) -> None:
    """Add rows, or put them in the place of those with the same key."""
    with database:
        database.executemany(f"insert or replace into {table} values (?, ?, ?, ?, ?, ?)", rows)  # noqa: S608 - our own names


def tell(database: sqlite3.Connection) -> int:
    """Counts, holes, and whether the whole is complete; returns the exit code."""
    totals = "select subscription, list, count(id) from coverage left join resources using (subscription, list) group by 1, 2"
    counts: dict[str, list[str]] = {}
    for subscription, name, count in database.execute(totals):
        counts.setdefault(subscription, []).append(f"{count} {name}")
    for subscription, found in counts.items():
        print(f"{subscription}: {', '.join(found)}")
    holes = "select * from coverage where status <> 'complete' order by status desc, 1, 2"
    for subscription, name, status, pages, reason, advice in database.execute(holes):
        print(f"{status}: {subscription} {name}, {pages} pages seen: {reason}\n  what to do: {advice}")
    lists = dict(database.execute("select status, count(*) from coverage group by 1"))
    summed = ", ".join(f"{lists.get(status, 0)} {status}" for status in ("complete", "partial", "denied"))
    print(f"{'complete' if lists.keys() == {'complete'} else 'INCOMPLETE'}; lists: {summed}")
    return 3 if "partial" in lists else 0


def arguments() -> argparse.Namespace:
    """What the command line asks for; exits where that can't be."""
    parser = argparse.ArgumentParser(description="Finds what is in your Azure subscriptions and says what it could not see.")
    parser.add_argument("--subscriptions", nargs="+", metavar="ID", help="left out: all that your identity sees")
    parser.add_argument("--aio", action="store_true", help="on an event loop instead of threads")
    parser.add_argument("--at-once", type=int, default=16, metavar="N", help="how many lists are read at a time; 16")
    parser.add_argument("--out", default="inventory", help="name of the file, without its ending")
    args = parser.parse_args()
    if Path(f"{args.out}.sqlite").exists():
        parser.exit(2, f"{args.out}.sqlite exists; choose another --out\n")
    return args


def main() -> int:
    """Run it, and sum up."""
    args, report = arguments(), Report()
    file = Path(f"{args.out}.sqlite")
    file.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(file)) as database:
        database.executescript(SCHEMA)
        try:
            asyncio.run(discover_aio(args, report, database)) if args.aio else discover(args, report, database)
        except (AzureError, CloudRetryError) as error:  # no credentials, not allowed, a broken configuration
            file.unlink()
            sys.exit(str(error))
        code = tell(database)
    total = report.total
    print(f"{file}; {total.calls} calls, {total.throttled} throttled, {total.lost} lost")
    return code


if __name__ == "__main__":
    sys.exit(main())
