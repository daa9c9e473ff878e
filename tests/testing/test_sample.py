"""samples/custom_backoff.py runs, offline and at once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from cloudretry.testing import RECORDED

SAMPLE = Path(__file__).parents[2] / "samples" / "custom_backoff.py"


def test_the_sample_prints_a_table_of_waits() -> None:
    result = subprocess.run([sys.executable, SAMPLE], capture_output=True, text=True, check=True, timeout=60)
    heading, *rows = result.stdout.splitlines()
    assert "waits before retry" in heading
    waits = {name: list(map(float, numbers)) for name, *numbers in map(str.split, rows)}
    assert list(waits) == list(RECORDED)
    assert all(len(numbers) == 6 and min(numbers) >= 200 for numbers in waits.values())
    assert sum(waits["s3-slow-down"]) > sum(waits["ec2-request-limit-exceeded"])
    assert result.stderr == ""
