"""What counts as a throttle, and what only looks like one."""

from __future__ import annotations

import botocore.session
import pytest

from cloudretry.aws.codes import is_throttle, is_transient, normalised


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("Throttling", 400),
        ("ThrottlingException", 400),
        ("ThrottlingException", 429),
        ("ThrottledException", 400),
        ("ThrottledClientException", 429),
        ("RequestThrottled", 403),
        ("RequestThrottledException", 400),
        ("TooManyRequestsException", 400),
        ("TooManyRequests", 429),
        ("TooManyRequestsError", 429),
        ("RequestLimitExceeded", 503),
        ("RequestLimitExceededException", 400),
        ("BandwidthLimitExceeded", 509),
        ("ProvisionedThroughputExceededException", 400),
        ("SlowDown", 503),
        ("SlowDownException", 400),
        ("PriorRequestNotComplete", 400),
        ("EC2ThrottledException", 502),
        ("LambdaThrottledException", 400),
        ("EKSRequestThrottledException", 429),
        ("KMSThrottlingException", 400),
        ("KmsThrottled", 400),
        ("KMSThrottlingFault", 400),
        ("RateLimitExceededException", 400),
        ("RateLimitError", 400),
        ("CallRateLimitExceededException", 429),
        ("APICallRateForCustomerExceeded", 400),
        ("DependencyThrottle", 400),
        ("Throttled", 429),
        ("SomethingNobodyKnows", 429),
        (None, 429),
        (None, 509),
    ],
)
def test_a_throttle(code: str | None, status: int) -> None:
    assert is_throttle(code, status, reading=True, trait=False)
    assert is_throttle(code, status, reading=False, trait=False)


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("ServiceQuotaExceededException", 429),
        ("ResourceLimitExceeded", 429),
        ("TooManyLabelsException", 429),
        ("TooManySubscriptionsException", 429),
        ("ConcurrentResourcesLimitExceeded", 429),
        ("VolumeModificationRateExceeded", 400),
        ("CustomMetadataLimitExceededException", 429),
        ("ConcurrentModificationException", 429),
        ("CapacityDecreaseRequestLimitExceeded", 400),
        ("AccessDenied", 403),
        ("ValidationException", 400),
        ("ExpiredToken", 400),
        ("RequestTimeTooSkewed", 403),
        ("InternalFailure", 500),
        (None, 400),
    ],
)
def test_what_only_looks_like_a_throttle(code: str | None, status: int) -> None:
    assert not is_throttle(code, status, reading=True, trait=False)


@pytest.mark.parametrize("code", ["LimitExceeded", "LimitExceededException"])
@pytest.mark.parametrize("status", [400, 429])
def test_a_limit_is_a_throttle_for_reads_alone(code: str, status: int) -> None:
    assert is_throttle(code, status, reading=True, trait=False)
    assert not is_throttle(code, status, reading=False, trait=False)


@pytest.mark.parametrize(
    ("raw", "bare"),
    [
        ("com.amazon.coral.availability#ThrottlingException", "ThrottlingException"),
        ("ThrottlingException:http://internal.amazon.com/coral/com.amazon.coral.availability/", "ThrottlingException"),
        ("aws.protocoltests#FooError:http://example.com/x#y", "FooError"),
        ("Client.RequestLimitExceeded", "RequestLimitExceeded"),
        ("Server.InternalError", "InternalError"),
        ("SlowDown", "SlowDown"),
        ("", None),
        (None, None),
    ],
)
def test_a_code_is_read_bare(raw: str | None, bare: str | None) -> None:
    assert normalised(raw) == bare


@pytest.mark.parametrize(
    ("code", "status", "expected"),
    [
        (None, 500, True),
        (None, 501, False),
        ("RequestTimeout", 400, True),
        ("RequestTimeoutException", 408, True),
        ("BadDigest", 400, True),
        ("IDPCommunicationError", 400, True),
        ("AccessDenied", 403, False),
    ],
)
def test_what_may_soon_succeed(code: str | None, status: int, expected: bool) -> None:  # noqa: FBT001 - a parameter
    assert is_transient(code, status) is expected


NO_RATES = {
    *("ConcurrentModificationException", "ConcurrentResourcesLimitExceeded", "CustomMetadataLimitExceededException"),
    *("LimitExceededException", "ResourceLimitExceededException", "ResourceQuotaExceededException"),
    *("ServiceQuotaExceededException", "TooManyLabelsException", "TooManySubscriptionsException"),
    "VolumeModificationRateExceededException",
}


@pytest.mark.long
def test_every_service_model_agrees() -> None:
    """All errors that a model marks as throttling are throttles; of those with status 429 all but the known quotas."""
    session = botocore.session.get_session()
    marked, not_throttles = 0, set()
    for name in session.get_available_services():
        for shape in session.get_service_model(name).error_shapes:
            error = shape.metadata.get("error") or {}
            code, status = normalised(error.get("code") or shape.name), error.get("httpStatusCode", 400)
            if (shape.metadata.get("retryable") or {}).get("throttling"):
                marked += 1
                assert is_throttle(code, status, reading=False, trait=True), (name, code)
            elif status == 429 and not is_throttle(code, status, reading=False, trait=False):
                not_throttles.add(code)
    assert marked >= 60
    assert not_throttles <= NO_RATES
