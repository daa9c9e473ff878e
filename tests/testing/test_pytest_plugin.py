"""The fixtures in fresh test files of a user, in a pytest of their own that finds them by the entry point."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

import cloudretry

pytest_plugins = ["pytester"]

HOME = str(Path(cloudretry.__file__).parents[1])
ENTRY = "[pytest11]\ncloudretry = cloudretry.testing.pytest_plugin\n"
Run = Callable[..., pytest.RunResult]


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Run:
    """`run(text, *arguments)` runs a test file with every warning an error, where cloudretry is installed."""
    installed = pytester.path / "site"
    installed.joinpath("installed-1.dist-info").mkdir(parents=True)
    installed.joinpath("installed-1.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: installed\nVersion: 1\n")
    installed.joinpath("installed-1.dist-info/entry_points.txt").write_text(ENTRY)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join((str(installed), HOME)))

    def run_file(text: str, *arguments: str) -> pytest.RunResult:
        pytester.makepyfile(text)
        return pytester.runpytest_subprocess("-q", "-W", "error", "-p", "no:cacheprovider", *arguments)

    return run_file


USER = """
import boto3, os, pytest
from cloudretry import attach
from cloudretry.simcloud import PUBLISHED, Faults, Limit, Rule

def instances():
    pages = attach(boto3.client("ec2")).get_paginator("describe_instances").paginate()
    return {each["InstanceId"] for page in pages for found in page["Reservations"] for each in found["Instances"]}

def test_a_throttled_discovery_is_complete(cloudretry_cloud, cloudretry_clock):
    cloudretry_cloud.inject(Faults(match="ec2:DescribeInstances", kinds=("throttle",), times=3))
    assert instances() == {name for _, _, kind, name in cloudretry_cloud.resources if kind == "ec2:instance"} != set()
    assert cloudretry_cloud.counters()["throttled"] == 3
    assert len(cloudretry_clock.sleeps) >= 3
    assert os.environ["AWS_ACCESS_KEY_ID"] != "of-the-user" and "AWS_PROFILE" not in os.environ

def test_the_same_server_starts_anew(cloudretry_cloud):
    assert cloudretry_cloud.counters() == {"accepted": 0, "throttled": 0, "rows": []}
    boto3.client("iam").create_user(UserName="stays")
    assert boto3.client("sts").get_caller_identity()["Account"] == cloudretry_cloud.accounts[0]

def test_another_one(make_cloudretry_cloud):
    limits = [Rule(service="sts", actions=("*",), limit=Limit(1, 0), source="this test")]
    theirs = make_cloudretry_cloud(seed=3, limits=limits, fresh=True)
    assert boto3.client("iam").get_paginator("list_users").paginate().build_full_result().keys() == {"Users"}
    assert "stays" not in {user["UserName"] for user in boto3.client("iam").list_users()["Users"]}
    ours = make_cloudretry_cloud()
    assert "stays" in {user["UserName"] for user in boto3.client("iam").list_users()["Users"]}
    assert ours.url != theirs.url and [line.action for line in theirs.log()] == ["ListUsers"] * 2

def test_the_environment_is_as_before():
    assert os.environ["AWS_ACCESS_KEY_ID"] == "of-the-user" and os.environ["AWS_PROFILE"] == "users"
    assert "AWS_ENDPOINT_URL" not in os.environ and boto3.DEFAULT_SESSION is None
"""


@pytest.mark.wire
def test_a_users_tests_run_against_the_simulated_cloud(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "users")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "of-the-user")
    run(USER).assert_outcomes(passed=4)


AZURE = """
import os
from azure.identity import DefaultAzureCredential
from azure.mgmt.resource.resources import ResourceManagementClient
from cloudretry.simcloud import AzureRule, Faults, Limit

def groups(**options):
    with DefaultAzureCredential() as credential:
        with ResourceManagementClient(credential, os.environ["AZURE_SUBSCRIPTION_ID"], **options) as client:
            return {group.id for group in client.resource_groups.list()}

def test_a_disturbed_discovery_is_complete(cloudretry_azure):
    cloudretry_azure.inject(Faults(match="*:GET resourceGroups", kinds=("empty",), times=1))
    assert groups() == {name for _, _, kind, name in cloudretry_azure.resources if kind.endswith("/resourceGroups")} != set()
    assert cloudretry_azure.counters()["empty"] == 1
    assert "AZURE_CLIENT_CERTIFICATE_PATH" not in os.environ

def test_another_one(make_cloudretry_azure, cloudretry_azure, cloudretry_cloud):
    assert cloudretry_azure.log() == []
    limits = [AzureRule(provider="*", operations=("*",), limit=Limit(1, 0.001), source="this test")]
    theirs = make_cloudretry_azure(seed=3, limits=limits, fresh=True)
    assert cloudretry_azure.proxy != theirs.proxy == os.environ["HTTPS_PROXY"]
    assert os.environ["AWS_ENDPOINT_URL"] == cloudretry_cloud.url
    groups()
    assert [line.subscription for line in theirs.log()][-1] == theirs.subscriptions[0]
    assert cloudretry_azure.log() == []

def test_the_environment_is_as_before():
    assert os.environ["AZURE_CLIENT_CERTIFICATE_PATH"] == "of-the-user"
    assert not {"HTTPS_PROXY", "REQUESTS_CA_BUNDLE", "AZURE_TENANT_ID"} & set(os.environ)
"""


@pytest.mark.wire
def test_a_users_tests_run_against_the_simulated_azure(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_CLIENT_CERTIFICATE_PATH", "of-the-user")
    run(AZURE).assert_outcomes(passed=3)


UNRELATED = """
import sys
FORBIDDEN = {"aiohttp", "azure", "boto3", "botocore", "flask", "moto", "pydantic", "click"}
FORBIDDEN |= {"cloudretry.simcloud", "cloudretry.aws", "cloudretry.azure"}

def test_unrelated(pytestconfig):
    assert pytestconfig.pluginmanager.has_plugin("cloudretry")
    assert not FORBIDDEN & set(sys.modules)
"""


def test_whoever_does_not_use_it_is_not_disturbed(run: Run) -> None:
    run(UNRELATED).assert_outcomes(passed=1)


def test_the_fixtures_are_documented(run: Run) -> None:
    shown = run("", "--fixtures").stdout.str()
    fixtures = ("cloudretry_azure", "cloudretry_clock", "cloudretry_cloud", "make_cloudretry_azure", "make_cloudretry_cloud")
    for name in fixtures:
        assert f"\n{name} -- " in shown
    assert "_cloudretry_clouds" not in shown


MISSING = """
import pytest
from cloudretry import simcloud

@pytest.fixture
def cloudretry_cloud(monkeypatch, make_cloudretry_cloud):
    monkeypatch.setattr(simcloud, "find_spec", lambda name: None)
    return make_cloudretry_cloud()

def test_it(cloudretry_cloud):
    pass
"""


def test_without_the_extra_it_says_what_to_install(run: Run) -> None:
    result = run(MISSING)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(['*not installed; run: pip install "cloudretry[[]simulate[]]"*'])
