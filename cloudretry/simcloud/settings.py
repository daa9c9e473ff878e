"""What a simulation is made of, as one value that travels to the server process as a line of JSON."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from cloudretry.errors import ConfigurationError
from cloudretry.simcloud.answers import RetryAfter
from cloudretry.simcloud.faults import Faults
from cloudretry.simcloud.limits import PUBLISHED, Limit, Rule

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = ["REGIONS", "Settings"]

REGIONS = ("eu-central-1", "eu-west-1", "us-east-1", "us-west-2")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings of one simulated AWS."""

    seed: int = 0
    accounts: int = 3
    regions: Sequence[str] = REGIONS
    size: float = 1.0
    """Times the usual number of resources; of each kind there is at least one."""
    limits: Sequence[Rule] = PUBLISHED
    latency: float = 0.0
    """Seconds that are added to every answer."""
    faults: Sequence[Faults] = ()
    retry_after: Sequence[RetryAfter] = ()
    port: int = 0
    """On 127.0.0.1; 0: any that is free."""

    def __post_init__(self) -> None:
        accepted = {
            "accounts: at least 1": self.accounts >= 1,
            "regions: at least one": bool(self.regions),
            "size: above 0 and finite": 0 < self.size < math.inf,
            "latency: at least 0 and finite": 0 <= self.latency < math.inf,
        }
        for name, kind in (("limits", Rule), ("faults", Faults), ("retry_after", RetryAfter)):
            accepted[f"{name}: a sequence of {kind.__name__}"] = all(isinstance(rule, kind) for rule in getattr(self, name))
        if problems := [rule for rule, holds in accepted.items() if not holds]:
            raise ConfigurationError(*problems)

    def to_json(self) -> str:
        """One line that from_json reads back."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Settings:
        """Read what to_json wrote."""
        values: dict[str, Any] = json.loads(text)
        return cls(**{name: _MAKERS.get(name, _as_it_is)(value) for name, value in values.items()})


def _as_it_is(value: Any) -> Any:
    return value


def _rule(values: dict[str, Any]) -> Rule:
    return Rule(**(values | {"limit": Limit(**values["limit"]), "actions": tuple(values["actions"])}))


_MAKERS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "regions": tuple,
    "limits": lambda listed: tuple(map(_rule, listed)),
    "faults": lambda listed: tuple(Faults(**(values | {"kinds": tuple(values["kinds"])})) for values in listed),
    "retry_after": lambda listed: tuple(RetryAfter(**(values | {"headers": tuple(values["headers"])})) for values in listed),
}
