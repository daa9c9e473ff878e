"""The command, as a process with a hostile environment, and its options."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

import pytest
from click.testing import CliRunner

from cloudretry.cli.demo import demo
from cloudretry.demo import run

RUNS = {"AWS": ("aws-plain-boto3", "aws-cloudretry"), "Azure": ("azure-plain-azure-sdk", "azure-cloudretry")}
COMMAND = (sys.executable, "-m", "cloudretry", "demo", "--fast", "--seed", "4")


@dataclass
class Trap:
    """A port that nobody should come to."""

    url: str
    visits: int = 0


@contextmanager
def trap() -> Iterator[Trap]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        set_here = Trap(f"http://127.0.0.1:{listener.getsockname()[1]}")

        def watch() -> None:
            while True:
                try:
                    listener.accept()[0].close()
                except OSError:
                    return
                set_here.visits += 1

        thread = Thread(target=watch, daemon=True)
        thread.start()
        yield set_here
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


def hostile(home: Path, url: str) -> dict[str, str]:
    """What a user's environment may hold, all of it wrong for the demo."""
    broken = home / ".aws"
    (home / "models" / "iam" / "2010-05-08").mkdir(parents=True)
    broken.mkdir()
    (broken / "config").write_text("[profile nobody\nregion ~~ nowhere")
    (broken / "credentials").write_text("\x00[[")
    (home / "models" / "iam" / "2010-05-08" / "service-2.json").write_text("{")
    wrong = home / "wrong.toml"
    wrong.write_text("[aws]\nmax_retries = 0\nstrategy = 'none'\n")
    kept = {name: value for name, value in os.environ.items() if not name.upper().startswith(("AWS_", "CLOUDRETRY"))}
    return kept | {
        "HOME": str(home),
        "XDG_STATE_HOME": str(home / "state"),
        "AWS_PROFILE": "nobody",
        "AWS_CONFIG_FILE": str(broken / "config"),
        "AWS_SHARED_CREDENTIALS_FILE": str(broken / "credentials"),
        "AWS_ENDPOINT_URL": url,
        "AWS_ENDPOINT_URL_IAM": url,
        "AWS_CA_BUNDLE": str(home / "missing.pem"),
        "REQUESTS_CA_BUNDLE": str(home / "missing.pem"),
        "AWS_MAX_ATTEMPTS": "1",
        "AWS_RETRY_MODE": "nonsense",
        "AWS_USE_FIPS_ENDPOINT": "true",
        "AWS_DATA_PATH": str(home / "models"),
        "AWS_CONTAINER_CREDENTIALS_FULL_URI": url,
        "HTTPS_PROXY": url,
        "HTTP_PROXY": url,
        "http_proxy": url,
        "ALL_PROXY": url,
        "NO_PROXY": "",
        "CLOUDRETRY_DISABLED": "1",
        "CLOUDRETRY_CONFIG": str(wrong),
        "CLOUDRETRY__AWS__MAX_RETRIES": "0",
        "CLOUDRETRY__AZURE__MAX_RETRIES": "0",
        "AZURE_AUTHORITY_HOST": url,
        "AZURE_SDK_CLOUD_CONF": "nowhere",
        "AZURE_CLIENT_ID": "nobody",
        "SSL_CERT_FILE": str(home / "missing.pem"),
        "FORCE_COLOR": "1",
        "PYTHONWARNINGS": "ignore",
    }


