"""`cloudretry simulate aws` as a process: what it prints, that it works as printed, and how it ends."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import boto3
import pytest
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


ASK = "import boto3; print(boto3.client('sts').get_caller_identity()['Account'])"


@pytest.mark.wire
def test_it_is_used_as_its_help_tells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = CliRunner().invoke(simulate, ["aws", "--help"]).output
    begin, ready, use, end = (line.strip() for line in shown.partition("Use it so:")[2].split("\n\n")[1].splitlines())
    assert begin == "cloudretry simulate aws > sim.env &"
    (tmp_path / "my_script.py").write_text(ASK)
    python = shlex.quote(sys.executable)
    begin = begin.replace("cloudretry simulate", f"{python} -m cloudretry simulate").replace(" >", " --regions us-east-1 >")
    use = use.replace("&& python", f"&& {python}")
    monkeypatch.setenv("PYTHONPATH", HOME)
    monkeypatch.setenv("AWS_PROFILE", "nowhere")
    script = f"{begin}\n{ready.replace('sleep 1', 'sleep 0.1')}\n{use}\nstatus=$?\n{end}\nexit $status"
    assert run_to_end(script, tmp_path) == (0, "111122223333\n")


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
    ],
)
def test_what_can_not_be_is_an_error_of_usage(arguments: list[str], said: str) -> None:
    result = CliRunner().invoke(simulate, ["aws", *arguments])
    assert result.exit_code == 2
    assert said in result.output


def test_its_help_names_every_kind_of_fault() -> None:
    from cloudretry.simcloud.faults import KINDS

    shown = CliRunner().invoke(simulate, ["aws", "--help"]).output
    assert not [kind for kind in KINDS if kind not in shown]
