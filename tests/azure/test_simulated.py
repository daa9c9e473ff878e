"""Against the simulated Azure, over TLS: what a discovery script does, while the cloud throttles."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from cloudretry import AzureApiCommand, Report, attach

pytestmark = pytest.mark.wire
pytest.importorskip("aiohttp")
simcloud = pytest.importorskip("cloudretry.simcloud")


@pytest.fixture(scope="module")
def azure() -> Iterator[Any]:
    with simcloud.simulated_azure(subscriptions=2, size=0.3, limits=simcloud.UNLIMITED, seed=4, page_size=5) as cloud:
        yield cloud


@pytest.fixture(autouse=True)
def fresh(azure: Any) -> None:
    azure.reset()


def throttled(azure: Any, match: str, times: int) -> None:
    azure.inject(simcloud.Faults(match=match, kinds=("throttle",), times=times))


def found_in(azure: Any, subscription: str) -> set[str]:
    return {
        entry[3].lower() for entry in azure.resources if entry[0] == subscription and not entry[2].endswith("resourceGroups")
    }


def test_a_sweep_finds_everything(azure: Any, clock: Any, ResourceManagementClient: Any) -> None:
    for subscription in azure.subscriptions:
        throttled(azure, "Microsoft.Resources:*", 7)
        with AzureApiCommand(azure.credential(), subscription, configuration={}) as az:
            client = az.client(ResourceManagementClient, **azure.client_options())
            assert {item.id.lower() for item in client.resources.list()} == found_in(azure, subscription)
            assert list(client.resource_groups.list())
            assert (az.report.total.throttled, az.report.total.lost) == (7, 0)
    assert len(clock.sleeps) == 14


def test_an_aio_sweep_of_both_subscriptions_at_once(azure: Any, clock: Any, AsyncResourceManagementClient: Any) -> None:
    throttled(azure, "Microsoft.Resources:*", 12)
    report = Report()

    async def sweep(subscription: str) -> set[str]:
        client = AsyncResourceManagementClient(azure.async_credential(), subscription, **azure.client_options())
        async with attach(client, configuration={}, report=report):
            return {item.id.lower() async for item in client.resources.list()}

    async def main() -> list[set[str]]:
        return await asyncio.gather(*(sweep(subscription) for subscription in azure.subscriptions))

    assert asyncio.run(main()) == [found_in(azure, subscription) for subscription in azure.subscriptions]
    assert report.total.throttled > 0
    assert report.total.lost == 0


def test_a_long_running_operation_comes_to_its_end(azure: Any, clock: Any, ResourceManagementClient: Any) -> None:
    (name, *_) = sorted(entry[3].rpartition("/")[2] for entry in azure.resources if entry[2].endswith("resourceGroups"))
    subscription = next(entry[0] for entry in azure.resources if entry[3].endswith(f"/{name}"))
    throttled(azure, "*", 6)
    with AzureApiCommand(azure.credential(), subscription, configuration={}) as az:
        client = az.client(ResourceManagementClient, **azure.client_options())
        client.resource_groups.begin_delete(name, polling_interval=0).result()
        assert not client.resource_groups.check_existence(name)
        assert az.report.total.throttled > 0
        assert az.report.total.lost == 0
