"""The rules that the values of a pool follow, and the names that members get. Standard library alone; no secret is resolved.

Each `check_…` gives its value back or raises ValueError.
"""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from cloudretry.config.pool_vocabulary import WAYS
from cloudretry.core.proxy_url import masked_url, parse_proxy_url
from cloudretry.errors import ConfigurationError
from cloudretry.references import KINDS, find_references

if TYPE_CHECKING:
    from cloudretry.config.place import KeyPath

__all__ = [
    "CONNECT_TO_PATTERN",
    "MEMBER_NAME_PATTERN",
    "check_bypass",
    "check_ca_bundle",
    "check_connect_to",
    "check_member",
    "check_probe_url",
    "check_proxy_url",
    "named",
    "repeated",
]

MEMBER_NAME_PATTERN: Final = r"^[A-Za-z0-9_.:#\[\]-]{1,64}$"
CONNECT_TO_PATTERN: Final = r"^(\[[0-9A-Fa-f:.]+\]|[0-9.]+):[0-9]{1,5}$"

_HIGHEST_PORT: Final = 65_535
_LONGEST: Final = 4096
_REFERENCE = re.compile(r"\$\{([^}:]*):([^}]*)\}")
_BYPASS = re.compile(r"\*|(?:\*?\.)?[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*(?::[0-9]{1,5})?")
_NOT_A_NAME = re.compile(r"[^A-Za-z0-9_.:#\[\]-]")


def check_proxy_url(url: str) -> str:
    """A whole URL by reference is looked at when it is resolved; one that was masked for people is refused."""
    kinds = {kind for kind, _ in find_references(url)}
    if len(url) > _LONGEST or not url.isprintable() or kinds - KINDS or "//***@" in url:
        raise ValueError("not a URL")
    if not _REFERENCE.fullmatch(url):
        try:
            parse_proxy_url(_with_stand_ins(url))
        except ConfigurationError as error:
            raise ValueError(str(error)) from None
    return url


def _with_stand_ins(url: str) -> str:
    """Something in the place of each reference that is right wherever one may stand, be it the port."""
    return _REFERENCE.sub("1", url)


def check_connect_to(text: str) -> str:
    """`10.0.0.1:443`, `[fd00::1]:443`."""
    host, _, port = text.rpartition(":")
    if not 0 < int(port) <= _HIGHEST_PORT:
        raise ValueError("not a port")
    if host.startswith("["):
        ipaddress.IPv6Address(host[1:-1])
    else:
        ipaddress.IPv4Address(host)
    return text


def check_member(member: Mapping[str, Any]) -> Mapping[str, Any]:
    """Exactly one kind."""
    if sum(way in member for way in WAYS) != 1:
        raise ValueError("not one kind")
    return member


def check_bypass(pattern: str) -> str:
    """A name, a domain, an address or a network."""
    if len(pattern) <= _LONGEST and not _BYPASS.fullmatch(pattern):
        ipaddress.ip_network(pattern.strip("[]"), strict=False)
    return pattern


def check_ca_bundle(path: str) -> str:
    """Absolute, with `~` replaced: where a process runs must not decide whom it trusts."""
    expanded = os.path.expanduser(path)  # noqa: PTH111 - Path.expanduser raises where there is no home
    if not path.isprintable() or not os.path.isabs(expanded) or len(path) > _LONGEST:  # noqa: PTH117 - as above
        raise ValueError("not an absolute path")
    return expanded


def check_probe_url(url: str) -> str:
    """What an https_get asks for."""
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname or "@" in parts.netloc or parts.port == 0:
        raise ValueError("not a URL to ask for")
    if not url.isprintable() or " " in url or "${" in url or len(url) > _LONGEST:
        raise ValueError("not a URL to ask for")
    return url


def named(members: Iterable[Mapping[str, Any]]) -> list[str]:
    """A name for each: its own, else host and port (`#2` for the second with the same), else what its reference is called."""
    listed = list(members)
    taken = {member["name"] for member in listed if "name" in member}
    numbers: dict[str, int] = {}
    return [member.get("name") or _unique(_derived(member), taken, numbers) for member in listed]


def _derived(member: Mapping[str, Any]) -> str:
    if "direct" in member:
        return "direct"
    if "connect_to" in member:
        return str(member["connect_to"])
    whole = _REFERENCE.fullmatch(member["url"])
    if whole:
        return _NOT_A_NAME.sub("_", whole[2].rpartition("/")[2])[:64] or "proxy"
    place = masked_url(member["url"]).rpartition("//")[2].rpartition("@")[2]
    return _NOT_A_NAME.sub("_", _REFERENCE.sub(lambda found: found[2], place))[:64]


def _unique(name: str, taken: set[str], numbers: dict[str, int]) -> str:
    unique = name
    while unique in taken:
        numbers[name] = numbers.get(name, 1) + 1  # goes on where the last one ended: thousands may share a host
        unique = f"{name[:57]}#{numbers[name]}"
    taken.add(unique)
    return unique


def repeated(members: Iterable[Mapping[str, Any]]) -> Iterable[tuple[KeyPath, str]]:
    """(path in the list, what is there twice) for each name and each way out that is there more than once."""
    names: dict[str, list[int]] = {}
    ways: dict[tuple[str, object], list[int]] = {}
    for index, member in enumerate(members):
        if "name" in member:
            names.setdefault(member["name"], []).append(index)
        ways.setdefault(next((kind, member[kind]) for kind in WAYS if kind in member), []).append(index)
    for first, second, *more in (places for places in ways.values() if len(places) > 1):
        others = f", and so are {len(more)} more" if more else ""
        yield (second,), f"is the same as members[{first}]{others}; weight gives a member more of the work"
    for name, (first, second, *more) in ((name, places) for name, places in names.items() if len(places) > 1):
        others = f", and of {len(more)} more" if more else ""
        yield (second, "name"), f"{name!r} is the name of members[{first}] too{others}"
