"""Which page of a listing a request asks for, by links and tokens of answers. Nothing here raises, whatever a server sends.

A listing goes on at the `nextLink` of an answer, of whose query the token alone is kept; Resource Graph's goes on by a
`$skipToken` in the body of a POST, storage's by a marker.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html import unescape
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote_plus

from cloudretry.core.lost import FIRST, Page
from cloudretry.runtime.pages import PAGES

if TYPE_CHECKING:
    from cloudretry.core.call import Call

__all__ = ["note_next", "page_of"]

_IN_A_QUERY: Final = re.compile(
    r"(?:^|&)(?:\$|%24)?(?:skiptoken|skip|ctoken|marker|continuation(?:token)?|nexttoken|pagetoken)=([^&#]+)", re.IGNORECASE
)
_STRING: Final = r'"((?:[^"\\]|\\.)*)"'
_SKIP_TOKEN: Final = re.compile(rf'"\$skipToken"\s*:\s*{_STRING}'.encode())
_LINK: Final = re.compile(rf'nextLink"\s*:\s*{_STRING}'.encode())
_MARKER: Final = re.compile(rb"<NextMarker>([^<]+)</NextMarker>")
_GRAPH: Final = "Microsoft.ResourceGraph"
_HEAD: Final = 1024
_TAIL: Final = 16_384
"""Bytes in which an answer says how it goes on, in front of a list or behind it. The longest URL that Azure takes has 8 KiB."""


def page_of(http: Any, call: Call) -> Page | None:
    """The page that a request asks for; None where it does not look like a listing."""
    address, _, query = http.url.partition("?")
    says_more = query and ("&" in query or not query.startswith("api-version="))
    if says_more and (found := _IN_A_QUERY.search(query)):
        return PAGES.page(_place(address), unquote_plus(found[1]))
    if call.service == _GRAPH:
        return PAGES.page(_place(address), _text(_SKIP_TOKEN.search(_bytes(getattr(http, "content", b"")))))
    if says_more:
        page = PAGES.page(_place(address), _rest(query))
        if page.number or page.follows:
            return replace(page, token=None)  # it may hold a signature, so no part is kept whose name says nothing
    is_listing = call.operation.startswith("GET ") and not call.operation.endswith("}")
    return FIRST if is_listing or "comp=list" in query else None


def note_next(page: Page | None, url: str, body: bytes) -> Page | None:
    """Remember to which page the answer to a request leads. The page, with whether it leads on.

    One that leads on and was asked for without a token is a first.
    """
    whole = body
    if len(body) > _HEAD + _TAIL:  # to look through all of it takes half as long as to parse it
        body = body[:_HEAD] + body[-_TAIL:]
    of, token = url, None
    if links := body.count(b'nextLink"'):
        link = _text(_LINK.search(body)) if links == 1 else _own_link(whole)
        of, _, query = _absolute(link or "", url).partition("?")
        found = _IN_A_QUERY.search(query)
        token = unquote_plus(found[1]) if found else _rest(query)
    elif page is None:
        return None
    elif _GRAPH in url:
        token = _text(_SKIP_TOKEN.search(body))
    elif "comp=list" in url:
        token = _marker(body)
    return PAGES.answered(_place(of), page or FIRST, token) if token else page


def _absolute(link: str, url: str) -> str:
    """As a client takes it that knows its own host."""
    if not link.startswith("/"):
        return link
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}{link}"


def _place(address: str) -> str:
    """Host and path. A link may name the usual port, and its case may differ from what is made of it; a replica is the same."""
    host, _, path = address.partition("?")[0].partition("://")[2].lower().partition("/")
    return f"{host.removesuffix(':443').replace('-secondary.', '.')}/{path}"


def _rest(query: str) -> str:
    """What a link says by a name that we don't know; a client puts its own version in the place of the link's."""
    return "&".join(part for part in unquote_plus(query).split("&") if not part.startswith("api-version="))


def _own_link(body: bytes) -> str | None:
    """That of the listing, where what is listed has links too."""
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        return None
    links = [value for name, value in answer.items() if name.endswith("nextLink")] if isinstance(answer, dict) else []
    return links[0] if links and isinstance(links[0], str) else None


def _text(found: re.Match[bytes] | None) -> str | None:
    if found is None:
        return None
    try:
        return str(json.loads(b'"%b"' % found[1]))
    except ValueError:
        return None


def _marker(body: bytes) -> str | None:
    found = _MARKER.search(body)
    return None if found is None else unescape(found[1].decode("utf-8", "replace"))


def _bytes(content: object) -> bytes:
    if isinstance(content, str):
        return content.encode("utf-8", "surrogatepass")
    return content if isinstance(content, bytes) else b""
