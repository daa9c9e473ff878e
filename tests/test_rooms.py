"""Who may import whom (ARCHITECTURE.md's table), read from the syntax tree."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "cloudretry"
ROOMS = {
    "errors": set(),
    "references": {"errors"},
    "core": {"errors"},
    "config": {"errors", "references", "core", "strategies"},
    "strategies": {"errors", "references", "core"},
    "runtime": {"errors", "core", "strategies"},
    "egress": {"errors", "references", "core", "runtime"},
    "aws": {"errors", "core", "runtime", "egress"},
    "azure": {"errors", "core", "runtime", "egress"},
    "launcher": {"errors", "core", "strategies", "runtime", "aws", "azure", "report", "telemetry"},
    "telemetry": {"errors", "core"},
    "report": {"errors", "core", "telemetry"},
    "simcloud": {"errors"},
    "state": {"errors", "references", "core", "runtime"},
    "sweep": {"errors", "core", "runtime"},
    "testing": {"errors", "core", "strategies", "runtime", "simcloud"},
}
"""room → the rooms that it may import. Those not named here (commands, cli, the package itself) may import all but the cli."""

ONLY_IN = {
    "boto3": {"aws", "commands", "demo", "cli"},
    "botocore": {"aws", "commands", "demo", "cli", "simcloud", "testing"},  # service models, injected throttles
    "aiobotocore": {"aws"},
    "aiohttp": {"egress", "simcloud"},
    "azure": {"azure", "commands", "demo"},
    "pydantic": {"config"},
    "rich": {"cli", "demo", "report"},
    "click": {"cli"},
    "opentelemetry": {"telemetry"},
    "redis": {"state"},
    "trustme": {"simcloud"},
    "moto": {"simcloud"},
    "pytest": {"testing"},
}
"""third-party package → the rooms that may import it, be it for types alone."""

STANDARD_LIBRARY_ALONE = {"errors", "references", "core", "strategies", "runtime", "testing", "telemetry", "report", "launcher"}
NOT_IN_CORE = {
    "time",
    "asyncio",
    "socket",
    "ssl",
    "os",
    "io",
    "threading",
    "subprocess",
    "logging",
    "pathlib",
    "select",
    "selectors",
}

FILES = sorted(ROOT.rglob("*.py"))


def room_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imports(path: Path) -> Iterator[str]:
    """Every module that a file names in an import, wherever the import stands."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            assert node.module is not None
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names if node.module == "cloudretry")


def rooms_imported(path: Path) -> set[str]:
    found = {name.split(".")[1] for name in imports(path) if name.startswith("cloudretry.")}
    return found & {room_of(file) for file in FILES}


def packages_imported(path: Path) -> set[str]:
    return {name.split(".")[0] for name in imports(path)}


@pytest.mark.parametrize("path", FILES, ids=[str(path.relative_to(ROOT)) for path in FILES])
def test_a_room_imports_only_what_it_may(path: Path) -> None:
    room = room_of(path)
    foreign = rooms_imported(path) - {room}
    if room in ROOMS:
        assert foreign <= ROOMS[room]
    assert "cli" not in foreign or room == "__main__"


@pytest.mark.parametrize("path", FILES, ids=[str(path.relative_to(ROOT)) for path in FILES])
def test_third_party_packages_stay_in_their_room(path: Path) -> None:
    room, packages = room_of(path), packages_imported(path)
    misplaced = {name for name in packages & ONLY_IN.keys() if room not in ONLY_IN[name]}
    assert not misplaced
    if room in STANDARD_LIBRARY_ALONE:
        explicit = {name for name, rooms in ONLY_IN.items() if room in rooms}
        assert packages <= sys.stdlib_module_names | {"cloudretry"} | explicit


@pytest.mark.parametrize("path", sorted((ROOT / "core").glob("*.py")), ids=lambda path: path.name)
def test_core_has_no_clock_no_io_and_no_global_randomness(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert not packages_imported(path) & NOT_IN_CORE
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names if name.name == "random"]
    from_random = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module == "random"]
    assert {alias.name for node in from_random for alias in node.names} <= {
        "Random"
    }  # a class; its module's functions are global
    called = {_name(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    assert not called & {"open", "print", "input", "now", "utcnow", "today", "Random"}


def test_every_room_of_the_table_that_exists_was_read() -> None:
    assert {"core", "strategies", "runtime", "aws", "testing"} <= {room_of(path) for path in FILES}


def _name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
