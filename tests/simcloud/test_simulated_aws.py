"""The context manager: what it yields, and that nothing of it stays behind."""

from __future__ import annotations

import math
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

import cloudretry
from cloudretry import simcloud
from cloudretry.errors import ConfigurationError, MissingExtra
from cloudretry.simcloud import PUBLISHED, Faults, Limit, RetryAfter, SimulatedAws, SimulationFailed, simulated_aws
from cloudretry.simcloud import process as server
from cloudretry.simcloud.settings import Settings

SMALL = 0.25  # as the server of the fixture `aws`
HOME = str(Path(cloudretry.__file__).parents[1])


@pytest.mark.wire
def test_credentials_belong_to_their_account(aws: SimulatedAws, connect: Any) -> None:
    seen = [connect(aws, "sts", account=each).get_caller_identity()["Account"] for each in aws.accounts]
    assert tuple(seen) == aws.accounts == ("111122223333", "444455556666")


@pytest.mark.wire
def test_an_assumed_role_acts_in_its_own_account(aws: SimulatedAws, connect: Any) -> None:
    role = f"arn:aws:iam::{aws.accounts[1]}:role/functions"
    keys = connect(aws, "sts").assume_role(RoleArn=role, RoleSessionName="audit")["Credentials"]
    assumed = {
        "aws_access_key_id": keys["AccessKeyId"],
        "aws_secret_access_key": keys["SecretAccessKey"],
        "aws_session_token": keys["SessionToken"],
    }
    aws.reset()
    buckets = {bucket["Name"] for bucket in connect(aws, "s3", **assumed).list_buckets()["Buckets"]}
    theirs = {name for account, _, kind, name in aws.resources if (account, kind) == (aws.accounts[1], "s3:bucket")}
    assert buckets == theirs
    assert [line[1] for line in aws.log()] == [aws.accounts[1]]


@pytest.mark.wire
def test_objects_come_back_as_they_went(aws: SimulatedAws, connect: Any) -> None:
    s3, body = connect(aws, "s3"), os.urandom(2 * 1024 * 1024)
    bucket = s3.list_buckets()["Buckets"][0]["Name"]
    s3.put_object(Bucket=bucket, Key="a folder/ü+%.bin", Body=body, Metadata={"team": "x"})
    head = s3.head_object(Bucket=bucket, Key="a folder/ü+%.bin")
    assert (head["ContentLength"], head["Metadata"]) == (len(body), {"team": "x"})
    assert s3.get_object(Bucket=bucket, Key="a folder/ü+%.bin")["Body"].read() == body


@pytest.mark.wire
def test_counters_and_reset(strict: SimulatedAws, connect: Any) -> None:
    sts = connect(strict, "sts")

    def attempt() -> bool:
        try:
            return bool(sts.get_caller_identity())
        except ClientError:
            return False

    assert [attempt() for _ in range(3)] == [True, False, False]
    row = {"account": strict.accounts[0], "region": "eu-west-1", "service": "sts", "action": "GetCallerIdentity"}
    assert strict.counters() == {"accepted": 1, "throttled": 2, "rows": [row | {"accepted": 1, "throttled": 2}]}
    assert [line[5] for line in strict.log()] == ["accepted", "throttled", "throttled"]
    strict.reset()
    assert strict.counters() == {"accepted": 0, "throttled": 0, "rows": []}
    assert strict.log() == []
    assert attempt()


@pytest.mark.wire
def test_latency_delays_every_answer(strict: SimulatedAws, connect: Any) -> None:
    sts, begin = connect(strict, "sts"), time.monotonic()
    sts.get_caller_identity()
    with pytest.raises(ClientError):
        sts.get_caller_identity()
    assert time.monotonic() - begin >= 2 * 0.02


def test_settings_survive_the_way_to_the_server() -> None:
    faults = (Faults(match="ec2", kinds=("cut", "slow"), rate=0.5, times=3, status=200, seconds=0.1), Faults())
    waits = (RetryAfter(match="s3", seconds=2.5, headers=("Retry-After",)), RetryAfter())
    varied = {"seed": 3, "accounts": 1, "regions": ("eu-west-1",), "size": 0.5, "latency": 0.5, "port": 1234}
    settings = Settings(limits=PUBLISHED, faults=faults, retry_after=waits, **varied)  # type: ignore[arg-type]
    assert Settings.from_json(settings.to_json()) == settings
    assert "\n" not in settings.to_json()
    assert isinstance(settings.limits[0].limit, Limit)
    assert all(getattr(settings, field.name) != field.default for field in fields(Settings) if field.name != "limits")


