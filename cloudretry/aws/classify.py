"""Turns what botocore has after an attempt, a response or an exception, into an Outcome. The only reader of either."""

from __future__ import annotations

import re
import zlib
from typing import TYPE_CHECKING, Any, Final

from botocore import exceptions as sdk
from botocore.parsers import ResponseParserError

from cloudretry.aws.causes import causes_of
from cloudretry.aws.codes import is_throttle, is_transient, normalised
from cloudretry.aws.repair import expects_json, is_object
from cloudretry.core.decision import StopReason
from cloudretry.core.headers import Headers
from cloudretry.core.outcome import Kind, Outcome, Phase
from cloudretry.core.replayable import AWS_READS
from cloudretry.runtime.clock import current_clock
from cloudretry.runtime.reach import is_unreachable

if TYPE_CHECKING:
    from botocore.awsrequest import AWSResponse
    from botocore.model import OperationModel

__all__ = ["outcome_of", "outcome_of_error"]

_ERROR_STATUS: Final = 300  # as botocore has it: a redirect that nobody follows is a ClientError
_LONGEST_TEXT: Final = 1024
_NAME_RESOLUTION: Final = frozenset({"NameResolutionError", "gaierror", "ClientConnectorDNSError"})
_BEFORE_THE_PROXY: Final = frozenset(
    {"NewConnectionError", "NameResolutionError", "ConnectTimeoutError", "ClientProxyConnectionError", "ConnectError"}
)
_CUT: Final = frozenset({"IncompleteRead", "IncompleteReadError", "ClientPayloadError"})
_AFTER_CONNECTING: Final = frozenset({"ClientOSError", "ClientConnectionResetError", "ClientConnectionError", "WriteTimeout"})
"""Of aiohttp and httpx: aiobotocore says of these, too, that it could not connect."""
_CERTIFICATE: Final = frozenset({"SSLCertVerificationError", "CertificateError"})
_BY_CLASS: Final[tuple[tuple[tuple[type[Exception], ...], tuple[Kind, Phase]], ...]] = (
    ((sdk.EndpointConnectionError, sdk.ConnectTimeoutError), (Kind.NOT_SENT, Phase.CONNECT)),
    ((sdk.ReadTimeoutError, sdk.ConnectionClosedError), (Kind.TRANSIENT, Phase.WAIT)),
    ((sdk.ResponseStreamingError,), (Kind.TRANSIENT, Phase.BODY)),
    ((sdk.ConnectionError, sdk.HTTPClientError), (Kind.TRANSIENT, Phase.SEND)),
)
"""The first that fits; an exception that is none of these did not come from the network."""
_TUNNEL: Final = re.compile(r"(?:^|Tunnel connection failed: )(\d{3})\b")
"""Of urllib3; aiohttp and httpx begin with the number."""


def outcome_of(
    response: tuple[AWSResponse, dict[str, Any]] | None, operation: OperationModel, error: Exception | None
) -> Outcome | None:
    """What an attempt came to, from the arguments of botocore's `needs-retry`; None: the provider answered."""
    if error is not None:
        return outcome_of_error(error)
    if response is None:
        return None
    http, parsed = response
    if http.status_code >= _ERROR_STATUS:
        return _of_response(http, parsed, operation)
    if operation.has_streaming_output or operation.has_event_stream_output:
        return None  # reading the body is the caller's
    return _damaged(http, operation)


def _of_response(http: AWSResponse, parsed: dict[str, Any], operation: OperationModel) -> Outcome:
    error = parsed.get("Error") or {}
    code = normalised(_text(error.get("Code")))
    return Outcome(
        kind=_kind(code, http.status_code, operation),
        status=http.status_code,
        code=code,
        message=_text(error.get("Message")),
        request_id=_text((parsed.get("ResponseMetadata") or {}).get("RequestId")),
        headers=Headers(http.headers),
        wall=current_clock().wall(),
    )


def _text(value: object) -> str | None:
    """What a server wrote, and no more of it than anybody reads."""
    return str(value)[:_LONGEST_TEXT] if value else None


