"""Plugins that are installed for one test: a module and a *.dist-info folder on sys.path, for the real importlib.metadata."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent

import pytest


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., str]]:
    """`install("name", source, loads="Strategy")` puts a distribution `cloudretry-name` in place and returns its name."""
    site = tmp_path / "site-packages"
    site.mkdir()
    monkeypatch.syspath_prepend(str(site))
    modules: list[str] = []

    def place(name: str, source: str = "", *, loads: str = "Strategy", distribution: str | None = None) -> str:
        distribution = distribution or f"cloudretry-{name}"
        module = distribution.replace("-", "_")
        modules.append(module)
        (site / f"{module}.py").write_text(dedent(source), encoding="utf-8")
        info = site / f"{module}-1.2.3.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.2.3\n", encoding="utf-8")
        (info / "entry_points.txt").write_text(f"[cloudretry.backoff]\n{name} = {module}:{loads}\n", encoding="utf-8")
        importlib.invalidate_caches()
        return distribution

    yield place
    for module in modules:
        sys.modules.pop(module, None)
