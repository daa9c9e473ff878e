"""The client's side of SOCKS 5 (RFC 1928, RFC 1929), without a socket: a dialogue that any kind of connection can run."""

from __future__ import annotations

import errno
import ipaddress
from collections.abc import Generator
from typing import Final, TypeAlias

__all__ = ["AUTH_REJECTED", "Dialogue", "SocksError", "handshake"]

Dialogue: TypeAlias = Generator[bytes | int, bytes | None, None]
"""Yields bytes to be sent, or how many bytes are to be read and given back."""

AUTH_REJECTED: Final = -1
"""In the place of a reply: the proxy does not take our credentials, or wants some."""

_VERSION: Final = 5
_NO_LOGIN: Final = 0
_LOGIN: Final = 2
_CONNECT: Final = b"\x05\x01\x00"
_IPV4: Final = 1
_NAME: Final = 3
_IPV6: Final = 4
_SIZES: Final = {_IPV4: 4, _IPV6: 16}
_LONGEST: Final = 255
_TEXTS: Final = {
    AUTH_REJECTED: "authentication failed",
    1: "general server failure",
    2: "not allowed by ruleset",
    3: "network unreachable",
    4: "host unreachable",
    5: "connection refused",
    6: "TTL expired",
    7: "command not supported",
    8: "address type not supported",
}


class SocksError(OSError):
    """The proxy did not connect us; `reply` is its code, AUTH_REJECTED, or 0 where what it said is not SOCKS."""

    def __init__(self, reply: int) -> None:
        super().__init__(errno.EPROTO, f"SOCKS5 proxy: {_TEXTS.get(reply, 'no SOCKS5 reply')}")
        self.reply = reply


def handshake(host: str, port: int, user: str | None, password: str | None) -> Dialogue:
    """Ask to be connected with `host`, a name or an address. Raises SocksError."""
    methods = bytes([_NO_LOGIN]) if user is None else bytes([_NO_LOGIN, _LOGIN])
    yield bytes([_VERSION, len(methods)]) + methods
    version, method = yield from _read(2)
    if version != _VERSION:
        raise SocksError(0)
    if method not in methods:
        raise SocksError(AUTH_REJECTED)
    if method == _LOGIN:
        yield b"\x01" + _counted(user or "") + _counted(password or "")
        if (yield from _read(2))[1]:
            raise SocksError(AUTH_REJECTED)
    yield _CONNECT + _address(host) + port.to_bytes(2, "big")
    version, reply, _, kind = yield from _read(4)
    if version != _VERSION or reply:
        raise SocksError(reply if version == _VERSION else 0)
    length = (yield from _read(1))[0] if kind == _NAME else _SIZES.get(kind, 0)
    yield from _read(length + 2)  # the address that it is connected from; of no use


def _read(count: int) -> Generator[bytes | int, bytes | None, bytes]:
    data = yield count
    return data or bytes(count)


def _counted(text: str) -> bytes:
    data = text.encode()[:_LONGEST]
    return bytes([len(data)]) + data


def _address(host: str) -> bytes:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return bytes([_NAME]) + _counted(host)
    return bytes([_IPV4 if address.version == 4 else _IPV6]) + address.packed  # noqa: PLR2004 - of IP