def _kind(code: str | None, status: int, operation: OperationModel) -> Kind:
    reading = AWS_READS.match(operation.name) is not None
    if is_throttle(code, status, reading=reading, trait=_throttling_trait(code, operation)):
        return Kind.THROTTLED
    return Kind.TRANSIENT if is_transient(code, status) else Kind.FATAL


def _throttling_trait(code: str | None, operation: OperationModel) -> bool:
    shape = operation.service_model.shape_for_error_code(code) if code else None  # type: ignore[arg-type]  # the stubs err
    retryable = shape.metadata.get("retryable") if shape is not None else None
    return bool(retryable and retryable.get("throttling"))


def _damaged(http: AWSResponse, operation: OperationModel) -> Outcome | None:
    """A successful answer that is none: botocore would hand it to the caller as data."""
    checked = operation.service_model.service_name == "dynamodb"
    error = (_checksum_error(http) if checked else None) or _document_error(http, operation)
    if error is None:
        return None
    return Outcome(
        kind=Kind.TRANSIENT,
        phase=Phase.BODY,
        status=http.status_code,
        code=type(error).__name__,
        exception=error,
        wall=current_clock().wall(),
    )


def _checksum_error(http: AWSResponse) -> sdk.ChecksumError | None:
    """DynamoDB sends a checksum of each body; botocore's own check of it sits in the handler that we replace."""
    expected = http.headers.get("x-amz-crc32")
    if expected is None or not (expected.isascii() and expected.isdigit()):
        return None
    actual = zlib.crc32(http.content) & 0xFFFFFFFF
    if int(expected) == actual:
        return None
    return sdk.ChecksumError(checksum_type="crc32", expected_checksum=expected, actual_checksum=str(actual))


def _document_error(http: AWSResponse, operation: OperationModel) -> ResponseParserError | None:
    """A page, or half a document, where a JSON object was due: the parser makes an empty answer of either."""
    if not expects_json(operation) or is_object(http.content):
        return None
    return ResponseParserError(f"no JSON object where one was due (status {http.status_code}, {len(http.content)} bytes)")


def outcome_of_error(error: Exception) -> Outcome:
    """What an attempt without a response came to.

    An exception's class can't tell for certain how far the request came, so what is not surely "nothing written" counts
    as perhaps seen by the server.
    """
    kind, phase = _how_far(error)
    return Outcome(
        kind=kind,
        phase=phase,
        code=type(error).__name__,
        exception=error,
        stop=StopReason.UNREACHABLE if is_unreachable(error) else None,
        wall=current_clock().wall(),
    )


def _how_far(error: Exception) -> tuple[Kind, Phase]:
    causes = {type(cause).__name__ for cause in causes_of(error)}
    if causes & _CERTIFICATE:
        return Kind.FATAL, Phase.TLS
    if causes & _CUT:
        return Kind.TRANSIENT, Phase.BODY
    if isinstance(error, sdk.ProxyConnectionError):
        return _at_the_proxy(error, causes)
    if causes & _AFTER_CONNECTING:
        return Kind.TRANSIENT, Phase.SEND
    if isinstance(error, sdk.EndpointConnectionError) and causes & _NAME_RESOLUTION:
        return Kind.NOT_SENT, Phase.DNS
    return next((came_to for classes, came_to in _BY_CLASS if isinstance(error, classes)), (Kind.FATAL, Phase.SEND))


def _at_the_proxy(error: Exception, causes: set[str]) -> tuple[Kind, Phase]:
    if causes & _BEFORE_THE_PROXY:
        return Kind.NOT_SENT, Phase.CONNECT
    refused = next(filter(None, (_TUNNEL.search(str(cause)) for cause in causes_of(error))), None)
    if refused is None:
        return Kind.TRANSIENT, Phase.SEND
    return (Kind.FATAL if int(refused[1]) < 500 else Kind.NOT_SENT), Phase.PROXY_HANDSHAKE  # noqa: PLR2004 - HTTP's border