@pytest.mark.parametrize("wrong", [{"accounts": 0}, {"regions": ()}, {"size": 0}, {"latency": -1}, {"latency": math.inf}])
def test_impossible_settings_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(wrong))):
        Settings(**wrong)


def test_a_port_that_is_taken_is_named(aws: SimulatedAws) -> None:
    taken = int(aws.url.rpartition(":")[2])
    said = rf"port {taken} of 127\.0\.0\.1 can't be used: Address already in use$"
    with pytest.raises(SimulationFailed, match=said), simulated_aws(port=taken):
        pass


def test_importing_needs_neither_moto_nor_aiohttp() -> None:
    script = "import sys, cloudretry.simcloud; print({'moto', 'aiohttp', 'flask', 'botocore'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], cwd=HOME, capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_what_is_missing_is_said_with_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simcloud, "find_spec", lambda name: None if name == "moto" else object())
    with pytest.raises(MissingExtra, match=r'pip install "cloudretry\[simulate\]"'), simulated_aws():
        pass


class OwnError(Exception):
    pass


@pytest.fixture(scope="module")
def ended(aws: SimulatedAws) -> tuple[SimulatedAws, subprocess.Popen[str]]:
    """A second server like `aws`, whose context was left by an exception."""
    spawned: list[subprocess.Popen[str]] = []
    spawn = server._spawn

    def spy(*arguments: Any) -> subprocess.Popen[str]:
        spawned.append(spawn(*arguments))
        return spawned[0]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(server, "_spawn", spy)
        context = simulated_aws(accounts=2, regions=aws.regions, size=SMALL)
        running = context.__enter__()
        assert spawned[0].poll() is None
        assert not context.__exit__(OwnError, OwnError(), None)  # it is not swallowed
    return running, spawned[0]


def test_the_process_ends_with_the_context(ended: tuple[SimulatedAws, subprocess.Popen[str]]) -> None:
    assert ended[1].poll() is not None


def test_the_seed_decides_everything_ids_and_keys_included(
    ended: tuple[SimulatedAws, subprocess.Popen[str]], aws: SimulatedAws, strict: SimulatedAws
) -> None:
    same, account = ended[0], aws.accounts[0]
    assert same.resources == aws.resources
    assert all(same.credentials(each) == aws.credentials(each) for each in aws.accounts)
    assert strict.credentials(account) != aws.credentials(account)
    assert not {r for r in strict.resources if r[2] == "ec2:instance"} & aws.resources


@pytest.fixture
def fake_moto(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The server process imports this file instead of moto."""
    package = tmp_path / "moto"
    package.mkdir()
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{HOME}")
    return package / "__init__.py"


def test_a_server_that_can_not_start_says_why(fake_moto: Path) -> None:
    fake_moto.write_text("raise RuntimeError('broken on purpose')")
    with pytest.raises(SimulationFailed, match="broken on purpose"), simulated_aws():
        pass


PARENT = """
import os, sys, time
from cloudretry import simcloud
from cloudretry.simcloud import process as server
spawn = server._spawn
def spawn_then_fork(*arguments):
    process = spawn(*arguments)
    if not (child := os.fork()):
        time.sleep(60)
    print(child, flush=True)
    return process
if "forks" in sys.argv:
    server._spawn = spawn_then_fork
with simcloud.simulated_aws():
    pass
"""


@pytest.mark.parametrize("kind", ["simple", "forks"])
def test_the_server_ends_when_its_parent_is_killed(kind: str, fake_moto: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as door:
        door.settimeout(20)
        fake_moto.write_text(f"import socket, time; s = socket.create_connection({door.getsockname()}); time.sleep(60)")
        parent = subprocess.Popen([sys.executable, "-c", PARENT, kind], stdout=subprocess.PIPE, text=True)
        assert parent.stdout is not None
        held_open_by = int(parent.stdout.readline()) if kind == "forks" else None
        try:
            line, _ = door.accept()
            parent.kill()
            line.settimeout(20)
            assert line.recv(1) == b""  # the operating system hung up: the server's process is gone
        finally:
            line.close()
            parent.communicate() if held_open_by is None else os.kill(held_open_by, signal.SIGKILL)
            parent.wait()
            parent.stdout.close()
