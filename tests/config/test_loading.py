from __future__ import annotations

import copy
import json
import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloudretry.config import Configuration, load_configuration
from cloudretry.config.durations import write_duration
from cloudretry.config.rendering import show
from cloudretry.core.builtin import BUILTIN, PRESETS
from cloudretry.core.call import Call
from cloudretry.core.headers import HeaderSource, Unit
from cloudretry.core.settings import Match, Override, RetrySettings, Settings

EXAMPLES = settings(max_examples=60, deadline=None, derandomize=True)

Load = Callable[..., Configuration]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """load_configuration of a process that has nothing but what the test gives it."""

    def loaded(source: Any = None, *, users: str = "", found: str = "", **variables: str) -> Configuration:
        if users:
            (tmp_path / "users.toml").write_text(users)
            variables["CLOUDRETRY_CONFIG"] = str(tmp_path / "users.toml")
        if found:
            (tmp_path / "cloudretry.toml").write_text(found)
        return load_configuration(source, environ=variables, cwd=tmp_path)

    return loaded


def aws(configuration: Configuration) -> RetrySettings:
    return configuration.settings.providers["aws"].retry


def test_nothing_configured_is_the_built_in_entry(load: Load) -> None:
    configuration = load()
    assert configuration.settings == BUILTIN
    assert configuration.warnings == ()
    assert set(map(str, configuration.origins.values())) == {"built-in"}


def test_the_built_in_values_are_the_specified_ones(load: Load) -> None:
    assert aws(load()) == RetrySettings(
        strategy="response_header",
        max_retries=8,
        response_codes=frozenset({"throttling"}),
        base_delay=0.5,
        max_delay=20.0,
        additional_delay_window=0.5,
        response_header=(
            HeaderSource("x-amz-retry-after", Unit.MILLISECONDS),
            HeaderSource("retry-after", Unit.SECONDS),
        ),
        max_header_delay=300.0,
        time_budget=330.0,
        transient_errors=True,
        transient_retries=3,
    )


def test_the_published_example_is_the_preset_example(load: Load) -> None:
    written_out = {
        "strategy": "response_header",
        "max_retries": 3,
        "response_codes": [429],
        "base_delay_ms": 1000,
        "max_delay_ms": 10_000,
        "additional_delay_window_ms": 1500,
        "response_header": "Retry-After",
        "response_header_delay_unit": "seconds",
    }
    by_name = load({"aws": {"preset": "example"}, "azure": {"preset": "example"}})
    by_value = load({"aws": written_out, "azure": written_out})
    assert by_name.settings == by_value.settings


def test_the_preset_of_azure_core_sets_the_internal_strategy(load: Load) -> None:
    assert load({"azure": {"preset": "azure-core"}}).settings.providers["azure"].retry.strategy == "sdk"


@pytest.mark.parametrize("form", ["toml", "json", "yaml"])
def test_one_configuration_in_every_format(form: str, tmp_path: Path) -> None:
    text = {
        "toml": '[aws]\nmax_retries = 3\n[[aws.overrides]]\nmatch = {service = "ec2"}\nmax_delay_ms = 1500\n',
        "json": '{"aws": {"max_retries": 3, "overrides": [{"match": {"service": "ec2"}, "max_delay_ms": 1500}]}}',
        "yaml": "aws:\n  max_retries: 3\n  overrides:\n  - match: {service: ec2}\n    max_delay_ms: 1500\n",
    }[form]
    file = tmp_path / f"config.{form}"
    file.write_text(text)
    entry = load_configuration(file, environ={}, cwd=tmp_path).settings.providers["aws"]
    assert entry.retry.max_retries == 3
    assert entry.overrides == (Override(Match(service="ec2"), {"max_delay": 1.5}),)


