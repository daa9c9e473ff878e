"""Answers without a send: moto in-process, botocore's Stubber, a user's before-send handler. They must work untouched."""

from __future__ import annotations

import socket
from typing import Any

import boto3
import pytest
from botocore.awsrequest import AWSResponse
from botocore.compat import HTTPHeaders
from botocore.exceptions import ClientError
from botocore.stub import Stubber
from moto import mock_aws

from cloudretry import AwsApiCommand, attach, history


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("something was sent")

    monkeypatch.setattr(socket.socket, "connect", refuse)


@pytest.mark.usefixtures("no_network")
def test_moto_answers_hooked_clients() -> None:
    with mock_aws():
        attach(boto3.client("s3")).create_bucket(Bucket="bucket", CreateBucketConfiguration={"LocationConstraint": "eu-west-1"})
        aws = AwsApiCommand()
        assert [bucket["Name"] for bucket in aws.execute("s3", "list_buckets")["Buckets"]] == ["bucket"]
        assert [bucket.name for bucket in aws.resource("s3").buckets.all()] == ["bucket"]
        session = attach(boto3.Session())
        assert session.client("ec2").describe_vpcs()["Vpcs"][0]["IsDefault"]
        with pytest.raises(ClientError, match="NoSuchBucket") as caught:
            session.client("s3").list_objects_v2(Bucket="none")
        told = history(caught.value)
        assert told is not None
        assert told.reason == "not_retryable"
        assert aws.report.total.lost == 0


@pytest.mark.usefixtures("no_network")
def test_a_throttle_injected_before_moto_is_retried(clock: Any) -> None:
    body = b'{"__type": "ThrottlingException", "message": "Rate exceeded"}'
    injected: list[str] = []

    class Raw:
        def stream(self) -> Any:
            yield body

    def throttled_twice(request: Any, **_: Any) -> AWSResponse | None:
        if len(injected) >= 2:
            return None
        injected.append(request.url)
        return AWSResponse(request.url, 400, HTTPHeaders.from_dict({"Retry-After": "3"}), Raw())

    with mock_aws():
        client = attach(boto3.client("dynamodb"))
        client.meta.events.register_first("before-send.dynamodb.ListTables", throttled_twice)
        answer = client.list_tables()
    assert answer["TableNames"] == []
    assert answer["ResponseMetadata"]["RetryAttempts"] == 2
    assert [3.0 <= slept <= 3.5 for slept in clock.sleeps] == [True, True]


@pytest.mark.usefixtures("no_network")
def test_stubber_users_see_no_difference() -> None:
    client = attach(boto3.client("sts"))
    with Stubber(client) as stubber:
        stubber.add_response("get_caller_identity", {"Account": "1"})
        stubber.add_client_error("get_caller_identity", "Throttling", http_status_code=400)
        assert client.get_caller_identity()["Account"] == "1"
        with pytest.raises(ClientError, match="Throttling") as caught:
            client.get_caller_identity()
    assert history(caught.value) is None


@pytest.mark.usefixtures("no_network")
def test_presigning_sends_nothing_and_is_no_call() -> None:
    aws = AwsApiCommand()
    assert aws.client("s3").generate_presigned_url("get_object", Params={"Bucket": "b", "Key": "k"}).startswith("https://")
    assert aws.report.total.calls == 0
