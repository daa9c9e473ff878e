"""What a path leads to."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloudretry.simcloud.azure.calls import Call, parse_target
from cloudretry.simcloud.azure.paging import make_token, read_token

S = "/subscriptions/S1"
G = f"{S}/resourceGroups/My-Group"


@pytest.mark.parametrize(
    ("method", "path", "provider", "operation", "group"),
    [
        ("GET", "/subscriptions", "Microsoft.Resources", "GET subscriptions", ""),
        ("GET", S, "Microsoft.Resources", "GET subscriptions/{name}", ""),
        ("GET", "/tenants", "Microsoft.Resources", "GET tenants", ""),
        ("GET", f"{S}/resourcegroups", "Microsoft.Resources", "GET resourceGroups", ""),
        ("HEAD", G.lower(), "Microsoft.Resources", "HEAD resourceGroups/{name}", "my-group"),
        ("GET", f"{G}/resources", "Microsoft.Resources", "GET resourceGroups/{name}/resources", "my-group"),
        ("GET", f"{S}/providers", "Microsoft.Resources", "GET providers", ""),
        ("GET", f"{S}/providers/Microsoft.Compute", "Microsoft.Resources", "GET providers/{name}", ""),
        ("POST", f"{S}/providers/Microsoft.Compute/register", "Microsoft.Resources", "POST providers/{name}/register", ""),
        ("GET", f"{S}/providers/microsoft.compute/virtualMachines", "Microsoft.Compute", "GET virtualMachines", ""),
        ("GET", f"{G}/providers/Microsoft.Compute/virtualMachines", "Microsoft.Compute", "GET virtualMachines", "my-group"),
        (
            "GET",
            f"{G}/providers/Microsoft.Compute/virtualMachines/a",
            "Microsoft.Compute",
            "GET virtualMachines/{name}",
            "my-group",
        ),
        ("POST", "/providers/Microsoft.ResourceGraph/resources", "Microsoft.ResourceGraph", "POST resources", ""),
        ("POST", f"{S}/providers/Microsoft.CostManagement/query", "Microsoft.CostManagement", "POST query", ""),
        ("GET", "//subscriptions/S1//resourcegroups/", "Microsoft.Resources", "GET resourceGroups", ""),
    ],
)
def test_targets(method: str, path: str, provider: str, operation: str, group: str) -> None:
    target = parse_target(method, path)
    assert (target.provider, target.operation, target.group) == (provider, operation, group)
    assert target.subscription == ("s1" if path.strip("/").count("/") and path.lower().lstrip("/").startswith("subscr") else "")


def test_a_location_is_known_where_the_path_names_one() -> None:
    assert parse_target("GET", f"{S}/providers/Microsoft.Compute/locations/EastUS/virtualMachines").location == "eastus"
    assert parse_target("GET", f"{G}/providers/Microsoft.Compute/virtualMachines").location == ""


@pytest.mark.parametrize(
    ("pattern", "fits"),
    [
        ("*", True),
        ("Microsoft.Compute", True),
        ("Microsoft.Compute:GET virtualMachines*", True),
        ("Microsoft.Compute:GET virtualMachines", False),
        ("*:GET *@s1", True),
        ("*@s1/p1", True),
        ("*@*/p2", False),
        ("microsoft.compute", False),
    ],
)
def test_patterns(pattern: str, fits: bool) -> None:  # noqa: FBT001 - a column
    call = Call(principal="p1", target=parse_target("GET", f"{G}/providers/Microsoft.Compute/virtualMachines/a"))
    assert call.fits(pattern) == fits


@given(
    st.lists(st.sampled_from(["subscriptions", "providers", "resourceGroups", "Microsoft.X", "register", "a", "", "locations"]))
)
def test_every_path_leads_somewhere(parts: list[str]) -> None:
    target = parse_target("GET", "/".join(parts))
    assert target.operation.startswith("GET ")
    assert "." in target.provider
    assert target.path.count("/") <= len(parts) + 1


@given(st.integers(0, 10**9), st.text())
def test_a_list_goes_on_where_its_token_says(at: int, foreign: str) -> None:
    assert read_token(make_token(at)) == at
    assert isinstance(read_token(foreign), int)