def test_user_defined_is_custom(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cloudretry.config.loading._installed_plugins", lambda: {"mine": None})
    retry = aws(load({"aws": {"strategy": "user_defined", "plugin": "mine", "plugin_options": {"key": "${env:KEY}"}}}))
    assert (retry.strategy, retry.plugin, retry.plugin_options) == ("custom", "mine", {"key": "${env:KEY}"})


def test_all_matching_overrides_apply_in_order(load: Load) -> None:
    entry = load(
        {
            "aws": {
                "overrides": [
                    {"match": {"service": "EC2"}, "max_retries": 3, "base_delay": "1s"},
                    {"match": {"operation": "Describe*", "region": "eu-*"}, "max_retries": 5},
                ]
            }
        }
    ).settings.providers["aws"]
    call = Call(provider="aws", service="ec2", operation="DescribeInstances", region="eu-west-1")
    assert (entry.for_call(call).max_retries, entry.for_call(call).base_delay) == (5, 1.0)


UNITS = [
    ("Retry-After", None, Unit.SECONDS),
    ("Retry-After", "milliseconds", Unit.SECONDS),  # known headers carry their own
    ({"name": "Retry-After", "unit": "minutes"}, "milliseconds", Unit.MINUTES),
    ("X-Own", None, Unit.SECONDS),
    ("X-Own", "hh:mm:ss", Unit.CLOCK),
    ("retry-after-ms", "minutes", Unit.MILLISECONDS),
]


@pytest.mark.parametrize(("header", "default", "unit"), UNITS)
def test_the_unit_of_a_header(load: Load, header: Any, default: str | None, unit: Unit) -> None:
    entry = {"response_header": header} | ({"response_header_delay_unit": default} if default else {})
    (source,) = aws(load({"aws": entry})).response_header
    assert source.unit is unit
    assert source.name == (header if isinstance(header, str) else header["name"]).lower()


def test_the_unit_may_come_from_another_layer(load: Load) -> None:
    configuration = load({"aws": {"response_header": ["X-Own"]}}, CLOUDRETRY__AWS__RESPONSE_HEADER_DELAY_UNIT="minutes")
    assert aws(configuration).response_header == (HeaderSource("x-own", Unit.MINUTES),)


def test_lists_replace_across_layers(load: Load) -> None:
    configuration = load({"aws": {"response_codes": [503]}}, users='[aws]\nresponse_codes = [429, "throttling"]\n')
    assert aws(configuration).response_codes == {503}


def test_settings_of_any_layer_win_over_the_preset_and_the_highest_preset_counts(load: Load) -> None:
    configuration = load(
        {"aws": {"preset": "example"}}, users='[aws]\npreset = "builtin"\nmax_delay = "7s"\n', found="[aws]\nmax_retries = 2\n"
    )
    retry = aws(configuration)
    assert (retry.base_delay, retry.max_delay, retry.max_retries) == (1.0, 7.0, 2)
    assert str(configuration.origins["aws.base_delay"]) == "argument (preset example)"
    assert str(configuration.origins["aws.max_delay"]).endswith("users.toml:3:1")


# The layers, highest first, and what each may set here.
LAYERS = ("argument", "environment", "users", "found")
COUNTS: dict[str, tuple[Any, ...]] = {"max_retries": (1, 2, 3, 4), "transient_retries": (1, 2, 3, 4)}
DELAYS: dict[str, tuple[Any, ...]] = {
    "base_delay": (0.1, 0.2, 0.3, 0.4),
    "max_delay": (1.0, 2.0, 3.0, 4.0),
    "time_budget": (60.0, 7200.0, 61.0, 0.0),
}


def _text(setting: str, level: int) -> tuple[str, Any]:
    """How this layer spells a setting: (key, value)."""
    if setting in COUNTS:
        return setting, COUNTS[setting][level]
    seconds = DELAYS[setting][level]
    return (f"{setting}_ms", seconds * 1000) if level % 2 else (setting, write_duration(seconds))


@EXAMPLES
@given(
    st.fixed_dictionaries(
        {(provider, setting): st.sets(st.integers(0, 3)) for provider in ("aws", "azure") for setting in COUNTS | DELAYS}
    )
)
def test_the_first_layer_that_sets_a_setting_wins(chosen: dict[tuple[str, str], set[int]]) -> None:
    tables: list[dict[str, dict[str, Any]]] = [{"aws": {}, "azure": {}} for _ in LAYERS]
    for (provider, setting), levels in chosen.items():
        for level in levels:
            key, value = _text(setting, level)
            tables[level][provider][key] = value
    with tempfile.TemporaryDirectory() as folder:
        environ = {
            f"CLOUDRETRY__{provider.upper()}__{key.upper()}": str(value)
            for provider, entry in tables[1].items()
            for key, value in entry.items()
        }
        environ["XDG_CONFIG_HOME"] = folder
        Path(folder, "cloudretry").mkdir()
        Path(folder, "cloudretry", "config.json").write_text(json.dumps(tables[2]))
        Path(folder, "cloudretry.toml").write_text(
            "".join(
                f"[{provider}]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in entry.items())
                for provider, entry in tables[3].items()
            )
        )
        configuration = load_configuration(tables[0], environ=environ, cwd=folder)
    sources = ("argument", "CLOUDRETRY__", "config.json:", "cloudretry.toml:")
    for (provider, setting), levels in chosen.items():
        value = getattr(configuration.settings.providers[provider].retry, setting)
        origin = str(configuration.origins[f"{provider}.{setting}"])
        if levels:
            assert value == (COUNTS | DELAYS)[setting][min(levels)]
            assert sources[min(levels)] in origin
        else:
            assert value == getattr(PRESETS["builtin"][provider], setting)
            assert origin == "built-in"


def test_a_configuration_is_complete_and_comes_back_as_it_is(load: Load) -> None:
    configuration = load({"aws": {"max_retries": 1}})
    assert load(configuration, CLOUDRETRY__AWS__MAX_RETRIES="5") is configuration


def test_a_configuration_can_be_pickled_and_copied(load: Load) -> None:
    configuration = load({"aws": {"overrides": [{"match": {"service": "s3"}, "max_retries": 1}]}})
    assert pickle.loads(pickle.dumps(configuration)) == configuration  # noqa: S301 - our own
    assert copy.deepcopy(configuration) == configuration


def test_the_callers_mapping_may_hold_tuples_and_sets(load: Load) -> None:
    configuration = load({"aws": {"response_codes": {429, "throttling"}, "response_header": ("A", "B")}})
    assert aws(configuration).response_codes == {429, "throttling"}
    assert [source.name for source in aws(configuration).response_header] == ["a", "b"]


def test_origins_tell_line_and_column_of_overrides(load: Load) -> None:
    text = '[aws]\nmax_retries = 3\n[[aws.overrides]]\nmatch = {service = "ec2"}\nbase_delay_ms = 5\n'
    origins = {name: str(place) for name, place in load(users=text).origins.items()}
    assert origins["aws.max_retries"].endswith("users.toml:2:1")
    assert origins["aws.overrides[0]"].endswith("users.toml:3:7")
    assert origins["aws.overrides[0].base_delay"].endswith("users.toml:5:1")


def test_files_are_told_so_that_they_can_be_watched(load: Load) -> None:
    configuration = load(users="[aws]\n", found="[azure]\n")
    assert [os.path.basename(path) for path in configuration.files] == ["users.toml", "cloudretry.toml"]  # noqa: PTH119


def test_an_empty_variable_names_no_file(load: Load) -> None:
    assert load(CLOUDRETRY_CONFIG="").settings == BUILTIN


def test_variables_that_are_no_settings_are_left_alone(load: Load) -> None:
    assert load(CLOUDRETRY_DISABLED="1", CLOUDRETRY_STATE_DIR="/nowhere", CLOUDRETRYX="1").settings == BUILTIN


def test_the_file_named_by_the_variable_replaces_the_users_folder(tmp_path: Path) -> None:
    (tmp_path / "cloudretry").mkdir()
    (tmp_path / "cloudretry" / "config.toml").write_text("[aws]\nmax_retries = 1\n")
    (tmp_path / "named.toml").write_text("[azure]\nmax_retries = 2\n")
    environ = {"XDG_CONFIG_HOME": str(tmp_path), "CLOUDRETRY_CONFIG": "named.toml"}
    configuration = load_configuration(environ=environ, cwd=tmp_path)
    assert aws(configuration).max_retries == 8
    assert configuration.settings.providers["azure"].retry.max_retries == 2


def test_home_stands_in_for_xdg_config_home(tmp_path: Path) -> None:
    folder = tmp_path / ".config" / "cloudretry"
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text("aws:\n  max_retries: 1\n")
    for environ in ({"HOME": str(tmp_path)}, {"HOME": str(tmp_path), "XDG_CONFIG_HOME": "relative"}):
        assert aws(load_configuration(environ=environ, cwd=tmp_path)).max_retries == 1
    (folder / "config.json").write_text('{"aws": {"max_retries": 2}}')
    configuration = load_configuration(environ={"HOME": str(tmp_path)}, cwd=tmp_path)
    assert aws(configuration).max_retries == 2
    assert "config.yaml: not read" in configuration.warnings[0]


ENVIRONMENT = [
    ("MAX_RETRIES", " 5 ", "max_retries", 5),
    ("BASE_DELAY", "400ms", "base_delay", 0.4),
    ("BASE_DELAY_MS", "400", "base_delay", 0.4),
    ("MAX_DELAY_MS", "1500.5", "max_delay", 1.5005),
    ("TRANSIENT_ERRORS", "No", "transient_errors", False),
    ("TRANSIENT_ERRORS", "1", "transient_errors", True),
    ("RESPONSE_CODES", "429, 503,throttling", "response_codes", frozenset({429, 503, "throttling"})),
    ("RESPONSE_CODES", '[429, "SlowDown"]', "response_codes", frozenset({429, "SlowDown"})),
    (
        "RESPONSE_HEADER",
        "X-A, Retry-After",
        "response_header",
        (HeaderSource("x-a", Unit.SECONDS), HeaderSource("retry-after", Unit.SECONDS)),
    ),
    ("RESPONSE_HEADER", '{"name": "X-A", "unit": "minutes"}', "response_header", (HeaderSource("x-a", Unit.MINUTES),)),
    ("PLUGIN_OPTIONS", '{"a": [1, {"b": true}]}', "plugin_options", {"a": [1, {"b": True}]}),
    ("STRATEGY", "exponential", "strategy", "exponential"),
]


@pytest.mark.parametrize(("variable", "text", "setting", "value"), ENVIRONMENT)
def test_a_variable_is_text_that_becomes_a_value(load: Load, variable: str, text: str, setting: str, value: object) -> None:
    configuration = load(**{f"CLOUDRETRY__AWS__{variable}": text})
    assert getattr(aws(configuration), setting) == value
    assert str(configuration.origins[f"aws.{setting}"]) == f"CLOUDRETRY__AWS__{variable}"


def test_overrides_in_a_variable(load: Load) -> None:
    configuration = load(CLOUDRETRY__AWS__OVERRIDES='[{"match": {"region": "eu-*"}, "max_retries": 1}]')
    assert configuration.settings.providers["aws"].overrides == (Override(Match(region="eu-*"), {"max_retries": 1}),)


def test_compiled_settings_are_read_back_equal(load: Load) -> None:
    overrides = [
        {"match": {"service": "s3"}, "response_codes": [503, "SlowDown"], "response_header": [{"name": "X", "unit": "minutes"}]}
    ]
    compiled = load({"aws": {"plugin_options": {"a": {"b": [1, 2.5, "ö"]}}, "overrides": overrides}}).settings
    assert Settings.from_json(compiled.to_json()) == compiled


WITHOUT_PYDANTIC = """
import sys
sys.modules["pydantic"] = None
from cloudretry.core.settings import Settings
from cloudretry.config import load_configuration
from cloudretry.errors import ConfigurationError
assert load_configuration(environ={}, cwd=sys.argv[1]).settings.providers["aws"].retry.max_retries == 8
try:
    load_configuration({"aws": {}}, environ={}, cwd=sys.argv[1])
except ConfigurationError as error:
    assert str(error) == "argument: can't be judged here: pydantic is not installed; hand compiled settings over instead"
else:
    raise AssertionError
print(Settings.from_json(sys.stdin.read()).providers["aws"].retry.max_retries)
assert not any(name.startswith(("pydantic_core", "boto", "azure", "rich", "click")) for name in sys.modules)
"""


def test_a_process_without_pydantic_loads_compiled_settings(load: Load, tmp_path: Path) -> None:
    compiled = load({"aws": {"max_retries": 7, "preset": "example"}}).settings.to_json()
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_PYDANTIC, str(tmp_path)],
        input=compiled,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "7\n", "")


