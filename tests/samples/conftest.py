"""Runs a sample as its user does: as a program, in a folder of its own, with an environment that leads nowhere."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

SAMPLES = Path(__file__).parents[2] / "samples"
_STARTING = ("AWS_", "AZURE_", "BOTO", "CLOUDRETRY", "MOTO_", "PYTEST_")
_ENDING = ("_PROXY", "_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR")

RunSample = Callable[..., "subprocess.CompletedProcess[str]"]


def clean_environment(home: Path) -> dict[str, str]:
    """The machine's environment without what leads an SDK, or cloudretry, somewhere."""
    kept = {name: value for name, value in os.environ.items() if not name.upper().startswith(_STARTING)}
    kept = {name: value for name, value in kept.items() if not name.upper().endswith(_ENDING)}
    return kept | {
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(home / ".config"),
        "AWS_EC2_METADATA_DISABLED": "true",
        "PYTHONPATH": str(SAMPLES.parent),
    }


@pytest.fixture
def run_sample(tmp_path: Path) -> RunSample:
    """`run_sample("name.py", argument, …, environment={…})` in tmp_path; `module` is a program that runs it, such as pytest."""

    def run(
        name: str, *arguments: str, environment: Mapping[str, str] | None = None, module: tuple[str, ...] = ()
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *module, str(SAMPLES / name), *arguments],
            cwd=tmp_path,
            env=clean_environment(tmp_path) | dict(environment or {}),
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    return run
