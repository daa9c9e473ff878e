"""One full exchange through one member, by the HTTP client of the SDK that the destination is for."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from cloudretry.egress.ends import end_of
from cloudretry.egress.record import Record
from cloudretry.errors import ConfigurationError, MissingExtra
from cloudretry.runtime.clock import current_clock

if TYPE_CHECKING:
    from cloudretry.core.pool_settings import Member, PoolSettings
    from cloudretry.core.tries import TryEnd

__all__ = ["Tried", "exchange"]

_PROBES: Final = {"aws": "cloudretry.aws.probe", "azure": "cloudretry.azure.probe"}


@dataclass(frozen=True, slots=True)
class Tried:
    """How an exchange ended. `challenge`: what a proxy that rejects us asks for; `seconds`: how long it took."""

    end: TryEnd
    challenge: str | None
    seconds: float


def exchange(member: Member, settings: PoolSettings, url: str, provider: str, timeout: float) -> Tried:
    """GET a URL, without credentials: any answer of the destination will do. `timeout`: seconds to wait for each byte.

    Raises ConfigurationError where the member can't be used at all, and MissingExtra where neither SDK is installed.
    """
    get = _getter(provider)
    record, began = Record(), current_clock().monotonic()
    try:
        answer = get(member, settings, url, record, timeout)
    except ConfigurationError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever the SDK raises, the record tells what it means
        answer = error
    challenge = record.challenge or getattr(answer, "headers", {}).get("Proxy-Authenticate")  # on plain http it is the answer
    return Tried(end_of(record, answer), challenge, current_clock().monotonic() - began)


def _getter(provider: str) -> Any:
    """That of the provider's SDK, else of the other one: the way out is the same."""
    for name in sorted(_PROBES, key=lambda name: name != provider):
        with suppress(ModuleNotFoundError):
            return import_module(_PROBES[name]).get
    raise MissingExtra(provider)
