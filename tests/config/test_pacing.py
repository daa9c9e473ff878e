from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cloudretry.config import Configuration, load_configuration
from cloudretry.config.rendering import parse_call, show, show_call
from cloudretry.config.schema import json_schema
from cloudretry.core.call import Call
from cloudretry.core.match import Match
from cloudretry.core.pacing_settings import KnownRate, PacingSettings
from cloudretry.core.quota import GroupRule, quota_of
from cloudretry.core.settings import Settings
from cloudretry.errors import ConfigurationError

Load = Callable[..., Configuration]

FULL = """
[aws.pacing]
mode = "off"
reserve = 0.25
max_rate = 50
max_in_flight = 16
queue_timeout = "2m"
rates = [
  { match = { service = "ec2", operation = "Describe*" }, rate = 20, burst = 100 },
  { match = { region = "eu-*", account = "111122223333" }, rate = 0.5 },
]
remember = false

[[aws.pacing.groups]]
match = { service = "rds", operation = "Describe*" }
name = "describe calls"

[[aws.pacing.groups]]
match = { service = "rds" }
name = "rest of {operation}"
everywhere = true
"""
EC2 = KnownRate(match=Match(service="ec2", operation="Describe*"), rate=20.0, burst=100.0)
GROUPS = (
    GroupRule(match=Match(service="rds", operation="Describe*"), group="describe calls"),
    GroupRule(match=Match(service="rds"), group="rest of {operation}", everywhere=True),
)
SLOW = KnownRate(match=Match(region="eu-*", account="111122223333"), rate=0.5, burst=1.0)


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """load_configuration of a process that has nothing but what the test gives it."""

    def loaded(source: Any = None, **variables: str) -> Configuration:
        if isinstance(source, str):
            (tmp_path / "c.toml").write_text(source)
            source = tmp_path / "c.toml"
        return load_configuration(source, environ=variables, cwd=tmp_path / "empty")

    return loaded


def test_every_setting_is_read(load: Load) -> None:
    settings = load(FULL).settings
    assert settings.providers["azure"].pacing == PacingSettings()
    assert settings.providers["aws"].pacing == PacingSettings(
        mode="off",
        reserve=0.25,
        max_rate=50.0,
        max_in_flight=16,
        rates=(EC2, SLOW),
        groups=GROUPS,
        queue_timeout=120.0,
        remember=False,
    )


def test_the_built_in_values_are_the_specified_ones(load: Load) -> None:
    built_in = PacingSettings(
        mode="adaptive",
        reserve=0.1,
        max_rate=None,
        max_in_flight=None,
        rates=(),
        groups=(),
        queue_timeout=900.0,
        remember=True,
    )
    assert load().settings.providers["aws"].pacing == built_in


@pytest.mark.parametrize(
    ("operation", "region", "account", "known"),
    [
        ("DescribeInstances", "us-east-1", None, EC2),
        ("DescribeInstances", "eu-west-1", "111122223333", SLOW),  # the last that matches
        ("DescribeInstances", "eu-west-1", None, EC2),
        ("RunInstances", "us-east-1", None, None),
    ],
)
def test_which_rate_is_known_for_a_call(
    load: Load, operation: str, region: str, account: str | None, known: KnownRate | None
) -> None:
    call = Call(provider="aws", service="ec2", operation=operation, region=region, account=account)
    assert load(FULL).settings.providers["aws"].pacing.known_rate(call) == known


def test_what_is_shown_or_compiled_is_equal_again(load: Load) -> None:
    configuration = load(FULL)
    shown = show(configuration)
    assert load(shown.as_toml(with_origins=True)).settings == configuration.settings
    assert Settings.from_json(configuration.settings.to_json()) == configuration.settings


def test_for_one_operation_only_its_rate_is_shown(load: Load) -> None:
    document = show_call(load(FULL), parse_call("ec2:DescribeInstances@-/us-east-1")).document
    assert [known["rate"] for known in document["aws"]["pacing"]["rates"]] == [20.0]
    assert "rates" not in show_call(load(FULL), parse_call("s3:ListBuckets")).document["aws"]["pacing"]


