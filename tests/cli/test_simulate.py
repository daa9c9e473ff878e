"""`cloudretry simulate` as a process: what it prints, that it works as printed, and how it ends."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import boto3
import pytest
from azure.core.exceptions import HttpResponseError
from azure.identity import EnvironmentCredential
from azure.mgmt.resource.subscriptions import SubscriptionClient
from botocore.config import Config
from botocore.exceptions import ClientError
from click.testing import CliRunner

import cloudretry
from cloudretry.cli.simulate import simulate

HOME = str(Path(cloudretry.__file__).parents[1])
COMMAND = "import sys; from cloudretry.cli.simulate import simulate; simulate(sys.argv[1:])"
SMALL = ("aws", "--accounts", "2", "--regions", "eu-west-1, us-east-1")

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """`start(*arguments)` runs the command."""
    monkeypatch.setenv("PYTHONPATH", HOME)
    started: list[subprocess.Popen[str]] = []

    def run(*arguments: str) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        started.append(subprocess.Popen([sys.executable, "-c", COMMAND, *arguments], stdout=pipe, stderr=pipe, text=True))
        return started[-1]

    yield run
    for process in started:
        process.kill()
        process.communicate()


def printed(output: IO[str] | None) -> list[str]:
    """The lines up to the one that says that it answers, which is the last."""
    assert output is not None
    lines = []
    for line in output:
        lines.append(line.rstrip("\n"))
        if "answers" in line:
            break
    return lines


def exported(lines: list[str]) -> dict[str, str]:
    return dict(pair.split("=", 1) for line in lines if line.startswith("export ") for pair in line.split()[1:])


def refused(call: Callable[[], object]) -> tuple[int, str | None]:
    with pytest.raises(ClientError) as caught:
        call()
    answer = caught.value.response["ResponseMetadata"]
    return answer["HTTPStatusCode"], answer["HTTPHeaders"].get("retry-after")


@pytest.mark.wire
def test_it_serves_what_it_prints_and_ends_with_ctrl_c(start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = tmp_path / "limits.json"
    limits.write_text(json.dumps([{"service": "rds", "burst": 1, "refill": 0}]))
    asked = ("--no-limits", "--limits", str(limits), "--faults", "match=iam,kinds=page,status=403", "--retry-after", "7")
    process = start(*SMALL, "--seed", "4", *asked)
    lines = printed(process.stdout)
    environment = exported(lines)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert lines[1] == "unset AWS_PROFILE AWS_SESSION_TOKEN"
    assert lines[-1] == f"# The simulated AWS answers at {environment['AWS_ENDPOINT_URL']} until Ctrl-C or kill {process.pid}"
    assert [line for line in lines if line.startswith("# account")] == ["# account 111122223333", "# account 444455556666"]
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+", environment["AWS_ENDPOINT_URL"])

    session = boto3.Session()
    once: Any = Config(retries={"total_max_attempts": 1})
    assert session.client("sts", config=once).get_caller_identity()["Account"] == "111122223333"
    rds, iam = session.client("rds", config=once), session.client("iam", config=once)
    rds.describe_db_instances()
    assert refused(rds.describe_db_instances) == (400, "7")
    assert refused(iam.list_users) == (403, None)

    process.send_signal(signal.SIGINT)
    more, errors = process.communicate(timeout=30)
    assert (process.returncode, more) == (0, "")
    assert errors == f"{lines[-1].removeprefix('# ')}\n\nEnded.\n"


@pytest.mark.wire
def test_a_simulated_azure_serves_what_it_prints(start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = tmp_path / "limits.json"
    limits.write_text(json.dumps([{"provider": "*", "operations": ["GET tenants"], "burst": 1, "refill": 0}]))
    asked = (
        "--no-limits",
        "--limits",
        str(limits),
        "--faults",
        "match=*:GET locations,kinds=page,status=403",
        "--retry-after",
        "7",
    )
    process = start("azure", "--subscriptions", "2", "--principals", "2", "--locations", "westus,eastus", "--seed", "4", *asked)
    lines = printed(process.stdout)
    environment = exported(lines)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert environment["CLOUDRETRY__AZURE__PACING__REMEMBER"] == "false"
    assert lines[1] == "unset AZURE_AUTHORITY_HOST AZURE_SDK_CLOUD_CONF AZURE_TOKEN_CREDENTIALS"
    url = environment["HTTPS_PROXY"].replace("http:", "https:")
    assert lines[-1] == f"# The simulated Azure answers at {url} until Ctrl-C or kill {process.pid}"
    assert len([line for line in lines if line.startswith("# export AZURE_CLIENT_ID=")]) == 1

    with EnvironmentCredential() as credential, SubscriptionClient(credential, retry_total=0) as client:
        first, second = (each.subscription_id for each in client.subscriptions.list())
        assert [line for line in lines if line.startswith("# subscriptions")] == [f"# subscriptions {first}, {second}"]
        list(client.tenants.list())
        with pytest.raises(HttpResponseError) as caught:
            list(client.tenants.list())
        throttled: Any = caught.value.response
        with pytest.raises(HttpResponseError) as caught:
            list(client.subscriptions.list_locations(str(first)))
    assert (throttled.status_code, throttled.headers["Retry-After"], caught.value.status_code) == (429, "7", 403)

    process.send_signal(signal.SIGINT)
    more, errors = process.communicate(timeout=30)
    assert (process.returncode, more) == (0, "")
    assert errors == f"{lines[-1].removeprefix('# ')}\n\nEnded.\n"
    assert not Path(environment["REQUESTS_CA_BUNDLE"]).exists()


ASK = "import boto3; print(boto3.client('sts').get_caller_identity()['Account'])"


ASK_AZURE = """
import os
from azure.identity import DefaultAzureCredential
from azure.mgmt.resource.subscriptions import SubscriptionClient
with DefaultAzureCredential() as credential, SubscriptionClient(credential) as client:
    listed = [each.display_name for each in client.subscriptions.list()]
    print(listed, client.subscriptions.get(os.environ["AZURE_SUBSCRIPTION_ID"]).display_name)
