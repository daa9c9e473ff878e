"""What the demo's discovery asks AWS for: lists, and for each resource on them some details. Data alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Literal

__all__ = ["LISTINGS", "Detail", "Listing", "Region"]

Region = Literal["client", "global", "location"]
"""Where a resource is: where its client is, nowhere in particular, or where GetBucketLocation says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Detail:
    """A call for one resource. `argument` gets the value of `key` in the resource as it was listed."""

    operation: str
    argument: str
    key: str
    fixed: Mapping[str, str] = field(default_factory=dict)
    nothing: frozenset[str] = frozenset()
    """Error codes that are an answer: there is no such detail."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """A paginated call and what to read from its pages. `items` leads to the items, `id` is a key of each."""

    operation: str
    items: tuple[str, ...]
    type: str
    id: str
    page_size: int | None = None
    details: tuple[Detail, ...] = ()
    region: Region = "client"


def _of_role(operation: str) -> Detail:
    return Detail(operation=operation, argument="RoleName", key="RoleName")


def _of_bucket(operation: str, *nothing: str) -> Detail:
    return Detail(operation=operation, argument="Bucket", key="Name", nothing=frozenset(nothing))


def _of_function(operation: str, *nothing: str) -> Detail:
    return Detail(operation=operation, argument="FunctionName", key="FunctionName", nothing=frozenset(nothing))


LISTINGS: Final[Mapping[str, tuple[Listing, ...]]] = MappingProxyType(
    {
        "iam": (
            Listing(
                operation="list_roles",
                items=("Roles",),
                type="iam:role",
                id="RoleName",
                page_size=5,
                details=(_of_role("list_attached_role_policies"), _of_role("list_role_policies")),
                region="global",
            ),
            Listing(
                operation="list_users",
                items=("Users",),
                type="iam:user",
                id="UserName",
                details=(Detail(operation="list_access_keys", argument="UserName", key="UserName"),),
                region="global",
            ),
        ),
        "lambda": (
            Listing(
                operation="list_functions",
                items=("Functions",),
                type="lambda:function",
                id="FunctionName",
                page_size=50,
                details=(
                    Detail(operation="list_tags", argument="Resource", key="FunctionArn"),
                    _of_function("get_policy", "ResourceNotFoundException"),
                ),
            ),
        ),
        "s3": (
            Listing(
                operation="list_buckets",
                items=("Buckets",),
                type="s3:bucket",
                id="Name",
                details=(
                    _of_bucket("get_bucket_location"),
                    _of_bucket("get_bucket_tagging", "NoSuchTagSet"),
                ),
                region="location",
            ),
        ),
        "ec2": (
            Listing(
                operation="describe_instances",
                items=("Reservations", "Instances"),
                type="ec2:instance",
                id="InstanceId",
                page_size=50,
            ),
            Listing(operation="describe_volumes", items=("Volumes",), type="ec2:volume", id="VolumeId", page_size=100),
            Listing(operation="describe_security_groups", items=("SecurityGroups",), type="ec2:security-group", id="GroupId"),
            Listing(
                operation="describe_vpcs",
                items=("Vpcs",),
                type="ec2:vpc",
                id="VpcId",
                details=(
                    Detail(
                        operation="describe_vpc_attribute",
                        argument="VpcId",
                        key="VpcId",
                        fixed={"Attribute": "enableDnsSupport"},
                    ),
                ),
            ),
            Listing(operation="describe_subnets", items=("Subnets",), type="ec2:subnet", id="SubnetId"),
        ),
        "rds": (
            Listing(
                operation="describe_db_instances",
                items=("DBInstances",),
                type="rds:db",
                id="DBInstanceIdentifier",
                page_size=20,
                details=(Detail(operation="list_tags_for_resource", argument="ResourceName", key="DBInstanceArn"),),
            ),
        ),
    }
)
"""service → its lists, the services whose limits are tightest first, and so that lists are asked for while details are."""
