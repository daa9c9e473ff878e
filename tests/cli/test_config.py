from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cloudretry.cli.main import main
from cloudretry.config import load_configuration
from cloudretry.core.settings import Settings
from cloudretry.errors import ConfigurationError


@dataclass(frozen=True)
class Done:
    status: int
    out: str
    err: str


Run = Callable[..., Done]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """`cloudretry config …` in this process."""

    def ran(*arguments: str | Path) -> Done:
        monkeypatch.setattr(sys, "argv", ["cloudretry", "config", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        return Done(int(str(ended.value.code or 0)), out, err)

    return ran


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "c.toml"
    path.write_text(
        '[aws]\nmax_retries = 3\n\n[[aws.overrides]]\nmatch = { service = "ec2", region = "eu-*" }\nmax_retries = 12\n'
        "\n[azure]\nbase_delay_ms = 250\n"
    )
    return path


def test_show_prints_what_can_be_loaded_again(run: Run, file: Path, tmp_path: Path) -> None:
    for form in ("toml", "json"):
        done = run("show", "--config", file, "--format", form)
        again = tmp_path / f"again.{form}"
        again.write_text(done.out)
        assert (done.status, done.err) == (0, "")
        assert load_configuration(again, environ={}).settings == load_configuration(file, environ={}).settings


def test_show_tells_where_each_setting_comes_from(run: Run, file: Path) -> None:
    lines = [line.split(None, 2) for line in run("show", "--config", file, "--origin").out.splitlines() if " = " in line]
    told = {(name, rest.split("# ")[-1]) for name, _, rest in lines}
    assert ("max_retries", f"{file}:2:1") in told
    assert ("max_retries", f"{file}:6:1") in told
    assert ("match", f"{file}:5:1") in told
    assert ("base_delay", f"{file}:9:1") in told
    assert ("max_delay", "built-in") in told


def test_show_for_one_operation(run: Run, file: Path) -> None:
    done = run("show", "--config", file, "--origin", "--for", "ec2:DescribeInstances@111122223333/eu-west-1")
    first, second, *rest = done.out.splitlines()
    assert first == "# aws/ec2:DescribeInstances@111122223333/eu-west-1"
    assert second == f"# overrides that match: aws.overrides[0] ({file}:4:7)"
    assert [line.split() for line in rest if line.startswith("max_retries")] == [["max_retries", "=", "12", "#", f"{file}:6:1"]]
    assert "overrides" not in "\n".join(rest)


@pytest.mark.parametrize(
    ("operation", "table", "retries"),
    [
        ("ec2:DescribeInstances", "[aws]", "max_retries = 3"),
        ("ec2:DescribeInstances@-/eu-west-1", "[aws]", "max_retries = 12"),
        ("aws/EC2:DescribeInstances@/eu-west-1", "[aws]", "max_retries = 12"),
        ("azure/compute:virtual_machines.list@0000-11", "[azure]", "max_retries = 8"),
    ],
)
def test_show_for_operations_of_every_spelling(run: Run, file: Path, operation: str, table: str, retries: str) -> None:
    lines = run("show", "--config", file, "--for", operation).out.splitlines()
    assert table in lines
    assert retries in lines


def test_show_refuses_what_is_no_operation(run: Run) -> None:
    done = run("show", "--for", "DescribeInstances")
    assert done.status == 2
    assert "ec2:DescribeInstances@111122223333/eu-west-1" in done.err


def test_show_has_no_comments_in_json(run: Run) -> None:
    assert run("show", "--origin", "--format", "json").status == 2


def test_show_takes_variables_and_the_working_directory(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CLOUDRETRY__AWS__MAX_RETRIES", "77")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cloudretry.toml").write_text("[azure]\nmax_retries = 66\n")
    out = run("show", "--origin").out
    assert "CLOUDRETRY__AWS__MAX_RETRIES" in out
    assert f"{tmp_path}/cloudretry.toml:2:1" in out


@pytest.mark.parametrize("command", [["show"], ["compile"], ["preview"], ["validate"]])
def test_a_refused_configuration_ends_every_command_with_78(
    run: Run, command: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLOUDRETRY__AWS__MAX_RETRIES", "x")
    monkeypatch.setenv("CLOUDRETRY__AWS__MODE", "y")
    done = run(*command)
    assert (done.status, done.out) == (78, "")
    assert [line.split(":")[0] for line in done.err.splitlines()] == ["CLOUDRETRY__AWS__MAX_RETRIES", "CLOUDRETRY__AWS__MODE"]


def test_validate_looks_at_the_file_alone(run: Run, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLOUDRETRY__AWS__MAX_RETRIES", "x")
    assert run("validate", file) == Done(0, "ok\n", "")
    file.write_text("[aws]\nmax_retries = 'x'\n[gcp]\n")
    done = run("validate", file)
    assert done.status == 78
    assert [line.split(": ")[0] for line in done.err.splitlines()] == [f"{file}:2:1", f"{file}:3:2"]
    assert run("validate", file.parent / "none.toml").status == 78


def test_validate_warns_and_is_ok(run: Run, file: Path) -> None:
    file.write_text("[aws]\nresponse_codes = [429]\n")
    done = run("validate", file)
    assert (done.status, done.out) == (0, "ok\n")
    assert done.err.startswith(f'warning: {file}:2:1: aws.response_codes: without "throttling"')


def test_validate_tells_which_references_have_nothing_behind_them(
    run: Run, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cloudretry.config.loading._installed_plugins", lambda: {"mine": None})
    monkeypatch.setenv("THERE", "hunter2")
    (tmp_path / "secret").write_text("hunter2")
    file.write_text(
        '[aws]\nstrategy = "custom"\nplugin = "mine"\n[aws.plugin_options]\n'
        f'a = "${{env:THERE}}"\nb = ["${{env:GONE}}", "${{file:{tmp_path}/secret}}", "${{file:{tmp_path}/none}}"]\n'
    )
    done = run("validate", file)
    assert (done.status, done.out) == (0, "ok (not built here: mine; try them with `cloudretry plugins check NAME`)\n")
    assert [line.split("${")[1].split("}")[0] for line in done.err.splitlines()] == ["env:GONE", f"file:{tmp_path}/none"]


SECRET_COMMANDS = [["show", "--origin"], ["show", "--format", "json"], ["validate"], ["compile"], ["preview"], ["schema"]]


@pytest.mark.parametrize("command", SECRET_COMMANDS)
def test_no_command_resolves_a_secret(run: Run, file: Path, command: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cloudretry.config.loading._installed_plugins", lambda: {"mine": None})
    monkeypatch.setenv("TOKEN", "hunter2")
    monkeypatch.setenv("CLOUDRETRY_CONFIG", str(file))
    file.write_text('[aws]\nstrategy = "custom"\nplugin = "mine"\nplugin_options = {token = "${env:TOKEN}"}\n')
    done = run(*command)
    assert done.status == 0
    assert "hunter2" not in done.out + done.err
    assert ("${env:TOKEN}" in done.out) == (command[0] in {"show", "compile"})


def test_compile_prints_what_a_process_without_pydantic_loads(run: Run, file: Path) -> None:
    assert Settings.from_json(run("compile", "--config", file).out) == load_configuration(file, environ={}).settings


def test_compile_writes_a_private_file_in_one_step(run: Run, file: Path, tmp_path: Path) -> None:
    target = tmp_path / "out" / "compiled.json"
    target.parent.mkdir()
    target.write_text("old")
    target.chmod(0o644)
    assert run("compile", "--config", file, "-o", target) == Done(0, "", "")
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert Settings.from_json(target.read_text()) == load_configuration(file, environ={}).settings
    assert list(target.parent.iterdir()) == [target]


def test_compile_says_where_it_could_not_write(run: Run, tmp_path: Path) -> None:
    done = run("compile", "-o", tmp_path / "no" / "c.json")
    assert (done.status, done.err) == (78, f"{tmp_path}/no/c.json: not written: No such file or directory\n")


VALID: list[dict[str, Any]] = [
    {},
    {"$schema": "x", "aws": {"max_retries": 3, "base_delay": "1.5s", "max_delay_ms": 20.5}, "azure": {"preset": "azure-core"}},
    {"aws": {"response_codes": [429, "throttling", "SlowDown"], "response_header": ["A", {"name": "B", "unit": "hh:mm:ss"}]}},
    {
        "aws": {
            "response_header": ":error-text",
            "overrides": [{"match": {"service": "ec2"}, "strategy": "user_defined", "plugin": "x"}],
        }
    },
]
VALID += [
    {
        "aws": {"pool": "corp", "overrides": [{"match": {"service": "s3"}, "pool": ""}]},
        "pools": {"corp": {"members": ["http://${env:U}@a:1", {"connect_to": "[fd00::1]:443", "weight": 2}, {"direct": True}]}},
    },
    {"pools": {"a-b": {"members": ["${env:X}"], "cooldown": {"initial": "1s", "max_ms": 5}, "slow": {"threshold": 1}}}},
    {"azure": {"pacing": {"reserve": 0, "rates": [{"match": {"service": "compute"}, "rate": 25}], "queue_timeout_ms": 1}}},
]
INVALID: list[dict[str, Any]] = [
    {"gcp": {}},
    {"aws": {"max_retry": 3}},
    {"aws": {"max_retries": 101}},
    {"aws": {"base_delay": 5}},
    {"aws": {"base_delay": "5"}},
    {"aws": {"response_codes": []}},
    {"aws": {"response_codes": [200]}},
    {"aws": {"response_header": [{"name": "A"}]}},
    {"aws": {"strategy": "sdk"}},
    {"aws": {"overrides": [{"max_retries": 1}]}},
    {"aws": {"overrides": [{"match": {}, "mode": "observe"}]}},
    {"aws": {"pool": "a b"}},
    {"aws": {"pacing": {"reserve": 0.91}}},
    {"aws": {"pacing": {"rates": [{"rate": 1}]}}},
    {"pools": {"a b": {"members": ["http://a:1"]}}},
    {"pools": {"a": {"members": []}}},
    {"pools": {"a": {"members": [{"direct": True, "connect_to": "1.2.3.4:5"}]}}},
    {"pools": {"a": {"members": [{"name": "x"}]}}},
    {"pools": {"a": {"members": [{"connect_to": "host:443"}]}}},
    {"pools": {"a": {"members": ["http://a:1"], "retries": 101}}},
    {"pools": {"a": {"members": ["http://a:1"], "probe": {"lease_ms": 0}}}},
    {"pools": {"a": {"members": ["http://a:1"], "cooldown": {"factor": 0.5}}}},
]


def test_the_schema_accepts_and_refuses_what_loading_does(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    monkeypatch.setattr("cloudretry.config.loading._installed_plugins", lambda: {"x": None})
    schema = json.loads(run("schema").out)
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    assert [document for document in VALID if not validator.is_valid(document)] == []
    assert [document for document in INVALID if validator.is_valid(document)] == []
    for document in VALID:
        load_configuration(document, environ={})
    for document in INVALID:
        with pytest.raises(ConfigurationError):
            load_configuration(document, environ={})


def test_every_setting_in_the_schema_says_what_it_means(run: Run) -> None:
    schema = json.loads(run("schema").out)
    tables = schema["$defs"].items()
    described = {
        f"{title}.{name}": setting.get("description")
        for title, table in tables
        for name, setting in table["properties"].items()
    }
    assert {name.partition(".")[0] for name in described} >= {"Entry", "Pacing", "Pool", "Member", "Cooldown", "Probe", "Slow"}
    assert [name for name, text in described.items() if not text and not name.startswith("Match.")] == []


def test_preview_is_the_same_for_the_same_seed(run: Run, file: Path) -> None:
    pages = [run("preview", "--config", file, "--samples", "200", "--seed", seed).out for seed in ("1", "1", "2")]
    assert pages[0] == pages[1] != pages[2]
    assert pages[0].startswith("aws: strategy response_header\n")
    assert "\nazure: strategy response_header\n" in pages[0]
    assert run("preview", "--provider", "azure", "--samples", "200").out.startswith("azure:")


QUICK = """
import sys
sys.argv = ["cloudretry", "config", "show"]
from cloudretry.cli.main import main
try:
    main()
except SystemExit as ended:
    assert not ended.code
heavy = {"rich", "boto3", "botocore", "azure", "aiohttp", "pydantic", "yaml"} & {name.partition(".")[0] for name in sys.modules}
assert not heavy, heavy
"""


def test_show_imports_nothing_heavy() -> None:
    done = subprocess.run(
        [sys.executable, "-c", QUICK],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("[aws]\n")


def test_a_duration_without_quotes_is_told_from_other_mistakes(run: Run, file: Path) -> None:
    file.write_text("[aws]\nbase_delay = 500ms\n")
    done = run("validate", file)
    assert done.status == 78
    assert f"{file}:2:" in done.err
    assert 'a duration needs quotes: "500ms"' in done.err


def test_an_operation_in_pythons_spelling_is_refused(run: Run) -> None:
    done = run("show", "--for", "ec2:describe_instances")
    assert done.status == 2
    assert "DescribeInstances" in done.err


def test_the_kill_switch_is_mentioned(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLOUDRETRY_DISABLED", "1")
    assert "none of this is in use" in run("show").err
    monkeypatch.setenv("CLOUDRETRY_DISABLED", "off")
    assert run("show").err == ""


def test_a_misnamed_file_in_the_users_folder_is_not_passed_over_in_silence(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "cloudretry").mkdir()
    (tmp_path / "cloudretry" / "cloudretry.toml").write_text("[aws]\nmax_retries = 3\n")
    assert "cloudretry.toml: not read; in this folder the file is called config.toml" in run("validate").err


POOL = """
[aws]
pool = "corp"
[pools.corp]
members = ["http://me:${env:PROXY_PASS}@egress-a:3128"]
ca_bundle = "/nowhere/ca.pem"
"""


def test_validate_tells_what_a_pool_lacks_here(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    path.write_text(POOL)
    done = run("validate", path)
    assert (done.status, done.out) == (0, "ok\n")
    assert f"{path}:5:12: pools.corp.members[0]: ${{env:PROXY_PASS}}: the environment has no variable PROXY_PASS" in done.err
    assert f"{path}:6:1: pools.corp.ca_bundle: /nowhere/ca.pem: No such file or directory" in done.err


@pytest.mark.parametrize("command", [["show"], ["show", "--origin"], ["show", "--format", "json"], ["validate"], ["compile"]])
def test_no_command_shows_a_secret_of_a_pool(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    monkeypatch.setenv("PROXY_PASS", "hunter2")
    path = tmp_path / "c.toml"
    path.write_text(POOL.replace('"]', '", "http://me:hunter3@egress-b:3128"]'))
    done = run(*command, *([path] if command == ["validate"] else ["--config", path]))
    assert "hunter" not in done.out + done.err
    assert done.status == (78 if command == ["compile"] else 0)


def test_compile_writes_what_is_written_out_to_a_private_file_alone(run: Run, tmp_path: Path) -> None:
    path, output = tmp_path / "c.toml", tmp_path / "compiled.json"
    path.write_text(POOL.replace("${env:PROXY_PASS}", "hunter2"))
    refused = run("compile", "--config", path)
    assert "the credentials of member egress-a:3128 are written out" in refused.err
    assert run("compile", "--config", path, "-o", output).status == 0
    assert stat.S_IMODE(output.stat().st_mode) == 0o600
    assert Settings.from_json(output.read_text()).pools["corp"].members[0].url == "http://me:hunter2@egress-a:3128"
