"""What goes wrong beneath plain boto3, and what becomes of it under cloudretry: each row is run, both ways, on the wire.

    python -m benchmarks.holes

Prints a Markdown table. Waits take no time: botocore's sleep is left out, ours is taken by a virtual clock.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import boto3
import botocore
from botocore.config import Config

import cloudretry
from cloudretry.testing import virtual_clock
from tests.conftest import Answer, LoopbackServer

PAGE = b"<!DOCTYPE html><html><body>Service temporarily unavailable</body>"


def query_error(code: str) -> bytes:
    return f"<ErrorResponse><Error><Code>{code}</Code><Message>no</Message></Error></ErrorResponse>".encode()


def json_error(code: str) -> bytes:
    return json.dumps({"__type": code, "message": "no"}).encode()


STS = b"<Answer><GetCallerIdentityResult><Account>1</Account></GetCallerIdentityResult></Answer>"
EC2 = b"<Answer><regionInfo><item><regionName>eu-west-1</regionName></item></regionInfo></Answer>"
LIMIT = b"<Response><Errors><Error><Code>RequestLimitExceeded</Code><Message>no</Message></Error></Errors></Response>"
TABLES = b'{"TableNames": ["inventory"]}'


def identity(client: Any) -> str:
    return f"account {client.get_caller_identity()['Account']}"


def regions(client: Any) -> str:
    return f"{len(client.describe_regions()['Regions'])} regions"


def tables(client: Any) -> str:
    return f"tables {client.list_tables().get('TableNames', 'none: an empty answer')}"


def all_tables(client: Any) -> str:
    pages = client.get_paginator("list_tables").paginate()
    return f"{sum(len(page['TableNames']) for page in pages)} tables"


def table_exists(client: Any) -> str:
    client.get_waiter("table_exists").wait(TableName="inventory", WaiterConfig={"Delay": 0, "MaxAttempts": 1})
    return "waited to the end"


def create_user(client: Any) -> str:
    return str(client.create_user(UserName="user")["User"])


def stream(client: Any) -> str:
    return str(client.describe_stream_summary(StreamName="s")["StreamDescriptionSummary"])


def create_stream(client: Any) -> str:
    return str(client.create_stream(StreamName="s", ShardCount=1))


@dataclass(frozen=True)
class Hole:
    """One row: what the server says in order, the last answer for ever, and the call that meets it."""

    name: str
    service: str
    call: Callable[[Any], str]
    script: list[Answer]
    options: dict[str, Any] = field(default_factory=dict)


def page(number: int) -> Answer:
    return Answer(200, b'{"TableNames": ["tab%d"], "LastEvaluatedTableName": "tab%d"}' % (number, number))


HOLES = [
    Hole("throttled four times in a row", "ec2", regions, [*[Answer(503, LIMIT)] * 4, Answer(200, EC2)]),
    Hole(
        "page 3 of 5 is throttled six times",
        "dynamodb",
        all_tables,
        [page(1), page(2), *[Answer(400, json_error("ThrottlingException"))] * 6, page(3), page(4), Answer(200, TABLES)],
    ),
    Hole(
        "a waiter's poll is throttled four times",
        "dynamodb",
        table_exists,
        [*[Answer(400, json_error("ThrottlingException"))] * 4, Answer(200, b'{"Table": {"TableStatus": "ACTIVE"}}')],
    ),
    Hole("429 with an HTML page, query protocol", "sts", identity, [Answer(429, PAGE), Answer(200, STS)]),
    Hole("429 with an empty body, query protocol", "sts", identity, [Answer(429, b""), Answer(200, STS)]),
    Hole("503 with an HTML page, ec2 protocol", "ec2", regions, [Answer(503, PAGE), Answer(200, EC2)]),
    Hole(
        "an answer cut in the middle, JSON",
        "dynamodb",
        tables,
        [Answer(200, TABLES[:-4], {"Content-Length": str(len(TABLES)), "Connection": "close"}), Answer(200, TABLES)],
    ),
    Hole("a proxy's page with status 200, JSON", "dynamodb", tables, [Answer(200, PAGE), Answer(200, TABLES)]),
    Hole(
        "DynamoDB data whose checksum is wrong, for ever",
        "dynamodb",
        tables,
        [Answer(200, b'{"TableNames": ["damaged"]}', {"x-amz-crc32": "1"})],
    ),
    Hole(
        "LimitExceededException for a read (Kinesis), twice",
        "kinesis",
        stream,
        [*[Answer(400, json_error("LimitExceededException"))] * 2, Answer(200, b'{"StreamDescriptionSummary": {}}')],
    ),
    *(
        Hole(f"{code}, status 400, twice", "dynamodb", tables, [*[Answer(400, json_error(code))] * 2, Answer(200, TABLES)])
        for code in ("RateLimitExceededException", "KMSThrottlingException", "SlowDownException")
    ),
    Hole("the connection is lost after a change was sent", "iam", create_user, [Answer(reset=True)]),
    Hole(
        "LimitExceededException for a change (Kinesis): a quota",
        "kinesis",
        create_stream,
        [Answer(400, json_error("LimitExceededException"))],
    ),
    Hole(
        "adaptive mode, throttled five times",
        "sts",
        identity,
        [*[Answer(400, query_error("Throttling"))] * 5, Answer(200, STS)],
        {"retries": {"mode": "adaptive"}},
    ),
]


def client(hole: Hole, url: str) -> Any:
    session: Any = boto3.Session("AKIAIOSFODNN7EXAMPLE", "fake", region_name="eu-west-1")
    return session.client(hole.service, endpoint_url=url, config=Config(**hole.options))


def outcome(hole: Hole, *, under_cloudretry: bool) -> str:
    with LoopbackServer(list(hole.script)) as server:
        one = client(hole, server.url)
        if under_cloudretry:
            cloudretry.attach(one, configuration={})
        try:
            with virtual_clock(), patch("botocore.endpoint.time.sleep"):
                result = hole.call(one)
        except Exception as error:  # noqa: BLE001 - the row shows it
            code = (getattr(error, "response", None) or {}).get("Error", {}).get("Code", "")
            result = f"**{type(error).__name__}{f' ({code})' if code else ''}**"
        return f"{result}; {len(server.requests)} requests"


def main() -> None:
    for name in [name for name in os.environ if name.startswith("AWS_") or name.upper().endswith("_PROXY")]:
        del os.environ[name]
    os.environ["AWS_EC2_METADATA_DISABLED"] = "true"
    started = time.monotonic()
    print(f"boto3 {boto3.__version__}, botocore {botocore.__version__}, default settings of both\n")
    print("| what happens | plain boto3 | under cloudretry |\n|---|---|---|")
    for hole in HOLES:
        plain, ours = (outcome(hole, under_cloudretry=under) for under in (False, True))
        print(f"| {hole.name} | {plain} | {ours} |")
    print(f"\n{time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    main()
