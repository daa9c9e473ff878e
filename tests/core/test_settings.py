"""SPEC A1: overrides setting by setting, the built-in entries, and the compiled JSON that a process without pydantic loads."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloudretry.core.builtin import BUILTIN, PRESETS
from cloudretry.core.call import Call
from cloudretry.core.headers import KNOWN_UNITS, HeaderSource, Unit
from cloudretry.core.match import Match
from cloudretry.core.pacing_settings import KnownRate, PacingSettings
from cloudretry.core.pool_settings import Cooldown, Member, PoolSettings, Probe, Slow
from cloudretry.core.quota import GroupRule
from cloudretry.core.settings import (
    THROTTLING,
    Override,
    ProviderSettings,
    RetrySettings,
    Settings,
    for_credentials,
    single_attempt,
)
from cloudretry.errors import ConfigurationError

CALL = Call(provider="aws", service="ec2", operation="DescribeInstances", region="eu-west-1", account="111122223333")


def test_a_call_is_written_as_config_show_takes_it() -> None:
    assert str(CALL) == "ec2:DescribeInstances@111122223333/eu-west-1"
    assert str(Call(provider="aws", service="iam", operation="ListRoles")) == "iam:ListRoles@-/-"


def test_all_overrides_that_match_apply_in_order_setting_by_setting() -> None:
    entry = ProviderSettings(
        overrides=(
            Override(Match(service="ec2"), {"max_retries": 3, "base_delay": 2.0}),
            Override(Match(service="s3"), {"max_retries": 99}),
            Override(Match(operation="Describe*"), {"max_retries": 5}),
        )
    )
    retry = entry.for_call(CALL)
    assert (retry.max_retries, retry.base_delay, retry.max_delay) == (5, 2.0, RetrySettings().max_delay)


@pytest.mark.parametrize(
    ("match", "fits"),
    [
        (Match(), True),
        (Match(service="EC2"), True),
        (Match(service="ec?", region="eu-*"), True),
        (Match(operation="describeinstances"), False),
        (Match(account="111122223333"), True),
        (Match(account="9*"), False),
        (Match(service="ec2", region="us-*"), False),
    ],
)
def test_a_match_wants_every_pattern_to_fit(match: Match, fits: bool) -> None:  # noqa: FBT001 - a table's column
    assert match.matches(CALL) is fits


def test_an_unknown_account_fits_no_pattern_but_the_star() -> None:
    unknown = Call(provider="aws", service="ec2", operation="DescribeInstances")
    assert not Match(account="?*").matches(unknown)
    assert Match(account="*").matches(unknown)


def test_the_built_in_values_are_those_of_the_specification() -> None:
    for provider in ("aws", "azure"):
        retry = BUILTIN.providers[provider].retry
        assert (retry.strategy, retry.max_retries, retry.response_codes) == ("response_header", 8, frozenset({THROTTLING}))
        assert (retry.base_delay, retry.max_delay, retry.additional_delay_window) == (0.5, 20.0, 0.5)
        assert (retry.max_header_delay, retry.time_budget) == (300.0, 330.0)
        assert (retry.transient_errors, retry.transient_retries) == (True, 3)


def test_the_preset_example_is_the_published_one() -> None:
    for retry in PRESETS["example"].values():
        assert (retry.max_retries, retry.response_codes) == (3, frozenset({429}))
        assert (retry.base_delay, retry.max_delay, retry.additional_delay_window) == (1.0, 10.0, 1.5)
        assert retry.response_header == (HeaderSource("retry-after", Unit.SECONDS),)


RETRIES = st.builds(
    RetrySettings,
    strategy=st.sampled_from(["exponential", "response_header", "custom", "sdk"]),
    max_retries=st.integers(0, 10**6),
    response_codes=st.frozensets(st.integers(100, 599) | st.text(max_size=9), max_size=4),
    base_delay=st.floats(0, 1e6),
    response_header=st.lists(
        st.builds(HeaderSource, st.sampled_from(sorted(KNOWN_UNITS)), st.sampled_from(Unit)), max_size=3
    ).map(tuple),
    plugin=st.none() | st.text(max_size=9),
    plugin_options=st.dictionaries(st.text(max_size=5), st.integers() | st.text() | st.booleans() | st.none(), max_size=3),
    transient_errors=st.booleans(),
)
OVERRIDES = st.builds(
    Override,
    st.builds(Match, service=st.text(max_size=5)),
    st.fixed_dictionaries(
        {}, optional={"max_retries": st.integers(0, 9), "response_codes": st.frozensets(st.integers(100, 599))}
    ),
)
PACING = st.builds(
    PacingSettings,
    mode=st.sampled_from(["adaptive", "off"]),
    reserve=st.floats(0, 0.9),
    max_rate=st.none() | st.floats(0, 1e6, exclude_min=True),
    rates=st.lists(
        st.builds(KnownRate, match=st.builds(Match, region=st.text(max_size=5)), rate=st.floats(1, 9), burst=st.just(2.0)),
        max_size=2,
    ).map(tuple),
    groups=st.lists(
        st.builds(
            GroupRule, match=st.builds(Match, region=st.text(max_size=5)), group=st.text(max_size=5), everywhere=st.booleans()
        ),
        max_size=2,
    ).map(tuple),
    remember=st.booleans(),
)
ENTRIES = st.builds(ProviderSettings, retry=RETRIES, overrides=st.lists(OVERRIDES, max_size=3).map(tuple), pacing=PACING)
MEMBERS = st.builds(Member, name=st.text(max_size=5), url=st.none() | st.text(max_size=9), weight=st.integers(1, 9))
POOLS = st.builds(
    PoolSettings,
    name=st.text(max_size=5),
    members=st.lists(MEMBERS, max_size=3).map(tuple),
    bypass=st.lists(st.text(max_size=5), max_size=3).map(tuple),
    cooldown=st.builds(Cooldown, initial=st.floats(0.001, 9)),
    probe=st.builds(Probe, kind=st.just("https_get"), url=st.text(max_size=9)),
    slow=st.builds(Slow, threshold=st.none() | st.integers(1, 9)),
)


@settings(derandomize=True, deadline=None)
@given(st.dictionaries(st.sampled_from(["aws", "azure"]), ENTRIES), st.dictionaries(st.text(max_size=5), POOLS, max_size=2))
def test_compiled_settings_are_read_back_equal(providers: dict[str, ProviderSettings], pools: dict[str, PoolSettings]) -> None:
    compiled = Settings(providers=providers, pools=pools)
    assert Settings.from_json(compiled.to_json()) == compiled
    assert pickle.loads(pickle.dumps(compiled)) == compiled  # noqa: S301 - our own


def test_compiled_settings_do_not_depend_on_the_hash_seed() -> None:
    command = "from cloudretry.core.builtin import *; from cloudretry.core.settings import *; from dataclasses import replace\n"
    command += "retry = replace(PRESETS['example']['aws'], response_codes=frozenset({429, 503, 'SlowDown', 'Throttling'}))\n"
    command += "print(Settings(providers={'aws': ProviderSettings(retry=retry)}).to_json())"
    outputs = {
        subprocess.run(  # our own interpreter
            [sys.executable, "-c", command], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(outputs) == 1


def test_settings_can_be_pickled() -> None:
    assert pickle.loads(pickle.dumps(BUILTIN)) == BUILTIN  # noqa: S301 - our own


def test_calls_for_credentials_end_soon() -> None:
    assert for_credentials(BUILTIN.providers["aws"].retry) == RetrySettings(
        response_header=BUILTIN.providers["aws"].retry.response_header,
        max_retries=3,
        max_delay=2.0,
        max_header_delay=10.0,
        time_budget=10.0,
    )


def test_bounds_never_widen() -> None:
    narrow = RetrySettings(max_retries=1, max_delay=0.5, max_header_delay=0.5, time_budget=1.0)
    assert for_credentials(narrow) == narrow
    assert single_attempt(narrow).max_retries == 0


def damaged(change: Any) -> str:
    document = json.loads(BUILTIN.to_json())
    change(document)
    return json.dumps(document)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "[]",
        '{"format": 2}',
        '{"format": 2, "providers": [], "pools": {}}',
        '{"format": 2, "providers": {"aws": 3}, "pools": {}}',
        '{"format": 2, "providers": {}, "pools": {"corp": 3}}',
        '{"format": 2, "providers": {}, "pools": {"corp": {"name": "corp"}}}',
        damaged(lambda document: document.pop("pools")),
        damaged(lambda document: document["providers"]["aws"].pop("pacing")),
        damaged(lambda document: document["providers"]["aws"]["pacing"].update(weather="fine")),
        damaged(lambda document: document.update(format=99)),
        damaged(lambda document: document["providers"]["aws"].pop("overrides")),
        damaged(lambda document: document["providers"]["aws"]["retry"].update(weather="fine")),
        damaged(lambda document: document["providers"]["aws"]["retry"].update(response_header=[{"name": "x", "unit": "days"}])),
        BUILTIN.to_json()[:-5],
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError):
        Settings.from_json(text)
