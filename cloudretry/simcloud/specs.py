"""Reads what a user writes about limits, faults and Retry-After: JSON, or `key=value,key=value`. Pure."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final, TypeVar

from cloudretry.errors import ConfigurationError
from cloudretry.simcloud.answers import RetryAfter
from cloudretry.simcloud.faults import Faults
from cloudretry.simcloud.limits import Limit, Rule

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["read_faults", "read_limits", "read_retry_after"]

_T = TypeVar("_T", Faults, RetryAfter)
_READERS: Final[Mapping[str, Callable[[str], Any]]] = {
    "rate": float,
    "seconds": float,
    "times": int,
    "status": int,
    "kinds": lambda text: tuple(text.split("+")),
    "headers": lambda text: tuple(text.split("+")),
}
_RULE_KEYS: Final = frozenset({"service", "actions", "burst", "refill", "source", "shared", "bare"})


def read_faults(text: str) -> Faults:
    """A rule of faults: `rate=0.02,kinds=cut+page+reset`, or a JSON object with the same keys.

    Raises:
        ConfigurationError: it is neither, or a key or value is not accepted.
    """
    return _read(Faults, text)


def read_retry_after(text: str) -> RetryAfter:
    """A rule of Retry-After headers: `match=ec2:*,seconds=2,headers=Retry-After`, the seconds alone, `bucket`, or JSON.

    Raises:
        ConfigurationError: as read_faults.
    """
    if text == "bucket":
        return RetryAfter()
    return _read(RetryAfter, text if "=" in text or text.startswith("{") else f"seconds={text}")


def read_limits(text: str) -> tuple[Rule, ...]:
    """Rules as a JSON list of objects: service, burst, refill; if wanted actions, shared, bare, source.

    Raises:
        ConfigurationError: it is not such a list.
    """
    try:
        listed = json.loads(text)
    except ValueError as error:
        raise ConfigurationError(f"the limits are not JSON: {error}") from None
    if not isinstance(listed, list):
        raise ConfigurationError("the limits are not a list of objects such as " + _EXAMPLE)
    return tuple(map(_rule, listed))


_EXAMPLE: Final = '{"service": "ec2", "actions": ["Describe*"], "burst": 100, "refill": 20}'


def _rule(values: Any) -> Rule:
    if not isinstance(values, dict) or not {"service", "burst", "refill"} <= values.keys() <= _RULE_KEYS:
        raise ConfigurationError(f"{values!r} is not a limit such as {_EXAMPLE}; also accepted: shared, bare, source")
    given: dict[str, Any] = {"actions": ["*"], "source": "given"} | values
    try:
        limit = Limit(given.pop("burst"), given.pop("refill"))
        return Rule(**(given | {"limit": limit, "actions": tuple(given["actions"])}))
    except TypeError:
        raise ConfigurationError(f"{values!r} is not a limit such as {_EXAMPLE}") from None


def _read(kind: type[_T], text: str) -> _T:
    try:
        values = json.loads(text) if text.startswith("{") else _pairs(text)
        known = {field.name for field in fields(kind)}
        if unknown := values.keys() - known:
            raise ConfigurationError(f"{text!r}: {', '.join(sorted(unknown))} is not one of {', '.join(sorted(known))}")
        given: Any = {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
        return kind(**given)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"{text!r}: {error}") from None


def _pairs(text: str) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for pair in text.split(","):
        name, equals, value = pair.partition("=")
        if not equals:
            raise ValueError(f"{pair!r} is not key=value")
        values[name.strip()] = _READERS.get(name.strip(), str)(value.strip())
    return values
