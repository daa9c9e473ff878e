"""Where the time of a discovery goes: for each account, region and operation what it called, and what throttles cost.

    python samples/throttle_report.py

runs a small discovery against a simulated AWS on this machine; no account is needed. It throttles sooner than AWS,
so that little is enough to show it. Your settings hold, so that you can watch what others do:

    CLOUDRETRY__AWS__MAX_DELAY=2s python samples/throttle_report.py

For a program of your own, hand `table()` the `report.operations` of your commands.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import boto3
from botocore.config import Config

from cloudretry import AwsApiCommand, Report
from cloudretry.simcloud import Limit, Rule, simulated_aws

THREADS = 8  # for each service and account: more of them are throttled more, and done no sooner
REGION = "us-east-1"
MOST = 30  # of each list
TEN_A_SECOND = Rule(service="*", actions=("*",), limit=Limit(10, 10), source="this sample")  # of each operation
HERE = Config(proxies={}, max_pool_connections=THREADS)
LISTS = (  # service, list, items, detail of each item, its argument, the item's key
    ("iam", "list_roles", "Roles", "list_attached_role_policies", "RoleName", "RoleName"),
    ("lambda", "list_functions", "Functions", "list_tags", "Resource", "FunctionArn"),
    ("s3", "list_buckets", "Buckets", "get_bucket_location", "Bucket", "Name"),
)


def command_for(account: str, aws_access_key_id: str, aws_secret_access_key: str) -> AwsApiCommand:
    """A command of a user of this account."""
    return AwsApiCommand(boto3.Session(aws_access_key_id, aws_secret_access_key), account=account)


def look(client: Any, operation: str, items: str, detail: str, argument: str, key: str) -> None:
    """List, and ask for the detail of each."""
    pages = client.get_paginator(operation).paginate(PaginationConfig={"MaxItems": MOST})
    with ThreadPoolExecutor(THREADS) as pool:
        for item in (item for page in pages for item in page[items]):
            # The error of a lost call is not looked at here: it is in the report.
            pool.submit(getattr(client, detail), **{argument: item[key]})


def table(reports: Iterable[Report]) -> Iterator[str]:
    """Lines of text, the operations that waited longest first."""
    counts = [each for report in reports for each in report.operations.items()]
    counts.sort(key=lambda each: (-each[1].waited, -each[1].throttled, str(each[0])))
    yield f"{'account':14}{'region':11}{'operation':32}{'calls':>7}{'attempts':>10}{'throttles':>11}{'waited':>10}{'lost':>6}"
    for call, count in counts:
        name = f"{call.service}:{call.operation}"
        numbers = f"{count.calls:>7}{count.attempts:>10}{count.throttled:>11}{count.waited:>8.1f} s{count.lost:>6}"
        yield f"{call.account or '-':14}{call.region or '-':11}{name:32}{numbers}"


def main() -> None:
    """Discover, and print the table."""
    os.environ.pop("AWS_PROFILE", None)  # the credentials are the simulated cloud's
    began = time.monotonic()
    with simulated_aws(accounts=2, regions=[REGION], limits=[TEN_A_SECOND]) as cloud, ThreadPoolExecutor() as pool:
        commands = [command_for(account, **cloud.credentials(account)) for account in cloud.accounts]
        clients = [
            (aws.client(what[0], REGION, endpoint_url=cloud.url, config=HERE), what) for what in LISTS for aws in commands
        ]
        work = [pool.submit(look, client, *what) for client, (_, *what) in clients]
        for done in work:
            done.result()
    for line in table(aws.report for aws in commands):
        print(line)
    print(f"{time.monotonic() - began:.1f} s in all, of which the waits of {THREADS} threads each ran side by side")


if __name__ == "__main__":
    main()
