"""Simulated AWS servers, started once for all tests of this folder, and clients that never retry."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import boto3
import pytest
from botocore.config import Config

from cloudretry.simcloud import UNLIMITED, Limit, Rule, SimulatedAws, simulated_aws

REGIONS = ("eu-west-1", "us-east-1")
ONE_EACH = (Rule(service="*", actions=("*",), limit=Limit(1, 0), source="this test"),)

Connect = Callable[..., Any]


@pytest.fixture(scope="session")
def aws() -> Iterator[SimulatedAws]:
    """Two accounts, two regions, no throttling. Tests may add S3 objects, but no resources."""
    with simulated_aws(accounts=2, regions=REGIONS, limits=UNLIMITED) as running:
        yield running


@pytest.fixture(scope="session")
def _strict() -> Iterator[SimulatedAws]:
    with simulated_aws(seed=7, accounts=1, regions=REGIONS[:1], limits=ONE_EACH, latency=0.02) as running:
        yield running


@pytest.fixture
def strict(_strict: SimulatedAws) -> SimulatedAws:
    """Admits each action once, until it is reset; the same server, reset, for every test."""
    _strict.reset()
    return _strict


@pytest.fixture(scope="session")
def connect() -> Connect:
    """`connect(server, service)` makes a client of the first account that attempts once."""
    session = boto3.Session(region_name=REGIONS[0])  # one for all: it has read the models already
    once = Config(retries={"total_max_attempts": 1})

    def make(server: SimulatedAws, service: str, *, account: str = "", region: str = REGIONS[0], **keys: str) -> Any:
        place = {"region_name": region, "endpoint_url": server.url, "config": once}
        return session.client(service, **place, **(keys or server.credentials(account or server.accounts[0])))  # type: ignore[call-overload]

    return make
