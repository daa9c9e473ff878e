"""How long throttles say to wait, where that was asked for."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest
from botocore.exceptions import ClientError
from hypothesis import given
from hypothesis import strategies as st

from cloudretry.errors import ConfigurationError
from cloudretry.simcloud import Limit, RetryAfter
from cloudretry.simcloud.limits import TokenBucket

if TYPE_CHECKING:
    from cloudretry.simcloud import SimulatedAws


def test_each_header_has_its_own_unit() -> None:
    assert RetryAfter(seconds=1.2).lines(9.0) == {"Retry-After": "2", "x-amz-retry-after": "1200"}
    assert RetryAfter(headers=("Retry-After",)).lines(0.25) == {"Retry-After": "1"}


def test_a_bucket_that_never_fills_says_nothing() -> None:
    assert RetryAfter().lines(math.inf) == {}


@pytest.mark.parametrize("wrong", [{"seconds": -1}, {"seconds": math.inf}, {"headers": ("X-Wait",)}])
def test_impossible_rules_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        RetryAfter(**wrong)


@given(st.floats(1, 50), st.floats(0.1, 100), st.lists(st.floats(0, 3), max_size=30))
def test_a_bucket_has_its_next_token_when_it_says(burst: float, refill: float, pauses: list[float]) -> None:
    bucket, now = TokenBucket(Limit(burst, refill), 0.0), 0.0
    for pause in pauses:
        now += pause
        while bucket.take(now):
            pass
    wait = bucket.wait(now)
    assert bucket.tokens(now) <= burst
    if wait > 1e-6:
        assert not bucket.take(now + wait - 1e-6)
    assert bucket.take(now + wait + 1e-6)


@pytest.mark.wire
@pytest.mark.parametrize(
    ("service", "operation", "expected"),
    [
        ("ec2", "describe_vpcs", ("2", "2000")),
        ("rds", "describe_db_instances", (None, None)),
        ("iam", "list_users", (None, None)),
    ],
)
def test_boto3_reads_the_headers_of_the_services_that_were_named(
    strict: SimulatedAws, connect: Any, service: str, operation: str, expected: tuple[str | None, str | None]
) -> None:
    call = getattr(connect(strict, service), operation)
    call()
    with pytest.raises(ClientError) as caught:
        call()
    headers = caught.value.response["ResponseMetadata"]["HTTPHeaders"]
    assert (headers.get("retry-after"), headers.get("x-amz-retry-after")) == expected
