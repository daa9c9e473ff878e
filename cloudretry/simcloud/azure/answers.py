"""Answers as Azure shapes them: errors, and the throttle of each provider in its own form. Pure; ids and times are passed in.

The texts keep what programs read from them: codes, and the waits that only a text tells. Forms without a remark are those
of captures in public issues; "assumed" marks the others.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from cloudretry.simcloud.answers import Answer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from cloudretry.simcloud.azure.calls import Call
    from cloudretry.simcloud.azure.limits import Gauge, Passage

__all__ = ["Refusal", "error", "remaining", "reply", "throttle", "unauthorized"]

_JSON: Final = {"Content-Type": "application/json; charset=utf-8", "Cache-Control": "no-cache"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A throttle that is due: to which call, by which bucket, for how many seconds, and the time in ISO format."""

    call: Call
    name: str
    of_manager: bool
    allowed: float
    wait: float
    now: str

    @property
    def seconds(self) -> int:
        """The wait as headers and texts have it; never 0, which would be no wait."""
        return max(1, math.ceil(self.wait)) if self.wait < math.inf else 0


def reply(body: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Answer:
    """An answer of JSON; a text is JSON already."""
    text = body if isinstance(body, str) else json.dumps(body)
    return Answer(status=status, body=text.encode(), headers={**_JSON, **(headers or {})})


def error(status: int, code: str, message: str, **more: Any) -> Answer:
    """Resource Manager's own refusal."""
    return reply({"error": {"code": code, "message": message, **more}}, status, {"x-ms-failure-cause": "gateway"})


def unauthorized(tenant: str, said: str) -> Answer:
    """For a request without a token that is good here."""
    message = f"The access token is {said}."
    code = "AuthenticationFailed" if said == "missing" else "InvalidAuthenticationToken"
    challenge = (
        f'Bearer authorization_uri="https://login.microsoftonline.com/{tenant}", error="invalid_token", '
        f'error_description="{message}"'
    )
    return reply({"error": {"code": code, "message": message}}, 401, {"WWW-Authenticate": challenge})


def throttle(refusal: Refusal) -> Answer:
    """How whoever refuses tells it."""
    provider = refusal.call.target.provider
    if refusal.of_manager and provider not in _ELSEWHERE:
        return _by_manager(refusal)
    return _FORMS.get(provider, _by_a_provider)(refusal)


def remaining(call: Call, passage: Passage) -> dict[str, str]:
    """The headers that tell what is left in the buckets that a request passed."""
    gauges = [*passage.passed, *([passage.stopped] if passage.stopped else [])]
    if call.target.provider in _ELSEWHERE:
        return {}
    lines: dict[str, str] = {}
    for gauge in gauges:
        kind = _REMAINING.get(call.target.provider, _left_unsaid)
        for name, value in (_of_manager if gauge.by_manager else kind)(call, gauge).items():
            lines[name] = f"{lines[name]},{value}" if name in lines else value
    return lines


def _wait_header(refusal: Refusal, cause: str) -> dict[str, str]:
    said = {"Retry-After": str(refusal.seconds)} if refusal.seconds else {}
    return {**said, "x-ms-failure-cause": cause}


def _by_manager(refusal: Refusal) -> Answer:
    call = refusal.call
    kind = {"GET": "read", "HEAD": "read", "DELETE": "delete"}.get(call.target.operation.partition(" ")[0], "write")
    scope = "Subscription" if call.target.subscription else "Tenant"  # the latter's code is assumed
    message = (
        f"Number of '{kind}' requests for {scope.lower()} actor '{call.target.subscription}:{call.principal}' exceeded. "
        f"Please try again after '{refusal.seconds}' seconds after additional tokens are available."
    )
    body = {"error": {"code": f"{scope}RequestsThrottled", "message": message}}
    return reply(body, 429, _wait_header(refusal, "gateway"))


def _by_a_provider(refusal: Refusal) -> Answer:
    body = {"error": {"code": "TooManyRequests", "message": "Too many requests were made. Try again later."}}  # assumed
    return reply(body, 429, _wait_header(refusal, "service"))


def _by_compute(refusal: Refusal) -> Answer:
    counted = {
        "operationGroup": refusal.name,
        "startTime": refusal.now,
        "endTime": refusal.now,
        "allowedRequestCount": int(refusal.allowed),
        "measuredRequestCount": int(refusal.allowed) + 1,
    }
    body = {  # without "error" around it
        "code": "OperationNotAllowed",
        "message": "The server rejected the request because too many requests have been received for this subscription.",
        "details": [{"code": "TooManyRequests", "target": refusal.name, "message": json.dumps(counted)}],
        "innererror": {"internalErrorCode": "TooManyRequestsReceived"},
    }
    return reply(body, 429, {**_wait_header(refusal, "service"), "x-ms-request-charge": "1"})


def _by_network(refusal: Refusal) -> Answer:
    inner = f"The call can be retried in {refusal.seconds} seconds."
    details = [{"code": "RetryableErrorDueToTooManyCalls", "message": inner}]
    body = {"error": {"code": "TooManyRequests", "message": "The request is being throttled.", "details": details}}
    return reply(body, 429, _wait_header(refusal, "service"))


def _by_storage(refusal: Refusal) -> Answer:
    window = "01:00:00" if refusal.name == "Write" else "00:05:00"
    message = (
        "The request is being throttled as the limit has been reached for operation type - "
        f"{refusal.name}_ObservationWindow_{window}."
    )
    return reply({"error": {"code": "TooManyRequests", "message": message}}, 429)  # it does not say for how long


def _by_graph(refusal: Refusal) -> Answer:
    message = "Client application has been throttled and should not attempt to repeat the request until some time has elapsed."
    details = [{"code": "RateLimiting", "message": message}]
    body = {"error": {"code": "RateLimiting", "message": f"timestamp = {refusal.now}", "details": details}}
    return reply(body, 429, {"x-ms-user-quota-remaining": "0", "x-ms-user-quota-resets-after": _clock(refusal.wait)})


def _by_cost(refusal: Refusal) -> Answer:
    if refusal.call.target.provider == "Microsoft.Consumption":
        whose = "consumption"
    else:  # which of its windows goes with which header is assumed
        whose = "costmanagement-" + {"QueriesPerHour": "tenant", "QueriesPerMin": "entity"}.get(refusal.name, "qpu")
    headers = {f"x-ms-ratelimit-microsoft.{whose}-retry-after": str(refusal.seconds)} if refusal.seconds else {}
    return reply({"error": {"code": "429", "message": "Too many requests. Please retry."}}, 429, headers)


def _by_action(refusal: Refusal) -> Answer:
    call = refusal.call.target
    message = (
        f"Number of requests for action '{call.provider}/{'/'.join(call.types[::2])}/read' exceeded the limit of "
        f"'{refusal.allowed:g}' for time interval '00:05:00'. Please try again after '{refusal.seconds}' seconds."
    )
    return reply({"error": {"code": "ResourceRequestsThrottled", "message": message}}, 429)


def _by_storage_behind(refusal: Refusal) -> Answer:
    path = refusal.call.target.operation.replace("/{name}", "").replace(" ", "/").upper()
    message = (
        f"Number of requests for subscription '{refusal.call.target.subscription}' and operation '{path}' exceeded the "
        f"backend storage limit. Please try again after '{refusal.seconds}' seconds."
    )
    return reply({"error": {"code": "SubscriptionRequestsThrottled", "message": message}}, 429)


def _by_clusters(refusal: Refusal) -> Answer:
    message = f"The request has been throttled, please retry again in {refusal.seconds} seconds."
    return reply({"code": "Throttled", "message": message, "subcode": ""}, 429, _wait_header(refusal, "service"))


def _by_login(refusal: Refusal) -> Answer:
    body = {  # the error's name is assumed
        "error": "temporarily_unavailable",
        "error_description": "AADSTS90055: The server is too busy to handle the request. Tenant throttling error.",
        "error_codes": [90055],
        "timestamp": refusal.now,
    }
    return reply(body, 429, {"Retry-After": str(refusal.seconds)} if refusal.seconds else {})


def _by_machine(_refusal: Refusal) -> Answer:
    return reply({"error": "too_many_requests", "error_description": "Too many requests"}, 429)  # assumed


_ELSEWHERE: Final = frozenset({"login", "imds"})
_FORMS: Final[Mapping[str, Callable[[Refusal], Answer]]] = {
    "Microsoft.Cdn": _by_action,
    "Microsoft.Compute": _by_compute,
    "Microsoft.Consumption": _by_cost,
    "Microsoft.ContainerService": _by_clusters,
    "Microsoft.CostManagement": _by_cost,
    "Microsoft.Insights": _by_storage_behind,
    "Microsoft.Network": _by_network,
    "Microsoft.ResourceGraph": _by_graph,
    "Microsoft.Storage": _by_storage,
    "imds": _by_machine,
    "login": _by_login,
}


def _of_manager(call: Call, gauge: Gauge) -> dict[str, str]:
    name = gauge.rule.name if call.target.subscription else gauge.rule.name.replace("subscription", "tenant", 1)
    return {f"x-ms-ratelimit-remaining-{name}": str(int(gauge.tokens))}


def _of_compute(_call: Call, gauge: Gauge) -> dict[str, str]:
    return {"x-ms-ratelimit-remaining-resource": f"Microsoft.Compute/{gauge.rule.name};{int(gauge.tokens)}"}


def _of_graph(_call: Call, gauge: Gauge) -> dict[str, str]:
    left = str(int(gauge.tokens))
    return {"x-ms-user-quota-remaining": left, "x-ms-user-quota-resets-after": _clock(gauge.ends)}


def _of_cost(_call: Call, gauge: Gauge) -> dict[str, str]:
    return {"x-ms-ratelimit-remaining-microsoft.costmanagement-entity-requests": f"{gauge.rule.name}:{int(gauge.tokens)}"}


def _left_unsaid(_call: Call, _gauge: Gauge) -> dict[str, str]:
    return {}


_REMAINING: Final[Mapping[str, Callable[[Call, Gauge], dict[str, str]]]] = {
    "Microsoft.Compute": _of_compute,
    "Microsoft.CostManagement": _of_cost,
    "Microsoft.ResourceGraph": _of_graph,
}


def _clock(seconds: float) -> str:
    whole = math.ceil(seconds) if seconds < math.inf else 0
    return f"{whole // 3600:02d}:{whole // 60 % 60:02d}:{whole % 60:02d}"
