"""From the record of a try, and what it came to, to how it ended. Pure."""

from __future__ import annotations

import time
from collections.abc import Mapping
from math import inf
from typing import TYPE_CHECKING, Any, Final, Protocol

from cloudretry.core.outcome import Phase
from cloudretry.core.tries import Hop, Reason, TryEnd
from cloudretry.egress.causes import causes_of, reason_of
from cloudretry.egress.socks import AUTH_REJECTED

if TYPE_CHECKING:
    from cloudretry.egress.record import Record

__all__ = ["Answer", "end_of", "tell_of_body"]

_PROXY_AUTHENTICATION: Final = 407
_AUTH: Final = frozenset({407, 401})  # tinyproxy says 401 of a wrong password
_FORBIDDEN: Final = frozenset({403, 405, 451})
_NOT_FOUND: Final = 404  # some proxies say so of a name that they can't resolve
_TOO_MANY: Final = 429
_CLIENT_ERROR: Final = 400
_SERVER_ERROR: Final = 500
_MEBIBYTE: Final = 1_048_576
_CANT_REACH: Final = frozenset({502, 503, 504})

_CLOUDS_MARKS: Final = (
    "x-amzn-requestid",
    "x-ms-request-id",  # these two nearly always
    "x-amz-request-id",
    "x-amz-cf-id",
    "x-ms-correlation-request-id",
    "x-azure-ref",
)
_CLOUDS_SERVERS: Final = ("amazon", "aws", "cloudfront", "microsoft", "windows-azure", "kestrel", "werkzeug")  # the last: moto
_PROXYS_MARKS: Final = ("x-squid-error", "proxy-authenticate", "proxy-status")

_SOCKS_REPLIES: Final = {
    AUTH_REJECTED: (Hop.MEMBER, Reason.AUTH_REJECTED),
    1: (Hop.MEMBER, Reason.TUNNEL_REFUSED),
    2: (Hop.DESTINATION, Reason.FORBIDDEN),
    3: (Hop.DESTINATION, Reason.TUNNEL_REFUSED),
    4: (Hop.DESTINATION, Reason.TUNNEL_REFUSED),
    5: (Hop.DESTINATION, Reason.TUNNEL_REFUSED),
    6: (Hop.DESTINATION, Reason.TUNNEL_REFUSED),
}
"""The others, 7 and 8 among them, mean that the proxy does not speak as we do."""


class Answer(Protocol):
    """What the responses of botocore and azure-core have in common."""

    status_code: int
    headers: Mapping[str, str]


def end_of(record: Record, answer: Answer | Any | BaseException, *, per_mib: float | None = None) -> TryEnd:
    """How a try ended that came to this just now: a response of the SDK, or what was raised (cancellations too).

    `per_mib`: seconds for each MiB of a body, where more is slow. A streamed body, which the caller reads, never is.
    """
    if isinstance(answer, BaseException):
        return _failed(record, answer)
    proxys = _proxys_own(record, answer) if record.proxied else None
    if proxys is not None:
        return proxys
    if per_mib is not None and _body_took(record) > per_mib * _mebibytes(answer):
        return _end(record, Phase.BODY, Hop.DESTINATION, Reason.SLOW_BODY, answer.status_code)
    return _end(record, Phase.DONE, Hop.DESTINATION, None, answer.status_code)


def tell_of_body(record: Record, error: BaseException) -> None:
    """Reading a streamed body has failed like this after its try had ended. It is told once."""
    tell, record.afterwards = record.afterwards, None
    if tell is not None:
        tell(end_of(record, error))


def _body_took(record: Record) -> float:
    return 0.0 if record.first_byte is None else time.monotonic() - record.sent_at - record.first_byte


def _mebibytes(answer: Answer) -> float:
    """At least one, since the time of a small body tells of the scheduler; infinitely many where nobody says."""
    length = answer.headers.get("Content-Length") or ""
    return max(1.0, int(length) / _MEBIBYTE) if length.isdecimal() else inf


def _end(record: Record, phase: Phase, hop: Hop, reason: Reason | None, status: int | None = None) -> TryEnd:
    return TryEnd(phase, hop, reason, status, record.reused, record.first_byte)


def _failed(record: Record, error: BaseException) -> TryEnd:
    phase = record.phase or _guessed_phase(error)
    if not isinstance(error, Exception):
        return _end(record, phase, record.hop, Reason.CANCELLED)
    if record.status is not None:
        return _end(record, phase, *_tunnel_refused(record.status), record.status)
    if record.reply is not None:
        return _end(record, phase, *_SOCKS_REPLIES.get(record.reply, (Hop.MEMBER, Reason.PROTOCOL_ERROR)))
    reason = reason_of(record.error or error)
    return _end(record, phase, record.hop, reason)


def _tunnel_refused(status: int) -> tuple[Hop, Reason]:
    """What a proxy means that does not open a tunnel."""
    if status in _AUTH:
        return Hop.MEMBER, Reason.AUTH_REJECTED
    if status in _FORBIDDEN:
        return Hop.DESTINATION, Reason.FORBIDDEN
    if status >= _SERVER_ERROR or status == _NOT_FOUND:
        return Hop.DESTINATION, Reason.TUNNEL_REFUSED
    return Hop.MEMBER, Reason.TUNNEL_REFUSED if status == _TOO_MANY else Reason.PROTOCOL_ERROR


def _proxys_own(record: Record, answer: Answer) -> TryEnd | None:
    """The end, where it is not the destination that answers. A cloud's request id in the answer is the destination's word.

    Where credentials are asked for, nothing has gone on to the destination. With any other page of a proxy, something may have.
    """
    status, headers = answer.status_code, answer.headers
    if status != _PROXY_AUTHENTICATION and not _is_a_proxys_page(record, status, headers):
        return None
    if status in _AUTH:
        return _end(record, Phase.PROXY_HANDSHAKE, Hop.MEMBER, Reason.AUTH_REJECTED, status)
    if status in _FORBIDDEN:
        return _end(record, Phase.WAIT, Hop.DESTINATION, Reason.FORBIDDEN, status)
    if status >= _SERVER_ERROR:
        return _end(record, Phase.WAIT, Hop.DESTINATION, Reason.TUNNEL_REFUSED, status)
    return _end(record, Phase.WAIT, Hop.MEMBER, Reason.PROTOCOL_ERROR, status)


def _is_a_proxys_page(record: Record, status: int, headers: Mapping[str, str]) -> bool:
    """An answer that says of itself whose it is, is believed; else HTML is no answer of an API.

    In a tunnel only a proxy that inspects TLS can put in a page of its own, and does so to say no: a success there is one.
    """
    if any(mark in headers for mark in _CLOUDS_MARKS):
        return False
    if any(mark in headers for mark in _PROXYS_MARKS):
        return True
    if any(name in headers.get("server", "").lower() for name in _CLOUDS_SERVERS):
        return False
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "text/html":
        return record.forwarded or status >= _CLIENT_ERROR
    return record.forwarded and status in _CANT_REACH and kind in {"", "text/plain"}


def _guessed_phase(error: BaseException) -> Phase:
    """For want of a record: only where an SDK's class can mean nothing else, it is a connection that was not made."""
    names = {type(cause).__name__ for cause in causes_of(error)}
    if "NameResolutionError" in names or "ClientConnectorDNSError" in names:
        return Phase.DNS
    unmade = {"NewConnectionError", "ConnectTimeoutError", "ConnectionTimeoutError", "ClientProxyConnectionError"}
    return Phase.CONNECT if names & unmade else Phase.SEND
