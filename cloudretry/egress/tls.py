"""TLS contexts, each built once for a process: loading a bundle of certificates costs some 20 ms of CPU."""

from __future__ import annotations

import os
import ssl
import threading
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Any, Final

from cloudretry.errors import ConfigurationError

__all__ = ["proxy_context", "shared_context", "trust"]

_MOST: Final = 64
_contexts: Final[dict[Hashable, Any]] = {}
_lock: Final = threading.Lock()


def shared_context(key: Hashable, build: Callable[[], ssl.SSLContext], *places: str | None) -> ssl.SSLContext:
    """The context of that key; built where there is none yet, or where what the places hold has changed since.

    Nobody may change it afterwards. Thread-safe.
    """
    key = (key, *map(_stamp, places))
    context = _contexts.get(key)
    if context is None:
        with _lock:
            context = _contexts.get(key)
            if context is None:
                while len(_contexts) >= _MOST:
                    _contexts.pop(next(iter(_contexts)))
                context = _contexts[key] = build()
    return context


if hasattr(os, "register_at_fork"):  # a child must not find the lock held by a thread that it does not have
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)


def _stamp(place: str | None) -> tuple[int, ...] | None:
    try:
        status = None if place is None else Path(place).stat()
    except OSError:  # building will say so
        status = None
    return None if status is None else (status.st_ino, status.st_size, status.st_mtime_ns)


def trust(context: ssl.SSLContext, place: str) -> None:
    """Trust the certificates in a file or a folder, too. Raises ConfigurationError where they can't be loaded."""
    try:
        if Path(place).is_dir():
            context.load_verify_locations(capath=place)
        else:
            context.load_verify_locations(cafile=place)
    except OSError as error:  # ssl.SSLError is one
        raise ConfigurationError(f"the certificates to trust can't be loaded: {error.strerror or error}: {place}") from None


def proxy_context(trusted: str | None, ca_bundle: str | None) -> ssl.SSLContext:
    """For the way to a proxy that speaks TLS itself: no client certificate, the name always checked."""

    def build() -> ssl.SSLContext:
        context = ssl.create_default_context()
        for place in (trusted, ca_bundle):
            if place is not None:
                trust(context, place)
        return context

    return shared_context(("proxy", trusted, ca_bundle), build, trusted, ca_bundle)
