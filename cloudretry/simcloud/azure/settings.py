"""What a simulated Azure is made of, as one value that travels to the server process as a line of JSON."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from cloudretry.errors import ConfigurationError
from cloudretry.simcloud.answers import RetryAfter
from cloudretry.simcloud.azure.limits import PUBLISHED_AZURE, AzureRule
from cloudretry.simcloud.faults import Faults
from cloudretry.simcloud.limits import Limit

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = ["LOCATIONS", "AzureSettings"]

LOCATIONS = ("eastus", "northeurope", "westeurope")


@dataclass(frozen=True, slots=True, kw_only=True)
class AzureSettings:
    """Settings of one simulated Azure."""

    seed: int = 0
    subscriptions: int = 3
    locations: Sequence[str] = LOCATIONS
    size: float = 1.0
    """Times the usual number of resource groups and of what is in them; of each kind there is at least one."""
    principals: int = 1
    """Service principals, each with buckets of its own."""
    page_size: int = 50
    """The most that one page of a list holds. Azure's own differ from list to list."""
    limits: Sequence[AzureRule] = PUBLISHED_AZURE
    latency: float = 0.0
    """Seconds that are added to every answer."""
    faults: Sequence[Faults] = ()
    retry_after: Sequence[RetryAfter] = ()
    """What throttles say about the wait, in the place of what Azure would say."""
    token_seconds: float = 3599.0
    """For how long a token of the token endpoints is good."""
    operation_polls: int = 2
    """How often a long-running operation is still in progress when asked."""
    operation_wait: int = 1
    """The Retry-After of a long-running operation, in seconds; of 0 the SDK waits its own 30."""
    port: int = 0
    """On 127.0.0.1; 0: any that is free."""

    def __post_init__(self) -> None:
        accepted = {
            "subscriptions: at least 1": self.subscriptions >= 1,
            "locations: at least one": bool(self.locations),
            "size: above 0 and finite": 0 < self.size < math.inf,
            "principals: at least 1": self.principals >= 1,
            "page_size: at least 1": self.page_size >= 1,
            "latency: at least 0 and finite": 0 <= self.latency < math.inf,
            "token_seconds: at least 0 and finite": 0 <= self.token_seconds < math.inf,
            "operation_polls: at least 0": self.operation_polls >= 0,
            "operation_wait: at least 0": self.operation_wait >= 0,
        }
        for name, kind in (("limits", AzureRule), ("faults", Faults), ("retry_after", RetryAfter)):
            accepted[f"{name}: a sequence of {kind.__name__}"] = all(isinstance(rule, kind) for rule in getattr(self, name))
        if problems := [rule for rule, holds in accepted.items() if not holds]:
            raise ConfigurationError(*problems)

    def to_json(self) -> str:
        """One line that from_json reads back."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> AzureSettings:
        """Read what to_json wrote."""
        values: dict[str, Any] = json.loads(text)
        return cls(**{name: _MAKERS[name](value) if name in _MAKERS else value for name, value in values.items()})


def _rule(values: dict[str, Any]) -> AzureRule:
    given: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
    return AzureRule(**(given | {"limit": Limit(**values["limit"])}))


_MAKERS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "locations": tuple,
    "limits": lambda listed: tuple(map(_rule, listed)),
    "faults": lambda listed: tuple(Faults(**(values | {"kinds": tuple(values["kinds"])})) for values in listed),
    "retry_after": lambda listed: tuple(RetryAfter(**(values | {"headers": tuple(values["headers"])})) for values in listed),
}
