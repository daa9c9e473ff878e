"""What a plugin is told, made from a few facts, and throttles as the clouds send them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from random import Random
from typing import Any, Final

from cloudretry.core.builtin import BUILTIN
from cloudretry.core.context import BackoffContext
from cloudretry.core.headers import Headers

__all__ = ["RECORDED", "backoff_context"]

_SOME_THROTTLE: Final[Mapping[str, Any]] = {
    "provider": "aws",
    "service": "ec2",
    "operation": "DescribeInstances",
    "region": "eu-west-1",
    "account": "111122223333",
    "status": 503,
    "error_code": "RequestLimitExceeded",
    "error_message": "Request limit exceeded.",
}


def backoff_context(*, seed: int = 0, headers: Mapping[str, str] | None = None, **facts: Any) -> BackoffContext:
    """A context as getDelay() gets it: before the first retry of a throttled EC2 call, but for the facts given.

    Args:
        seed: of `context.random`.
        headers: of the response, in any spelling.
        facts: other fields of BackoffContext. `settings` are the built-in ones of the provider, if they are not given.
    """
    told = {**_SOME_THROTTLE, **facts}
    told.setdefault("settings", BUILTIN.providers[told["provider"]].retry)
    told.setdefault("max_retries", told["settings"].max_retries)
    told.setdefault("random", Random(seed))
    return BackoffContext(headers=Headers(headers or {}), **told)


_REQUEST_ID: Final = "8d4f0d7e-1f5b-4b0c-9a55-1f6f6c2f5a10"
_SUBSCRIPTION: Final = "00000000-0000-0000-0000-000000000000"
_DATE: Final = "Thu, 01 Jan 2026 00:00:00 GMT"


def _azure(service: str, operation: str, **facts: Any) -> dict[str, Any]:
    azure = {"provider": "azure", "region": None, "account": _SUBSCRIPTION, "status": 429}
    return {**azure, "service": service, "operation": operation, **facts}


_FACTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "ec2-request-limit-exceeded": {
        "headers": {"x-amzn-RequestId": _REQUEST_ID, "Content-Type": "text/xml;charset=UTF-8", "Date": _DATE},
    },
    "s3-slow-down": {
        "service": "s3",
        "operation": "ListObjectsV2",
        "error_code": "SlowDown",
        "error_message": "Please reduce your request rate.",
        "headers": {"x-amz-request-id": "4442587FB7D0A2F9", "x-amz-id-2": "example", "Server": "AmazonS3", "Date": _DATE},
    },
    "iam-throttling": {
        "service": "iam",
        "operation": "ListRoles",
        "region": "us-east-1",
        "status": 400,
        "error_code": "Throttling",
        "error_message": "Rate exceeded",
        "headers": {"x-amzn-RequestId": _REQUEST_ID, "Content-Type": "text/xml", "Date": _DATE},
    },
    "lambda-too-many-requests": {
        "service": "lambda",
        "operation": "ListFunctions",
        "status": 429,
        "error_code": "TooManyRequestsException",
        "error_message": "Rate exceeded",
        "headers": {"x-amzn-RequestId": _REQUEST_ID, "x-amzn-ErrorType": "TooManyRequestsException", "Date": _DATE},
    },
    "aws-retry-after-in-milliseconds": {
        "service": "dynamodb",
        "operation": "DescribeTable",
        "status": 400,
        "error_code": "ThrottlingException",
        "error_message": "Rate of requests exceeds the allowed throughput.",
        "headers": {"x-amzn-RequestId": _REQUEST_ID, "x-amz-retry-after": "1500", "Date": _DATE},
    },
    "load-balancer-503-without-a-body": {
        "service": "rds",
        "operation": "DescribeDBInstances",
        "error_code": None,
        "error_message": None,
        "headers": {"Content-Length": "0"},
    },
    "arm-429-retry-after": _azure(
        "Microsoft.Resources",
        "Resources_List",
        error_code="SubscriptionRequestsThrottled",
        error_message=f"Number of requests for subscription '{_SUBSCRIPTION}' exceeded the limit. "
        "Please try again after '1' seconds after additional tokens are available.",
        headers={"Retry-After": "1", "x-ms-ratelimit-remaining-subscription-reads": "0", "Date": _DATE},
    ),
    "compute-twenty-minutes": _azure(
        "Microsoft.Compute",
        "VirtualMachines_ListAll",
        error_code="OperationNotAllowed",
        error_message="The server rejected the request because too many requests have been received for this subscription.",
        headers={
            "Retry-After": "1200",
            "x-ms-ratelimit-remaining-resource": "Microsoft.Compute/HighCostGet3Min;46,Microsoft.Compute/HighCostGet30Min;0",
            "Date": _DATE,
        },
    ),
    "resource-graph-quota-resets-after": _azure(
        "Microsoft.ResourceGraph",
        "Resources",
        error_code="RateLimiting",
        error_message="Please provide below info when asking for support.",
        headers={"x-ms-user-quota-remaining": "0", "x-ms-user-quota-resets-after": "00:00:05", "Date": _DATE},
    ),
    "cost-management-qpu": _azure(
        "Microsoft.CostManagement",
        "Query_Usage",
        error_code="429",
        error_message="Too many requests. Please retry.",
        headers={"x-ms-ratelimit-microsoft.costmanagement-qpu-retry-after": "8", "Date": _DATE},
    ),
}


class _Recorded(Mapping[str, BackoffContext]):
    """Makes a context anew each time, so that its draws don't depend on what was tried before."""

    def __getitem__(self, name: str) -> BackoffContext:
        return backoff_context(**_FACTS[name])

    def __iter__(self) -> Iterator[str]:
        return iter(_FACTS)

    def __len__(self) -> int:
        return len(_FACTS)


RECORDED: Final[Mapping[str, BackoffContext]] = _Recorded()
"""name → what getDelay() is told before the first retry, after the clouds' documentation and published reports; identifiers
are made up. Try a strategy on all: `for name, context in RECORDED.items(): print(name, delays(MyBackoff(), context=context))`.
"""
