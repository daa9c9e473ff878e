"""The real management clients, sync and aio, find all that is there."""

from __future__ import annotations

import asyncio
import http.client
import json
import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest
import requests
from azure.core.exceptions import HttpResponseError, ResourceNotFoundError
from azure.core.pipeline.transport import AioHttpTransport
from azure.mgmt.compute import ComputeManagementClient
from azure.mgmt.compute.aio import ComputeManagementClient as AioComputeManagementClient
from azure.mgmt.resource.resources import ResourceManagementClient
from azure.mgmt.resource.resources.aio import ResourceManagementClient as AioResourceManagementClient
from azure.mgmt.resource.subscriptions import SubscriptionClient
from azure.mgmt.resourcegraph import ResourceGraphClient
from azure.mgmt.resourcegraph.models import QueryRequest, QueryRequestOptions

if TYPE_CHECKING:
    from cloudretry.simcloud import SimulatedAzure

pytestmark = pytest.mark.wire

GROUP = "Microsoft.Resources/resourceGroups"
MACHINE = "Microsoft.Compute/virtualMachines"


def there(azure: SimulatedAzure, kind: str = "", subscription: str = "") -> set[str]:
    """The ids that the ground truth has."""
    wanted = subscription or azure.subscriptions[0]
    return {name for owner, _, its, name in azure.resources if owner == wanted and its == (kind or its)}


def ids(listed: Any) -> set[str]:
    return {each.id for each in listed}


def asked(azure: SimulatedAzure, operation: str) -> int:
    return sum(line.operation == operation for line in azure.log())


def test_subscriptions(azure: SimulatedAzure, connect: Any) -> None:
    client = connect(azure, SubscriptionClient)
    assert tuple(each.subscription_id for each in client.subscriptions.list()) == azure.subscriptions
    assert client.subscriptions.get(azure.subscriptions[1]).display_name == "subscription-2"
    assert [each.tenant_id for each in client.tenants.list()] == [azure.tenant]
    assert tuple(each.name for each in client.subscriptions.list_locations(azure.subscriptions[0])) == azure.locations


def test_every_page_of_every_subscription_together_is_the_ground_truth(azure: SimulatedAzure, connect: Any) -> None:
    found: set[str] = set()
    for subscription in azure.subscriptions:
        client = connect(azure, ResourceManagementClient, subscription=subscription)
        found |= ids(client.resource_groups.list()) | ids(client.resources.list())
    assert found == {name for *_, name in azure.resources}
    assert asked(azure, "GET resources") >= 3  # pages of twenty


def test_resources_of_a_group_and_of_a_type(azure: SimulatedAzure, connect: Any) -> None:
    client = connect(azure, ResourceManagementClient)
    group = next(iter(client.resource_groups.list()))
    inside = {name for name in there(azure) if name.lower().startswith(group.id.lower() + "/")}
    assert ids(client.resources.list_by_resource_group(group.name.upper())) == inside != set()
    assert ids(client.resources.list(filter=f"resourceType eq '{MACHINE}'")) == there(azure, MACHINE)
    assert len(list(client.resources.list(filter=f"resourceGroup eq '{group.name}' and location eq 'nowhere'"))) == 0
    team = group.tags["team"]
    tagged = ids(client.resources.list(filter=f"tagName eq 'team' and tagValue eq '{team}'"))
    assert inside <= tagged <= there(azure)


def test_one_resource_by_its_id_and_its_provider(azure: SimulatedAzure, connect: Any) -> None:
    client = connect(azure, ResourceManagementClient)
    machine = min(there(azure, MACHINE))
    found = client.resources.get_by_id(machine, api_version="2024-07-01")
    assert (found.id, found.type, found.properties["provisioningState"]) == (machine, MACHINE, "Succeeded")
    provider = client.providers.get("Microsoft.Compute")
    assert {kind.resource_type for kind in provider.resource_types} == {"virtualMachines", "disks"}
    assert "Microsoft.Network" in {each.namespace for each in client.providers.list()}


