"""Which AWS error codes say "too much, too fast": one table, to be read and corrected by someone who knows AWS.

Sources: botocore's standard and legacy retry tables; a scan of the service models of botocore 1.44 for the trait
`retryable.throttling` and for codes that are named like it; the services' own error references.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["is_throttle", "is_transient", "normalised"]

THROTTLES: Final = frozenset(
    {
        # botocore, standard mode
        "BandwidthLimitExceeded",
        "EC2ThrottledException",
        "PriorRequestNotComplete",
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "RequestThrottled",
        "RequestThrottledException",
        "SlowDown",
        "ThrottledException",
        "Throttling",
        "ThrottlingException",
        "TooManyRequestsException",
        "TransactionInProgressException",
        # botocore, legacy mode, per service
        "ReplicatedWriteConflictException",
        # in service models, unknown to botocore's retry
        "DependencyThrottle",
        "ModelNotReadyException",
        "RateLimitError",
        "TooManyRequestsError",
        "TooManyUpdates",
    }
)

LOOKS_LIKE_A_THROTTLE: Final = re.compile(
    r"throttl|too_?many_?requests|request_?limit_?exceeded|slow_?down|rate_?limit|call_?rate|rate_?exceeded", re.IGNORECASE
)
"""What services call their throttles: KMSThrottlingException, LambdaThrottledException, RateLimitExceededException …"""

QUOTAS: Final = frozenset(
    {
        "CapacityDecreaseRequestLimitExceeded",  # load balancers: so many in a day
        "ConcurrentModification",  # a conflict between two writers, not a rate
        "ConcurrentResourcesLimitExceeded",  # CloudFormation: too many stacks in work
        "CustomMetadataLimitExceeded",  # WorkDocs
        "ResourceLimitExceeded",
        "ResourceQuotaExceeded",
        "ServiceQuotaExceeded",
        "TooManyLabels",  # WorkDocs
        "TooManySubscriptions",  # WorkDocs
        "VolumeModificationRateExceeded",  # so many in a day
    }
)
"""Answered with 429 or named like a throttle, but waiting does not help. Written here without the ending "Exception"."""

QUOTA_UNLESS_READING: Final = frozenset({"LimitExceeded", "LimitExceededException"})
"""A quota where something is made, a throttle where something is read (Kinesis DescribeStream; boto/botocore#1605)."""

TRANSIENT: Final = frozenset(
    {
        "BadDigest",  # S3: the body was damaged on its way
        "IDPCommunicationError",  # STS: the identity provider did not answer in time
        "InternalError",
        "InternalFailure",
        "InternalServerError",
        "RequestTimeout",
        "RequestTimeoutException",
        "ServiceUnavailable",
        "ServiceUnavailableException",
    }
)

TOO_MANY_REQUESTS: Final = 429
BANDWIDTH_LIMIT: Final = 509
TRANSIENT_STATUSES: Final = frozenset({500, 502, 503, 504})


def normalised(code: object) -> str | None:
    """The bare code: without a shape's namespace, a trailing URL, or the prefix of old query services."""
    if not isinstance(code, str):  # a server may send anything
        return None
    bare = code.partition(":")[0].rpartition("#")[2]
    return re.sub(r"^(Client|Server)\.", "", bare) or None


def is_throttle(code: str | None, status: int, *, reading: bool, trait: bool) -> bool:
    """Whether an error is a throttle. `trait`: the service model marks the error as throttling."""
    if code is not None and code.removesuffix("Exception") in QUOTAS:
        return False
    if code in QUOTA_UNLESS_READING:
        return reading
    if trait or status in {TOO_MANY_REQUESTS, BANDWIDTH_LIMIT}:
        return True
    return code is not None and (code in THROTTLES or LOOKS_LIKE_A_THROTTLE.search(code) is not None)


def is_transient(code: str | None, status: int) -> bool:
    """Whether the same request may well succeed soon."""
    return status in TRANSIENT_STATUSES or code in TRANSIENT
