"""What makes moto faster must not change a byte of its answers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import cloudretry

SCRIPT = """
import os, re
os.environ |= {"MOTO_EC2_LOAD_DEFAULT_AMIS": "false"}
import boto3
from moto.moto_api._internal import mock_random
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.test import Client
from cloudretry.simcloud.inventory import build_inventory
from cloudretry.simcloud.memo import make_moto_remember

inventory = build_inventory(5, 1, ("eu-west-1",), size=0.1)
instance = min(name for _, _, kind, name in inventory.resources if kind == "ec2:instance")
client = Client(DomainDispatcherApplication(create_backend_app))

def ask(service, **form):
    mock_random.seed(1)  # request ids
    scope = f"AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20260101/eu-west-1/{service}/aws4_request, SignedHeaders=x"
    headers = {"Authorization": scope, "x-moto-account-id": "111122223333"}
    answer = client.post("/", data=form, headers=headers)
    return answer.status_code, re.sub(rb"\\d{4}-\\d\\d-\\d\\dT[\\d:.]+Z", b"NOW", answer.data)

def answers():
    for action in ("DescribeInstances", "DescribeVolumes", "DescribeSecurityGroups", "DescribeSubnets", "DescribeVpcs"):
        yield ask("ec2", Action=action, Version="2016-11-15", MaxResults="5")
    yield ask("ec2", Action="DescribeVolumes", Version="2016-11-15", **{"VolumeId.1": "vol-nosuch"})
    for name in (instance, "i-nosuch"):
        yield ask("ec2", Action="DescribeInstanceAttribute", Version="2016-11-15", InstanceId=name, Attribute="userData")
    for action in ("ListRoles", "ListUsers"):
        yield ask("iam", Action=action, Version="2010-05-08")
    yield ask("rds", Action="DescribeDBInstances", Version="2014-10-31")

before = list(answers())
make_moto_remember()
assert list(answers()) == before  # what was learnt from the first element serves the later ones
print([status for status, _ in before], min(len(body) for _, body in before) > 100)
"""


def test_remembering_changes_no_byte() -> None:
    home = str(Path(cloudretry.__file__).parents[1])
    done = subprocess.run([sys.executable, "-c", SCRIPT], cwd=home, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.stdout == "[200, 200, 200, 200, 200, 400, 200, 400, 200, 200, 200] True\n"