@pytest.mark.parametrize(
    ("operation", "group", "region"),
    [
        ("DescribeDBInstances", "describe calls", "eu-west-1"),  # the first that matches
        ("ListTagsForResource", "rest of ListTagsForResource", ""),  # everywhere
    ],
)
def test_groups_tell_which_calls_are_metered_together(load: Load, operation: str, group: str, region: str) -> None:
    groups = load(FULL).settings.providers["aws"].pacing.groups
    call = Call(provider="aws", service="rds", operation=operation, region="eu-west-1", account="111122223333")
    quota = quota_of(call, rules=groups)
    assert (quota.group, quota.region) == (group, region)


def test_a_group_of_azure_is_for_azure(load: Load) -> None:
    source = {"azure": {"pacing": {"groups": [{"match": {"service": "Microsoft.Sql"}, "name": "all"}]}}}
    (group,) = load(source).settings.providers["azure"].pacing.groups
    assert group == GroupRule(match=Match(service="Microsoft.Sql"), group="all", provider="azure")


def test_for_one_operation_only_its_group_is_shown(load: Load) -> None:
    pacing = show_call(load(FULL), parse_call("rds:DescribeDBInstances@-/us-east-1")).document["aws"]["pacing"]
    assert pacing["groups"] == [{"match": {"service": "rds", "operation": "Describe*"}, "name": "describe calls"}]
    assert "groups" not in show_call(load(FULL), parse_call("s3:ListBuckets")).document["aws"]["pacing"]


def test_a_faulty_group_is_told_with_its_line_and_column(load: Load) -> None:
    with pytest.raises(ConfigurationError) as refused:
        load('[[aws.pacing.groups]]\nmatch = { service = "rds" }\nname = "{operaton}"\neverywhere = "yes"\n')
    assert [problem.partition(" is not")[0].partition("c.toml")[2] for problem in refused.value.problems] == [
        ":3:1: aws.pacing.groups[0].name: '{operaton}'",
        ":4:1: aws.pacing.groups[0].everywhere: 'yes'",
    ]


def test_the_schema_describes_groups() -> None:
    group = json_schema()["$defs"]["Group"]
    assert sorted(group["required"]) == ["match", "name"]
    assert all(item["description"] for item in group["properties"].values())
    assert json_schema()["$defs"]["Pacing"]["properties"]["remember"]["type"] == "boolean"


def test_settings_that_were_compiled_before_there_were_groups_can_still_be_read(load: Load) -> None:
    document = json.loads(load().settings.to_json())
    for entry in document["providers"].values():
        del entry["pacing"]["groups"], entry["pacing"]["remember"]
    assert Settings.from_json(json.dumps(document)) == load().settings


def test_variables_set_single_settings(load: Load) -> None:
    variables = {
        "CLOUDRETRY__AWS__PACING__RESERVE": "0",
        "CLOUDRETRY__AWS__PACING__QUEUE_TIMEOUT_MS": "1500",
        "CLOUDRETRY__AZURE__PACING__GROUPS": '[{"match": {"service": "Microsoft.Sql"}, "name": "all", "everywhere": true}]',
        "CLOUDRETRY__AZURE__PACING__REMEMBER": "no",
        "CLOUDRETRY__AZURE__PACING__RATES": '[{"match": {"service": "compute"}, "rate": 25, "burst": 250}]',
    }
    configuration = load(**variables)
    aws, azure = (configuration.settings.providers[name].pacing for name in ("aws", "azure"))
    assert (aws.reserve, aws.queue_timeout) == (0.0, 1.5)
    assert azure.rates == (KnownRate(match=Match(service="compute"), rate=25.0, burst=250.0),)
    assert azure.groups == (GroupRule(match=Match(service="Microsoft.Sql"), group="all", provider="azure", everywhere=True),)
    assert (aws.remember, azure.remember) == (True, False)
    assert str(configuration.origins["aws.pacing.reserve"]) == "CLOUDRETRY__AWS__PACING__RESERVE"


