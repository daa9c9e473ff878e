"""samples/test_with_moto.py passes, in-process and without a server."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def test_the_tests_of_the_sample_pass_and_take_no_time(run_sample: Any, tmp_path: Path) -> None:
    by_pytest = (
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(tmp_path),
        "-c",
        "/dev/null",
        "--durations=0",
        "-vv",
    )
    done = run_sample("test_with_moto.py", module=by_pytest)
    assert done.returncode == 0, done.stdout
    assert "4 passed" in done.stdout
