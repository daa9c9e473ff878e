"""The ground truth against a patient listing, and that it is large enough to be throttled."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from cloudretry.simcloud import SimulatedAws

pytestmark = pytest.mark.wire

Resource = tuple[str, str, str, str]


def pages(client: Any, operation: str, key: str, **parameters: Any) -> Iterator[Any]:
    for page in client.get_paginator(operation).paginate(**parameters):
        yield from page[key]


def regional(aws: SimulatedAws, connect: Any, account: str, region: str) -> Iterator[tuple[str, str]]:
    ec2, functions, rds = (connect(aws, service, account=account, region=region) for service in ("ec2", "lambda", "rds"))
    for reservation in pages(ec2, "describe_instances", "Reservations", MaxResults=20):
        yield from (("ec2:instance", instance["InstanceId"]) for instance in reservation["Instances"])
    yield from (("ec2:volume", each["VolumeId"]) for each in pages(ec2, "describe_volumes", "Volumes", MaxResults=100))
    yield from (("ec2:security-group", g["GroupId"]) for g in pages(ec2, "describe_security_groups", "SecurityGroups"))
    yield from (("ec2:vpc", each["VpcId"]) for each in pages(ec2, "describe_vpcs", "Vpcs"))
    yield from (("ec2:subnet", each["SubnetId"]) for each in pages(ec2, "describe_subnets", "Subnets"))
    yield from (("lambda:function", f["FunctionName"]) for f in pages(functions, "list_functions", "Functions"))
    yield from (("rds:db", db["DBInstanceIdentifier"]) for db in pages(rds, "describe_db_instances", "DBInstances"))


def everything(aws: SimulatedAws, connect: Any) -> Iterator[Resource]:
    for account in aws.accounts:
        iam, s3 = (connect(aws, service, account=account) for service in ("iam", "s3"))
        yield from (
            (account, "global", "iam:role", role["RoleName"])
            for role in pages(iam, "list_roles", "Roles", PaginationConfig={"PageSize": 10})
        )
        yield from ((account, "global", "iam:user", user["UserName"]) for user in pages(iam, "list_users", "Users"))
        for bucket in pages(s3, "list_buckets", "Buckets"):
            location = s3.get_bucket_location(Bucket=bucket["Name"])["LocationConstraint"]
            yield account, location or "us-east-1", "s3:bucket", bucket["Name"]
        for region in aws.regions:
            yield from ((account, region, *item) for item in regional(aws, connect, account, region))


def test_a_patient_listing_finds_exactly_the_ground_truth(aws: SimulatedAws, connect: Any) -> None:
    found = list(everything(aws, connect))
    assert len(found) == len(set(found))
    assert set(found) == aws.resources
    assert len({kind for _, _, kind, _ in found}) == 10


def test_asking_for_details_of_each_exceeds_the_buckets(strict: SimulatedAws) -> None:
    assert len({region for _, region, kind, _ in strict.resources if kind == "ec2:instance"}) == 1
    assert sum(kind == "ec2:instance" for _, _, kind, _ in strict.resources) > 100
    assert sum(kind == "lambda:function" for _, _, kind, _ in strict.resources) > 15


def test_the_accounts_are_an_organization(aws: SimulatedAws, connect: Any) -> None:
    management, member = (connect(aws, "organizations", account=account) for account in aws.accounts)
    found = list(pages(management, "list_accounts", "Accounts", PaginationConfig={"PageSize": 1}))
    assert [(account["Id"], account["Status"]) for account in found] == [(account, "ACTIVE") for account in aws.accounts]
    assert found[1]["Arn"].endswith(aws.accounts[1])
    assert management.describe_account(AccountId=aws.accounts[1])["Account"] == found[1]
    assert management.list_policies_for_target(TargetId=aws.accounts[1], Filter="SERVICE_CONTROL_POLICY")["Policies"]
    assert member.describe_organization()["Organization"]["MasterAccountId"] == aws.accounts[0]


def test_details_are_there(aws: SimulatedAws, connect: Any) -> None:
    account = aws.accounts[0]
    iam, functions = connect(aws, "iam"), connect(aws, "lambda")
    attached = [
        len(iam.list_attached_role_policies(RoleName=name)["AttachedPolicies"])
        for owner, _, kind, name in sorted(aws.resources)
        if kind == "iam:role" and owner == account
    ]
    assert {0, 1, 2, 3} == set(attached)
    function = functions.list_functions()["Functions"][0]
    assert functions.get_function_configuration(FunctionName=function["FunctionName"])["Runtime"] == "python3.13"
    assert functions.list_tags(Resource=function["FunctionArn"])["Tags"].keys() == {"team"}
