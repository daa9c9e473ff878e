"""What a user may write about faults, Retry-After and limits, and what is refused."""

from __future__ import annotations

import pytest

from cloudretry.errors import ConfigurationError
from cloudretry.simcloud import AzureRule, AzureSettings, Faults, Limit, RetryAfter, Rule, Settings
from cloudretry.simcloud.specs import read_azure_limits, read_faults, read_limits, read_retry_after


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("rate=0.02,kinds=cut+page+reset", Faults(rate=0.02, kinds=("cut", "page", "reset"))),
        (
            "match=ec2:Describe*@1/eu-*, times=2, kinds=page, status=403",
            Faults(match="ec2:Describe*@1/eu-*", times=2, kinds=("page",), status=403),
        ),
        ("kinds=slow,seconds=0.5", Faults(kinds=("slow",), seconds=0.5)),
        ('{"kinds": ["reset"], "rate": 0.5}', Faults(kinds=("reset",), rate=0.5)),
    ],
)
def test_faults(text: str, expected: Faults) -> None:
    assert read_faults(text) == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "not key=value"),
        ("cut", "not key=value"),
        ("rat=0.1", "rat is not one of kinds, match, rate"),
        ("rate=often", "often"),
        ("rate=2", "^rate=2.0: rate is between 0 and 1$"),
        ("times=-1", "^times=-1: "),
        ("kinds=page,status=99", "^status=99: "),
        ("kinds=slow,seconds=inf", "^seconds=inf: "),
        ("kinds=cut+fire", r"^kinds=cut\+fire: kinds are some of cut, page, "),
        ('{"kinds": ["cut"', "delimiter"),
        ('{"rate": "often"}', "often|supported"),
        ('{"kinds": 3}', "iterable"),
    ],
)
def test_other_faults_are_refused(text: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        read_faults(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("bucket", RetryAfter()),
        ("2", RetryAfter(seconds=2.0)),
        ("match=s3,seconds=0.5,headers=Retry-After", RetryAfter(match="s3", seconds=0.5, headers=("Retry-After",))),
    ],
)
def test_retry_after(text: str, expected: RetryAfter) -> None:
    assert read_retry_after(text) == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("soon", "could not convert"),
        ("-1", "^seconds=-1.0: seconds are at least 0"),
        ("headers=X-Wait+Wait", r"^headers=X-Wait\+Wait: headers are some of Retry-After, "),
        ("wait=2", "wait is not one of"),
    ],
)
def test_other_waits_are_refused(text: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        read_retry_after(text)


def test_limits() -> None:
    first = '{"service": "ec2", "burst": 9, "refill": 0.5}'
    second = '{"service": "s3", "actions": ["Get*"], "burst": 1, "refill": 0, "shared": true}'
    assert read_limits(f"[{first}, {second}]") == (
        Rule(service="ec2", actions=("*",), limit=Limit(9, 0.5), source="given"),
        Rule(service="s3", actions=("Get*",), limit=Limit(1, 0), source="given", shared=True),
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[", "not JSON"),
        ("{}", "not a list"),
        ("[1]", "not a limit such as"),
        ('[{"service": "ec2"}]', "not a limit such as"),
        ('[{"service": "ec2", "burst": 1, "refill": 1, "color": "red"}]', "not a limit such as"),
        ('[{"service": "ec2", "burst": 0, "refill": 1}]', "^burst=0, refill=1: a burst is at least 1"),
        ('[{"service": "ec2", "burst": "a", "refill": 1}]', "not a limit such as"),
        ('[{"service": "ec2", "burst": 1, "refill": 1, "actions": 3}]', "not a limit such as"),
    ],
)
def test_other_limits_are_refused(text: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        read_limits(text)


def test_limits_of_azure() -> None:
    first = (
        '{"provider": "Microsoft.Compute", "burst": 9, "refill": 0.5, "gate": "provider", "per": ["location"], "name": "Own"}'
    )
    second = '{"provider": "*", "operations": ["GET *"], "burst": 1, "refill": 1, "window": true}'
    assert read_azure_limits(f"[{first}, {second}]") == (
        AzureRule(
            provider="Microsoft.Compute",
            operations=("*",),
            limit=Limit(9, 0.5),
            source="given",
            gate="provider",
            per=("location",),
            name="Own",
        ),
        AzureRule(provider="*", operations=("GET *",), limit=Limit(1, 1), source="given", window=True),
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{}", "not a list of objects such as .*Microsoft.Compute"),
        ('[{"service": "ec2", "burst": 1, "refill": 1}]', "not a limit such as .*Microsoft.Compute.*gate, per, name"),
        ('[{"provider": "*", "burst": 1, "refill": 1, "per": ["team"]}]', "^per=team: per is some of "),
        ('[{"provider": "*", "burst": 1, "refill": 0, "window": true}]', "^window: "),
        ('[{"provider": "*", "burst": 1, "refill": 1, "per": 3}]', "not a limit such as"),
    ],
)
def test_other_limits_of_azure_are_refused(text: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        read_azure_limits(text)


@pytest.mark.parametrize("kind", [Settings, AzureSettings])
@pytest.mark.parametrize("given", [{"faults": "rate=0.5"}, {"limits": [{"burst": 1}]}, {"retry_after": "2"}])
def test_text_in_the_place_of_rules_is_refused(kind: type, given: dict[str, object]) -> None:
    (name,) = given
    with pytest.raises(ConfigurationError, match=f"{name}: a sequence of "):
        kind(**given)
