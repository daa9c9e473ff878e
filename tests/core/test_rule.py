"""The line for 3 a.m. names the setting that decided."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cloudretry.config import load_configuration
from cloudretry.core.call import Call
from cloudretry.core.decision import StopReason
from cloudretry.core.rule import rule_of
from cloudretry.core.settings import Settings, single_attempt

CALL = Call(provider="aws", service="ec2", operation="DescribeVpcs", region="eu-west-1")
TEXT = """\
[aws]
max_retries = 4
pool = "corp"
[aws.pacing]
queue_timeout = "5s"
[[aws.overrides]]
match = { service = "ec2" }
time_budget = "40s"
[[aws.overrides]]
match = { service = "iam" }
time_budget = "50s"
[pools.corp]
members = ["http://127.0.0.1:1"]
retries = 2
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "c.toml"
    path.write_text(TEXT)
    return path


@pytest.fixture
def settings(file: Path) -> Settings:
    """As a process has them that reads compiled ones."""
    return Settings.from_json(load_configuration(file).settings.to_json())


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        (StopReason.MAX_RETRIES, "max_retries=4 ({}:2:1)"),
        (StopReason.TRANSIENT_RETRIES, "transient_retries=3 (built-in)"),
        (StopReason.TIME_BUDGET, "time_budget=40s ({}:8:1)"),
        (StopReason.QUEUE_TIMEOUT, "queue_timeout=5s ({}:5:1)"),
        (StopReason.POOL_RETRIES, "retries=2 ({}:14:1)"),
        (StopReason.POOL_UNAVAILABLE, "when_unavailable=wait (built-in)"),
    ],
)
def test_a_setting_with_its_value_and_its_place(settings: Settings, file: Path, reason: StopReason, expected: str) -> None:
    retry = settings.providers["aws"].for_call(CALL)
    assert rule_of(settings, CALL, retry, reason) == expected.format(file)


@pytest.mark.parametrize("reason", [StopReason.UNREACHABLE, StopReason.NOT_REPLAYABLE, StopReason.CANCELLED, StopReason.SDK])
def test_what_happened_is_no_setting(settings: Settings, reason: StopReason) -> None:
    assert rule_of(settings, CALL, settings.providers["aws"].for_call(CALL), reason) is None


def test_who_only_watches_let_the_sdk_decide() -> None:
    settings = load_configuration({"aws": {"mode": "observe"}}).settings
    assert rule_of(settings, CALL, settings.providers["aws"].retry, StopReason.SDK) == "mode=observe (argument)"


def test_what_held_for_this_call_alone_is_not_blamed_on_a_file(settings: Settings) -> None:
    retry = single_attempt(settings.providers["aws"].for_call(CALL))
    assert rule_of(settings, CALL, retry, StopReason.MAX_RETRIES) == "max_retries=0 (narrowed for this call)"


def test_settings_that_nobody_loaded_have_no_place(settings: Settings) -> None:
    bare = replace(settings, origins={})
    assert bare == settings
    assert rule_of(bare, CALL, settings.providers["aws"].for_call(CALL), StopReason.MAX_RETRIES) == "max_retries=4"
