"""Which calls share a quota, and what is published of it."""

from __future__ import annotations

from typing import Any

import pytest

from cloudretry.core.call import Call
from cloudretry.core.match import Match
from cloudretry.core.priors import published
from cloudretry.core.quota import RULES, GroupRule, Quota, quota_of
from cloudretry.core.rate import Limit

ARM = "management.azure.com"


def aws(operation: str, service: str = "ec2", **facts: Any) -> Call:
    known = {"region": "eu-west-1", "account": "1", "host": f"{service}.eu-west-1.amazonaws.com"}
    return Call(provider="aws", service=service, operation=operation, **{**known, **facts})


def azure(operation: str, service: str = "Microsoft.Network", host: str = ARM) -> Call:
    return Call(provider="azure", service=service, operation=operation, account="sub", host=host)


def group(call: Call, *, unfiltered: bool = False) -> str:
    return quota_of(call, unfiltered=unfiltered).group


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (aws("DescribeInstances"), "DescribeInstances"),
        (aws("RunInstances"), "RunInstances"),
        (aws("ListRoles", "iam"), "reads"),
        (aws("GetRole", "iam"), "reads"),
        (aws("DeleteRole", "iam"), "DeleteRole"),
        (aws("ListFunctions", "lambda"), "control plane"),
        (aws("Invoke", "lambda"), "Invoke"),
        (aws("ListAccounts", "organizations"), "all"),
        (azure("GET virtualNetworks"), "reads"),
        (azure("HEAD resourceGroups/{name}", "Microsoft.Resources"), "reads"),
        (azure("PUT virtualNetworks/{name}"), "writes"),
        (azure("POST virtualNetworks/{name}/peer"), "writes"),
        (azure("DELETE virtualNetworks/{name}"), "deletes"),
        (azure("GET virtualMachines", "Microsoft.Compute"), "HighCostGet"),
        (azure("GET virtualMachines/{name}", "Microsoft.Compute"), "LowCostGet"),
        (azure("GET disks", "Microsoft.Compute"), "reads"),
        (azure("GET virtualMachineScaleSets/{name}", "Microsoft.Compute"), "LowCostGetVMScaleSet"),
        (azure("GET virtualMachineScaleSets/{name}/virtualMachines", "Microsoft.Compute"), "HighCostGetVMScaleSet"),
        (azure("POST resources", "Microsoft.ResourceGraph"), "queries"),
    ],
)
def test_calls_are_grouped_as_they_are_metered(call: Call, expected: str) -> None:
    assert group(call) == expected


def test_an_unfiltered_listing_of_ec2_is_metered_apart() -> None:
    assert group(aws("DescribeInstances"), unfiltered=True) == "DescribeInstances unfiltered"
    assert group(aws("DescribeImages"), unfiltered=True) == "DescribeImages"


@pytest.mark.parametrize("facts", [{"account": "2"}, {"region": "eu-west-2"}, {"host": "127.0.0.1:4566"}])
def test_other_accounts_regions_and_hosts_are_other_quotas(facts: dict[str, str]) -> None:
    assert quota_of(aws("DescribeInstances", **facts)) != quota_of(aws("DescribeInstances"))


def test_services_without_regions_have_one_quota_everywhere() -> None:
    assert quota_of(aws("ListRoles", "iam", region="us-west-2", host="iam.amazonaws.com")).region == ""


def test_a_groups_name_is_no_format() -> None:
    rule = GroupRule(match=Match(service="ec2"), group="{operation} {operation.__class__} {0}")
    assert quota_of(aws("RunInstances"), rules=[rule]).group == "RunInstances {operation.__class__} {0}"


def test_azure_meters_principals_apart() -> None:
    call = azure("GET virtualNetworks")
    assert quota_of(call, principal="me") != quota_of(call, principal="you")


def test_a_principal_stands_in_for_an_unknown_account_and_changes_nothing_where_it_is_known() -> None:
    unknown = aws("DescribeInstances", account="")
    assert quota_of(unknown, principal="AKIA1") != quota_of(unknown, principal="AKIA2")
    known = aws("DescribeInstances")
    assert quota_of(known, principal="AKIA1") == quota_of(known, principal="AKIA2")


def test_a_users_rule_comes_first() -> None:
    mine = GroupRule(match=Match(service="ec2", operation="Describe*"), group="all of ec2")
    assert quota_of(aws("DescribeInstances"), rules=(mine, *RULES)).group == "all of ec2"


def test_a_quota_is_shown_as_calls_are() -> None:
    assert str(quota_of(aws("DescribeInstances"))) == "ec2:DescribeInstances@1/eu-west-1"


@pytest.mark.parametrize(
    ("quota", "limit"),
    [
        (quota_of(aws("DescribeInstances")), Limit(20.0, 100.0)),
        (quota_of(aws("DescribeInstances"), unfiltered=True), Limit(10.0, 50.0)),
        (quota_of(aws("CreateVpc")), Limit(5.0, 50.0)),
        (quota_of(aws("DescribeByoipCidrs")), Limit(0.5, 1.0)),
        (quota_of(azure("GET virtualNetworks")), Limit(25.0, 250.0)),
        (quota_of(azure("PUT virtualNetworks/{name}")), Limit(10.0, 200.0)),
        (quota_of(azure("POST resources", "Microsoft.ResourceGraph")), Limit(3.0, 15.0)),
        (quota_of(aws("ListRoles", "iam")), None),
        (quota_of(aws("DescribeInstances", host="127.0.0.1:4566")), None),
        (quota_of(azure("GET virtualNetworks", host="127.0.0.1:4566")), None),
    ],
)
def test_published_limits_hold_for_the_clouds_own_hosts(quota: Quota, limit: Limit | None) -> None:
    assert published(quota) == limit
