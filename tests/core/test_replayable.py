"""SPEC C3: what may be sent again although the server has perhaps acted on it."""

from __future__ import annotations

import pytest

from cloudretry.core.replayable import AWS_READS_THAT_CHANGE_SOMETHING, aws_replayable


@pytest.mark.parametrize(
    ("service", "operation"),
    [
        ("ec2", "DescribeInstances"),
        ("iam", "ListRoles"),
        ("iam", "GetUser"),
        ("dynamodb", "BatchGetItem"),
        ("dynamodb", "Query"),
        ("dynamodb", "Scan"),
        ("cloudtrail", "LookupEvents"),
        ("resource-explorer-2", "Search"),
        ("s3", "HeadBucket"),
        ("logs", "FilterLogEvents"),
        ("iam", "SimulatePrincipalPolicy"),
        ("cloudwatch", "BatchGetMetrics"),
        ("iam", "GenerateServiceLastAccessedDetails"),
        ("sts", "AssumeRole"),
        ("sts", "AssumeRoleWithWebIdentity"),
    ],
)
def test_reads_are_sent_again_even_by_post(service: str, operation: str) -> None:
    assert aws_replayable(service, operation, method="POST", has_token=False)


@pytest.mark.parametrize(
    ("service", "operation"),
    [
        ("ec2", "RunInstances"),
        ("sqs", "ReceiveMessage"),
        ("kinesis", "GetRecords"),
        ("sfn", "GetActivityTask"),
        ("ec2", "GettysburgAddress"),
        ("ec2", "ListenToEvents"),
        ("kms", "GenerateDataKey"),
        ("dynamodb", "ExecuteStatement"),
    ],
)
def test_what_changes_something_is_not(service: str, operation: str) -> None:
    assert not aws_replayable(service, operation, method="POST", has_token=False)


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS"])
def test_safe_methods_are_sent_again_whatever_the_name(method: str) -> None:
    assert aws_replayable("lambda", "ExportSomething", method=method, has_token=False)


@pytest.mark.parametrize(("service", "operation"), sorted(AWS_READS_THAT_CHANGE_SOMETHING))
def test_an_exception_in_the_table_holds_for_safe_methods_too(service: str, operation: str) -> None:
    assert not aws_replayable(service, operation, method="GET", has_token=False)


def test_an_idempotency_token_makes_any_operation_replayable() -> None:
    assert aws_replayable("ec2", "RunInstances", method="POST", has_token=True)


@pytest.mark.parametrize("operation", ["PutObject", "UploadPart", "PutBucketTagging"])
def test_an_s3_put_leaves_the_same_state_twice(operation: str) -> None:
    assert aws_replayable("s3", operation, method="PUT", has_token=False)


def test_other_puts_are_not_sent_again() -> None:
    assert not aws_replayable("s3", "CreateBucket", method="PUT", has_token=False)
    assert not aws_replayable("lambda", "PutFunctionConcurrency", method="PUT", has_token=False)
