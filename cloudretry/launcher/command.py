"""Recognises, before anything starts, a command whose Python can't be hooked, or that has none."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from cloudretry.strategies.registry import GROUP

__all__ = ["missing_plugins", "why_not"]

_PYTHON: Final = re.compile(r"(?:python|pypy)(?:(\d)(?:\.(\d+))?)?t?(?:\.exe)?", re.ASCII)
_OLDEST: Final = (3, 10)
_IGNORING: Final = {
    "I": "isolates it from the environment",
    "E": "lets it ignore the environment",
    "S": "lets it start without `site`",
}
_WITH_VALUE: Final = "WX"
_NATIVE: Final = (b"\x7fELF", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe")
_FROZEN: Final = b"MEI\014\013\012\013\016"  # the mark of PyInstaller, with which AWS CLI v2 is made
_END: Final = 1 << 16
_STARTER: Final = re.compile(
    "ash|bash|busybox|chrt|chroot|csh|dash|direnv|dumb-init|env|fish|flock|ionice|just|ksh|make|mise|nice|nohup|parallel|perf|"
    "pixi|runuser|rye|script|setpriv|setsid|sh|stdbuf|strace|sudo|su|taskset|tcsh|time|timeout|tini|unshare|uv|uvx|watch|xargs|"
    "xonsh|zsh"
)
"""Native programs that start others. Whether one of those is a Python shows only when it runs."""


def why_not(command: Sequence[str], environ: Mapping[str, str]) -> str | None:
    """One sentence that says why the command would run without cloudretry; None where that is not known beforehand."""
    found = shutil.which(command[0], path=environ.get("PATH"))
    if found is None:
        return None  # starting it will say so
    python = _python_of(found, command)
    if python is not None:
        return _why_not_python(python)
    return _why_not_native(found) if _head(found).startswith(_NATIVE) else None


def missing_plugins(command: Sequence[str], environ: Mapping[str, str], names: Iterable[str]) -> list[str]:
    """Which of these getDelay() plugins the command's Python does not have; none where it can't be asked.

    A program has its own environment, and a plugin is needed there.
    """
    wanted = sorted(names)
    found = shutil.which(command[0], path=environ.get("PATH")) if wanted else None
    python = None if found is None else _python_of(found, command)
    if python is None:
        return []
    asked = [shutil.which(python[0], path=environ.get("PATH")) or python[0], "-c", _ASKS, *wanted]
    result = subprocess.run(asked, env=dict(environ), capture_output=True, text=True, check=False)  # noqa: S603 - it runs next anyway
    return result.stdout.split("\n")[:-1] if result.returncode == 0 else []


_ASKS: Final = (
    "import sys; from importlib.metadata import entry_points\n"
    f"has = {{point.name for point in entry_points(group={GROUP!r})}}\n"
    "for name in sys.argv[1:]: name in has or print(name)"
)


def _python_of(found: str, command: Sequence[str]) -> list[str] | None:
    """The interpreter with its arguments, where the command is one or a script for one."""
    if _is_python(found):
        return [found, *command[1:]]
    head = _head(found)
    words = _interpreter(head) if head.startswith(b"#!") else []
    return words if words and _is_python(words[0]) else None


def _is_python(path: str) -> bool:
    return _PYTHON.fullmatch(os.path.basename(path)) is not None  # noqa: PTH119 - as it was written


def _why_not_python(command: Sequence[str]) -> str | None:
    for name in (command[0], os.path.realpath(command[0])):
        version = _PYTHON.fullmatch(os.path.basename(name))  # noqa: PTH119 - as above
        if version and version[1] and (int(version[1]), int(version[2] or 99)) < _OLDEST:
            return f"{command[0]} is older than Python 3.10, which cloudretry needs"
    for option in _options(command[1:]):
        if option in _IGNORING:
            return (
                f"{command[0]} -{option}: the option {_IGNORING[option]}, so nothing in it can be hooked; leave the option out"
            )
    return None


def _options(arguments: Sequence[str]) -> Iterator[str]:
    """The interpreter's own options, one letter each, up to the program."""
    waiting = iter(arguments)
    for argument in waiting:
        if not argument.startswith("-") or argument in {"-", "--"}:
            return
        if argument.startswith("--"):
            if argument == "--check-hash-based-pycs":
                next(waiting, None)
            continue
        for at, letter in enumerate(argument[1:], 2):
            if letter in "cm":
                return
            if letter in _WITH_VALUE:
                if at == len(argument):
                    next(waiting, None)
                break
            yield letter


def _head(path: str) -> bytes:
    try:
        with Path(path).open("rb") as file:
            return file.read(512)
    except OSError:
        return b""  # starting it will say so


def _interpreter(head: bytes) -> list[str]:
    """The words of a script's first line; what `env` is to start, where it is that."""
    words = head[2:].partition(b"\n")[0].decode(errors="replace").split()
    if words and os.path.basename(words[0]) == "env":  # noqa: PTH119 - as above
        words = [word for word in words[1:] if word != "-S" and "=" not in word]
    return words


def _why_not_native(path: str) -> str | None:
    name = os.path.basename(path)  # noqa: PTH119 - as above
    real = Path(os.path.realpath(path))
    if _is_frozen(real):
        hint = "; AWS CLI v1 can be: pip install awscli" if name == "aws" else ""
        return f"{path} is a program with a Python of its own inside, which can't be hooked{hint}"
    if _STARTER.fullmatch(name) or _STARTER.fullmatch(real.name):
        return None
    return f"{path} is no Python program, and none that is known to start one; if it does: cloudretry run -- env {name} …"


def _is_frozen(path: Path) -> bool:
    if any(any(folder.glob("libpython*")) for folder in (path.parent, path.parent / "_internal")) and path.parent.name != "lib":
        return True
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _END))
            return _FROZEN in file.read()
    except OSError:
        return False
