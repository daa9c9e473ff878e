"""Turns what azure-core has after an attempt, a response or an exception, into an Outcome. The only reader of either."""

from __future__ import annotations

import re
from itertools import chain
from typing import Any, Final

from azure.core import exceptions as sdk

from cloudretry.azure.bodies import read_error
from cloudretry.azure.causes import causes_of
from cloudretry.azure.codes import kind_of, telling
from cloudretry.azure.readable import undecodable, unreadable
from cloudretry.core.builtin import PRESETS
from cloudretry.core.decision import StopReason
from cloudretry.core.headers import Headers, asked_delay
from cloudretry.core.outcome import Kind, Outcome, Phase
from cloudretry.runtime.clock import current_clock
from cloudretry.runtime.reach import is_unreachable

__all__ = ["body_of", "is_error", "outcome_of_error", "outcome_of_response"]

_ERROR_STATUS: Final = 400
_REQUEST_IDS: Final = ("x-ms-request-id", "x-ms-correlation-request-id")
_SOURCES: Final = PRESETS["builtin"]["azure"].response_header


def is_error(http: Any) -> bool:
    """Whether a response is an error; a redirect is an answer, which the redirect policy above follows."""
    return bool(http.status_code >= _ERROR_STATUS)


def outcome_of_response(http: Any, *, streamed: bool = True) -> Outcome | None:
    """What an attempt with a response came to; None: the provider answered. A streamed error must have been read.

    `streamed`: the body of an answer is left for the caller. Otherwise an answer that is none, such as a proxy's page where
    JSON was asked for, has the SDK's own error as its `exception`.
    """
    if not is_error(http):
        error = None if streamed else unreadable(http)
        return None if error is None else outcome_of_error(error)
    headers, wall = Headers(http.headers), current_clock().wall()
    request_id = next((headers[name] for name in _REQUEST_IDS if name in headers), None)
    said = read_error(body_of(http))
    message = "\n".join(said.messages) or None
    code = telling((*said.codes, *filter(None, [headers.get("x-ms-error-code")])))
    asked = asked_delay(_SOURCES, headers, error_text=message, wall=wall) is not None
    return Outcome(
        kind=kind_of(http.status_code, code, asked=asked, foreign=said.page and request_id is None),
        status=http.status_code,
        code=code,
        message=message,
        request_id=request_id,
        headers=headers,
        exception=None if streamed else undecodable(http),
        wall=wall,
    )


def body_of(http: Any) -> bytes:
    """The bytes that were read already: `content` of today's responses, `body()` of those before azure.core.rest."""
    try:
        content = getattr(http, "content", None)
        content = http.body() if content is None else content
    except Exception:  # noqa: BLE001 - not read, or somebody's own response class: then the status alone tells
        return b""
    return content if isinstance(content, bytes) else b""


_BY_CAUSE: Final[tuple[tuple[frozenset[str], tuple[Kind, Phase]], ...]] = (
    (
        frozenset({"SSLCertVerificationError", "CertificateError", "ClientConnectorCertificateError"}),
        (Kind.FATAL, Phase.TLS),
    ),
    (frozenset({"NameResolutionError", "gaierror", "ClientConnectorDNSError"}), (Kind.NOT_SENT, Phase.DNS)),
    (
        frozenset({"NewConnectionError", "ConnectTimeoutError", "ClientConnectorError", "ConnectionTimeoutError"}),
        (Kind.NOT_SENT, Phase.CONNECT),
    ),
    (
        frozenset({"ChunkedEncodingError", "ClientPayloadError", "ContentDecodingError", "IncompleteRead"}),
        (Kind.TRANSIENT, Phase.BODY),
    ),
    (frozenset({"ReadTimeout", "ReadTimeoutError", "ServerTimeoutError"}), (Kind.TRANSIENT, Phase.WAIT)),
)
"""Classes of requests, urllib3, aiohttp and Python, any of which in the chain tells; the first that fits."""
_REFUSED_BY_US: Final = re.compile("not permitted for non-TLS protected")
_TUNNEL: Final = re.compile(r"Tunnel connection failed: (\d{3})")
_BY_CLASS: Final[tuple[tuple[type[Exception], tuple[Kind, Phase]], ...]] = (
    (sdk.DecodeError, (Kind.TRANSIENT, Phase.BODY)),  # IncompleteReadError is one
    (sdk.ServiceResponseTimeoutError, (Kind.TRANSIENT, Phase.WAIT)),
    (sdk.ServiceResponseError, (Kind.TRANSIENT, Phase.SEND)),
    (sdk.ServiceRequestError, (Kind.TRANSIENT, Phase.SEND)),
)
"""The first that fits; an exception that is none of these did not come from the network."""


def outcome_of_error(error: BaseException) -> Outcome:
    """What an attempt without a response came to.

    azure-core's classes don't tell how far the request came (a reset after it was sent is a ServiceRequestError with
    aiohttp), so what is not surely "nothing written" counts as perhaps seen by the server.
    """
    kind, phase = _how_far(error)
    stop = StopReason.UNREACHABLE if is_unreachable(error) else None
    wall = current_clock().wall()
    return Outcome(kind=kind, phase=phase, code=type(error).__name__, exception=error, stop=stop, wall=wall)


def _how_far(error: BaseException) -> tuple[Kind, Phase]:
    if isinstance(error, sdk.ClientAuthenticationError) or _REFUSED_BY_US.search(str(error)):
        return Kind.FATAL, Phase.SEND
    refused = _refused_tunnel(error)
    if refused is not None:
        return (Kind.FATAL if refused < 500 else Kind.NOT_SENT), Phase.PROXY_HANDSHAKE  # noqa: PLR2004 - HTTP's border
    causes = {base.__name__ for cause in causes_of(error) for base in type(cause).__mro__}
    by_cause = (came_to for names, came_to in _BY_CAUSE if causes & names)
    by_class = (came_to for kind, came_to in _BY_CLASS if isinstance(error, kind))
    return next(chain(by_cause, by_class), (Kind.FATAL, Phase.SEND))


def _refused_tunnel(error: BaseException) -> int | None:
    """The status with which a proxy refused to connect us; requests has it in a text alone."""
    for cause in causes_of(error):
        if type(cause).__name__ == "ClientHttpProxyError":
            return int(getattr(cause, "status", 0))
        found = _TUNNEL.search(str(cause))
        if found:
            return int(found[1])
    return None
