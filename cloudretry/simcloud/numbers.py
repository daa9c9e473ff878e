"""Draws that decide what a simulated cloud holds. Pure: the seed is passed in."""

from __future__ import annotations

from random import Random

__all__ = ["TEAMS", "Numbers"]

TEAMS = ("billing", "catalog", "checkout", "identity", "ledger", "media", "reports", "search")


class Numbers(Random):
    """A generator whose `how_many` is in proportion to the size."""

    size = 1.0

    def how_many(self, least: int, most: int, times: int = 1) -> int:
        """A number from `least` to `most`, times `times` and the size; at least 1."""
        return max(1, round(self.randint(least, most) * times * self.size))
