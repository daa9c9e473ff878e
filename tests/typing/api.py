"""Typed calls of the public names; checked by mypy and pyright, never run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import boto3
from azure.core import PipelineClient
from azure.core.rest import HttpRequest, HttpResponse
from azure.mgmt.resource.resources import ResourceManagementClient
from azure.mgmt.resource.resources.aio import ResourceManagementClient as AsyncResourceManagementClient
from typing_extensions import assert_type

import cloudretry

if TYPE_CHECKING:
    from azure.core.credentials import TokenCredential as DefaultCredential


def commands(session: boto3.Session) -> None:
    with cloudretry.AwsApiCommand(session, account="111122223333", configuration=Path("cloudretry.toml")) as aws:
        assert_type(aws, cloudretry.AwsApiCommand)
        assert_type(aws.report, cloudretry.Report)
        assert_type(aws.execute("ec2", "describe_regions", region_name="eu-west-1"), dict[str, Any])
        assert_type(aws.paginate("ec2", "describe_instances"), Iterator[dict[str, Any]])
        aws.report.raise_if_lost()
    cloudretry.AwsApiCommand(boto3.Session, configuration={"aws": {"max_retries": 3}})


def azure(credential: DefaultCredential) -> None:
    with cloudretry.AzureApiCommand(credential, "00000000-0000-0000-0000-000000000001", configuration=None) as az:
        assert_type(az, cloudretry.AzureApiCommand)
        assert_type(az.client(ResourceManagementClient), ResourceManagementClient)
        assert_type(az.report, cloudretry.Report)


def installing() -> None:
    cloudretry.install()
    cloudretry.install({"aws": {"max_retries": 3}}, report=cloudretry.Report())


def attaching(session: boto3.Session, client: ResourceManagementClient, aio: AsyncResourceManagementClient) -> None:
    assert_type(cloudretry.attach(session), boto3.Session)
    assert_type(cloudretry.attach(client), ResourceManagementClient)
    assert_type(cloudretry.attach(aio, configuration={}, account="a"), AsyncResourceManagementClient)
    assert_type(
        cloudretry.attach(PipelineClient[HttpRequest, HttpResponse]("https://x.example")),
        PipelineClient[HttpRequest, HttpResponse],
    )
    report = cloudretry.Report()
    assert_type(cloudretry.attach(session, configuration=None, report=report), boto3.Session)


def configuring() -> None:
    assert_type(cloudretry.load_configuration({"aws": {"strategy": "exponential"}}), cloudretry.Configuration)


def errors(error: Exception) -> None:
    told = cloudretry.history(error)
    assert_type(told, cloudretry.History | None)
    if told is not None:
        assert_type(told.attempts, tuple[cloudretry.Attempt, ...])


class Backoff:
    def getDelay(self, context: cloudretry.BackoffContext) -> float | None:  # noqa: N802 - the published name
        return None if context.retry_number > context.max_retries else 250.0
