"""Finds what is in your AWS accounts and says what it could not see. Copy it and put your own services into LISTINGS.

    python discover_aws.py                                                    # the account of your credentials
    python discover_aws.py --organization --role Audit --regions eu-west-1 us-east-1
    python discover_aws.py --accounts 111122223333 444455556666 --role Audit --out today

Writes OUT.jsonl, and OUT.sqlite with two tables: `resources`, and `coverage`, which says for each account, region and type
whether the list is complete, partial or denied. Let a CMDB retire only what is missing from a *complete* list:

    select c.id from cmdb c join coverage s on (s.account, s.region, s.type) = (c.account, c.listed_in, c.type)
    where s.status = 'complete' and (c.account, c.listed_in, c.type, c.id) not in
    (select account, listed_in, type, id from resources)

Exit codes: 0 all was seen, but for what was denied; 1 it could not begin or broke; 2 it was called wrongly, or OUT exists;
3 calls were lost, some lists are partial. With AWS_ENDPOINT_URL it runs against a simulated cloud: cloudretry simulate aws.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import boto3
from botocore import credentials, session
from botocore.exceptions import BotoCoreError, ClientError
from botocore.loaders import Loader

from cloudretry import AwsApiCommand, CloudRetryError, interleave

# service → its lists: operation, way to the items of a page, type, key of the id, page size.
# EC2 throttles calls without a page size sooner; S3 tells the buckets' regions only with one.
LISTINGS: dict[str, list[tuple[str, str, str, str, int | None]]] = {
    "iam": [("list_roles", "Roles", "iam:role", "RoleName", None), ("list_users", "Users", "iam:user", "UserName", None)],
    "s3": [("list_buckets", "Buckets", "s3:bucket", "Name", 1000)],
    "lambda": [("list_functions", "Functions", "lambda:function", "FunctionName", None)],
    "rds": [("describe_db_instances", "DBInstances", "rds:db", "DBInstanceIdentifier", None)],
    "ec2": [
        ("describe_instances", "Reservations.Instances", "ec2:instance", "InstanceId", 200),
        ("describe_volumes", "Volumes", "ec2:volume", "VolumeId", 200),
        ("describe_security_groups", "SecurityGroups", "ec2:security-group", "GroupId", 200),
        ("describe_vpcs", "Vpcs", "ec2:vpc", "VpcId", 200),
        ("describe_subnets", "Subnets", "ec2:subnet", "SubnetId", 200),
    ],
}
WITHOUT_REGIONS = {"iam", "s3"}  # are asked once; their lists have the region "global"
DENIED = {"AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "AuthFailure", "OptInRequired",
          "UnrecognizedClientException", "InvalidClientTokenId"}  # fmt: skip  # the last three: a region that is not enabled
RESOURCE = ("account", "region", "type", "id", "listed_in", "details")
SCHEMA = f"""
create table resources ({", ".join(RESOURCE)}, primary key (account, region, type, id));
create table coverage (account, region, type, status, pages, reason, primary key (account, region, type));
"""
MODELS = Loader()  # one for all sessions, so that the descriptions of the services are read once
Row = tuple[Any, ...]


def session_as(role: str, source: Any, region: str) -> boto3.Session:
    """A session whose credentials botocore fetches by AssumeRole, and renews; cloudretry retries these calls too."""
    core = session.Session()
    core.register_component("data_loader", MODELS)
    fetcher = credentials.AssumeRoleCredentialFetcher(core.create_client, source, role, {"RoleSessionName": "discover-aws"})
    assumed = credentials.DeferredRefreshableCredentials(fetcher.fetch_credentials, "assume-role")
    core.register_component("credential_provider", SimpleNamespace(load_credentials=lambda: assumed))
    return boto3.Session(botocore_session=core, region_name=region)


def commands_for(args: argparse.Namespace) -> dict[str, AwsApiCommand]:
    """One command for each account; the caller's own account needs no role. Fills in the regions."""
    base = boto3.Session()
    args.home = base.region_name or "us-east-1"
    own = AwsApiCommand(lambda: base)
    enabled = own.execute("ec2", "describe_regions", region_name=args.home)["Regions"] if not args.regions else []
    args.regions = args.regions or sorted(region["RegionName"] for region in enabled)
    me = own.execute("sts", "get_caller_identity", region_name=args.home)
    accounts = args.accounts or [me["Account"]]
    if args.organization:
        pages = own.paginate("organizations", "list_accounts", region_name=args.home)
        accounts = [account["Id"] for page in pages for account in page["Accounts"] if account["Status"] == "ACTIVE"]
    role, source = f"arn:{me['Arn'].split(':')[1]}:iam::{{}}:role/{args.role}", base.get_credentials()
    return {
        account: own
        if account == me["Account"]
        else AwsApiCommand(partial(session_as, role.format(account), source, args.home), account=account)
        for account in accounts
    }


def discover(aws: AwsApiCommand, account: str, region: str, service: str, home: str) -> tuple[list[Row], list[Row]]:
    """Resources and coverage of all lists of a service. A list that breaks off keeps what was seen of it."""
    resources, coverage = [], []
    with closing(aws.client(service, region_name=home if region == "global" else region)) as client:
        for operation, path, kind, key, size in LISTINGS[service]:
            pages, status, reason = 0, "complete", ""
            try:
                for page in client.get_paginator(operation).paginate(PaginationConfig={"PageSize": size}):
                    for item in items(page, path):
                        place = bucket_region(client, item) if kind == "s3:bucket" else region
                        resources.append((account, place, kind, item[key], region, json.dumps(item, default=str)))
                    pages += 1
            except (ClientError, BotoCoreError) as error:
                denied = isinstance(error, ClientError) and error.response["Error"]["Code"] in DENIED
                status, reason = ("denied" if denied and not pages else "partial"), str(error)
            coverage.append((account, region, kind, status, pages, reason))
    return resources, coverage


