"""What a request is called, and whether it may be sent again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloudretry.azure.calls import call_of

ARM = "https://management.azure.com"
GROUP = f"{ARM}/subscriptions/AB/resourceGroups/g/providers"


@pytest.mark.parametrize(
    ("method", "url", "name", "replayable"),
    [
        ("GET", f"{ARM}/subscriptions?api-version=1", "Microsoft.Resources:GET subscriptions@-/-", True),
        ("GET", f"{ARM}/subscriptions/AB", "Microsoft.Resources:GET subscriptions/{name}@ab/-", True),
        ("GET", f"{ARM}/subscriptions/AB/resourcegroups", "Microsoft.Resources:GET resourceGroups@ab/-", True),
        ("GET", f"{ARM}/subscriptions/AB/resources?$skiptoken=x/y", "Microsoft.Resources:GET resources@ab/-", True),
        ("GET", f"{ARM}/subscriptions/AB/providers", "Microsoft.Resources:GET providers@ab/-", True),
        ("GET", f"{ARM}/subscriptions/AB/providers/Microsoft.X", "Microsoft.Resources:GET providers/{name}@ab/-", True),
        (
            "POST",
            f"{ARM}/subscriptions/AB/providers/Microsoft.X/register",
            "Microsoft.Resources:POST providers/{name}/register@ab/-",
            False,
        ),
        ("GET", f"{GROUP}/microsoft.compute/virtualMachines", "Microsoft.Compute:GET virtualMachines@ab/-", True),
        ("PUT", f"{GROUP}/Microsoft.Compute/virtualMachines/v", "Microsoft.Compute:PUT virtualMachines/{name}@ab/-", False),
        (
            "GET",
            f"{GROUP}/Microsoft.Compute/virtualMachines/v/providers/Microsoft.Insights/metricDefinitions",
            "Microsoft.Insights:GET metricDefinitions@ab/-",
            True,
        ),
        (
            "GET",
            f"{ARM}/subscriptions/AB/providers/Microsoft.Compute/locations/WestEurope/operations/1",
            "Microsoft.Compute:GET locations/{name}/operations/{name}@ab/westeurope",
            True,
        ),
        (
            "POST",
            f"{GROUP}/Microsoft.Storage/storageAccounts/s/listKeys",
            "Microsoft.Storage:POST storageAccounts/{name}/listKeys@ab/-",
            True,
        ),
        (
            "POST",
            f"{GROUP}/Microsoft.Storage/storageAccounts/s/regenerateKey",
            "Microsoft.Storage:POST storageAccounts/{name}/regenerateKey@ab/-",
            False,
        ),
        ("POST", f"{ARM}/providers/Microsoft.ResourceGraph/resources", "Microsoft.ResourceGraph:POST resources@-/-", True),
        (
            "POST",
            f"{ARM}/subscriptions/AB/providers/Microsoft.CostManagement/query",
            "Microsoft.CostManagement:POST query@ab/-",
            True,
        ),
        ("POST", f"{ARM}/batch", "Microsoft.Resources:POST batch@-/-", False),
        ("GET", "https://user@vault.vault.azure.net:443/secrets/s", "vault.vault.azure.net:443:GET@-/-", True),
        ("POST", "https://x.blob.core.windows.net/listing", "x.blob.core.windows.net:POST@-/-", False),
    ],
)
def test_a_request_has_a_stable_name(method: str, url: str, name: str, replayable: bool) -> None:  # noqa: FBT001 - a table
    call = call_of(method, url)
    assert str(call) == name
    assert call.replayable is replayable
    assert call.host == url.partition("://")[2].partition("/")[0].partition("?")[0].rpartition("@")[2]


@given(url=st.text(max_size=80) | st.text(max_size=80).map(lambda path: f"{ARM}/subscriptions/{path}"))
def test_no_url_can_do_harm(url: str) -> None:
    assert call_of("GET", url).provider == "azure"
    assert "?" not in call_of("GET", url).operation
