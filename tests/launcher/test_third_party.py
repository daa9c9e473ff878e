"""Other people's programs and other Pythons, each in an environment of its own, made from the package index."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.long, pytest.mark.wire]
simcloud = pytest.importorskip("cloudretry.simcloud")

PYENV = Path("~/.pyenv/versions").expanduser()
THROTTLES = 30
TRIES = 7


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """`environment(python, package, …)` is the folder of its programs; the test is skipped where it can't be made."""

    def make(python: str, *packages: str) -> Path:
        folder = tmp_path_factory.mktemp("environment")
        made = subprocess.run([python, "-m", "venv", str(folder)], capture_output=True, text=True, check=False)
        if made.returncode == 0:
            pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages]
            made = subprocess.run(pip, capture_output=True, text=True, check=False)
        if made.returncode != 0:
            pytest.skip(f"no environment with {', '.join(packages)}: {made.stderr.strip().splitlines()[-1:]}")
        return folder / "bin"

    return make


@pytest.fixture(scope="module")
def aws() -> Iterator[Any]:
    with simcloud.simulated_aws(accounts=1, regions=("eu-west-1",), size=0.3, limits=simcloud.UNLIMITED) as cloud:
        yield cloud


@pytest.fixture
def led_there(aws: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    aws.reset()
    monkeypatch.setenv("AWS_ENDPOINT_URL", aws.url)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", aws.credentials(aws.accounts[0])["aws_access_key_id"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", aws.credentials(aws.accounts[0])["aws_secret_access_key"])
    return aws


@pytest.fixture(scope="module")
def aws_cli(environment: Callable[..., Path]) -> str:
    return str(environment(sys.executable, "awscli<2") / "aws")


COMMANDS = {
    "ec2": ["ec2", "describe-instances", "--page-size", "5", "--query", "Reservations[].Instances[].InstanceId"],
    "iam": ["iam", "list-users", "--query", "Users[].Arn"],
    "s3": ["s3", "ls"],
}


