"""What a program loses is known under `cloudretry run`, however it ends and whatever it does to itself or to our files."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest


def left_in(folder: Path, name: str = "report.json") -> Any:
    return json.loads((folder / name).read_text())


FORKS = """
import multiprocessing, os, sys, threading
import boto3
def work(*urls):
    one, other = [boto3.client("sts", endpoint_url=url) for url in urls]
    one.get_caller_identity()
    threads = [threading.Thread(target=one.get_caller_identity), threading.Thread(target=lose, args=(other,))]
    [each.start() for each in threads]
    [each.join() for each in threads]
    [one.get_caller_identity() for _ in range(30)]
def lose(client):
    try:
        client.get_caller_identity()
    except Exception as error:
        print(type(error).__name__, flush=True)
boto3.client("sts", endpoint_url=sys.argv[1]).get_caller_identity()
for _ in range(4):
    worker = multiprocessing.get_context("fork").Process(target=work, args=sys.argv[1:])
    worker.start()
    worker.join()
"""


@pytest.fixture
def urls(answering: Any, throttling: Any) -> tuple[str, str]:
    """Of an STS that answers, and of one that never does."""
    return answering(0).url, throttling.url


@pytest.mark.wire
def test_what_forked_workers_lose_is_known(run: Any, script: Any, urls: tuple[str, str], tmp_path: Path) -> None:
    result = run("--report", str(tmp_path / "out"), "--fail-on-loss", "--", sys.executable, script(FORKS), *urls)
    assert (result.returncode, result.stdout) == (3, "ClientError\n" * 4)
    report = left_in(tmp_path / "out")
    assert (report["total"]["lost"], len(report["lost"]), report["processes"], report["going_on"]) == (4, 4, 5, 0)
    assert report["total"]["calls"] == 1 + 4 * (3 + 30)


LOSES = """
import os, sys, time
import boto3
client, other = [boto3.client("sts", endpoint_url=url) for url in sys.argv[1:]]
client.get_caller_identity()
{}
try:
    other.get_caller_identity()
except Exception as error:
    print(type(error).__name__, flush=True)
os._exit(0)
"""
FULL = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))"
CLOSED = "os.closerange(3, 1000)"
OTHER_USER = "os.setgid(65534); os.setuid(65534)"
NOBODYS_CHILD = f"{OTHER_USER}; child = os.fork(); child and (os.waitpid(child, 0), os._exit(0))"
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="root alone can be another user")


@pytest.mark.wire
@pytest.mark.parametrize(
    "before", [CLOSED, pytest.param(OTHER_USER, marks=as_root), pytest.param(NOBODYS_CHILD, marks=as_root)]
)
def test_a_loss_is_known_whatever_the_program_has_done_before(
    run: Any, script: Any, urls: tuple[str, str], tmp_path: Path, before: str
) -> None:
    out, program = tmp_path / "out", script(LOSES.format(before))
    result = run("--report", str(out), "--fail-on-loss", "--", sys.executable, program, *urls)
    assert (result.returncode, result.stdout) == (3, "ClientError\n")
    assert left_in(out)["total"]["lost"] == 1


@pytest.mark.wire
def test_what_can_not_be_written_is_known_to_be_missing(run: Any, script: Any, urls: tuple[str, str], tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = run("--report", str(out), "--fail-on-loss", "--", sys.executable, script(LOSES.format(FULL)), *urls)
    assert (result.returncode, result.stdout) == (3, "ClientError\n")
    assert "can't be read to its end, so counts are missing here" in result.stderr
    assert left_in(out)["total"]["calls"] == 1  # from before
    (of_account,) = left_in(out, "completeness.json").values()
    assert of_account == {"eu-west-1": {"sts:GetCallerIdentity": "partial"}}


GOES_ON = """
import os, subprocess, sys
if len(sys.argv) == 3:
    read, write = os.pipe()
    child = subprocess.Popen([sys.executable, *sys.argv, "child"], stdout=write, stderr=subprocess.DEVNULL)
    os.read(read, 1)
    print(child.pid, flush=True)
    os._exit(0)
import boto3, signal
signal.alarm(60)
boto3.client("sts", endpoint_url=sys.argv[1]).get_caller_identity()
os.write(1, b"x")
signal.pause()
"""


@pytest.mark.wire
def test_a_process_that_goes_on_is_told_of(run: Any, script: Any, urls: tuple[str, str], tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = run("--report", str(out), "--fail-on-loss", "--", sys.executable, script(GOES_ON), *urls)
    os.kill(int(result.stdout), signal.SIGKILL)
    assert result.returncode == 0
    assert "cloudretry: 1 process goes on; what it does from now on is not counted\n" in result.stderr
    (of_account,) = left_in(out, "completeness.json").values()
    assert of_account == {"eu-west-1": {"sts:GetCallerIdentity": "partial"}}


ACCOUNTS = """
import sys, uuid
import boto3
import cloudretry
for account in (111122223333, "111122223333", uuid.UUID(int=5)):
    client = cloudretry.attach(boto3.client("sts", endpoint_url=sys.argv[1]), account=account)
    client.get_caller_identity()
    cloudretry.AwsApiCommand(account=account).client("sts", endpoint_url=sys.argv[1]).get_caller_identity()
sys.exit(7)
"""


@pytest.mark.wire
def test_an_account_may_be_given_as_a_number_or_a_uuid(run: Any, script: Any, urls: tuple[str, str], tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = run("--report", str(out), "--", sys.executable, script(ACCOUNTS), *urls)
    assert result.returncode == 7
    counted = {each["account"]: each["calls"] for each in left_in(out)["operations"]}
    assert counted == {"00000000-0000-0000-0000-000000000005": 2, "111122223333": 4}


NO_ROOM = """
import resource
from cloudretry.launcher.report_folder import ReportFolder
def write(*given, real=ReportFolder.write, **more):
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    return real(*given, **more)
ReportFolder.write = write
"""
BROKEN = "import cloudretry.launcher.summary as s\ndef broken(*_, **__): raise RuntimeError('worn out')\ns.merge = broken"


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (NO_ROOM, "report.json: not written: File too large\ncloudretry: completeness.json: not written: File too large\n"),
        (BROKEN, "what the program came to can't be told: RuntimeError: worn out\n"),
    ],
)
@pytest.mark.parametrize(("status", "expected"), [(0, 1), (7, 7)])
def test_a_report_that_can_not_be_written_is_a_failure(
    start: Any, tmp_path: Path, fault: str, said: str, status: int, expected: int
) -> None:
    program = [sys.executable, "-c", f"raise SystemExit({status})"]
    process = start("--report", str(tmp_path / "out"), "--", *program, first=fault)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == expected
    assert said in errors


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_can_not_be_written_is_an_error_before_anything_starts(run: Any, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir(0o500)
    result = run("--report", str(out), "--", sys.executable, "-c", "print(1)")
    assert (result.returncode, result.stdout) == (1, "")
    assert "can't be the folder of a report: Permission denied\n" in result.stderr


@pytest.mark.parametrize("name", ["report.json", "completeness.json", "journal.jsonl"])
def test_a_folder_in_the_place_of_a_file_is_an_error_before_anything_starts(run: Any, tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    result = run("--report", str(tmp_path), "--", sys.executable, "-c", "print(1)")
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.count("\n") == 1
    assert "can't be the folder of a report" in result.stderr
