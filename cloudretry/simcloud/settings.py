"""What a simulation is made of, as one value that travels to the server process as a line of JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from cloudretry.simcloud.limits import PUBLISHED, Limit, Rule

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["REGIONS", "Settings"]

REGIONS = ("eu-central-1", "eu-west-1", "us-east-1", "us-west-2")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings of one simulated AWS; `latency` in seconds is added to every answer."""

    seed: int = 0
    accounts: int = 3
    regions: Sequence[str] = REGIONS
    limits: Sequence[Rule] = PUBLISHED
    latency: float = 0.0

    def to_json(self) -> str:
        """One line that from_json reads back."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Settings:
        """Read what to_json wrote."""
        values = json.loads(text)
        return cls(**(values | {"regions": tuple(values["regions"]), "limits": tuple(map(_rule, values["limits"]))}))


def _rule(values: dict[str, object]) -> Rule:
    limit: dict[str, float] = values.pop("limit")  # type: ignore[assignment]  # as asdict left it
    return Rule(**(values | {"limit": Limit(**limit), "actions": tuple(values["actions"])}))  # type: ignore[arg-type]
