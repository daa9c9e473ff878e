"""Who is calling, by what a client knows without asking anybody."""

from __future__ import annotations

import binascii
from base64 import b32decode
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Final

__all__ = ["known_account", "principal_of"]

_PREFIX: Final = 4  # AKIA, ASIA and the like
_ENCODED: Final = 16
_BYTES: Final = 6
_ACCOUNT_BITS: Final = 0x7FFF_FFFF_FF80
_SHIFT: Final = 7


def known_account(credentials: Any) -> str | None:
    """The account id, where credentials that were fetched already carry it."""
    if credentials is None:
        return None
    known = vars(credentials)
    account: str | None = known.get("_account_id") or known.get("account_id")
    return account


def principal_of(credentials: Any) -> str | None:
    """A name for whoever the access key belongs to, never the key itself.

    A key's characters contain the account's number, so that rotated keys, and the sessions of all roles of an account, have the
    same name. (Keys made before about 2019 contain something else, which is the same for each key at least.)
    """
    known = {} if credentials is None else vars(credentials)
    key = known.get("_access_key") or known.get("access_key")
    return _owner_of(key) if isinstance(key, str) else None


@lru_cache(maxsize=1024)  # asked for each call
def _owner_of(key: str) -> str:
    try:
        raw = b32decode(key[_PREFIX : _PREFIX + _ENCODED])
        number = (int.from_bytes(raw[:_BYTES], "big") & _ACCOUNT_BITS) >> _SHIFT
    except (binascii.Error, ValueError):
        return blake2b(key.encode(), digest_size=8).hexdigest()
    return f"{number:012d}"