def test_virtual_machines(azure: SimulatedAzure, connect: Any) -> None:
    machines = connect(azure, ComputeManagementClient).virtual_machines
    assert ids(machines.list_all()) == there(azure, MACHINE)
    by_location = [ids(machines.list_by_location(location)) for location in azure.locations]
    assert set().union(*by_location) == there(azure, MACHINE)
    group, name = min(there(azure, MACHINE)).split("/")[4::4]
    one = machines.get(group, name, expand="instanceView")
    assert one.id in ids(machines.list(group))
    assert one.os_profile.computer_name == name
    assert [status.code for status in one.instance_view.statuses][1] == "PowerState/running"
    assert machines.instance_view(group, name).statuses[1].code == "PowerState/running"


def test_resource_graph_pages_by_its_token(azure: SimulatedAzure, connect: Any) -> None:
    client = connect(azure, ResourceGraphClient)
    query = "Resources | where type =~ 'microsoft.compute/virtualmachines' | project id"
    rows: list[Any] = []
    token, pages = None, 0
    while token or not pages:
        options = QueryRequestOptions(top=7, skip_token=token, result_format="objectArray")
        page = client.resources(QueryRequest(query=query, subscriptions=list(azure.subscriptions), options=options))
        rows, token, pages = rows + page.data, page.skip_token, pages + 1
    every = {name for subscription in azure.subscriptions for name in there(azure, MACHINE, subscription)}
    assert {row["id"] for row in rows} == every
    assert (len(rows), pages) == (page.total_records, -(-len(every) // 7))
    assert page.total_records == len(every)


@pytest.mark.parametrize(
    ("query", "kind", "least"),
    [("ResourceContainers", GROUP, 1), ("resources | where name == 'nothing'", "", 0), ("Resources | take 3", "", 3)],
)
def test_what_else_resource_graph_reads(azure: SimulatedAzure, connect: Any, query: str, kind: str, least: int) -> None:
    subscription = azure.subscriptions[1]
    answer = connect(azure, ResourceGraphClient).resources(QueryRequest(query=query, subscriptions=[subscription]))
    found = {row["id"] for row in answer.data}
    assert found <= there(azure, kind, subscription)
    assert len(found) == answer.count == (len(there(azure, kind, subscription)) if kind else least)


def test_a_query_that_it_does_not_know_is_refused(azure: SimulatedAzure, connect: Any) -> None:
    with pytest.raises(HttpResponseError, match="Please provide a valid query") as caught:
        connect(azure, ResourceGraphClient).resources(QueryRequest(query="AlertsManagementResources"))
    assert caught.value.status_code == 400


def test_a_group_is_made_and_deleted_by_a_long_running_operation(azure: SimulatedAzure, connect: Any) -> None:
    groups = connect(azure, ResourceManagementClient, polling_interval=0).resource_groups
    assert groups.create_or_update("new-group", {"location": "eastus", "tags": {"team": "x"}}).location == "eastus"
    assert groups.check_existence("NEW-group")
    azure.reset()
    groups.begin_delete("new-group").result()
    assert (asked(azure, "DELETE resourceGroups/{name}"), asked(azure, "GET operationresults/{name}")) == (1, 3)
    assert not groups.check_existence("new-group")


def test_a_resource_is_made_started_and_deleted_by_long_running_operations(azure: SimulatedAzure, connect: Any) -> None:
    groups = connect(azure, ResourceManagementClient, polling_interval=0).resource_groups
    groups.create_or_update("own", {"location": "eastus"})
    machines = connect(azure, ComputeManagementClient, polling_interval=0).virtual_machines
    made = machines.begin_create_or_update("own", "vm", {"location": "eastus", "tags": {"a": "b"}}).result()
    assert (made.name, made.type, made.provisioning_state, made.tags) == ("vm", MACHINE, "Succeeded", {"a": "b"})
    machines.begin_start("own", "vm").result()
    azure.reset()
    machines.begin_delete("own", "vm").result()
    assert asked(azure, "GET locations/{name}/operations/{name}") == 3
    with pytest.raises(ResourceNotFoundError):
        machines.get("own", "vm")
    groups.begin_delete("own").result()


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda client: client.resource_groups.get("none"), "ResourceGroupNotFound"),
        (lambda client: list(client.resources.list_by_resource_group("none")), "ResourceGroupNotFound"),
        (lambda client: client.resources.get_by_id(client.resource + "-none", api_version="1"), "ResourceNotFound"),
    ],
)
def test_what_is_not_there(azure: SimulatedAzure, connect: Any, call: Callable[[Any], object], code: str) -> None:
    client = connect(azure, ResourceManagementClient)
    client.resource = min(there(azure, MACHINE))
    with pytest.raises(ResourceNotFoundError) as caught:
        call(client)
    error: Any = caught.value
    assert error.error.code == code
    assert error.response.headers["x-ms-failure-cause"] == "gateway"


