"""Simulated AWS servers, started once for all tests of this folder, and clients that never retry."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import cache
from typing import Any

import boto3
import pytest
from botocore.config import Config

from cloudretry.simcloud import UNLIMITED, Limit, RetryAfter, Rule, SimulatedAws, simulated_aws

REGIONS = ("eu-west-1", "us-east-1")
ONE_EACH = (Rule(service="*", actions=("*",), limit=Limit(1, 0), source="this test"),)
WAITS = (RetryAfter(match="ec2", seconds=2), RetryAfter(match="rds"))  # whose buckets here never fill

SMALL = 0.25

Connect = Callable[..., Any]


@pytest.fixture(scope="session")
def _servers() -> Iterator[list[SimulatedAws]]:
    contexts = (
        simulated_aws(accounts=2, regions=REGIONS, size=SMALL, limits=UNLIMITED),
        simulated_aws(seed=7, accounts=1, regions=REGIONS[:1], limits=ONE_EACH, latency=0.02, retry_after=WAITS),
    )
    with ExitStack() as stack, ThreadPoolExecutor() as pool:
        yield list(pool.map(stack.enter_context, contexts))  # at once: each takes a second or two


@pytest.fixture(scope="session")
def aws(_servers: list[SimulatedAws]) -> SimulatedAws:
    """Two accounts, two regions, few resources, no throttling. Tests may add S3 objects, but no resources."""
    return _servers[0]


@pytest.fixture
def strict(_servers: list[SimulatedAws]) -> SimulatedAws:
    """Admits each action once, until it is reset; the same server, reset, for every test."""
    _servers[1].reset()
    return _servers[1]


@pytest.fixture(scope="session")
def session() -> boto3.Session:
    """One for all tests: it has read the service models already."""
    return boto3.Session("AKIAIOSFODNN7EXAMPLE", "secret", region_name=REGIONS[0])


@pytest.fixture(scope="session")
def connect(session: boto3.Session) -> Connect:
    """`connect(server, service)` is a client of the first account that attempts once; the same for the same arguments."""
    once = Config(retries={"total_max_attempts": 1})

    @cache
    def client(url: str, service: str, region: str, keys: frozenset[tuple[str, str]]) -> Any:
        return session.client(service, region_name=region, endpoint_url=url, config=once, **dict(keys))  # type: ignore[call-overload]

    def find(server: SimulatedAws, service: str, *, account: str = "", region: str = REGIONS[0], **keys: str) -> Any:
        known = keys or server.credentials(account or server.accounts[0])
        return client(server.url, service, region, frozenset(known.items()))

    return find
