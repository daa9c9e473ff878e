"""What this process knows of hosts; one for all clients, because a blocked region is blocked for each of them."""

from __future__ import annotations

from typing import Final

from cloudretry.core.reach import Reachability

__all__ = ["REACH"]

REACH: Final = Reachability()
