"""Injected throttles, in the words of each protocol, before moto has seen the request."""

from __future__ import annotations

import re
import sys
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from moto import mock_aws

from cloudretry import AwsApiCommand, attach
from cloudretry.errors import MissingExtra
from cloudretry.testing import throttled, virtual_clock


@pytest.mark.parametrize(
    ("service", "operation", "code", "status"),
    [
        ("sts", "GetCallerIdentity", "Throttling", 400),
        ("ec2", "DescribeVpcs", "RequestLimitExceeded", 503),
        ("dynamodb", "ListTables", "ThrottlingException", 400),
        ("lambda", "ListFunctions", "TooManyRequestsException", 429),
        ("s3", "ListBuckets", "SlowDown", 503),
    ],
)
def test_each_protocol_has_its_words(service: str, operation: str, code: str, status: int) -> None:
    from botocore import xform_name

    with mock_aws(), virtual_clock(), throttled(f"{service}:{operation}", times=9) as injected:
        session: Any = boto3.Session()
        call = getattr(attach(session.client(service), configuration={}), xform_name(operation))
        with pytest.raises(ClientError) as caught:
            call()
        assert caught.value.response["Error"]["Code"] == code
        assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == status
        assert injected.count == 9
        assert call()["ResponseMetadata"]["HTTPStatusCode"] == 200


def test_a_throttled_change_is_made_once() -> None:
    with mock_aws(), virtual_clock() as clock, throttled("iam:Create*", times=2, headers={"Retry-After": "3"}) as injected:
        aws = AwsApiCommand()
        aws.execute("iam", "create_user", UserName="once")
        assert [user["UserName"] for user in aws.execute("iam", "list_users")["Users"]] == ["once"]
        assert injected.count == 2
        assert [3.0 <= slept <= 3.5 for slept in clock.sleeps] == [True, True]


@pytest.mark.parametrize("service", ["logs", "cloudwatch-logs", "CloudWatch Logs", "cloudwatch-*"])
def test_a_service_has_a_name_and_an_id(service: str) -> None:
    with mock_aws(), virtual_clock(), throttled(f"{service}:[DX]escribe*", times=1) as injected:
        AwsApiCommand().execute("logs", "describe_log_groups")
    assert injected.count == 1


NEVER = [
    "",
    "nonsense",
    "ec2",
    "ec2:",
    ":DescribeInstances",
    "ec2:describe_instances",
    "ec2:describe*",
    "ec2.DescribeInstances",
]


@pytest.mark.parametrize("pattern", NEVER)
def test_a_pattern_that_can_never_match_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(repr(pattern))} .*service:Operation.*ec2:DescribeInstances"):
        throttled(pattern, times=1).__enter__()


def test_without_botocore_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "botocore", None)
    with pytest.raises(MissingExtra, match=r"cloudretry\[aws\]"):
        throttled("ec2:*", times=1).__enter__()


def test_what_does_not_match_and_what_comes_later_is_left_alone() -> None:
    with mock_aws():
        client = boto3.client("sts")
        with throttled("ec2:*", times=5) as injected:
            client.get_caller_identity()
        with throttled("sts:*", times=5):
            pass
        client.get_caller_identity()
    assert injected.count == 0