@pytest.mark.parametrize("arguments", COMMANDS.values(), ids=COMMANDS.keys())
def test_the_aws_cli_finds_the_same_as_without_throttles(
    run: Any, led_there: Any, aws_cli: str, arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLOUDRETRY__AWS__MAX_RETRIES", str(THROTTLES))
    plain = subprocess.run([aws_cli, *arguments], capture_output=True, text=True, check=True)
    assert plain.stdout.strip()
    led_there.inject(simcloud.Faults(match="*", kinds=("throttle",), times=THROTTLES))
    result = run("--fail-on-loss", "--", aws_cli, *arguments)
    assert (result.returncode, result.stdout) == (0, plain.stdout)
    assert f"{THROTTLES} throttled" in result.stderr
    assert led_there.counters()["throttled"] == THROTTLES


def test_the_aws_cli_that_is_given_up_has_its_own_exit_code(run: Any, led_there: Any, aws_cli: str) -> None:
    led_there.inject(simcloud.Faults(match="*", kinds=("throttle",), times=1000))
    asked = [aws_cli, "ec2", "describe-instances"]
    plain = subprocess.run(asked, env={**os.environ, "AWS_MAX_ATTEMPTS": "1"}, capture_output=True, check=False)
    led_there.reset()
    led_there.inject(simcloud.Faults(match="*", kinds=("throttle",), times=1000))
    result = run("--", *asked)
    assert result.returncode == plain.returncode != 0
    assert "RequestLimitExceeded" in result.stderr
    assert led_there.counters()["throttled"] == TRIES


def test_the_aws_cli_inside_a_shell(run: Any, led_there: Any, aws_cli: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", os.pathsep.join([str(Path(aws_cli).parent), os.environ["PATH"]]))
    led_there.inject(simcloud.Faults(match="*", kinds=("throttle",), times=TRIES - 1))
    result = run("--", "sh", "-c", "aws sts get-caller-identity | cat")
    assert json.loads(result.stdout)["Account"] == led_there.accounts[0]
    assert led_there.counters()["throttled"] == TRIES - 1


POLICIES = """
policies:
  - {name: ec2, resource: aws.ec2}
  - {name: s3, resource: aws.s3}
  - {name: iam, resource: aws.iam-user}
"""


@pytest.fixture(scope="module")
def custodian(environment: Callable[..., Path]) -> str:
    return str(environment(sys.executable, "c7n") / "custodian")


def test_cloud_custodian_finds_the_same_and_its_own_retries_do_not_multiply(
    run: Any, led_there: Any, custodian: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "policies.yml").write_text(POLICIES)
    arguments = ["run", "--dryrun", "-r", "eu-west-1", "--cache-period", "0", str(tmp_path / "policies.yml"), "-s"]
    subprocess.run([custodian, *arguments, str(tmp_path / "plain")], capture_output=True, check=True)
    monkeypatch.setenv("CLOUDRETRY__AWS__MAX_RETRIES", str(THROTTLES))
    led_there.inject(simcloud.Faults(match="ec2:*", kinds=("throttle",), times=THROTTLES))
    result = run("--fail-on-loss", "--", custodian, *arguments, str(tmp_path / "throttled"))
    assert (result.returncode, led_there.counters()["throttled"]) == (0, THROTTLES), result.stderr
    for name in ("ec2", "s3", "iam"):
        found = [json.loads((tmp_path / kind / name / "resources.json").read_text()) for kind in ("plain", "throttled")]
        assert len(found[0]) == len(found[1]) > 0


QUICKLY = """
import time
time.sleep = lambda seconds: None  # the tool's own pauses between its rounds take two minutes
"""
ROUNDS = 8


def test_what_cloud_custodian_sends_for_one_call_that_is_throttled_for_ever(
    run: Any, script: Any, led_there: Any, custodian: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(script(QUICKLY, "quickly/sitecustomize.py")).parent))
    (tmp_path / "policies.yml").write_text("policies:\n  - {name: ec2, resource: aws.ec2}\n")
    command = [custodian, "run", "--dryrun", "-r", "eu-west-1", "--cache-period", "0", str(tmp_path / "policies.yml"), "-s"]
    throttled = []
    for start in (lambda *words: subprocess.run(words, capture_output=True, text=True, check=False), partial(run, "--")):
        led_there.reset()
        led_there.inject(simcloud.Faults(match="ec2:DescribeInstances", kinds=("throttle",), times=1000))
        result = start(*command, str(tmp_path / "out"))
        assert "RequestLimitExceeded" in result.stderr
        throttled.append(led_there.counters()["throttled"])
    assert throttled[0] % ROUNDS == 0
    assert throttled[0] >= 3 * ROUNDS
    assert throttled[1] == TRIES + ROUNDS - 1
    assert "7 repeated by loops around them" in result.stderr


@pytest.fixture(scope="module")
def azure_custodian(environment: Callable[..., Path]) -> str:
    return str(environment(sys.executable, "c7n_azure") / "custodian")


@pytest.fixture
def azure(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    silent = simcloud.RetryAfter(match="*", headers=())  # or the SDK would wait as long as the cloud says
    with simcloud.simulated_azure(subscriptions=1, size=0.3, limits=simcloud.UNLIMITED, retry_after=(silent,)) as cloud:
        for name, value in cloud.environment().items():
            monkeypatch.setenv(name, value)
        yield cloud


def test_cloud_custodian_for_azure_finds_the_same(run: Any, azure: Any, azure_custodian: str, tmp_path: Path) -> None:
    (tmp_path / "policies.yml").write_text("policies:\n  - {name: groups, resource: azure.resourcegroup}\n")
    arguments = ["run", "--cache-period", "0", str(tmp_path / "policies.yml"), "-s"]
    subprocess.run([azure_custodian, *arguments, str(tmp_path / "plain")], capture_output=True, check=True)
    azure.reset()
    azure.inject(simcloud.Faults(match="Microsoft.Resources:*", kinds=("throttle",), times=TRIES - 1))
    result = run("--fail-on-loss", "--", azure_custodian, *arguments, str(tmp_path / "throttled"))
    assert (result.returncode, azure.counters()["throttled"]) == (0, TRIES - 1), result.stderr
    found = [json.loads((tmp_path / kind / "groups" / "resources.json").read_text()) for kind in ("plain", "throttled")]
    assert len(found[0]) == len(found[1]) > 0


ASK = """
import sys
import boto3
try:
    boto3.client("sts", endpoint_url=sys.argv[1]).get_caller_identity()
except Exception as error:
    print(type(error).__name__, *sys.version_info[:2])
import importlib.util
print([name for name in ("click", "pydantic") if importlib.util.find_spec(name)])
"""


def pythons() -> Iterator[str]:
    """Interpreters of other versions, by their names on PATH or where pyenv keeps them."""
    for minor in (10, 12, 13):
        if sys.version_info[:2] != (3, minor):
            kept = sorted(PYENV.glob(f"3.{minor}.*/bin/python"))
            yield str(kept[-1]) if kept else f"python3.{minor}"


@pytest.mark.parametrize("python", list(pythons()), ids=lambda path: path.partition("3.")[2].partition("/")[0])
def test_a_program_of_another_python_without_our_dependencies(
    run: Any, script: Any, throttling: Any, environment: Callable[..., Path], python: str
) -> None:
    if shutil.which(python) is None:
        pytest.skip(f"no {python} here")
    its = str(environment(python, "boto3") / "python")
    result = run("--fail-on-loss", "--", its, script(ASK), throttling.url)
    assert result.stdout.startswith("ClientError 3 ")
    assert result.stdout.endswith("[]\n")
    assert result.returncode == 3
    assert len(throttling.requests) == TRIES


@pytest.mark.parametrize("version", ["2.7", "3.6", "3.8", "3.9"])
def test_a_python_that_is_too_old_runs_on_after_one_line(run: Any, version: str) -> None:
    kept = sorted(PYENV.glob(f"{version}.*/bin/python"))
    python = str(kept[-1]) if kept else shutil.which(f"python{version}")
    if python is None:
        pytest.skip(f"no Python {version} here")
    result = run("--", "sh", "-c", f"{python} -c 'print(1)'")
    assert (result.returncode, result.stdout) == (0, "1\n")
    assert result.stderr.startswith(
        f"cloudretry: this program runs without it: RuntimeError: needs Python 3.10 or later, and this is {version}\n"
    )
