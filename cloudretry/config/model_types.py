"""The types of single values, for the models of entries and pools: how each is read, and its JSON Schema."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import AfterValidator, ConfigDict, Field, PlainValidator, WithJsonSchema
from typing_extensions import TypedDict

from cloudretry.config.durations import DURATION_PATTERN, LONGEST, read_duration, read_milliseconds

__all__ = [
    "STRICT",
    "Duration",
    "Match",
    "Milliseconds",
    "PoolName",
    "Positive",
    "PositiveDuration",
    "PositiveMilliseconds",
]

STRICT: Final = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

_DURATION_SCHEMA: Final = {"type": "string", "pattern": DURATION_PATTERN, "examples": ["400ms", "5s", "5m"]}
_MOST_MILLISECONDS: Final = LONGEST * 1000.0
_MOST_CALLS: Final = 1_000_000


def _plain_text(value: str) -> str:
    if not value.isprintable() or value != value.strip() or "${" in value:
        raise ValueError("not plain text")
    return value


def _above_zero(seconds: float) -> float:
    if seconds <= 0.0:
        raise ValueError("zero")
    return seconds


Duration = Annotated[float, PlainValidator(read_duration), WithJsonSchema(_DURATION_SCHEMA)]
Milliseconds = Annotated[
    float,
    PlainValidator(read_milliseconds),
    WithJsonSchema({"type": "number", "minimum": 0, "maximum": _MOST_MILLISECONDS}),
]
PositiveDuration = Annotated[
    float, PlainValidator(read_duration), AfterValidator(_above_zero), WithJsonSchema(_DURATION_SCHEMA)
]
PositiveMilliseconds = Annotated[
    float,
    PlainValidator(read_milliseconds),
    AfterValidator(_above_zero),
    WithJsonSchema({"type": "number", "exclusiveMinimum": 0, "maximum": _MOST_MILLISECONDS}),
]
Positive = Annotated[float, Field(gt=0, le=_MOST_CALLS)]
Text = Annotated[str, Field(min_length=1, max_length=256), AfterValidator(_plain_text)]
PoolName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]


class Match(TypedDict, total=False):
    """Patterns; one that is left out matches everything."""

    __pydantic_config__ = STRICT  # type: ignore[misc]  # pydantic's own way to configure a TypedDict
    service: Text
    operation: Text
    region: Text
    account: Text
