"""Error answers as AWS shapes them, one form per protocol: status, headers and body. Pure; the request id is passed in."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from cloudretry.simcloud.identity import Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cloudretry.simcloud.identity import Identity

__all__ = ["Answer", "Fault", "error_answer", "throttle"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A complete HTTP answer."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Fault:
    """What went wrong, before it is put into a protocol's form; `extra` are more members of a JSON body."""

    status: int
    code: str
    message: str
    extra: Mapping[str, str] = field(default_factory=dict)


_THROTTLES = {
    Protocol.EC2: Fault(503, "RequestLimitExceeded", "Request limit exceeded."),
    Protocol.JSON: Fault(400, "ThrottlingException", "Rate exceeded"),
    Protocol.QUERY: Fault(400, "Throttling", "Rate exceeded"),
    Protocol.REST_JSON: Fault(429, "ThrottlingException", "Rate exceeded"),
    Protocol.REST_XML: Fault(400, "Throttling", "Rate exceeded"),
    Protocol.S3: Fault(503, "SlowDown", "Please reduce your request rate."),
}
_OWN_THROTTLES = {
    "apigateway": Fault(429, "TooManyRequestsException", "Too Many Requests"),
    "lambda": Fault(429, "TooManyRequestsException", "Rate exceeded", {"Reason": "CallerRateLimitExceeded", "Type": "User"}),
}


def throttle(identity: Identity) -> Fault:
    """How this service tells a caller that it exceeded its rate."""
    return _OWN_THROTTLES.get(identity.service, _THROTTLES[identity.protocol])


def error_answer(protocol: Protocol, fault: Fault, request_id: str) -> Answer:
    """The fault in the form of a protocol; `request_id` is a UUID."""
    match protocol:
        case Protocol.EC2:
            return _ec2(fault, request_id)
        case Protocol.S3:
            return _s3(fault, request_id)
        case Protocol.JSON:
            return _json(fault, request_id)
        case Protocol.REST_JSON:
            return _rest_json(fault, request_id)
        case _:
            return _query(fault, request_id)


def _ec2(fault: Fault, request_id: str) -> Answer:
    body = (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f"<Response><Errors><Error><Code>{fault.code}</Code><Message>{escape(fault.message)}</Message></Error></Errors>"
        f"<RequestID>{request_id}</RequestID></Response>"
    )
    headers = {"Content-Type": "text/xml;charset=UTF-8", "x-amzn-RequestId": request_id}
    return Answer(status=fault.status, headers=headers, body=body.encode())


def _query(fault: Fault, request_id: str) -> Answer:
    kind = "Receiver" if fault.status >= 500 else "Sender"  # noqa: PLR2004 - HTTP's own boundary
    body = (
        f"<ErrorResponse><Error><Type>{kind}</Type><Code>{fault.code}</Code><Message>{escape(fault.message)}</Message>"
        f"</Error><RequestId>{request_id}</RequestId></ErrorResponse>"
    )
    headers = {"Content-Type": "text/xml", "x-amzn-RequestId": request_id}
    return Answer(status=fault.status, headers=headers, body=body.encode())


def _s3(fault: Fault, request_id: str) -> Answer:
    short = request_id.replace("-", "")[:16].upper()  # S3's ids are sixteen hexadecimal digits
    body = (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f"<Error><Code>{fault.code}</Code><Message>{escape(fault.message)}</Message>"
        f"<RequestId>{short}</RequestId><HostId>{request_id}</HostId></Error>"
    )
    headers = {"Content-Type": "application/xml", "x-amz-request-id": short, "x-amz-id-2": request_id}
    return Answer(status=fault.status, headers=headers, body=body.encode())


def _json(fault: Fault, request_id: str) -> Answer:
    body = json.dumps({"__type": fault.code, "message": fault.message, **fault.extra})
    headers = {"Content-Type": "application/x-amz-json-1.1", "x-amzn-RequestId": request_id}
    return Answer(status=fault.status, headers=headers, body=body.encode())


def _rest_json(fault: Fault, request_id: str) -> Answer:
    body = json.dumps({"message": fault.message, **fault.extra})
    headers = {"Content-Type": "application/json", "x-amzn-ErrorType": fault.code, "x-amzn-RequestId": request_id}
    return Answer(status=fault.status, headers=headers, body=body.encode())
