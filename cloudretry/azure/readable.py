"""Answers that would pass as data and are none: a portal's page, a body cut short or not to be decoded."""

from __future__ import annotations

import zlib
from typing import Any, Final

from azure.core.exceptions import DecodeError, IncompleteReadError

__all__ = ["CAN_T_DECODE", "undecodable", "unreadable"]

CAN_T_DECODE: Final = "the body is not encoded as its Content-Encoding says"
_SUCCESS: Final = range(200, 300)
_BEFORE_MARKUP: Final = b"\xef\xbb\xbf \t\r\n"


def unreadable(http: Any) -> DecodeError | None:
    """The SDK's own error for a successful answer whose body was read and can't be meant; None: it can."""
    if http.status_code not in _SUCCESS:
        return None
    if _is_cut(http):
        return IncompleteReadError("the body is shorter than its Content-Length says", response=http)
    kind = getattr(http, "content_type", None) or ""
    is_json = "json" in kind
    if not (is_json or "html" in kind):
        return None
    try:
        content = getattr(http, "content", None)
        begins = (http.body() if content is None else content)[:64].lstrip(_BEFORE_MARKUP)
    except zlib.error as error:
        return DecodeError(CAN_T_DECODE, error=error)
    if begins[:1] == b"<" and (is_json or "json" in http.request.headers.get("Accept", "")):
        return DecodeError(f"a page came where JSON was asked for: status {http.status_code}, {kind}", response=http)
    return undecodable(http)


def undecodable(http: Any) -> DecodeError | None:
    """The SDK's own error for JSON in no encoding, which its decoding would otherwise end with a bare UnicodeDecodeError.

    Today's responses keep their text, so that nothing is decoded twice; older ones replace what they can't read.
    """
    if "json" not in (getattr(http, "content_type", None) or "") or not hasattr(http, "is_stream_consumed"):
        return None
    try:
        http.text()
    except (UnicodeError, LookupError) as error:
        return DecodeError(f"JSON can't be decoded: {error}", response=http, error=error)
    return None


def _is_cut(http: Any) -> bool:
    """Before its version 2, urllib3 tells nobody that a body ended too early."""
    inner = getattr(http, "_internal_response", None) or getattr(http, "internal_response", None)
    left = getattr(getattr(inner, "raw", None), "length_remaining", None)
    return isinstance(left, int) and left > 0
