"""What can be known of a command before it starts."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cloudretry.launcher.command import missing_plugins, why_not

ELF = b"\x7fELF" + bytes(200)
COOKIE = b"MEI\014\013\012\013\016"

Place = Callable[..., str]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """`place(name, content)` is the path of a program."""

    def write(name: str, content: bytes) -> str:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        path.chmod(0o755)
        return str(path)

    return write


FINE = [
    ["x.py"],
    ["-u", "x.py", "-I"],
    ["-m", "tool", "-S", "-E"],
    ["-c", "pass", "-I"],
    ["-um", "tool", "-I"],
    ["-cpass", "-I"],
    ["-W", "error", "x.py"],
    ["-Werror::E", "x.py"],
    ["-X", "dev", "-B", "x.py", "-E"],
    ["--check-hash-based-pycs", "always", "x.py"],
    ["-P", "-s", "x.py"],
    ["-", "-I"],
    ["--", "-I"],
    [],
]
REFUSED = [
    (["-I", "x.py"], "I"),
    (["-E", "x.py"], "E"),
    (["-S", "x.py"], "S"),
    (["-uI", "x.py"], "I"),
    (["-sE", "-m", "tool"], "E"),
    (["-W", "error", "-I", "x.py"], "I"),
    (["-X", "dev", "-BS", "-c", "pass"], "S"),
    (["--check-hash-based-pycs", "always", "-E"], "E"),
]


@pytest.mark.parametrize("arguments", FINE, ids=" ".join)
def test_options_that_matter_not(arguments: list[str]) -> None:
    assert why_not([sys.executable, *arguments], os.environ) is None


@pytest.mark.parametrize(("arguments", "option"), REFUSED, ids=" ".join)
def test_options_that_keep_us_out(arguments: list[str], option: str) -> None:
    assert f" -{option}: the option" in (why_not([sys.executable, *arguments], os.environ) or "")


@pytest.mark.parametrize(
    ("first_line", "refused"),
    [
        ("#!/usr/bin/python3 -Es", True),
        ("#! /usr/bin/python3 -I", True),
        ("#!/usr/bin/env -S python3 -E", True),
        ("#!/usr/bin/env -S A=1 python3 -I", True),
        ("#!/usr/bin/env python3", False),
        ("#!/usr/bin/python3", False),
        ("#!/bin/sh -E", False),
        ("#!", False),
    ],
)
def test_the_first_line_of_a_script(place: Place, first_line: str, refused: bool) -> None:  # noqa: FBT001 - a case
    assert (why_not([place("tool", f"{first_line}\nimport x\n".encode())], os.environ) is not None) is refused


@pytest.mark.parametrize(
    ("name", "refused"), [("python3.9", True), ("python2", True), ("python3.10", False), ("pypy3.11", False)]
)
def test_an_interpreter_that_is_too_old(place: Place, name: str, refused: bool) -> None:  # noqa: FBT001 - a case
    assert ("older than Python 3.10" in (why_not([place(name, ELF), "x.py"], os.environ) or "")) is refused


def test_a_link_to_an_interpreter_that_is_too_old(place: Place, tmp_path: Path) -> None:
    (tmp_path / "python3").symlink_to(place("python3.8", ELF))
    assert "older than Python 3.10" in (why_not([str(tmp_path / "python3")], os.environ) or "")


def test_a_frozen_program_is_known_by_its_mark_or_by_the_python_beside_it(place: Place) -> None:
    marked = place("one/aws", ELF + COOKIE + bytes(5000))
    place("two/libpython3.13.so.1.0", ELF)
    beside = place("two/tool", ELF)
    assert "a Python of its own inside" in (why_not([marked], os.environ) or "")
    assert "pip install awscli" in (why_not([marked], os.environ) or "")
    assert "a Python of its own inside" in (why_not([beside], os.environ) or "")
    assert "awscli" not in (why_not([beside], os.environ) or "")


def test_a_native_program_is_refused_unless_it_starts_others(place: Place) -> None:
    refusal = why_not([place("terraform", ELF)], os.environ) or ""
    assert "is no Python program" in refusal
    assert refusal.endswith("cloudretry run -- env terraform …")
    assert why_not([place("timeout", ELF), "5", "x"], os.environ) is None
    assert why_not([place("make", ELF)], os.environ) is None


def test_it_looks_where_the_program_will_be_found(place: Place, tmp_path: Path) -> None:
    place("bin/tool", b"#!/usr/bin/python3 -I\n")
    assert why_not(["tool"], {"PATH": str(tmp_path / "bin")})
    assert why_not(["tool"], {"PATH": str(tmp_path)}) is None
    assert why_not(["nowhere"], os.environ) is None


def test_what_is_refused_exits_with_two_and_a_sentence(run: Any) -> None:
    result = run("--", sys.executable, "-I", "-c", "print(1)")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith(f"cloudretry: {sys.executable} -I: ")
    assert len(result.stderr.splitlines()) == 1


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a plugin that is installed where PYTHONPATH leads."""
    metadata = tmp_path / "site" / "steady-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: steady\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[cloudretry.backoff]\nsteady = steady:Steady\n")
    (tmp_path / "site" / "steady.py").write_text("class Steady:\n    def getDelay(self, context):\n        return 11\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    return "steady"


def test_a_plugin_is_looked_for_where_the_program_runs(plugin: str, place: Place) -> None:
    script = place("tool", f"#!{sys.executable}\n".encode())
    for command in ([sys.executable, "x.py"], [script]):
        assert missing_plugins(command, os.environ, [plugin, "nowhere"]) == ["nowhere"]
        assert missing_plugins(command, {**os.environ, "PYTHONPATH": ""}, [plugin]) == [plugin]
    assert missing_plugins(["sh", "-c", "x"], os.environ, ["nowhere"]) == []
    assert missing_plugins([sys.executable], os.environ, []) == []


def test_a_plugin_that_the_program_lacks_is_named_before_it_starts(
    run: Any, plugin: str, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLOUDRETRY__AWS__STRATEGY", "custom")
    monkeypatch.setenv("CLOUDRETRY__AWS__PLUGIN", plugin)
    without = place("python3", f'#!/bin/sh\nPYTHONPATH= exec {sys.executable} "$@"\n'.encode())
    result = run("--", without, "-c", "print(1)")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == f"cloudretry: plugins that the program's own Python does not have: {plugin}; install them there\n"
    assert run("--", sys.executable, "-c", "print(1)").stdout == "1\n"