def items(page: dict[str, Any], path: str) -> list[dict[str, Any]]:
    """What a page holds."""
    found = [page]
    for name in path.split("."):
        found = [item for outer in found for item in outer.get(name, ())]
    return found


def bucket_region(client: Any, bucket: dict[str, Any]) -> str:
    """AWS tells it in the list; simulated clouds have to be asked."""
    told = bucket.get("BucketRegion") or client.get_bucket_location(Bucket=bucket["Name"])["LocationConstraint"]
    return told or "us-east-1"


def run(commands: dict[str, AwsApiCommand], args: argparse.Namespace, database: sqlite3.Connection) -> None:
    """Do all the work, on threads; this one writes. Ctrl-C waits for the lists that are under way."""
    tasks = [
        (account, region, service)
        for account in commands
        for service in LISTINGS
        for region in (["global"] if service in WITHOUT_REGIONS else args.regions)
    ]
    # Accounts and regions are metered apart: threads that work off one after the other would all wait for the same quota.
    plan = list(interleave(tasks, quota=lambda task: task[:2]))
    # A run that dies must leave no list that looks complete.
    unfinished = ("partial", 0, "not finished")
    write(database, "coverage", [(*at, kind, *unfinished) for *at, service in plan for _, _, kind, _, _ in LISTINGS[service]])
    pool, found = ThreadPoolExecutor(args.threads), 0
    work = [pool.submit(discover, commands[account], account, region, service, args.home) for account, region, service in plan]
    try:
        with Path(f"{args.out}.jsonl").open("x", encoding="utf-8") as lines:
            for number, item in enumerate(as_completed(work), 1):
                resources, coverage = item.result()
                lines.writelines(json.dumps(dict(zip(RESOURCE, row, strict=True))) + "\n" for row in resources)
                write(database, "resources", resources)
                write(database, "coverage", coverage)
                found += len(resources)
                tell(f"{number}/{len(work)} done, {found} resources", commands.values(), "\n" if number == len(work) else "")
    finally:
        pool.shutdown(cancel_futures=True)


def write(database: sqlite3.Connection, table: str, rows: list[Row]) -> None:
    """Add rows, or put them in the place of those with the same key."""
    with database:
        database.executemany(f"insert or replace into {table} values (?, ?, ?, ?, ?, ?)", rows)  # noqa: S608 - our own names


def tell(done: str, commands: Iterable[AwsApiCommand], end: str) -> None:
    """A line of progress, on a terminal."""
    if sys.stderr.isatty():
        totals = [aws.report.total for aws in commands]
        calls, throttled, lost = (sum(getattr(one, name) for one in totals) for name in ("calls", "throttled", "lost"))
        print(f"\r{done}, {calls} calls, {throttled} throttled, {lost} lost", end=end, file=sys.stderr, flush=True)


def arguments() -> argparse.Namespace:
    """What the command line asks for; exits where that can't be."""
    parser = argparse.ArgumentParser(description="Finds what is in your AWS accounts and says what it could not see.")
    parser.add_argument("--accounts", nargs="+", help="their ids; left out: your own")
    parser.add_argument("--organization", action="store_true", help="all active accounts of organizations:ListAccounts")
    parser.add_argument("--role", help="name of the role to assume in other accounts")
    parser.add_argument("--regions", nargs="+", help="left out: those that your own account has enabled")
    parser.add_argument("--out", default="inventory", help="name of the files, without their endings")
    parser.add_argument("--threads", type=int, default=16)
    args = parser.parse_args()
    if (args.accounts or args.organization) and not args.role:
        parser.error("other accounts need --role")
    if there := [name for name in (f"{args.out}.jsonl", f"{args.out}.sqlite") if Path(name).exists()]:
        parser.exit(2, f"{there[0]} exists; choose another --out\n")
    return args


def main() -> int:
    """Run it, list the holes, and sum up."""
    args = arguments()
    try:
        commands = commands_for(args) or sys.exit("no account to look at")
    except (BotoCoreError, ClientError, CloudRetryError) as error:  # no credentials, not allowed, a broken configuration
        sys.exit(str(error))
    Path(args.out).parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(f"{args.out}.sqlite")) as database:
        database.executescript(SCHEMA)
        run(commands, args, database)
        holes = database.execute("select * from coverage where status <> 'complete' order by status desc, 1, 2, 3").fetchall()
        ((found,),) = database.execute("select count(*) from resources")
        counts = dict(database.execute("select status, count(*) from coverage group by 1"))
    for account, region, kind, status, pages, reason in holes:
        print(f"{status}: {account} {region} {kind}, {pages} pages seen: {reason}")
    lists = ", ".join(f"{counts.get(status, 0)} {status}" for status in ("complete", "partial", "denied"))
    print(f"{args.out}.jsonl, {args.out}.sqlite: {found} resources; lists: {lists}")
    return 3 if counts.get("partial") else 0


if __name__ == "__main__":
    sys.exit(main())
