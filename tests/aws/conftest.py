"""Clients on a loopback server, time that passes only when somebody waits, and the bodies that AWS sends per protocol."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config

from cloudretry import attach
from cloudretry.testing import virtual_clock


@pytest.fixture(autouse=True)
def unpaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Most tests are about retries, whose waits they count; those of pacing say so."""
    monkeypatch.setenv("CLOUDRETRY__AWS__PACING__MODE", "off")


@pytest.fixture
def clock() -> Iterator[Any]:
    with virtual_clock() as clock:
        yield clock


@pytest.fixture
def plain() -> Callable[..., Any]:
    """A boto3 client as it comes, on a server."""

    def make(service: str, server: Any, **options: Any) -> Any:
        if service == "s3":
            options["s3"] = {"addressing_style": "path"}
        session: Any = boto3.Session(region_name="eu-west-1")
        return session.client(service, endpoint_url=server.url, config=Config(**options))

    return make


@pytest.fixture
def hooked(plain: Callable[..., Any]) -> Callable[..., Any]:
    """A boto3 client under cloudretry, on a server; `aws` holds the settings of the entry."""

    def make(service: str, server: Any, aws: dict[str, Any] | None = None, **options: Any) -> Any:
        return attach(plain(service, server, **options), configuration={"aws": aws or {}})

    return make


def assume_a_role_at(sts: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the profile `role`, and nothing else, have credentials: those that this server gives."""
    Path(os.environ["AWS_CONFIG_FILE"]).write_text(
        "[profile base]\naws_access_key_id = AKIAIOSFODNN7EXAMPLE\naws_secret_access_key = fake\n"
        "[profile role]\nrole_arn = arn:aws:iam::111122223333:role/audit\nsource_profile = base\nregion = eu-west-1\n"
    )
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", sts.url)


@pytest.fixture
def throttle(Answer: Any) -> Callable[..., Any]:
    """How each protocol says that it is too much."""

    def make(service: str, headers: dict[str, str] | None = None) -> Any:
        status, body, extra = _THROTTLES[service]
        return Answer(status, body, {**extra, **(headers or {})})

    return make


@pytest.fixture
def answer(Answer: Any) -> Callable[..., Any]:
    """An answer that each protocol's parser likes."""
    return lambda service: Answer(200, _ANSWERS[service])


@pytest.fixture
def error(Answer: Any) -> Callable[..., Any]:
    """An error of a query service (sts, iam)."""

    def make(status: int, code: str) -> Any:
        return Answer(status, _query_error(code, "no"))

    return make


def _query_error(code: str, message: str) -> bytes:
    return (
        f"<ErrorResponse><Error><Type>Sender</Type><Code>{code}</Code><Message>{message}</Message></Error>"
        "<RequestId>00000000-0000-0000-0000-000000000001</RequestId></ErrorResponse>"
    ).encode()


_THROTTLES: dict[str, tuple[int, bytes, dict[str, str]]] = {
    "sts": (400, _query_error("Throttling", "Rate exceeded"), {}),
    "ec2": (
        503,
        (
            b"<Response><Errors><Error><Code>RequestLimitExceeded</Code><Message>Exceeded.</Message></Error></Errors>"
            b"<RequestID>00000000-0000-0000-0000-000000000002</RequestID></Response>"
        ),
        {},
    ),
    "dynamodb": (
        400,
        json.dumps({"__type": "com.amazon.coral.availability#ThrottlingException", "message": "Rate exceeded"}).encode(),
        {},
    ),
    "lambda": (429, b'{"message": "Rate exceeded"}', {"x-amzn-ErrorType": "TooManyRequestsException"}),
    "s3": (503, b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>", {}),
}

_ANSWERS = {
    "sts": b"<GetCallerIdentityResponse><GetCallerIdentityResult><Account>111122223333</Account></GetCallerIdentityResult>"
    b"</GetCallerIdentityResponse>",
    "ec2": b"<DescribeRegionsResponse><regionInfo/></DescribeRegionsResponse>",
    "dynamodb": b'{"TableNames": []}',
    "lambda": b'{"Functions": []}',
    "s3": b"<ListAllMyBucketsResult><Buckets/></ListAllMyBucketsResult>",
}
