"""The tokens with which a list goes on. Pure."""

from __future__ import annotations

import base64
import binascii

__all__ = ["make_token", "read_token"]


def make_token(at: int) -> str:
    """A token of the place from which a list goes on; nothing in it has to be escaped in a URL but its padding."""
    return base64.urlsafe_b64encode(f"after={at}".encode()).decode()


def read_token(token: str) -> int:
    """The place; the beginning where the token is none of ours."""
    try:
        return int(base64.urlsafe_b64decode(token).decode().partition("=")[2] or 0)
    except (binascii.Error, ValueError):
        return 0
