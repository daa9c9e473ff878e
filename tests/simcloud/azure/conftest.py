"""Simulated Azures, started once for all tests of this folder, and clients that never retry."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from cloudretry.simcloud import UNLIMITED, AzureRule, Limit, RetryAfter, SimulatedAzure, simulated_azure

SMALL = 0.25
EACH_ONCE = (
    AzureRule(
        provider="*",
        operations=("*",),
        limit=Limit(1, 0.001),
        source="this test",
        gate="provider",
        per=("subscription", "principal", "operation"),
        name="Once",
    ),
)
WAITS = (
    RetryAfter(match="Microsoft.KeyVault", seconds=2, headers=("x-ms-retry-after-ms",)),
    RetryAfter(match="Microsoft.Resources:GET tenants", headers=()),
)

Connect = Callable[..., Any]


@pytest.fixture(scope="session")
def _servers() -> Iterator[list[SimulatedAzure]]:
    with ExitStack() as stack:
        yield [
            stack.enter_context(
                simulated_azure(subscriptions=2, size=SMALL, principals=2, page_size=20, limits=UNLIMITED, operation_wait=0)
            ),
            stack.enter_context(
                simulated_azure(seed=7, subscriptions=1, size=SMALL, limits=EACH_ONCE, latency=0.02, retry_after=WAITS)
            ),
        ]


@pytest.fixture
def azure(_servers: list[SimulatedAzure]) -> Iterator[SimulatedAzure]:
    """Two subscriptions, two principals, few resources, short pages, no throttling; reset, but what tests make stays."""
    _servers[0].reset()
    yield _servers[0]
    _servers[0].reset()


@pytest.fixture
def strict(_servers: list[SimulatedAzure]) -> SimulatedAzure:
    """Admits each operation once, until it is reset; the same server, reset, for every test."""
    _servers[1].reset()
    return _servers[1]


@pytest.fixture
def connect() -> Iterator[Connect]:
    """`connect(server, ClientClass)` is a client of the first subscription that attempts once."""
    with ExitStack() as clients:

        def client(server: SimulatedAzure, kind: Any, *, subscription: str = "", **options: Any) -> Any:
            given = {"credential": server.credential(), "retry_total": 0, **server.client_options(), **options}
            subscribed = "Subscription" not in kind.__name__ and "Graph" not in kind.__name__
            where = {"subscription_id": subscription or server.subscriptions[0]} if subscribed else {}
            return clients.enter_context(kind(**given, **where))

        yield client
