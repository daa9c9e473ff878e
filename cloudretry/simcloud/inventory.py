"""Fills moto's backends with a seeded inventory and tells what is in it. Runs in the server's process only.

A resource is (account, region, type, id), the type spelled as in ARNs. IAM roles and users have the region "global",
S3 buckets that of their location. Types: ec2:instance, ec2:volume, ec2:security-group, ec2:vpc, ec2:subnet,
lambda:function, rds:db, s3:bucket, iam:role, iam:user. What moto makes by itself (default VPCs) is in it too.
The accounts are an organization, whose management account is the first.
"""

from __future__ import annotations

import base64
import io
import json
import zipfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from moto.awslambda.utils import get_backend as get_lambda_backend
from moto.backends import get_backend
from moto.core.config import default_user_config
from moto.moto_api._internal import mock_random
from moto.organizations.models import organizations_backends

from cloudretry.simcloud.numbers import TEAMS, Numbers

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = ["Inventory", "Resource", "account_ids", "build_inventory"]

Resource = tuple[str, str, str, str]

_EXAMPLES = ("111122223333", "444455556666", "777788889999")  # the accounts of AWS's own documentation
_DISCOVERY_USER = "discovery"  # holds the access key that callers get
_FUNCTION_ROLE = "functions"
_POLICIES = ("audit", "deploy", "logs-write", "queue-read")
_TRUST = json.dumps({"Version": "2012-10-17", "Statement": []})
_ALLOW = json.dumps({"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "logs:*", "Resource": "*"}]})


@dataclass(frozen=True, slots=True)
class Inventory:
    """What was made: the keys for each account (as boto3.Session takes them) and the ground truth."""

    credentials: Mapping[str, Mapping[str, str]]
    resources: frozenset[Resource]


def account_ids(count: int) -> tuple[str, ...]:
    """The ids of the simulated accounts."""
    more = (str(999_900_000_000 + number) for number in range(count - len(_EXAMPLES)))
    return (*_EXAMPLES[:count], *more)


def build_inventory(seed: int, accounts: int, regions: Sequence[str], size: float = 1.0) -> Inventory:
    """Make the inventory; the same arguments make the same one, ids included, in a process whose moto is unused."""
    rng = Numbers(seed)
    rng.size = size
    mock_random.seed(seed)
    default_user_config["lambda"] = default_user_config["batch"] = {"use_docker": False}
    credentials: dict[str, Mapping[str, str]] = {}
    resources: set[Resource] = set()
    for account in account_ids(accounts):
        credentials[account] = _make_discovery_user(account)
        home = rng.choice(list(regions))  # most of an account's resources sit in one region
        resources.update((account, "global", *item) for item in _make_iam(account, rng))
        resources.update((account, *item) for item in _make_buckets(account, regions, rng))
        for region in regions:
            scale = 5 if region == home else 1
            for make in (_make_ec2, _make_functions, _make_databases):
                resources.update((account, region, *item) for item in make(account, region, scale, rng))
    _make_organization(*credentials)
    return Inventory(credentials, frozenset(resources))


def _make_discovery_user(account: str) -> Mapping[str, str]:
    iam = get_backend("iam")[account]["aws"]
    iam.create_user(region_name="us-east-1", user_name=_DISCOVERY_USER)
    key = iam.create_access_key(_DISCOVERY_USER)
    return {"aws_access_key_id": key.access_key_id, "aws_secret_access_key": key.secret_access_key}


def _make_organization(management: str, *members: str) -> None:
    organizations = get_backend("organizations")[management]["aws"]
    organizations.create_organization("us-east-1")
    for number, account in enumerate(members, 2):
        organizations.create_account(AccountName=f"account-{number}", Email=f"account-{number}@example.com")
        made = organizations.accounts[-1]
        del organizations_backends.master_accounts[made.id]  # moto draws ids of its own
        made.id = account
        organizations_backends.master_accounts[account] = (management, "aws")


def _make_iam(account: str, rng: Numbers) -> Iterator[tuple[str, str]]:
    iam = get_backend("iam")[account]["aws"]
    policies = [
        iam.create_policy(policy_name=name, path="/", policy_document=_ALLOW, description="", tags=[]).arn for name in _POLICIES
    ]
    names = [f"{rng.choice(TEAMS)}-role-{number:03d}" for number in range(rng.how_many(90, 130))]
    for name in (_FUNCTION_ROLE, *names):
        role = iam.create_role(
            role_name=name,
            assume_role_policy_document=_TRUST,
            path="/",
            permissions_boundary=None,
            description="",
            tags=[],
            max_session_duration="3600",
        )
        for policy in rng.sample(policies, rng.randint(0, 3)):
            iam.attach_role_policy(policy, role.name)
        yield "iam:role", role.name
    for number in range(rng.how_many(15, 30)):
        yield "iam:user", iam.create_user("us-east-1", f"{rng.choice(TEAMS)}-user-{number:02d}").name
    yield "iam:user", _DISCOVERY_USER


def _make_buckets(account: str, regions: Sequence[str], rng: Numbers) -> Iterator[tuple[str, str, str]]:
    s3 = get_backend("s3")[account]["aws"]
    for number in range(rng.how_many(60, 90)):
        region, team = rng.choice(list(regions)), rng.choice(TEAMS)
        name = f"{team}-{account}-{number:03d}"
        s3.create_bucket(name, region)
        if rng.random() < 0.7:  # noqa: PLR2004 - the others answer GetBucketTagging with NoSuchTagSet
            s3.put_bucket_tagging(name, {"team": team})
        yield region, "s3:bucket", name


def _make_ec2(account: str, region: str, scale: int, rng: Numbers) -> Iterator[tuple[str, str]]:
    ec2 = get_backend("ec2")[account][region]
    groups = [
        ec2.create_security_group(f"{rng.choice(TEAMS)}-{number}", "simulated").id
        for number in range(rng.how_many(4, 10, scale))
    ]
    for _ in range(rng.how_many(28, 45, scale)):
        _run_instance(ec2, region, rng.choice(groups), rng)
    for _ in range(rng.how_many(3, 8, scale)):
        ec2.create_volume(size=rng.choice((8, 50, 200)), zone_name=f"{region}a")
    yield from (("ec2:instance", instance.id) for instance in ec2.all_instances())
    yield from (("ec2:volume", volume) for volume in ec2.volumes)
    yield from (("ec2:vpc", vpc) for vpc in ec2.vpcs)
    yield from (("ec2:subnet", subnet) for zone in ec2.subnets.values() for subnet in zone)
    yield from (("ec2:security-group", group) for vpc in ec2.groups.values() for group in vpc)


def _run_instance(ec2: Any, region: str, group: str, rng: Numbers) -> None:
    ec2.run_instances(
        image_id="ami-0123456789abcdef0",
        count=1,
        user_data=None,
        security_group_names=[],
        security_group_ids=[group],
        instance_type=rng.choice(("t3.micro", "m5.large", "c5.xlarge")),
        is_instance_type_default=True,  # skips a slow look into the list of types
        region_name=region,
        tags={"instance": {"team": rng.choice(TEAMS)}},
    )


def _make_functions(account: str, region: str, scale: int, rng: Numbers) -> Iterator[tuple[str, str]]:
    functions = get_lambda_backend(account, region)
    code = _zip("index.py", "def handler(event, context):\n    return event\n")
    for number in range(rng.how_many(8, 14, scale)):
        team = rng.choice(TEAMS)
        spec = {
            "FunctionName": f"{team}-function-{number:03d}",
            "Role": f"arn:aws:iam::{account}:role/{_FUNCTION_ROLE}",
            "Runtime": "python3.13",
            "Handler": "index.handler",
            "Code": {"ZipFile": code},
            "Tags": {"team": team},
        }
        yield "lambda:function", functions.create_function(spec).function_name


def _make_databases(account: str, region: str, scale: int, rng: Numbers) -> Iterator[tuple[str, str]]:
    rds = get_backend("rds")[account][region]
    for number in range(rng.how_many(2, 4, scale)):
        name = f"{rng.choice(TEAMS)}-db-{number:02d}"
        rds.create_db_instance(
            {
                "db_instance_identifier": name,
                "db_instance_class": "db.t3.medium",
                "engine": rng.choice(("postgres", "mysql")),
                "allocated_storage": 20,
                "master_username": "root",
                "master_user_password": "only-simulated",
            }
        )
        yield "rds:db", name


def _zip(name: str, content: str) -> str:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(zipfile.ZipInfo(name), content)
    return base64.b64encode(buffer.getvalue()).decode()
