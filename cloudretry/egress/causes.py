"""Why a try failed, read from what was raised. The phase is never read here: it is recorded."""

from __future__ import annotations

import asyncio
import errno
import http.client
import socket
import ssl
from collections.abc import Iterator
from typing import Final

from cloudretry.core.tries import Reason

__all__ = ["causes_of", "reason_of"]

_BY_ERRNO: Final = {
    errno.ECONNREFUSED: Reason.REFUSED,
    errno.ENETUNREACH: Reason.REFUSED,
    errno.EHOSTUNREACH: Reason.REFUSED,
    errno.ENETDOWN: Reason.REFUSED,
    errno.EHOSTDOWN: Reason.REFUSED,
    errno.ECONNRESET: Reason.RESET,
    errno.ECONNABORTED: Reason.RESET,
    errno.ENOTCONN: Reason.RESET,
    errno.EPIPE: Reason.RESET,
    errno.ESHUTDOWN: Reason.RESET,
    errno.ETIMEDOUT: Reason.TIMEOUT,
}
_BY_NAME: Final[dict[str, Reason | None]] = {  # of urllib3, aiohttp and http.client; where no standard class or number tells
    "CertificateError": Reason.CERTIFICATE,
    "NewConnectionError": None,  # is a ConnectTimeoutError, too; its cause tells
    "ConnectTimeoutError": Reason.TIMEOUT,
    "ReadTimeoutError": Reason.TIMEOUT,
    "ServerDisconnectedError": Reason.RESET,
    "IncompleteRead": Reason.RESET,
    "IncompleteReadError": Reason.RESET,
    "ContentLengthError": Reason.RESET,
    "InvalidChunkLength": Reason.PROTOCOL_ERROR,
    "TransferEncodingError": Reason.PROTOCOL_ERROR,
    "ResponseNotReady": Reason.PROTOCOL_ERROR,
    "DecodeError": Reason.PROTOCOL_ERROR,
    "ClientResponseError": Reason.PROTOCOL_ERROR,
    "HttpProcessingError": Reason.PROTOCOL_ERROR,
    "BadHttpMessage": Reason.PROTOCOL_ERROR,
}

_CUT: Final = frozenset({"ProtocolError", "ClientPayloadError"})
"""Of urllib3 and aiohttp."""


def reason_of(error: BaseException) -> Reason:
    """CANCELLED where neither the member nor the destination can have to do with it."""
    causes = list(causes_of(error))
    for cause in causes:
        reason = _reason(cause)
        if reason is not None:
            return reason
    return Reason.RESET if any(_is_cut(cause) for cause in causes) else Reason.CANCELLED


def _is_cut(error: BaseException) -> bool:
    """Whether a body ended before its end: with nothing behind it, these errors mean no more than that."""
    return type(error).__name__ in _CUT and len(list(causes_of(error))) == 1


def _reason(error: BaseException) -> Reason | None:  # noqa: PLR0911 - a table
    if isinstance(error, socket.gaierror):
        return Reason.UNRESOLVED
    if isinstance(error, TimeoutError | asyncio.TimeoutError | socket.timeout):  # three classes before Python 3.11
        return Reason.TIMEOUT
    if isinstance(error, ssl.SSLCertVerificationError):
        return Reason.CERTIFICATE
    if isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError | http.client.RemoteDisconnected | ConnectionResetError):
        return Reason.RESET
    if isinstance(error, ssl.SSLError | http.client.BadStatusLine | http.client.LineTooLong):
        return Reason.PROTOCOL_ERROR
    if isinstance(error, OSError) and error.errno in _BY_ERRNO:
        return _BY_ERRNO[error.errno]
    names = (cls.__name__ for cls in type(error).__mro__)
    return next((_BY_NAME[name] for name in names if name in _BY_NAME), None)


def causes_of(error: BaseException) -> Iterator[BaseException]:
    """The error itself, then whatever it came from; each once.

    botocore keeps the cause in `kwargs["error"]`, azure-core in `inner_exception`, urllib3 in `reason` or among the arguments.
    `__context__` is left out: it may be an error that the program was just handling when it made this call.
    """
    seen: list[BaseException] = []
    waiting: list[object] = [error]
    while waiting:
        current = waiting.pop()
        if not isinstance(current, BaseException) or any(current is known for known in seen):
            continue
        seen.append(current)
        yield current
        kwargs = getattr(current, "kwargs", None)
        waiting += [current.__cause__, getattr(current, "reason", None), getattr(current, "inner_exception", None)]
        waiting += [*current.args, kwargs.get("error") if isinstance(kwargs, dict) else None]
