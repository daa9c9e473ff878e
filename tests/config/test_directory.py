from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cloudretry.config import Configuration, load_configuration
from cloudretry.config.loading import check_file
from cloudretry.config.vocabulary import SETTINGS
from cloudretry.errors import ConfigurationError

Found = Callable[..., Configuration]

WORKABLE = {
    "preset": '"example"',
    "mode": '"observe"',
    "strategy": '"exponential"',
    "max_retries": "5",
    "transient_retries": "1",
    "response_codes": '[429, "throttling"]',
    "response_header": '"X-Own"',
    "response_header_delay_unit": '"minutes"',
    "plugin": '"mine"',
    "plugin_options": "{a = 1}",
    "transient_errors": "true",
    "pool": '""',
    "pacing.mode": '"off"',
    "pacing.reserve": "0.5",
    "pacing.max_rate": "2.5",
    "pacing.max_in_flight": "7",
    "pacing.rates": '[{match = {service = "ec2"}, rate = 20}]',
    "pacing.groups": '[{match = {service = "ec2"}, name = "all"}]',
    "pacing.remember": "false",
    "overrides": '[{match = {service = "ec2"}, max_retries = 1}]',
}
ALLOWED = {
    "strategy", "max_retries", "transient_retries",
    "base_delay", "max_delay", "additional_delay_window", "max_header_delay", "time_budget",
    "pacing.reserve", "pacing.max_rate", "pacing.max_in_flight", "pacing.queue_timeout",
}  # fmt: skip


@pytest.fixture
def found(tmp_path: Path) -> Found:
    """What a process makes of a file in its working directory."""

    def loaded(text: str, name: str = "cloudretry.toml", source: object = None, **variables: str) -> Configuration:
        (tmp_path / name).write_text(text)
        environ = {"XDG_CONFIG_HOME": "/home/me/.config", **variables}
        return load_configuration(source, environ=environ, cwd=tmp_path)  # type: ignore[arg-type]

    return loaded


@pytest.mark.parametrize("setting", SETTINGS)
def test_only_numbers_durations_and_a_built_in_strategy_are_taken(found: Found, setting: str) -> None:
    value = WORKABLE.get(setting, '"1s"')
    text = f"[aws]\n{setting} = {value}\n"
    if setting in ALLOWED:
        assert "cloudretry.toml:2:" in str(found(text).origins[f"aws.{setting}"])
        return
    with pytest.raises(ConfigurationError) as refused:
        found(text)
    (problem,) = refused.value.problems
    assert "cloudretry.toml:2:" in problem
    assert f": aws.{setting}: not accepted in a file found in the working directory" in problem
    assert problem.endswith("set it in /home/me/.config/cloudretry/config.toml")


@pytest.mark.parametrize("strategy", ["custom", "user_defined"])
def test_no_code_is_chosen_there(found: Found, strategy: str) -> None:
    with pytest.raises(ConfigurationError, match="not accepted in a file found"):
        found(f'[azure]\nstrategy = "{strategy}"\n')


def test_the_other_spelling_of_a_duration_is_taken(found: Found) -> None:
    assert found("[aws]\nbase_delay_ms = 700\n").settings.providers["aws"].retry.base_delay == 0.7


def test_the_table_in_pyproject_is_held_to_the_same_rule(found: Found) -> None:
    good = found("[tool.cloudretry.aws]\nmax_retries = 2\n", "pyproject.toml")
    assert str(good.origins["aws.max_retries"]).endswith("pyproject.toml:2:1")
    with pytest.raises(ConfigurationError, match=r"pyproject.toml:2:1: aws.mode: not accepted"):
        found('[tool.cloudretry.aws]\nmode = "observe"\n', "pyproject.toml")


def test_the_file_of_our_name_is_read_before_pyproject(found: Found, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.cloudretry.aws]\nmax_retries = 2\n")
    configuration = found("[aws]\nbase_delay = '1s'\n")
    assert configuration.settings.providers["aws"].retry.max_retries == 8
    assert "[tool.cloudretry] is not read" in configuration.warnings[0]


@pytest.mark.parametrize("text", ["not toml at all", "[project]\ndependencies = ['cloudretry']\n", "[tool.other]\n"])
def test_a_pyproject_that_says_nothing_to_us_is_no_layer(found: Found, text: str) -> None:
    assert found(text, "pyproject.toml").files == ()


def test_a_pyproject_that_mentions_us_has_to_be_readable(found: Found) -> None:
    with pytest.raises(ConfigurationError, match=r"pyproject.toml:1:17: not TOML"):
        found("[tool.cloudretry", "pyproject.toml")


def test_a_file_that_the_user_named_may_say_everything(found: Found, tmp_path: Path) -> None:
    text = '[aws]\nmode = "observe"\n'
    file = tmp_path / "cloudretry.toml"
    assert found(text, source=file).settings.providers["aws"].mode == "observe"
    assert found(text, CLOUDRETRY_CONFIG="cloudretry.toml").settings.providers["aws"].mode == "observe"
    assert found(text, CLOUDRETRY_CONFIG=str(file)).files == (str(file),)


def test_checking_such_a_file_tells_what_it_may_not_say_where_it_is_found(tmp_path: Path) -> None:
    file = tmp_path / "cloudretry.toml"
    file.write_text('[aws]\nmode = "observe"\nmax_retries = 1\n')
    (warning,) = check_file(file).warnings
    assert "aws.mode: not accepted in a file found in the working directory" in warning


@pytest.mark.parametrize("kind", ["folder", "dangling link"])
def test_what_is_no_file_is_no_layer(tmp_path: Path, kind: str) -> None:
    if kind == "folder":
        (tmp_path / "cloudretry.toml").mkdir()
    else:
        (tmp_path / "cloudretry.toml").symlink_to(tmp_path / "nowhere")
    assert load_configuration(environ={}, cwd=tmp_path).files == ()


def test_a_working_directory_that_was_removed_is_no_layer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert load_configuration(environ={}).files == ()
    monkeypatch.chdir(tmp_path)
