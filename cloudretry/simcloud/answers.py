"""Error answers as AWS shapes them, one form per protocol: status, headers and body. Pure; the request id is passed in."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Final
from xml.sax.saxutils import escape

from cloudretry.errors import ConfigurationError
from cloudretry.simcloud.identity import Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from cloudretry.simcloud.identity import Identity

__all__ = ["Answer", "Failure", "RetryAfter", "error_answer", "html_page", "throttle"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A complete HTTP answer."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Failure:
    """What went wrong, before it is put into a protocol's form; `extra` are more members of a JSON body."""

    status: int
    code: str
    message: str
    extra: Mapping[str, str] = field(default_factory=dict)


def _whole_milliseconds(seconds: float) -> str:
    return str(math.ceil(seconds * 1000))


_WAITS: Final[Mapping[str, Callable[[float], str]]] = {
    "Retry-After": lambda seconds: str(math.ceil(seconds)),
    "x-amz-retry-after": _whole_milliseconds,
    "retry-after-ms": _whole_milliseconds,
    "x-ms-retry-after-ms": _whole_milliseconds,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryAfter:
    """A rule: the throttles of requests that match say how long to wait. AWS itself seldom does, Azure mostly."""

    match: str = "*"
    """As Identity.fits or Call.fits reads it."""
    seconds: float | None = None
    """None: until the request's bucket has a token again; one that never has says nothing."""
    headers: Sequence[str] = ("Retry-After", "x-amz-retry-after")

    def __post_init__(self) -> None:
        if self.seconds is not None and not 0 <= self.seconds < math.inf:
            raise ConfigurationError(f"seconds={self.seconds}: seconds are at least 0 and finite")
        if not set(self.headers) <= _WAITS.keys():
            raise ConfigurationError(f"headers={'+'.join(map(str, self.headers))}: headers are some of {', '.join(_WAITS)}")

    def lines(self, wait: float) -> dict[str, str]:
        """The headers of an answer to a request whose bucket has its next token in `wait` seconds."""
        seconds = wait if self.seconds is None else self.seconds
        return {name: _WAITS[name](seconds) for name in self.headers} if seconds < math.inf else {}


_THROTTLES = {
    Protocol.EC2: Failure(503, "RequestLimitExceeded", "Request limit exceeded."),
    Protocol.JSON: Failure(400, "ThrottlingException", "Rate exceeded"),
    Protocol.QUERY: Failure(400, "Throttling", "Rate exceeded"),
    Protocol.REST_JSON: Failure(429, "ThrottlingException", "Rate exceeded"),
    Protocol.REST_XML: Failure(400, "Throttling", "Rate exceeded"),
    Protocol.S3: Failure(503, "SlowDown", "Please reduce your request rate."),
}
_OWN_THROTTLES = {
    "apigateway": Failure(429, "TooManyRequestsException", "Too Many Requests"),
    # The reason is one of those in Lambda's service model; that AWS gives it for the control plane is assumed.
    "lambda": Failure(429, "TooManyRequestsException", "Rate exceeded", {"Reason": "CallerRateLimitExceeded", "Type": "User"}),
}


def throttle(identity: Identity) -> Failure:
    """How this service tells a caller that it exceeded its rate."""
    return _OWN_THROTTLES.get(identity.service, _THROTTLES[identity.protocol])


def error_answer(protocol: Protocol, failure: Failure, request_id: str) -> Answer:
    """The failure in the form of a protocol; `request_id` is a UUID."""
    match protocol:
        case Protocol.EC2:
            return _ec2(failure, request_id)
        case Protocol.S3:
            return _s3(failure, request_id)
        case Protocol.JSON:
            return _json(failure, request_id)
        case Protocol.REST_JSON:
            return _rest_json(failure, request_id)
        case _:
            return _query(failure, request_id)


def html_page(status: int) -> Answer:
    """What a proxy or a load balancer says in the place of the service."""
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = "Error"
    body = f"<html><head><title>{status} {phrase}</title></head><body><h1>{status} {phrase}</h1></body></html>\n"
    return Answer(status=status, headers={"Content-Type": "text/html; charset=utf-8"}, body=body.encode())


def _ec2(failure: Failure, request_id: str) -> Answer:
    body = (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f"<Response><Errors><Error><Code>{failure.code}</Code><Message>{escape(failure.message)}</Message></Error></Errors>"
        f"<RequestID>{request_id}</RequestID></Response>"
    )
    headers = {"Content-Type": "text/xml;charset=UTF-8", "x-amzn-RequestId": request_id}
    return Answer(status=failure.status, headers=headers, body=body.encode())


def _query(failure: Failure, request_id: str) -> Answer:
    kind = "Receiver" if failure.status >= 500 else "Sender"  # noqa: PLR2004 - HTTP's own boundary
    body = (
        f"<ErrorResponse><Error><Type>{kind}</Type><Code>{failure.code}</Code><Message>{escape(failure.message)}</Message>"
        f"</Error><RequestId>{request_id}</RequestId></ErrorResponse>"
    )
    headers = {"Content-Type": "text/xml", "x-amzn-RequestId": request_id}
    return Answer(status=failure.status, headers=headers, body=body.encode())


def _s3(failure: Failure, request_id: str) -> Answer:
    short = request_id.replace("-", "")[:16].upper()  # S3's ids are sixteen hexadecimal digits
    body = (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f"<Error><Code>{failure.code}</Code><Message>{escape(failure.message)}</Message>"
        f"<RequestId>{short}</RequestId><HostId>{request_id}</HostId></Error>"
    )
    headers = {"Content-Type": "application/xml", "x-amz-request-id": short, "x-amz-id-2": request_id}
    return Answer(status=failure.status, headers=headers, body=body.encode())


def _json(failure: Failure, request_id: str) -> Answer:
    body = json.dumps({"__type": failure.code, "message": failure.message, **failure.extra})
    headers = {"Content-Type": "application/x-amz-json-1.1", "x-amzn-RequestId": request_id}
    return Answer(status=failure.status, headers=headers, body=body.encode())


def _rest_json(failure: Failure, request_id: str) -> Answer:
    body = json.dumps({"message": failure.message, **failure.extra})
    headers = {"Content-Type": "application/json", "x-amzn-ErrorType": failure.code, "x-amzn-RequestId": request_id}
    return Answer(status=failure.status, headers=headers, body=body.encode())
