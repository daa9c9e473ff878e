"""Programs of which not a line is changed: how often their calls reach the server."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.wire

ASK = """
import sys
import boto3
print(boto3.client("sts", endpoint_url=sys.argv[1]).get_caller_identity()["Account"])
"""
TRIES = 7  # max_retries + 1
PLAIN_TRIES = 3  # the SDK's own


def test_a_boto3_program_is_retried_as_configured(run: Any, script: Any, throttling: Any) -> None:
    result = run("--", sys.executable, script(ASK), throttling.url)
    assert len(throttling.requests) == TRIES
    assert result.returncode == 1
    assert "botocore" in result.stderr
    assert f"reached max retries: {TRIES - 1}" in result.stderr


def test_what_the_retries_bring_is_what_the_program_gets(run: Any, script: Any, answering: Any) -> None:
    server = answering(TRIES - 1)
    result = run("--", sys.executable, script(ASK), server.url)
    assert (result.returncode, result.stdout, result.stderr) == (0, "111122223333\n", "")
    assert len(server.requests) == TRIES


KINDS = {
    "a client of a botocore session": (
        "import botocore.session\nbotocore.session.get_session().create_client('sts', endpoint_url=url).get_caller_identity()"
    ),
    "a client of a session of its own": "import boto3\nboto3.Session().client('sts', endpoint_url=url).get_caller_identity()",
    "a resource": "import boto3\nlist(boto3.resource('iam', endpoint_url=url).users.all())",
    "after `from`": (
        "from botocore.session import Session\nSession().create_client('sts', endpoint_url=url).get_caller_identity()"
    ),
    "in a thread": (
        "import threading, boto3\nclient = boto3.client('sts', endpoint_url=url)\n"
        "thread = threading.Thread(target=client.get_caller_identity)\nthread.start()\nthread.join()"
    ),
}


@pytest.mark.parametrize("text", KINDS.values(), ids=KINDS.keys())
def test_every_way_to_make_a_client(run: Any, script: Any, throttling: Any, text: str) -> None:
    run("--", sys.executable, script(f"import sys\nurl = sys.argv[1]\n{text}"), throttling.url)
    assert len(throttling.requests) == TRIES


def test_the_client_inside_a_credential_provider_has_few_retries(
    run: Any, script: Any, throttling: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    profiles = tmp_path / "home" / "aws-config"
    profiles.write_text(
        "[profile role]\nrole_arn = arn:aws:iam::111122223333:role/audit\ncredential_source = Environment\nregion = eu-west-1\n"
    )
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", throttling.url)
    text = "import boto3\nboto3.Session(profile_name='role').client('ec2').describe_regions()"
    result = run("--", sys.executable, script(text))
    assert "AssumeRole" in result.stderr
    assert len(throttling.requests) == 4


CHILDREN = {
    "subprocess": "import subprocess, sys\nsys.exit(subprocess.run([sys.executable, *sys.argv[1:]]).returncode)",
    "shell": "import os, shlex, sys\nsys.exit(os.system(shlex.join([sys.executable, *sys.argv[1:]])) >> 8)",
}


@pytest.mark.parametrize("text", CHILDREN.values(), ids=CHILDREN.keys())
def test_a_childs_child_too(run: Any, script: Any, answering: Any, text: str) -> None:
    server = answering(TRIES - 1)
    result = run("--", sys.executable, script(text, "parent.py"), script(ASK), server.url)
    assert (result.returncode, result.stdout) == (0, "111122223333\n")
    assert len(server.requests) == TRIES


POOL = """
import multiprocessing, sys
import boto3

def ask(url):
    return boto3.client("sts", endpoint_url=url).get_caller_identity()["Account"]

if __name__ == "__main__":
    with multiprocessing.get_context(sys.argv[2]).Pool(2) as pool:
        print(pool.map(ask, [sys.argv[1]] * 2))