"""


@pytest.mark.wire
@pytest.mark.parametrize(
    ("cloud", "option", "ask", "answer"),
    [
        ("aws", "--regions us-east-1", ASK, "111122223333\n"),
        ("azure", "--subscriptions 2", ASK_AZURE, "['subscription-1', 'subscription-2'] subscription-1\n"),
    ],
)
def test_it_is_used_as_its_help_tells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cloud: str, option: str, ask: str, answer: str
) -> None:
    shown = CliRunner().invoke(simulate, [cloud, "--help"]).output
    begin, ready, use, end = (line.strip() for line in shown.partition("Use it so:")[2].split("\n\n")[1].splitlines())
    assert begin == f"cloudretry simulate {cloud} > sim.env &"
    (tmp_path / "my_script.py").write_text(ask)
    python = shlex.quote(sys.executable)
    begin = begin.replace("cloudretry simulate", f"{python} -m cloudretry simulate").replace(" >", f" {option} >")
    use = use.replace("&& python", f"&& {python}")
    monkeypatch.setenv("PYTHONPATH", HOME)
    monkeypatch.setenv("AWS_PROFILE", "nowhere")
    monkeypatch.setenv("AZURE_AUTHORITY_HOST", "login.example.org")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    script = f"{begin}\n{ready.replace('sleep 1', 'sleep 0.1')}\n{use}\nstatus=$?\n{end}\nwait\nexit $status"
    assert run_to_end(script, tmp_path) == (0, answer)
    until = time.monotonic() + 30
    while list(tmp_path.glob("cloudretry-*")):  # of the authority's certificate, which the server removes when it ends too
        assert time.monotonic() < until
        time.sleep(0.05)


def run_to_end(script: str, folder: Path) -> tuple[int, str]:
    """Until all that it left in the background has closed its output too."""
    shell = ["/bin/sh", "-c", script]
    pipe = subprocess.PIPE
    with subprocess.Popen(shell, cwd=folder, stdout=pipe, stderr=pipe, text=True, start_new_session=True) as process:
        try:
            output, _ = process.communicate(timeout=60)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    return process.returncode, output


@pytest.mark.wire
def test_it_ends_with_an_error_when_the_server_does(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    process = start(*SMALL)
    assert exported(printed(process.stdout))["NO_PROXY"] == "127.0.0.1"
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    if not children.exists():
        pytest.skip("children are listed by Linux alone")
    os.kill(int(children.read_text().split()[0]), signal.SIGKILL)
    assert process.wait(timeout=30) == 1
    assert process.stderr is not None
    assert "ended by itself, with status -9" in process.stderr.read()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--faults", "kinds=fire"], "'--faults': kinds=fire: kinds are some of cut, page"),
        (["--faults", "rate=2"], "'--faults': rate=2.0: rate is between 0 and 1"),
        (["--faults", "rate"], "not key=value"),
        (["--retry-after", "soon"], "soon"),
        (["--limits", "nowhere.json"], "No such file"),
        (["--regions", ","], "name at least one"),
        (["--accounts", "0"], "1<=x<=100"),
        (["--port", "65536"], "0<=x<=65535"),
        (["--latency", "-1"], "0<=x<=60"),
        (["--subscriptions", "0"], "1<=x<=1000"),
        (["--locations", ","], "name at least one"),
        (["--principals", "0"], "1<=x<=100"),
    ],
)
def test_what_can_not_be_is_an_error_of_usage(arguments: list[str], said: str) -> None:
    azures = arguments[0] in {"--subscriptions", "--locations", "--principals"}
    result = CliRunner().invoke(simulate, ["azure" if azures else "aws", *arguments])
    assert result.exit_code == 2
    assert said in result.output


@pytest.mark.parametrize("cloud", ["aws", "azure"])
def test_its_help_names_every_kind_of_fault(cloud: str) -> None:
    from cloudretry.simcloud.faults import KINDS

    shown = CliRunner().invoke(simulate, [cloud, "--help"]).output
    assert not [kind for kind in KINDS if kind not in shown]