CHANGES = st.fixed_dictionaries(
    {},
    optional={
        "max_retries": st.integers(0, 100),
        "base_delay": st.integers(0, 86_400_000).map(lambda number: f"{number}ms"),
        "max_delay_ms": st.floats(0, 86_400_000),
        "time_budget": st.sampled_from(["0s", "1.5s", "24h", "90m"]),
        "strategy": st.sampled_from(["exponential", "response_header"]),
        "response_codes": st.lists(st.integers(400, 599) | st.sampled_from(["throttling", "SlowDown"]), min_size=1, max_size=5),
        "response_header": st.lists(
            st.sampled_from(["Retry-After", "X-Own", ":error-text", {"name": "X-Own", "unit": "hh:mm:ss"}]),
            min_size=1,
            max_size=9,
        ),
        "plugin_options": st.dictionaries(
            st.text(st.characters(codec="utf-8"), max_size=5),
            st.recursive(
                st.booleans()
                | st.integers(-(2**63), 2**63 - 1)
                | st.floats(allow_nan=False, allow_infinity=False)
                | st.text(st.characters(codec="utf-8"), max_size=8),
                lambda inner: (
                    st.lists(inner, max_size=3)
                    | st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=3), inner, max_size=3)
                ),
                max_leaves=6,
            ),
            max_size=3,
        ).filter(lambda options: "${" not in repr(options)),
    },
)
PATTERN = st.text("abc*?[]-:.DI12", min_size=1, max_size=6)
MATCH = st.dictionaries(st.sampled_from(["service", "operation", "region", "account"]), PATTERN, min_size=1)
ENTRY = st.builds(
    lambda entry, overrides, more: {**entry, **more, **({"overrides": overrides} if overrides else {})},
    CHANGES,
    st.lists(st.builds(lambda match, changes: {"match": match, **changes}, MATCH, CHANGES), max_size=3),
    st.fixed_dictionaries(
        {}, optional={"mode": st.sampled_from(["enforce", "observe"]), "preset": st.sampled_from(["builtin", "example"])}
    ),
)


@EXAMPLES
@given(ENTRY, st.sampled_from(["toml", "json"]))
def test_what_is_shown_and_compiled_is_what_holds(entry: dict[str, Any], form: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        configuration = load_configuration({"aws": entry, "azure": {"preset": "azure-core"}}, environ={}, cwd=folder)
        shown = show(configuration)
        file = Path(folder, f"shown.{form}")
        file.write_text(shown.as_toml(with_origins=True) if form == "toml" else shown.as_json())
        again = load_configuration(file, environ={}, cwd=folder)
    assert again.settings == configuration.settings
    assert Settings.from_json(configuration.settings.to_json()) == configuration.settings
