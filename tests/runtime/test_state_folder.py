from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from cloudretry.runtime.state_folder import LARGEST, StateFolder, StateRefused, state_path


@pytest.fixture
def folder(tmp_path: Path) -> StateFolder:
    return StateFolder(str(tmp_path / "state"), "pools")


def mode(path: str | Path) -> int:
    return stat.S_IMODE(Path(path).stat().st_mode)


@pytest.mark.parametrize(
    ("environ", "path"),
    [
        ({"CLOUDRETRY_STATE_DIR": "/srv/state", "XDG_STATE_HOME": "/x"}, "/srv/state"),
        ({"XDG_STATE_HOME": "/x", "HOME": "/home/me"}, "/x/cloudretry"),
        ({"XDG_STATE_HOME": "x", "HOME": "/home/me"}, "/home/me/.local/state/cloudretry"),
        ({"HOME": "/home/me"}, "/home/me/.local/state/cloudretry"),
        ({"HOME": "me"}, None),
        ({}, None),
    ],
)
def test_where_it_is(environ: dict[str, str], path: str | None) -> None:
    assert state_path(environ) == path


def test_what_is_written_is_read_back_and_private(folder: StateFolder) -> None:
    folder.write("a.json", {"b": [1, "é"]})
    assert folder.read("a.json") == {"b": [1, "é"]}
    assert list(folder.names()) == ["a.json"]
    assert mode(folder.path) == mode(Path(folder.path).parent) == 0o700
    assert mode(f"{folder.path}/a.json") == 0o600


def test_a_reader_never_sees_a_half(folder: StateFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.write("a.json", 1)
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(OSError, match="full"):
        folder.write("a.json", 2)
    assert folder.read("a.json") == 1
    assert [file.name for file in Path(folder.path).iterdir()] == ["a.json"]


def test_a_link_is_neither_followed_nor_written_through(folder: StateFolder, tmp_path: Path) -> None:
    folder.write("a.json", 1)
    (tmp_path / "secret.json").write_text("2")
    Path(f"{folder.path}/b.json").symlink_to(tmp_path / "secret.json")
    assert folder.read("b.json") is None
    folder.write("b.json", 3)
    assert (tmp_path / "secret.json").read_text() == "2"
    assert folder.read("b.json") == 3


def test_a_linked_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir(mode=0o700)
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (tmp_path / "state" / "pools").symlink_to(tmp_path / "elsewhere")
    folder = StateFolder(str(tmp_path / "state"), "pools")
    with pytest.raises(StateRefused):
        folder.write("a.json", 1)
    (tmp_path / "elsewhere" / "a.json").write_text("1")
    assert folder.read("a.json") is None


def test_a_folder_where_others_may_write_is_refused(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state").chmod(0o777)
    with pytest.raises(StateRefused, match="others may write"):
        StateFolder(str(tmp_path / "state"), "pools").write("a.json", 1)
    assert list((tmp_path / "state").iterdir()) == []


def test_a_foreign_folder_is_refused(folder: StateFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.write("a.json", 1)
    own = os.geteuid()
    monkeypatch.setattr("os.geteuid", lambda: own + 1)
    assert folder.read("a.json") is None
    with pytest.raises(StateRefused, match="belongs to somebody else"):
        folder.write("a.json", 1)


def test_what_is_large_odd_or_no_json_is_missing(folder: StateFolder) -> None:
    folder.write("a.json", 1)
    with pytest.raises(ValueError, match="larger than"):
        folder.write("b.json", "x" * LARGEST)
    with Path(f"{folder.path}/large.json").open("wb") as file:
        file.truncate(LARGEST + 1)
    os.mkfifo(f"{folder.path}/pipe.json")
    for name, text in (("half.json", "{"), ("deep.json", "[" * 100_000), ("loose.json", "1")):
        Path(f"{folder.path}/{name}").write_text(text)
    Path(f"{folder.path}/loose.json").chmod(0o666)
    for name in ("large.json", "pipe.json", "half.json", "deep.json", "loose.json", "none.json"):
        assert folder.read(name) is None
    assert json.loads(Path(f"{folder.path}/a.json").read_text()) == 1


def test_dropping_what_is_not_there_is_nothing(folder: StateFolder) -> None:
    folder.drop("a.json")
    folder.write("a.json", 1)
    folder.drop("a.json")
    assert list(folder.names()) == []


FORKS = """
import os, sys
from cloudretry.runtime.state_folder import StateFolder
with StateFolder(sys.argv[1], "pools").alone("a.lock") as alone:
    print(alone, flush=True)
    if os.fork() == 0:
        sys.stdin.read()
        os._exit(0)
print("out", flush=True)
os.wait()
"""


def test_a_forked_child_does_not_stay_where_its_parent_was_alone(folder: StateFolder, tmp_path: Path) -> None:
    command = [sys.executable, "-c", FORKS, str(tmp_path / "state")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(2)] == ["True\n", "out\n"]
        with folder.alone("a.lock") as alone:
            assert alone
        process.communicate()
