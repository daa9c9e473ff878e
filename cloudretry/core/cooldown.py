"""How long a member is withheld, and how long it takes until that is forgiven (SPEC B2). Pure: randomness is passed in."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from random import Random

    from cloudretry.core.pool_settings import Cooldown

__all__ = ["forgiven", "nominal_pause", "one_more", "spread"]


def nominal_pause(row: int, rules: Cooldown) -> float:
    """Seconds of the cooling that is the `row`-th in a row, before jitter."""
    try:
        return min(rules.max, rules.initial * rules.factor ** (row - 1))
    except OverflowError:
        return rules.max


def spread(pause: float, rules: Cooldown, rng: Random) -> float:
    """A pause with its jitter, so that members that were cooled together don't come back together."""
    return pause * rng.uniform(1.0 - rules.jitter, 1.0 + rules.jitter)


def one_more(row: int, rules: Cooldown) -> int:
    """The next number in a row. It stays where the pause has reached its cap, or it could not be forgiven in sensible time."""
    return row if row and nominal_pause(row, rules) >= rules.max else row + 1


def forgiven(row: int, healthy: float, rules: Cooldown) -> int:
    """What is left of `row` after `healthy` seconds: each cooling, the last first, is forgiven in the time that it took."""
    while row and healthy >= nominal_pause(row, rules):
        healthy -= nominal_pause(row, rules)
        row -= 1
    return row
