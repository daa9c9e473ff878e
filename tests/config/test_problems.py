from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cloudretry.config import load_configuration
from cloudretry.config.documents import LARGEST_FILE
from cloudretry.core.headers import HeaderSource, Unit
from cloudretry.errors import ConfigurationError, PluginNotFound

Problems = Callable[..., list[str]]
GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture
def problems(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Problems:
    """What is wrong with a text (a file named by argument), a mapping, or variables; the folder's name is left out."""
    monkeypatch.setattr("cloudretry.config.loading._installed_plugins", lambda: {"decorrelated": None, "mine": None})

    def found(source: Any = None, *, name: str = "c.toml", **variables: str) -> list[str]:
        if isinstance(source, str):
            (tmp_path / name).write_text(source)
            source = tmp_path / name
        try:
            load_configuration(source, environ=variables, cwd=tmp_path / "empty")
        except ConfigurationError as error:
            return [problem.replace(f"{tmp_path}/", "") for problem in error.problems]
        return []

    return found


def one_by_one() -> list[list[str]]:
    """Documents and what is told of each, from a file of pairs of lines."""
    return [pair.splitlines() for pair in (GOLDEN / "one_problem.txt").read_text(encoding="utf-8").split("\n\n")]


def test_all_problems_are_told_at_once_each_with_its_place(problems: Problems) -> None:
    told = problems((GOLDEN / "everything_wrong.toml").read_text(encoding="utf-8"))
    assert told == (GOLDEN / "everything_wrong.txt").read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize(("text", "problem"), one_by_one())
def test_one_problem(problems: Problems, text: str, problem: str) -> None:
    assert problems(text, name="c.json") == [problem]


def test_problems_of_every_layer_are_told_together(problems: Problems, tmp_path: Path) -> None:
    (tmp_path / "users.toml").write_text("[azure]\nmax_retries = -1\n")
    told = problems({"aws": {"mode": "watch"}}, CLOUDRETRY_CONFIG=str(tmp_path / "users.toml"), CLOUDRETRY__AWS__BASE_DELAY="5")
    assert [problem.split(": ")[0] for problem in told] == ["argument", "CLOUDRETRY__AWS__BASE_DELAY", "users.toml:2:1"]


def test_a_broken_file_does_not_hide_the_faults_of_another_layer(problems: Problems) -> None:
    told = problems("[aws\n", CLOUDRETRY__AWS__MAX_RETRIES="x")
    assert [problem.split(": ")[0] for problem in told] == ["c.toml:1:5", "CLOUDRETRY__AWS__MAX_RETRIES"]


def test_a_plugin_that_is_not_installed_is_told_with_everything_else(problems: Problems) -> None:
    told = problems({"aws": {"strategy": "custom", "plugin": "other", "max_retries": -1}})
    assert len(told) == 2
    assert "'other' is not installed; installed: decorrelated, mine" in told[1]


def test_a_faulty_plugin_is_told_once(problems: Problems) -> None:
    assert len(problems({"aws": {"strategy": "custom", "plugin": 3}})) == 1


def test_only_missing_plugins_are_an_error_of_their_own(problems: Problems, tmp_path: Path) -> None:
    del problems  # names the installed plugins
    with pytest.raises(PluginNotFound, match="'other' is not installed"):
        load_configuration({"aws": {"strategy": "custom", "plugin": "other"}}, environ={}, cwd=tmp_path)


def test_an_override_may_bring_the_plugin_or_the_strategy(problems: Problems) -> None:
    match = {"match": {"service": "ec2"}}
    assert problems({"aws": {"overrides": [{**match, "strategy": "custom", "plugin": "mine"}]}}) == []
    assert problems({"aws": {"plugin": "mine", "overrides": [{**match, "strategy": "custom"}]}}) == []
    assert len(problems({"aws": {"overrides": [{**match, "strategy": "custom"}]}})) == 1
    assert len(problems({"aws": {"strategy": "custom", "plugin": "mine", "overrides": [{**match, "plugin": "no"}]}})) == 1


VARIABLES = [
    ("CLOUDRETRY__AWS__MAX_RETRYS", "names no setting of aws: 'max_retrys'; did you mean CLOUDRETRY__AWS__MAX_RETRIES?"),
    ("CLOUDRETRY__AWZ__MAX_RETRIES", "names no provider: 'awz'; known: aws, azure; did you mean aws?"),
    ("CLOUDRETRY__AWS", "names no setting of aws: ''"),
    ("CLOUDRETRY__", "names no provider: ''; known: aws, azure"),
    ("CLOUDRETRY__AWS__PACING", "sets a whole table; set its settings one by one, such as CLOUDRETRY__AWS__PACING__SETTING"),
    ("CLOUDRETRY__AWS__PACING__MOOD", "names no setting of aws: 'pacing.mood'; did you mean CLOUDRETRY__AWS__PACING__MODE?"),
    ("CLOUDRETRY__POOLS", "sets no setting of a pool; write CLOUDRETRY__POOLS__NAME__SETTING"),
    ("CLOUDRETRY__POOLS__A", "sets no setting of a pool; write CLOUDRETRY__POOLS__NAME__SETTING"),
    ("CLOUDRETRY__POOLS__A__RETRY", "names no setting of pools.a: 'retry'; did you mean CLOUDRETRY__POOLS__A__RETRIES?"),
    (
        "CLOUDRETRY__AWS__PLUGIN_OPTIONS__SEED",
        "sets a part of a setting; write the whole as JSON in CLOUDRETRY__AWS__PLUGIN_OPTIONS",
    ),
]


@pytest.mark.parametrize(("variable", "problem"), VARIABLES)
def test_a_variable_that_names_nothing(problems: Problems, variable: str, problem: str) -> None:
    assert problems(**{variable: "5"}) == [f"{variable}: {problem}"]


def test_the_same_variable_in_two_spellings(problems: Problems) -> None:
    told = problems(CLOUDRETRY__AWS__MAX_RETRIES="1", CLOUDRETRY__aws__max_retries="2")
    assert told == ["CLOUDRETRY__aws__max_retries: is there twice; first as CLOUDRETRY__AWS__MAX_RETRIES"]


def test_one_setting_in_two_variables(problems: Problems) -> None:
    told = problems(CLOUDRETRY__AWS__MAX_DELAY="1s", CLOUDRETRY__AWS__MAX_DELAY_MS="2")
    (problem,) = told
    assert problem.startswith("CLOUDRETRY__AWS__MAX_DELAY_MS: aws.max_delay: is set twice")
    assert problem.endswith("first at CLOUDRETRY__AWS__MAX_DELAY")


def test_json_in_a_variable_may_be_broken_or_repeat_itself(problems: Problems) -> None:
    (broken,) = problems(CLOUDRETRY__AWS__PLUGIN_OPTIONS='{"key": hidden}')
    assert broken.startswith("CLOUDRETRY__AWS__PLUGIN_OPTIONS: 1:9: not JSON")
    (repeated,) = problems(CLOUDRETRY__AWS__PLUGIN_OPTIONS='{"a": 1, "a": 2}')
    assert "a: is there twice" in repeated


def test_a_variable_that_looks_like_ours_is_warned_about(tmp_path: Path) -> None:
    environ = {
        "CLOUDRETRY_AWS__MAX_RETRIES": "1",
        "CLOUDRETRY_AWS_PACING_RESERVE": "0",
        "CLOUDRETRY_AZURE_MODE": "x",
        "CLOUDRETRY_POOLS_CORP_RETRIES": "1",
    }
    assert load_configuration(environ=environ, cwd=tmp_path).warnings == (
        "CLOUDRETRY_AWS_PACING_RESERVE: not read; write CLOUDRETRY__AWS__PACING__RESERVE",
        "CLOUDRETRY_AWS__MAX_RETRIES: not read; write CLOUDRETRY__AWS__MAX_RETRIES",
        "CLOUDRETRY_AZURE_MODE: not read; write CLOUDRETRY__AZURE__MODE",
        "CLOUDRETRY_POOLS_CORP_RETRIES: not read; write CLOUDRETRY__POOLS__NAME__SETTING",
    )


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("none.toml", None, "none.toml: No such file or directory"),
        ("folder.toml", "folder", "folder.toml: Is a directory"),
        ("large.toml", b"#" * (LARGEST_FILE + 1), f"large.toml: larger than {LARGEST_FILE} bytes"),
        ("latin.toml", b"[aws]\n# caf\xe9\n", "latin.toml:2:6: not UTF-8 text"),
        ("c.ini", b"", "c.ini: the suffix '.ini' is no known format; accepted: .toml, .json, .yaml, .yml"),
        ("pyproject.toml", b"[project]\n", "pyproject.toml: has no table [tool.cloudretry]"),
        ("nul\0.toml", None, "nul\\x00.toml: not a file name"),
    ],
)
@pytest.mark.parametrize("how", ["argument", "variable"])
def test_a_file_that_cannot_be_read_is_one_line(tmp_path: Path, name: str, content: Any, problem: str, how: str) -> None:
    if content == "folder":
        (tmp_path / name).mkdir()
    elif content is not None:
        (tmp_path / name).write_bytes(content)
    path = f"{tmp_path}/{name}"
    with pytest.raises(ConfigurationError) as refused:
        load_configuration(
            path if how == "argument" else None,
            environ={"CLOUDRETRY_CONFIG": path} if how == "variable" else {},
            cwd=tmp_path / "x",
        )
    assert refused.value.problems == (f"{tmp_path}/{problem}",)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_without_permission_is_one_line(problems: Problems, tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.touch(mode=0)
    assert problems(file) == ["c.toml: Permission denied"]


def test_a_byte_order_mark_and_windows_line_ends_are_read(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_bytes(b"\xef\xbb\xbf[aws]\r\nmax_retries = 1\r\n")
    configuration = load_configuration(tmp_path / "c.toml", environ={}, cwd=tmp_path)
    assert str(configuration.origins["aws.max_retries"]).endswith("c.toml:2:1")


def test_secrets_stay_out_of_messages(problems: Problems) -> None:
    told = problems(
        '[aws]\nplugin_options = "hunter2"\nplugin = "https://me:hunter2@proxy/"\nresponse_header = "//hunter2@x"\n'
        '[azure.plugin_options]\ntoken = 2020-02-02\npassword = "${hunter:x} hunter2"\n'
    )
    assert len(told) == 5
    assert not [problem for problem in told if "hunter2" in problem]


WARNINGS = [
    ({"response_codes": [429]}, 'argument: aws.response_codes: without "throttling" our classifier is off'),
    ({"preset": "example"}, 'argument (preset example): aws.response_codes: without "throttling"'),
    ({"base_delay": "30s"}, "argument: aws.base_delay: max_delay 20s is below base_delay 30s"),
    ({"plugin": "mine"}, "argument: aws.plugin: 'mine' is not used: strategy is response_header, not custom"),
    ({"response_header_delay_unit": "minutes"}, "argument: aws.response_header_delay_unit: has no effect"),
    (
        {"plugin_options": {"apiKey": "hunter2", "b": "x"}},
        "argument: aws.plugin_options: 'apiKey': write a secret as ${env:NAME}",
    ),
    ({"overrides": [{"match": {"service": "ec2"}}]}, "argument: aws.overrides[0].match: the override changes nothing"),
    (
        {"overrides": [{"match": {"operation": "describe_*"}, "max_retries": 1}]},
        "argument: aws.overrides[0].match: operation 'describe_*'",
    ),
    (
        {"overrides": [{"match": {"service": "s3"}, "max_delay": "1ms"}]},
        "argument: aws.overrides[0].max_delay: max_delay 1ms is below",
    ),
]


@pytest.mark.parametrize(("entry", "start"), WARNINGS)
def test_what_is_allowed_and_probably_not_meant(tmp_path: Path, entry: dict[str, Any], start: str) -> None:
    (warning,) = load_configuration({"aws": entry}, environ={}, cwd=tmp_path).warnings
    assert warning.startswith(start)


def test_a_unit_that_only_an_override_needs_is_in_use(tmp_path: Path) -> None:
    entry = {"response_header_delay_unit": "minutes", "overrides": [{"match": {"service": "s3"}, "response_header": "X-Own"}]}
    configuration = load_configuration({"aws": entry}, environ={}, cwd=tmp_path)
    assert configuration.warnings == ()
    (override,) = configuration.settings.providers["aws"].overrides
    assert override.changes["response_header"] == (HeaderSource("x-own", Unit.MINUTES),)


def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.toml"
    os.mkfifo(pipe)
    with pytest.raises(ConfigurationError, match="a pipe"):
        load_configuration(pipe, environ={}, cwd=tmp_path)


def test_a_home_that_is_relative_makes_no_checkout_the_users_folder(tmp_path: Path) -> None:
    (tmp_path / ".config" / "cloudretry").mkdir(parents=True)
    (tmp_path / ".config" / "cloudretry" / "config.toml").write_text('[aws]\nmode = "observe"\n')
    assert load_configuration(environ={"HOME": "."}, cwd=tmp_path).settings.providers["aws"].mode == "enforce"


def test_a_hostile_number_of_faults_is_cut_short(tmp_path: Path) -> None:
    file = tmp_path / "many.toml"
    file.write_text("[aws]\n" + "".join(f"key{number} = 1\n" for number in range(3000)))
    with pytest.raises(ConfigurationError) as refused:
        load_configuration(file, environ={}, cwd=tmp_path)
    assert len(refused.value.problems) == 101
    assert refused.value.problems[0].endswith("and 2900 more") or refused.value.problems[-1].endswith("and 2900 more")