WRONG = [
    ({"mode": "of"}, "aws.pacing.mode: 'of' is not a mode; accepted: adaptive, off; did you mean off?"),
    ({"reserve": 0.95}, "aws.pacing.reserve: 0.95 is not a share; accepted: a number from 0 to 0.9"),
    ({"reserve": float("nan")}, "aws.pacing.reserve: nan is not a share"),
    ({"max_rate": 0}, "aws.pacing.max_rate: 0 is not a rate; accepted: a number of calls per second above 0, at most 1000000"),
    ({"max_rate": float("inf")}, "aws.pacing.max_rate: inf is not a rate"),
    ({"max_in_flight": 1.5}, "aws.pacing.max_in_flight: 1.5 is not a number of calls; accepted: a whole number from 1"),
    ({"queue_timeout": 5}, 'a number alone has no unit: write queue_timeout = "5s" or queue_timeout_ms = 5'),
    ({"queue_timeout": "1s", "queue_timeout_ms": 1}, "aws.pacing.queue_timeout: is set twice"),
    ({"reserv": 0}, "aws.pacing.reserv: unknown setting; did you mean reserve?"),
    ({"rates": [{"rate": 1}]}, "aws.pacing.rates[0].match: is missing; accepted: a table with at least one of service"),
    ({"rates": [{"match": {"service": "ec2"}}]}, "aws.pacing.rates[0].rate: is missing; accepted: a number of calls"),
    ({"rates": [{"match": {"service": "ec2"}, "rate": -1}]}, "aws.pacing.rates[0].rate: -1 is not a rate"),
    ({"rates": [{"match": {"service": "ec2"}, "rate": 1, "burts": 1}]}, "unknown key of a known rate; did you mean burst?"),
    ({"rates": [{"match": {"servic": "ec2"}, "rate": 1}]}, "rates[0].match.servic: unknown key; a match has service,"),
    ({"rates": [{"match": {"account": 1}, "rate": 1}]}, "a number needs quotes here"),
    ({"rates": [3]}, "aws.pacing.rates[0]: 3 is not a known rate; accepted: a table with match"),
    ({"groups": [{"name": "a"}]}, "aws.pacing.groups[0].match: is missing; accepted: a table with at least one of service"),
    ({"groups": [{"match": {"service": "ec2"}}]}, "aws.pacing.groups[0].name: is missing; accepted: letters, digits"),
    ({"groups": [{"match": {}, "name": "a"}]}, "aws.pacing.groups[0].match: a table of 0 is not a match"),
    ({"groups": [{"match": {"service": "ec2"}, "name": ""}]}, "groups[0].name: '' is not the name of a group"),
    ({"groups": [{"match": {"service": "ec2"}, "name": "{0.__class__}"}]}, "is not the name of a group"),
    ({"groups": [{"match": {"service": "ec2"}, "nam": "a", "name": "a"}]}, "unknown key of a group; did you mean name?"),
    ({"groups": [{"match": {"service": "ec2"}, "name": "a", "everywhere": 1}]}, "1 is not a switch; accepted: true, false"),
    ({"groups": 3}, "aws.pacing.groups: 3 is not a list of groups; accepted: a list of tables, each with match"),
    ({"remember": "yes"}, "aws.pacing.remember: 'yes' is not a switch; accepted: true, false"),
    ({"rates": {}}, "aws.pacing.rates: a table of 0 is not a list of known rates"),
    (3, "aws.pacing: 3 is not a table of settings; accepted: a table of mode, reserve, max_rate"),
]


@pytest.mark.parametrize(("pacing", "problem"), WRONG)
def test_a_faulty_setting_is_told(load: Load, pacing: Any, problem: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        load({"aws": {"pacing": pacing}})
    (told,) = refused.value.problems
    assert problem in told


def test_an_override_does_not_change_pacing(load: Load) -> None:
    with pytest.raises(ConfigurationError, match=r"overrides\[0\].pacing: holds for a whole provider; set it under \[aws\]"):
        load({"aws": {"overrides": [{"match": {"service": "ec2"}, "pacing": {"mode": "off"}}]}})