"""


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_the_processes_of_a_pool_too(run: Any, script: Any, answering: Any, tmp_path: Path, method: str) -> None:
    server = answering(TRIES - 1)
    result = run("--report", str(tmp_path / "out"), "--", sys.executable, script(POOL), server.url, method)
    assert (result.returncode, result.stdout) == (0, "['111122223333', '111122223333']\n")
    assert len(server.requests) == TRIES + 1
    assert "2 calls" in result.stderr
    assert "8 attempts, 6 throttled" in result.stderr


def test_a_module_and_a_command_and_standard_input(run: Any, script: Any, answering: Any, tmp_path: Path) -> None:
    script(ASK, "asking.py")
    for arguments, text in ((("-m", "asking"), ""), (("-c", ASK), ""), (("-",), ASK)):
        server = answering(5)
        result = run("--", sys.executable, *arguments, server.url, cwd=tmp_path, input=text)
        assert (result.returncode, result.stdout) == (0, "111122223333\n")
        assert len(server.requests) == 6


SAME_MODULE = """
import gc, sys, importlib.resources
import boto3, botocore.client
client = boto3.client("sts")
print("_cloudretry" in vars(client), gc.isenabled())
spec = botocore.client.__spec__
print(type(spec.loader).__name__, spec.loader is botocore.client.__loader__)
print(botocore.client.ClientCreator.create_client.__qualname__)
print(bool(importlib.resources.files("botocore").joinpath("data").is_dir()))
print([type(finder).__module__ for finder in sys.meta_path if "cloudretry" in type(finder).__module__])
"""


def test_nobody_sees_that_somebody_was_in_between(run: Any, script: Any) -> None:
    result = run("--", sys.executable, script(SAME_MODULE))
    assert result.stdout.splitlines() == [
        "True True",
        "SourceFileLoader True",
        "ClientCreator.create_client",
        "True",
        "['cloudretry.launcher.imports']",
    ]


OWN = """
import sys
import boto3, cloudretry
report = cloudretry.Report()
client = boto3.client("sts", endpoint_url=sys.argv[1])
cloudretry.attach(client, configuration={"aws": {"max_retries": 1}}, report=report)
try:
    client.get_caller_identity()
except Exception:
    pass
print(report.total.attempts)
"""


def test_what_the_program_attaches_itself_has_its_own_settings(
    run: Any, script: Any, throttling: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CLOUDRETRY__AWS__MAX_RETRIES")
    result = run("--", sys.executable, script(OWN), throttling.url)
    assert result.stdout == "2\n"
    assert len(throttling.requests) == 2
    assert "1 lost" in result.stderr  # the run counts it as well


COMMANDS = """
import sys
import boto3
from cloudretry import AwsApiCommand
for session in (boto3.Session(), None):
    aws = AwsApiCommand(session, configuration={"aws": {"max_retries": 1}})
    try:
        aws.client("sts", endpoint_url=sys.argv[1]).get_access_key_info(AccessKeyId=f"AKIA{bool(session):016}")
    except Exception:
        print(aws.report.total.attempts)
"""


def test_what_a_command_calls_is_counted_as_well(
    run: Any, script: Any, throttling: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CLOUDRETRY__AWS__MAX_RETRIES")
    result = run("--fail-on-loss", "--", sys.executable, script(COMMANDS), throttling.url)
    assert (result.returncode, result.stdout) == (3, "2\n2\n")
    assert "2 calls in 1 process, 4 attempts" in result.stderr


@pytest.mark.parametrize("inside", ["", "client = cloudretry.attach(client)\n"])
def test_the_file_of_a_run_holds_for_what_the_program_attaches_too(
    run: Any, script: Any, throttling: Any, tmp_path: Path, inside: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CLOUDRETRY__AWS__MAX_RETRIES")
    (tmp_path / "c.toml").write_text("[aws]\nmax_retries = 2\n")
    text = f"import sys, boto3, cloudretry\nclient = boto3.client('sts', endpoint_url=sys.argv[1])\n{inside}"
    text += "try:\n    client.get_caller_identity()\nexcept Exception:\n    pass"
    run("--config", str(tmp_path / "c.toml"), "--", sys.executable, script(text), throttling.url)
    assert len(throttling.requests) == 3
