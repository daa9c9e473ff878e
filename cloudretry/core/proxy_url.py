"""The URL of a proxy: its parts, and how it is shown to people. Pure; a message never holds the URL itself."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from ipaddress import IPv6Address
from typing import Final
from urllib.parse import unquote

from cloudretry.errors import ConfigurationError

__all__ = ["ACCEPTED_URL", "ProxyUrl", "holds_secret", "masked_url", "parse_proxy_url"]

ACCEPTED_URL: Final = "http://, https://, socks5:// or socks5h:// with a host and a port"

_MASK: Final = "***"
_HIGHEST_PORT: Final = 65_535
_URL = re.compile(
    r"(?P<scheme>https?|socks5h?)://"
    r"(?:(?P<user>[^\s/:@?#]*)(?P<colon>:(?P<password>[^\s/@?#]*))?@)?"
    r"(?P<host>\[[0-9A-Fa-f:.]+\]|[^\s/:@?#\[\]]+):(?P<port>[0-9]{1,5})/?",
    re.IGNORECASE,
)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_REFERENCE = re.compile(r"\$\{[^}]*\}")
_MARK = re.compile(r"\0([0-9]+)\0")
_BY_REFERENCE = re.compile(rf"(?:[^:]*:)?(?:{_MARK.pattern})+@")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyUrl:
    """A proxy. The host of an IPv6 address has no brackets; credentials are as the proxy wants them, not percent-encoded."""

    scheme: str
    host: str
    port: int
    user: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)


def parse_proxy_url(url: str) -> ProxyUrl:
    """The parts of a URL without references. Raises ConfigurationError.

    The port has to be written: programs don't agree on what it is without (80, 443, 1080, 3128).
    """
    found = _URL.fullmatch(url)
    if found is None or not _is_place(found["host"], int(found["port"])):
        raise ConfigurationError(f"not the URL of a proxy; accepted: {ACCEPTED_URL}")
    user, password = found["user"], found["password"]
    return ProxyUrl(
        scheme=found["scheme"].lower(),
        host=found["host"].strip("[]").lower(),
        port=int(found["port"]),
        user=None if user is None else unquote(user),
        password=None if password is None else unquote(password),
    )


def _is_place(host: str, port: int) -> bool:
    if host.startswith("["):
        try:
            IPv6Address(host[1:-1])
        except ValueError:
            return False
    return 0 < port <= _HIGHEST_PORT


def masked_url(url: str) -> str:
    """`url` without credentials that are written out, path and query; references such as `${env:NAME}` are no secrets.

    A user's name beside a password by reference stays. Right for anything that somebody may have meant as a URL.
    """
    references: list[str] = []
    before, credentials, place = _split(url, references)
    if _are_written_out(credentials):
        credentials = f"{_MASK}@"
    return _MARK.sub(lambda mark: references[int(mark[1])], before + credentials + place)


def holds_secret(url: str) -> bool:
    """Whether credentials are written out."""
    return _are_written_out(_split(url, [])[1])


def _split(url: str, references: list[str]) -> tuple[str, str, str]:
    """(scheme and slashes, credentials with their `@`, host and port), with the numbers of `references` in their places."""

    def mark(reference: re.Match[str]) -> str:
        references.append(reference[0])
        return f"\0{len(references) - 1}\0"

    plain = _REFERENCE.sub(mark, url.replace("\0", ""))
    scheme = _SCHEME.match(plain)
    credentials, at, place = plain[scheme.end() if scheme else 0 :].rpartition("@")
    return scheme[0] if scheme else "", credentials + at, re.split("[/?#]", place)[0]


def _are_written_out(credentials: str) -> bool:
    return bool(credentials) and not _BY_REFERENCE.fullmatch(credentials)
