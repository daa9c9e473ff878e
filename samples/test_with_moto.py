"""How to test a discovery of your own: moto in-process under cloudretry, throttles where you want them, and no waiting.

pip install "cloudretry[aws]" "moto[ec2]" pytest
pytest samples/test_with_moto.py
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from botocore.exceptions import ClientError
from moto import mock_aws

from cloudretry import AwsApiCommand, CallsLost, history
from cloudretry.testing import throttled, virtual_clock

REGION = "eu-west-1"
SETTINGS = {"aws": {"strategy": "response_header", "max_retries": 5}}  # what a test relies on, it says


def instance_ids(aws: AwsApiCommand) -> set[str]:
    """The code under test; yours is imported."""
    pages = aws.paginate("ec2", "describe_instances", region_name=REGION, PaginationConfig={"PageSize": 5})
    return {
        instance["InstanceId"] for page in pages for group in page["Reservations"] for instance in group["Instances"]
    }  # fmt: skip


@pytest.fixture
def there(monkeypatch: pytest.MonkeyPatch) -> Iterator[set[str]]:
    """A cloud with six instances, which take two pages."""
    monkeypatch.setenv("MOTO_EC2_LOAD_DEFAULT_AMIS", "false")  # moto starts faster
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    with mock_aws():  # brings credentials of its own
        ec2 = AwsApiCommand().resource("ec2", REGION)
        yield {instance.id for _ in range(6) for instance in ec2.create_instances(ImageId="ami-1", MinCount=1, MaxCount=1)}


def test_everything_is_found(there: set[str]) -> None:
    """As before: under cloudretry, moto answers as ever."""
    assert instance_ids(AwsApiCommand()) == there


def test_a_throttled_discovery_finds_the_same(there: set[str]) -> None:
    """Two throttles cost two waits and lose nothing. The clock is virtual: the test takes no time."""
    aws = AwsApiCommand(configuration=SETTINGS)
    with virtual_clock() as clock, throttled("ec2:DescribeInstances", times=2) as injected:
        assert instance_ids(aws) == there
    assert injected.count == len(clock.sleeps) == aws.report.total.throttled == 2
    assert sum(clock.sleeps) < 60
    aws.report.raise_if_lost()


def test_it_waits_as_long_as_the_provider_asks(there: set[str]) -> None:
    """A Retry-After is obeyed, and not all workers return in the same moment."""
    with virtual_clock() as clock, throttled("ec2:Describe*", times=1, headers={"Retry-After": "30"}):
        assert instance_ids(AwsApiCommand(configuration=SETTINGS)) == there
    assert 30 <= clock.sleeps[0] <= 31


def test_an_inventory_with_a_hole_does_not_pass_for_a_complete_one(there: set[str]) -> None:
    """When the retries end, the program gets boto3's own error, and the report knows what is missing."""
    aws = AwsApiCommand(configuration=SETTINGS)
    with virtual_clock(), throttled("ec2:DescribeInstances", times=99), pytest.raises(ClientError) as raised:
        instance_ids(aws)
    assert raised.value.response["Error"]["Code"] == "RequestLimitExceeded"
    told = history(raised.value)
    assert told is not None
    assert (told.reason, len(told.attempts)) == ("max_retries", 6)
    with pytest.raises(CallsLost, match="ec2:DescribeInstances"):
        aws.report.raise_if_lost()
    assert instance_ids(aws) == there  # the throttle is over
