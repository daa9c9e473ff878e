"""Turns what botocore has after an attempt, a response or an exception, into an Outcome. The only reader of either."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from botocore import exceptions as sdk

from cloudretry.aws.codes import is_throttle, is_transient, normalised
from cloudretry.core.headers import Headers
from cloudretry.core.outcome import Kind, Outcome, Phase
from cloudretry.core.replayable import AWS_READS

if TYPE_CHECKING:
    from botocore.awsrequest import AWSResponse
    from botocore.model import OperationModel

__all__ = ["classify_error", "classify_response", "corrupt"]

_ERROR_STATUS: Final = 400
_NAME_RESOLUTION: Final = frozenset({"NameResolutionError", "gaierror"})
_BEFORE_THE_PROXY: Final = frozenset({"NewConnectionError", "NameResolutionError", "ConnectTimeoutError"})
_CERTIFICATE: Final = frozenset({"SSLCertVerificationError", "CertificateError"})
_BY_CLASS: Final[tuple[tuple[tuple[type[Exception], ...], tuple[Kind, Phase]], ...]] = (
    ((sdk.EndpointConnectionError, sdk.ConnectTimeoutError), (Kind.NOT_SENT, Phase.CONNECT)),
    ((sdk.ReadTimeoutError, sdk.ConnectionClosedError), (Kind.TRANSIENT, Phase.WAIT)),
    ((sdk.ResponseStreamingError,), (Kind.TRANSIENT, Phase.BODY)),
    ((sdk.ConnectionError, sdk.HTTPClientError), (Kind.TRANSIENT, Phase.SEND)),
)
"""The first that fits; an exception that is none of these did not come from the network."""
_TUNNEL: Final = re.compile(r"Tunnel connection failed: (\d{3})")


def classify_response(http: AWSResponse, parsed: dict[str, Any], operation: OperationModel, wall: float) -> Outcome | None:
    """What an error response came to; None for an answer."""
    if http.status_code < _ERROR_STATUS:
        return None
    error = parsed.get("Error") or {}
    code = normalised(error.get("Code"))
    return Outcome(
        kind=_kind(code, http.status_code, operation),
        status=http.status_code,
        code=code,
        message=error.get("Message"),
        request_id=(parsed.get("ResponseMetadata") or {}).get("RequestId"),
        headers=Headers(http.headers),
        wall=wall,
    )


def _kind(code: str | None, status: int, operation: OperationModel) -> Kind:
    reading = AWS_READS.match(operation.name) is not None
    if is_throttle(code, status, reading=reading, trait=_throttling_trait(code, operation)):
        return Kind.THROTTLED
    return Kind.TRANSIENT if is_transient(code, status) else Kind.FATAL


def _throttling_trait(code: str | None, operation: OperationModel) -> bool:
    shape = operation.service_model.shape_for_error_code(code) if code else None  # type: ignore[arg-type]  # the stubs err
    retryable = shape.metadata.get("retryable") if shape is not None else None
    return bool(retryable and retryable.get("throttling"))


def corrupt(http: AWSResponse, wall: float) -> Outcome | None:
    """DynamoDB sends a checksum of each body; botocore's own check of it sits in the handler that we replace."""
    expected = http.headers.get("x-amz-crc32")
    if expected is None or not expected.isdigit():
        return None
    actual = zlib.crc32(http.content) & 0xFFFFFFFF
    if int(expected) == actual:
        return None
    error = sdk.ChecksumError(checksum_type="crc32", expected_checksum=expected, actual_checksum=str(actual))
    return Outcome(
        kind=Kind.TRANSIENT, phase=Phase.BODY, status=http.status_code, code="ChecksumError", exception=error, wall=wall
    )


def classify_error(error: Exception, wall: float) -> Outcome:
    """What an attempt without a response came to.

    An exception's class can't tell for certain how far the request came, so what is not surely "nothing written" counts
    as perhaps seen by the server.
    """
    kind, phase = _how_far(error)
    return Outcome(kind=kind, phase=phase, code=type(error).__name__, exception=error, wall=wall)


def _how_far(error: Exception) -> tuple[Kind, Phase]:
    causes = {type(cause).__name__ for cause in _chain(error)}
    if causes & _CERTIFICATE:
        return Kind.FATAL, Phase.TLS
    if isinstance(error, sdk.ProxyConnectionError):
        return _at_the_proxy(error, causes)
    if isinstance(error, sdk.EndpointConnectionError) and causes & _NAME_RESOLUTION:
        return Kind.NOT_SENT, Phase.DNS
    return next((came_to for classes, came_to in _BY_CLASS if isinstance(error, classes)), (Kind.FATAL, Phase.SEND))


def _at_the_proxy(error: Exception, causes: set[str]) -> tuple[Kind, Phase]:
    if causes & _BEFORE_THE_PROXY:
        return Kind.NOT_SENT, Phase.CONNECT
    refused = _TUNNEL.search(str(error))
    if refused is None:
        return Kind.TRANSIENT, Phase.SEND
    return (Kind.FATAL if int(refused[1]) < 500 else Kind.NOT_SENT), Phase.PROXY_HANDSHAKE  # noqa: PLR2004 - HTTP's border


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """The error and what it came from: botocore keeps the cause in `kwargs`, urllib3 in `reason` or among the arguments."""
    seen: list[BaseException] = []
    waiting = [error]
    while waiting:
        current = waiting.pop()
        if current is None or any(current is known for known in seen):
            continue
        seen.append(current)
        yield current
        kwargs = getattr(current, "kwargs", None)
        linked = [current.__cause__, current.__context__, getattr(current, "reason", None), *current.args]
        linked.append(kwargs.get("error") if isinstance(kwargs, dict) else None)
        waiting.extend(item for item in linked if isinstance(item, BaseException))
