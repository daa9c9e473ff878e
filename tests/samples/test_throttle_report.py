"""samples/throttle_report.py runs offline and prints where the time went, the most wasteful first."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.mark.wire
def test_it_prints_operations_by_what_their_throttles_cost(run_sample: Any) -> None:
    done = run_sample("throttle_report.py", environment={"AWS_PROFILE": "of-nobody", "HTTP_PROXY": "http://127.0.0.1:9"})
    assert (done.returncode, done.stderr) == (0, "")
    heading, *lines, total = done.stdout.splitlines()
    assert heading.split() == ["account", "region", "operation", "calls", "attempts", "throttles", "waited", "lost"]
    rows = [line.split() for line in lines]
    assert {row[0] for row in rows} == {"111122223333", "444455556666"}
    assert {row[1] for row in rows} == {"us-east-1"}
    waited = [float(row[6]) for row in rows]
    assert waited == sorted(waited, reverse=True)
    assert waited[0] > 0
    for _, _, _, calls, attempts, throttles, _, _, lost in rows:
        assert int(calls) + int(throttles) == int(attempts)
        assert lost == "0"
    assert {row[2] for row in rows} >= {"lambda:ListTags", "iam:ListAttachedRolePolicies", "s3:GetBucketLocation"}
    assert "s in all" in total
