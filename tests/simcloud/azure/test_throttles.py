"""How the SDK reads the throttle of each provider, and what the answers say about the buckets."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import requests
from azure.core.exceptions import HttpResponseError
from azure.mgmt.compute import ComputeManagementClient
from azure.mgmt.resource.resources import ResourceManagementClient
from azure.mgmt.resourcegraph import ResourceGraphClient
from azure.mgmt.resourcegraph.models import QueryRequest

from cloudretry.simcloud import PUBLISHED_AZURE, simulated_azure
from cloudretry.simcloud.azure.answers import Refusal, throttle
from cloudretry.simcloud.azure.calls import Call, parse_target

if TYPE_CHECKING:
    from cloudretry.simcloud import SimulatedAzure

SUBSCRIPTION = "00000000-0000-0000-0000-000000000001"


def send(azure: SimulatedAzure, method: str, path: str, **options: Any) -> requests.Response:
    headers = {"Authorization": f"Bearer {azure.credential().token}"}
    place = path.replace("SUB", f"/subscriptions/{azure.subscriptions[0]}")
    return requests.request(method, azure.url + place, headers=headers, verify=azure.ca_file, timeout=20, **options)


def exhausted(azure: SimulatedAzure, method: str, path: str) -> requests.Response:
    """The second answer to the same, where each is let in once."""
    assert send(azure, method, path).status_code != 429
    return send(azure, method, path)


COMPUTE = "SUB/providers/Microsoft.Compute/virtualMachines"


@pytest.mark.wire
@pytest.mark.parametrize(
    ("method", "path", "codes", "headers"),
    [
        (
            "GET",
            COMPUTE,
            ["OperationNotAllowed", "TooManyRequests", "TooManyRequestsReceived"],
            {"Retry-After", "x-ms-request-charge", "x-ms-ratelimit-remaining-resource"},
        ),
        (
            "GET",
            "SUB/providers/Microsoft.Network/virtualNetworks",
            ["TooManyRequests", "RetryableErrorDueToTooManyCalls"],
            {"Retry-After"},
        ),
        ("GET", "SUB/providers/Microsoft.Storage/storageAccounts", ["TooManyRequests"], set()),
        ("GET", "SUB/providers/Microsoft.Cdn/profiles", ["ResourceRequestsThrottled"], set()),
        ("GET", "SUB/providers/Microsoft.Insights/metrics", ["SubscriptionRequestsThrottled"], set()),
        ("GET", "SUB/providers/Microsoft.ContainerService/managedClusters", ["Throttled"], {"Retry-After"}),
        (
            "POST",
            "/providers/Microsoft.ResourceGraph/resources",
            ["RateLimiting", "RateLimiting"],
            {"x-ms-user-quota-remaining", "x-ms-user-quota-resets-after"},
        ),
        (
            "POST",
            "SUB/providers/Microsoft.CostManagement/query",
            ["429"],
            {
                "x-ms-ratelimit-microsoft.costmanagement-qpu-retry-after",
                "x-ms-ratelimit-remaining-microsoft.costmanagement-entity-requests",
            },
        ),
        (
            "GET",
            "SUB/providers/Microsoft.Consumption/usageDetails",
            ["429"],
            {"x-ms-ratelimit-microsoft.consumption-retry-after"},
        ),
        ("GET", "SUB/providers/Microsoft.KeyVault/vaults", ["TooManyRequests"], {"x-ms-retry-after-ms"}),  # by a rule
        ("GET", "/tenants", ["TooManyRequests"], set()),  # by a rule
        ("GET", "/subscriptions", ["TooManyRequests"], {"Retry-After"}),
    ],
)
def test_each_provider_throttles_in_its_own_form(
    strict: SimulatedAzure, method: str, path: str, codes: list[str], headers: set[str]
) -> None:
    answer = exhausted(strict, method, path)
    assert answer.status_code == 429
    assert _codes(answer.json()) == codes
    waits = {
        name
        for name in answer.headers
        if "retry-after" in name.lower() or "ratelimit" in name or "quota" in name or "charge" in name
    }
    assert waits == headers
    assert (strict.counters()["accepted"], strict.counters()["throttled"]) == (1, 1)


def _codes(body: Any) -> list[str]:
    """All codes in a body, whatever its shape, the outermost first."""
    if isinstance(body, list):
        return [code for each in body for code in _codes(each)]
    if not isinstance(body, dict):
        return []
    own = [body[name] for name in ("code", "internalErrorCode") if name in body]
    return own + [code for value in body.values() for code in _codes(value)]


def refusal(path: str, *, of_manager: bool = True, wait: float = 7.2, name: str = "x") -> Refusal:
    call = Call(principal="p", target=parse_target("GET", path))
    return Refusal(call=call, name=name, of_manager=of_manager, allowed=50, wait=wait, now="2026-01-01T00:00:00+00:00")


def test_resource_manager_says_for_whom_and_how_long() -> None:
    answer = throttle(refusal(f"/subscriptions/{SUBSCRIPTION}/resourcegroups"))
    assert answer.headers["Retry-After"] == "8"
    assert answer.headers["x-ms-failure-cause"] == "gateway"
    assert f"'read' requests for subscription actor '{SUBSCRIPTION}:p'".encode() in answer.body
    assert b"after '8' seconds" in answer.body
    assert b"TenantRequestsThrottled" in throttle(refusal("/subscriptions")).body


@pytest.mark.parametrize(
    ("provider", "text"),
    [
        (
            "Microsoft.Cdn/profiles",
            "action 'Microsoft.Cdn/profiles/read' exceeded the limit of '50' for time interval '00:05:00'",
        ),
        ("Microsoft.Insights/metrics", "operation 'GET/METRICS' exceeded the backend storage limit"),
        ("Microsoft.ContainerService/managedClusters", "retry again in 8 seconds"),
        ("Microsoft.Network/virtualNetworks", "can be retried in 8 seconds"),
    ],
)
def test_waits_that_a_text_tells(provider: str, text: str) -> None:
    path = f"/subscriptions/{SUBSCRIPTION}/providers/{provider}"
    assert text in throttle(refusal(path, of_manager=False)).body.decode()


@pytest.mark.parametrize(
    "path", ["/subscriptions", f"/subscriptions/{SUBSCRIPTION}/providers/Microsoft.Compute/virtualMachines"]
)
@pytest.mark.parametrize("of_manager", [True, False])
def test_a_bucket_that_never_fills_says_no_wait(path: str, of_manager: bool) -> None:  # noqa: FBT001
    headers = throttle(refusal(path, of_manager=of_manager, wait=float("inf"))).headers
    assert "Retry-After" not in headers


@pytest.mark.wire
def test_the_sdk_reads_a_throttle_without_an_error_around_it(strict: SimulatedAzure, connect: Any) -> None:
    machines = connect(strict, ComputeManagementClient).virtual_machines
    list(machines.list_all())
    with pytest.raises(HttpResponseError) as caught:
        list(machines.list_all())
    answer: Any = caught.value.response
    counted = json.loads(answer.json()["details"][0]["message"])
    assert (answer.status_code, counted["operationGroup"], counted["allowedRequestCount"]) == (429, "Once", 1)


@pytest.mark.wire
def test_what_is_left_is_told_in_every_answer(connect: Any) -> None:
    with simulated_azure(subscriptions=1, size=0.1, limits=PUBLISHED_AZURE) as azure:
        seen: list[Any] = []
        options = {"raw_response_hook": lambda response: seen.append(response.http_response.headers)}
        resources = connect(azure, ResourceManagementClient)
        list(resources.resource_groups.list(**options))
        list(resources.resource_groups.list(**options))
        list(connect(azure, ComputeManagementClient).virtual_machines.list_all(**options))
        connect(azure, ResourceGraphClient).resources(QueryRequest(query="Resources"), **options)
    reads = [int(each["x-ms-ratelimit-remaining-subscription-reads"]) for each in seen[:3]]
    assert reads[0] == 249
    assert all(247 <= each <= 249 for each in reads[1:])  # less what came back meanwhile
    assert [int(each["x-ms-ratelimit-remaining-subscription-global-reads"]) for each in seen[:1]] == [3749]
    assert seen[2]["x-ms-ratelimit-remaining-resource"] == "Microsoft.Compute/HighCostGet;899"
    assert (seen[3]["x-ms-user-quota-remaining"], seen[3]["x-ms-user-quota-resets-after"]) == ("14", "00:00:05")
    assert seen[3]["x-ms-ratelimit-remaining-tenant-resource-requests"] == "149"
    assert len({each["x-ms-request-id"] for each in seen}) == len(seen)