@dataclass(frozen=True)
class Ran:
    process: subprocess.CompletedProcess[str]
    folder: Path
    visits: int


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    home = tmp_path_factory.mktemp("home")
    folder = home / "out"
    with trap() as nobody:
        environment = hostile(home, nobody.url)
        process = subprocess.run(
            [*COMMAND, "--out", str(folder)],
            env=environment,
            cwd=home,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    return Ran(process, folder, nobody.visits)


def test_it_runs_in_a_hostile_environment_and_visits_nobody(ran: Ran) -> None:
    assert (ran.process.returncode, ran.process.stderr) == (0, "")
    assert ran.visits == 0


def test_it_leaves_nothing_that_a_later_run_would_start_from(ran: Ran) -> None:
    assert list(ran.folder.parent.rglob("limits.json")) == []


def test_its_lines_are_plain(ran: Ran) -> None:
    assert all(character.isprintable() for line in ran.process.stdout.splitlines() for character in line)


def test_it_compares_two_runs_of_each_cloud_and_tells_where_their_inventories_are(ran: Ran) -> None:
    output = ran.process.stdout
    for number, (head, alone) in enumerate((("AWS", "plain boto3"), ("Azure", "plain Azure SDK"))):
        assert re.search(rf"^{head} +{alone} +cloudretry$", output, re.MULTILINE)
        for label in ("calls", r"attempts \(requests sent\)", "throttled attempts", "lost calls", "time"):
            assert len(_rows(output, label)) == 2
        assert int(_rows(output, "throttled attempts")[number][0]) > 0
        assert int(_rows(output, "lost calls")[number][1]) == 0
    assert "own report is WRONG" not in output
    assert output.count("cloudretry found every resource with all its details") == 2
    assert len(re.findall(r"^limits that were felt .* calls/s granted +calls/s learned$", output, re.MULTILINE)) == 2
    assert len(re.findall(r"at best; cloudretry needed \d+\.\d\d times that\.$", output, re.MULTILINE)) == 2
    assert str(ran.folder) in output
    assert output.rstrip().endswith("cloudretry simulate azure")
    assert sorted(file.name for file in ran.folder.iterdir()) == sorted(
        name for run in (*RUNS["AWS"], *RUNS["Azure"]) for name in (f"{run}.jsonl", f"{run}.sqlite", f"lost-{run}.txt")
    )


def _rows(output: str, label: str) -> list[tuple[str, str]]:
    return re.findall(rf"^{label} +(\S+)(?: s)? +(\S+)(?: s)?$", output, re.MULTILINE)


def test_all_lost_calls_are_in_their_files(ran: Ran) -> None:
    for runs, counts in zip(RUNS.values(), _rows(ran.process.stdout, "lost calls"), strict=True):
        files = [ran.folder / f"lost-{run}.txt" for run in runs]
        assert [len(file.read_text().splitlines()) for file in files] == [int(count) for count in counts]


@pytest.mark.parametrize("number", [0, 1])
def test_under_cloudretry_all_was_found_and_the_files_agree(ran: Ran, number: int) -> None:
    there = int(re.findall(r"holds (\d+) resources", ran.process.stdout)[number])
    run = list(RUNS.values())[number][1]
    lines = [json.loads(line) for line in (ran.folder / f"{run}.jsonl").read_text().splitlines()]
    with closing(sqlite3.connect(ran.folder / f"{run}.sqlite")) as database:
        rows = database.execute("select account, region, type, id, complete from resources").fetchall()
    assert len(lines) == len(rows) == there
    assert {tuple(line.values())[:5] for line in lines} == set(rows)
    assert all(line["complete"] for line in lines)


@pytest.mark.parametrize(("cloud", "alone"), [("aws", "plain boto3"), ("azure", "plain Azure SDK")])
def test_ctrl_c_ends_it_and_leaves_no_process_behind(tmp_path: Path, cloud: str, alone: str) -> None:
    process = subprocess.Popen(
        [*COMMAND, "--cloud", cloud, "--out", str(tmp_path / "out")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    with process:
        url = next(match[1] for line in process.stdout or () if (match := re.search(r"answers at (\S+) ", line)))
        next(line for line in process.stdout or () if line.startswith(alone))
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert errors.startswith("Stopped.")
    assert "Traceback" not in errors
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", urlsplit(url).port or 0), timeout=5).close()


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Path, list[Any], int]]:
    calls: list[tuple[Path, list[Any], int]] = []
    monkeypatch.setattr(run, "run_demo", lambda folder, _display, clouds, *, seed: calls.append((folder, clouds, seed)))
    return calls


def without(monkeypatch: pytest.MonkeyPatch, *modules: str) -> None:
    monkeypatch.setattr("cloudretry.demo.run.find_spec", lambda name: None if name in modules else find_spec(name))


@pytest.mark.parametrize(
    ("modules", "cloud"),
    [
        (["aiohttp"], "both"),
        (["boto3", "azure.core"], "both"),
        (["boto3"], "aws"),
        (["azure"], "azure"),
        (["azure.mgmt.compute"], "azure"),
    ],
)
def test_what_is_not_installed_is_told_before_anything_is_begun(
    asked: list[Any], modules: list[str], cloud: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without(monkeypatch, *modules)
    result = CliRunner().invoke(demo, ["--cloud", cloud, "--out", str(tmp_path / "out")])
    assert result.exit_code == 1
    assert 'pip install "cloudretry[demo]"' in result.output
    assert asked == []
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("module", "missing", "shown"), [("azure.mgmt.compute", "Azure", "aws"), ("boto3", "AWS", "azure")])
def test_without_one_of_the_sdks_the_other_cloud_is_shown_alone(
    asked: list[Any], module: str, missing: str, shown: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without(monkeypatch, module)
    result = CliRunner().invoke(demo, ["--out", str(tmp_path / "out")])
    assert result.exit_code == 0
    [line] = result.output.splitlines()
    assert line.startswith(f"Without {missing}: ")
    assert 'pip install "cloudretry[demo]"' in line
    assert asked == [(tmp_path / "out", [run.FULL[shown]], 1)]


@pytest.mark.parametrize("cloud", ["aws", "azure"])
def test_options(asked: list[Any], tmp_path: Path, cloud: str) -> None:
    result = CliRunner().invoke(demo, ["--cloud", cloud, "--seed", "9", "--fast", "--out", str(tmp_path / "a" / "b")])
    assert (result.exit_code, result.output) == (0, "")
    assert asked == [(tmp_path / "a" / "b", [run.FAST[cloud]], 9)]
    assert (tmp_path / "a" / "b").is_dir()


def test_the_folder_has_a_name_of_its_own_by_default(asked: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    assert CliRunner().invoke(demo, []).exit_code == 0
    [(folder, clouds, _)] = asked
    assert clouds == [run.FULL["aws"], run.FULL["azure"]]
    assert re.fullmatch(r"cloudretry-demo-\d{8}-\d{6}", folder.name)
    assert [entry.name for entry in here.iterdir()] == [folder.name]


def test_nothing_of_the_users_is_overwritten(asked: list[Any], tmp_path: Path) -> None:
    (tmp_path / "cloudretry.jsonl").write_text("mine")
    result = CliRunner().invoke(demo, ["--out", str(tmp_path)])
    assert result.exit_code == 1
    assert "is not empty; name a new folder with --out" in result.output
    assert asked == []
    assert (tmp_path / "cloudretry.jsonl").read_text() == "mine"


def test_a_file_is_no_folder(asked: list[Any], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    result = CliRunner().invoke(demo, ["--out", str(tmp_path / "file" / "below")])
    assert result.exit_code == 1
    assert "can't be used" in result.output
    assert asked == []
