"""How boto3 reads the answers of an exhausted bucket, service by service, and that moto never sees such requests."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from botocore.exceptions import ClientError

from cloudretry.simcloud.answers import Failure, error_answer
from cloudretry.simcloud.identity import Protocol

if TYPE_CHECKING:
    from cloudretry.simcloud import SimulatedAws

CASES = [
    ("ec2", "describe_instances", {}, "RequestLimitExceeded", 503),
    ("ec2", "describe_instance_attribute", {"InstanceId": "i-1", "Attribute": "userData"}, "RequestLimitExceeded", 503),
    ("sts", "get_caller_identity", {}, "Throttling", 400),
    ("iam", "list_roles", {}, "Throttling", 400),
    ("rds", "describe_db_instances", {}, "Throttling", 400),
    ("dynamodb", "list_tables", {}, "ThrottlingException", 400),
    ("lambda", "list_functions", {}, "TooManyRequestsException", 429),
    ("eks", "list_clusters", {}, "ThrottlingException", 429),
    ("s3", "list_buckets", {}, "SlowDown", 503),
    ("s3", "get_bucket_tagging", {"Bucket": "no-such-bucket"}, "SlowDown", 503),
    ("s3", "head_bucket", {"Bucket": "no-such-bucket"}, "503", 503),  # an answer to HEAD has no body
    ("route53", "list_hosted_zones", {}, "Throttling", 400),
]


def exhaust(client: Any, operation: str, parameters: dict[str, Any]) -> ClientError:
    """Take the only token, whatever moto says, and return how the second call failed."""
    call = getattr(client, operation)
    with suppress(ClientError):
        call(**parameters)
    with pytest.raises(ClientError) as caught:
        call(**parameters)
    return caught.value


@pytest.mark.wire
@pytest.mark.parametrize(("service", "operation", "parameters", "code", "status"), CASES)
def test_boto3_reads_the_answer(
    strict: SimulatedAws, connect: Any, service: str, operation: str, parameters: dict[str, Any], code: str, status: int
) -> None:
    response = exhaust(connect(strict, service), operation, parameters).response
    assert (response["Error"]["Code"], response["ResponseMetadata"]["HTTPStatusCode"]) == (code, status)
    assert response["ResponseMetadata"]["HTTPHeaders"].keys() & {"x-amzn-requestid", "x-amz-request-id"}
    assert (strict.counters()["accepted"], strict.counters()["throttled"]) == (1, 1)


@pytest.mark.wire
def test_lambda_throttles_with_its_modelled_error(strict: SimulatedAws, connect: Any) -> None:
    client = connect(strict, "lambda")
    error = exhaust(client, "list_functions", {})
    assert isinstance(error, client.exceptions.TooManyRequestsException)
    assert error.response["Reason"] == "CallerRateLimitExceeded"


@pytest.mark.wire
def test_a_throttled_request_changes_nothing(strict: SimulatedAws, connect: Any) -> None:
    iam = connect(strict, "iam")
    iam.create_user(UserName="first")
    with pytest.raises(ClientError, match="Rate exceeded"):
        iam.create_user(UserName="second")
    strict.reset()
    names = {user["UserName"] for user in iam.list_users()["Users"]}
    assert "first" in names
    assert "second" not in names


@pytest.mark.wire
@pytest.mark.parametrize(
    ("service", "operation"),
    [("ec2", "describe_vpcs"), ("rds", "describe_db_instances"), ("dynamodb", "list_tables"), ("lambda", "list_functions")],
)
def test_what_breaks_moto_is_a_failure_of_the_service(aws: SimulatedAws, connect: Any, service: str, operation: str) -> None:
    with pytest.raises(ClientError, match="nowhere-1") as caught:
        getattr(connect(aws, service, region="nowhere-1"), operation)()
    assert caught.value.response["Error"]["Code"] == "InternalFailure"
    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 500


@pytest.mark.parametrize("protocol", list(Protocol))
def test_every_answer_names_the_request(protocol: Protocol) -> None:
    fault = Failure(503, "SlowDown", "more <&> later")
    first, second = (error_answer(protocol, fault, each * 8 + "-0000") for each in "ab")
    assert first.status == second.status == 503
    assert first.headers != second.headers
    assert b"<&>" not in first.body or b"{" in first.body