def test_an_unknown_subscription(azure: SimulatedAzure, connect: Any) -> None:
    client = connect(azure, ResourceManagementClient, subscription="00000000-0000-0000-0000-000000000000")
    with pytest.raises(ResourceNotFoundError, match="SubscriptionNotFound"):
        list(client.resource_groups.list())


def test_a_change_of_a_network_resource_locks_it(azure: SimulatedAzure, connect: Any) -> None:
    client = connect(azure, ResourceManagementClient, polling_interval=0)
    network = min(there(azure, "Microsoft.Network/virtualNetworks"))
    body, seen = {"location": "eastus", "tags": {"a": "b"}}, [""] * 0

    def change(**options: Any) -> Any:
        return client.resources.begin_create_or_update_by_id(network, body, api_version="1", **options)

    change(polling=False, raw_response_hook=lambda said: seen.append(said.http_response.headers["Azure-AsyncOperation"]))
    with pytest.raises(HttpResponseError, match="RetryableErrorDueToAnotherOperation") as caught:
        change(polling=False)
    assert caught.value.status_code == 429
    asking: Any = {"headers": {"Authorization": f"Bearer {azure.credential().token}"}, "verify": azure.ca_file}
    told = [requests.get(seen[0], timeout=20, **asking).json()["status"] for _ in range(4)]
    assert told == ["InProgress", "InProgress", "Succeeded", "Succeeded"]
    assert change().result().tags == {"a": "b"}
    assert azure.counters()["throttled"] == 0  # it is no rate limit


@pytest.mark.parametrize("path", ["/", "/subscriptions/SUB/resourcegroups/x", "/subscriptions/%ff%00/%2e", "//"])
def test_nothing_that_is_sent_ends_it(azure: SimulatedAzure, path: str) -> None:
    headers = {"Authorization": f"Bearer {azure.credential().token}"}
    connection = http.client.HTTPConnection(azure.proxy.removeprefix("http://"), timeout=20)
    connection.request("PUT", path.replace("SUB", azure.subscriptions[0]), b'{"properties": 3}', headers)
    answer = connection.getresponse()
    assert answer.status in {404, 500}
    assert "error" in json.loads(answer.read())
    connection.close()


def test_aio_clients_see_the_same(azure: SimulatedAzure) -> None:
    async def discover() -> tuple[set[Any], set[Any]]:
        options, credential = azure.client_options(), azure.async_credential()
        async with AioResourceManagementClient(credential, azure.subscriptions[0], retry_total=0, **options) as client:
            found = {group.id async for group in client.resource_groups.list()}
            await client.resource_groups.create_or_update("for-aio", {"location": "eastus"})
            await (await client.resource_groups.begin_delete("for-aio", polling_interval=0)).result()
        async with AioComputeManagementClient(credential, azure.subscriptions[0], retry_total=0, **options) as compute:
            return found, {machine.id async for machine in compute.virtual_machines.list_all()}

    assert asyncio.run(discover()) == (there(azure, GROUP), there(azure, MACHINE))


def test_an_aio_client_keeps_its_connection_alive(azure: SimulatedAzure) -> None:
    async def ask() -> int:
        made: list[object] = []
        trace = aiohttp.TraceConfig()

        async def count(*_: object) -> None:
            made.append(1)

        trace.on_connection_create_end.append(count)
        connector = aiohttp.TCPConnector(ssl=ssl.create_default_context(cafile=azure.ca_file))
        async with aiohttp.ClientSession(connector=connector, trace_configs=[trace]) as session:
            transport = AioHttpTransport(session=session, session_owner=False)
            where = {"base_url": azure.url, "transport": transport}
            client = AioResourceManagementClient(azure.async_credential(), azure.subscriptions[0], **where)
            for _ in range(5):
                assert [group async for group in client.resource_groups.list()]
        return len(made)

    assert asyncio.run(ask()) == 1
