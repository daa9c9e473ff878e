"""Throttles in front of whatever answers: moto in-process, a simulated cloud, or AWS itself."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from cloudretry.errors import MissingExtra

if TYPE_CHECKING:
    from botocore.awsrequest import AWSPreparedRequest, AWSResponse
    from botocore.model import ServiceModel

__all__ = ["Throttled", "throttled"]

_QUERY = "<ErrorResponse><Error><Code>{0}</Code><Message>Rate exceeded</Message></Error></ErrorResponse>"
_EC2 = "<Response><Errors><Error><Code>{0}</Code><Message>Rate exceeded</Message></Error></Errors></Response>"
_S3 = "<Error><Code>{0}</Code><Message>Rate exceeded</Message></Error>"
_THROTTLES: Final = {
    "query": (400, "Throttling", _QUERY),
    "ec2": (503, "RequestLimitExceeded", _EC2),
    "rest-xml": (503, "SlowDown", _S3),
    "json": (400, "ThrottlingException", ""),
    "rest-json": (429, "TooManyRequestsException", ""),
}
"""protocol → how its services say that it is too much: status, code, form of the body (JSON where empty)."""

_ONE_ATTEMPT: Final = "_do_get_response"  # botocore's method; before it nobody, moto neither, has seen the request


class Throttled:
    """What `throttled` did: `count` requests were answered by a throttle. Thread-safe."""

    def __init__(self, pattern: str, times: int, headers: dict[str, str]) -> None:
        self._service, colon, self._operation = pattern.partition(":")
        if not (self._service and colon and re.match(r"[A-Z*?\[]", self._operation)):
            raise ValueError(f"{pattern!r} matches nothing: service:Operation is needed, such as ec2:DescribeInstances or s3:*")
        self._left = times
        self._headers = headers
        self._lock = Lock()
        self.count = 0

    def take(self, service: ServiceModel, operation: str) -> bool:
        """Whether this request is one to throttle."""
        names = (service.service_name, service.service_id, service.service_id.hyphenize())
        if not (fnmatchcase(operation, self._operation) and any(fnmatchcase(name, self._service) for name in names)):
            return False
        with self._lock:
            if self._left <= 0:
                return False
            self._left -= 1
            self.count += 1
            return True

    def answer(self, request: AWSPreparedRequest, service: ServiceModel) -> AWSResponse:
        """The throttle in the words of the service's protocol."""
        protocol = getattr(service, "resolved_protocol", None) or service.protocol
        status, code, form = _THROTTLES.get(protocol, _THROTTLES["json"])
        body = form.format(code) if form else json.dumps({"__type": code, "message": "Rate exceeded"})
        return _response(request.url, status, {"x-amzn-ErrorType": code, **self._headers}, body.encode())


@contextmanager
def throttled(pattern: str, *, times: int, headers: dict[str, str] | None = None) -> Iterator[Throttled]:
    """Answer the next `times` requests that match with a throttle; all others go where they would have gone.

        with mock_aws(), virtual_clock(), throttled("ec2:DescribeInstances", times=2) as injected:
            discover()
        assert injected.count == 2

    Holds for every botocore client of the process while the block lasts, also for those made before it.

    Args:
        pattern: `service:Operation`, shell patterns, in botocore's spelling: `ec2:Describe*`, `s3:*`. The service is the
            name that makes its client, or its service id: `logs` or `cloudwatch-logs`.
        times: how many requests of all clients together.
        headers: of the throttles, such as {"Retry-After": "2"}.

    Raises:
        ValueError: the pattern can match no operation.
        MissingExtra: botocore is not installed.
    """
    injected = Throttled(pattern, times, headers or {})
    try:
        from botocore import endpoint
    except ImportError:
        raise MissingExtra("aws") from None
    attempts: Any = endpoint.Endpoint
    original = getattr(attempts, _ONE_ATTEMPT)

    def do_get_response(self: Any, request: Any, operation_model: Any, *args: Any) -> Any:
        service = operation_model.service_model
        if injected.take(service, operation_model.name):
            self = copy.copy(self)
            self._event_emitter = _Answering(self._event_emitter, injected.answer(request, service))
        return original(self, request, operation_model, *args)

    setattr(attempts, _ONE_ATTEMPT, do_get_response)
    try:
        yield injected
    finally:
        setattr(attempts, _ONE_ATTEMPT, original)


class _Answering:
    """An event emitter whose `before-send` answers, so that no handler of that event runs."""

    def __init__(self, emitter: Any, response: AWSResponse) -> None:
        self._emitter = emitter
        self._response = response

    def emit(self, event_name: str, **kwargs: Any) -> Any:
        if event_name.startswith("before-send."):
            return [(None, self._response)]
        return self._emitter.emit(event_name, **kwargs)


def _response(url: str, status: int, headers: dict[str, str], body: bytes) -> AWSResponse:
    from botocore.awsrequest import AWSResponse
    from botocore.compat import HTTPHeaders

    return AWSResponse(url, status, HTTPHeaders.from_dict(headers), _Body(body))


class _Body:
    """As much of urllib3's response as botocore reads."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    def stream(self, *_: object, **__: object) -> Iterator[bytes]:
        yield self._body

    def read(self, *_: object, **__: object) -> bytes:
        body, self._body = self._body, b""
        return body
