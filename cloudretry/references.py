"""Secrets in a configuration are references, `${env:NAME}` and `${file:PATH}`, resolved where they are used, never earlier.

A compiled configuration therefore holds no secret.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from cloudretry.errors import ConfigurationError

__all__ = ["KINDS", "find_references", "resolve", "resolve_url"]

KINDS: Final = frozenset({"env", "file"})

_REFERENCE: Final = re.compile(r"\$\{([^}:]*):([^}]*)\}")
_CREDENTIALS: Final = re.compile(r"([^/?#]+://)((?:[^/?#@$]|\$\{[^}]*\}|\$(?!\{))*)@")
_LARGEST_FILE = 65_536  # a secret is a line, not a document


def find_references(value: object) -> Iterator[tuple[str, str]]:
    """Every (kind, name) that `value`, a string or a structure of them, refers to; the kind may be an unknown one."""
    if isinstance(value, str):
        yield from ((match[1], match[2]) for match in _REFERENCE.finditer(value))
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from find_references(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from find_references(item)


def resolve(value: Any, environ: Mapping[str, str] = os.environ) -> Any:
    """A copy of `value` with each reference replaced by the secret. Raises ConfigurationError that names what is missing."""
    if isinstance(value, str):
        return _REFERENCE.sub(lambda match: _look_up(match[1], match[2], environ), value)
    if isinstance(value, Mapping):
        return {key: resolve(item, environ) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [resolve(item, environ) for item in value]
    return value


def resolve_url(url: str, environ: Mapping[str, str] = os.environ) -> str:
    """`url` with each reference replaced by the secret; what stands before the host is percent-encoded, as a URL needs it.

    One reference alone before the host may stand for `user:password`, one alone in all for a whole URL, encoded already.
    Raises ConfigurationError that names what is missing. Never show the result.
    """
    if _REFERENCE.fullmatch(url):
        return str(resolve(url, environ))
    credentials = _CREDENTIALS.match(url)
    if credentials is None:
        return str(resolve(url, environ))
    safe = ":" if _REFERENCE.fullmatch(credentials[2]) else ""
    encoded = _REFERENCE.sub(lambda match: quote(_look_up(match[1], match[2], environ), safe=safe), credentials[2])
    return f"{credentials[1]}{encoded}@{resolve(url[credentials.end() :], environ)}"


def _look_up(kind: str, name: str, environ: Mapping[str, str]) -> str:
    if kind == "env":
        try:
            return environ[name]
        except KeyError:
            raise ConfigurationError(f"${{env:{name}}}: the environment has no variable {name}") from None
    if kind == "file":
        return _read_file(name)
    raise ConfigurationError(f"${{{kind}:{name}}}: unknown kind {kind!r}; known: env, file")


def _read_file(name: str) -> str:
    try:
        with Path(name).expanduser().open(encoding="utf-8") as file:
            return file.read(_LARGEST_FILE).rstrip("\r\n")
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or "not text"
        raise ConfigurationError(f"${{file:{name}}}: {reason}") from None
