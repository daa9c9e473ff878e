"""Reads what a user writes about limits, faults and Retry-After: JSON, or `key=value,key=value`. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final, TypeVar

from cloudretry.errors import ConfigurationError
from cloudretry.simcloud.answers import RetryAfter
from cloudretry.simcloud.azure.limits import AzureRule
from cloudretry.simcloud.faults import Faults
from cloudretry.simcloud.limits import Limit, Rule

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["read_azure_limits", "read_faults", "read_limits", "read_retry_after"]

_T = TypeVar("_T", Faults, RetryAfter)
_R = TypeVar("_R", Rule, AzureRule)
_READERS: Final[Mapping[str, Callable[[str], Any]]] = {
    "rate": float,
    "seconds": float,
    "times": int,
    "status": int,
    "kinds": lambda text: tuple(text.split("+")),
    "headers": lambda text: tuple(text.split("+")),
}


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
    return tuple(_rule(Rule, _RULE, values) for values in _objects(text, _RULE))


def read_azure_limits(text: str) -> tuple[AzureRule, ...]:
    """Rules as a JSON list of objects: provider, burst, refill; if wanted operations, gate, per, name, window, source.

    Raises:
        ConfigurationError: as read_limits.
    """
    return tuple(_rule(AzureRule, _AZURE_RULE, values) for values in _objects(text, _AZURE_RULE))


@dataclass(frozen=True, slots=True)
class _Form:
    """How a limit is written: the keys that it needs, that of its patterns, and those that it may have."""

    example: str
    needed: frozenset[str]
    patterns: str
    more: tuple[str, ...]


_RULE: Final = _Form(
    '{"service": "ec2", "actions": ["Describe*"], "burst": 100, "refill": 20}',
    frozenset({"service", "burst", "refill"}),
    "actions",
    ("shared", "bare", "source"),
)
_AZURE_RULE: Final = _Form(
    '{"provider": "Microsoft.Compute", "operations": ["GET virtualMachines*"], "burst": 100, "refill": 20}',
    frozenset({"provider", "burst", "refill"}),
    "operations",
    ("gate", "per", "name", "window", "source"),
)


def _objects(text: str, form: _Form) -> list[Any]:
    try:
        listed = json.loads(text)
    except ValueError as error:
        raise ConfigurationError(f"the limits are not JSON: {error}") from None
    if not isinstance(listed, list):
        raise ConfigurationError(f"the limits are not a list of objects such as {form.example}")
    return listed


def _rule(kind: type[_R], form: _Form, values: Any) -> _R:
    if not isinstance(values, dict) or not form.needed <= values.keys() <= {*form.needed, form.patterns, *form.more}:
        raise ConfigurationError(f"{values!r} is not a limit such as {form.example}; also accepted: {', '.join(form.more)}")
    given: dict[str, Any] = {form.patterns: ["*"], "source": "given"} | values
    try:
        limit = Limit(given.pop("burst"), given.pop("refill"))
        named = {name: tuple(given[name]) for name in (form.patterns, "per") if name in given}
        return kind(**(given | named | {"limit": limit}))
    except TypeError:
        raise ConfigurationError(f"{values!r} is not a limit such as {form.example}") from None


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
