"""The engine behind the pipelines of credentials that nobody has wrapped (visit.py has the one for those of a command)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from cloudretry.runtime.engine import Engine

if TYPE_CHECKING:
    from cloudretry.core.call import Call
    from cloudretry.core.machine import RetryMachine
    from cloudretry.runtime.engine import Bounds

__all__ = ["TokenEngine"]


class TokenEngine(Engine):
    """Everybody waits for its calls: they are never paced. They may be sent twice, because one more token does no harm."""

    def __init__(self, engine: Engine) -> None:
        vars(self).update(vars(engine))  # the same listeners and plugins
        self._engine = engine  # whose settings may change

    def begin(self, call: Call, bounds: Bounds | None = None) -> RetryMachine:
        """Start a call by what holds now."""
        machine = self._engine.begin(replace(call, replayable=True), bounds)
        machine.place = None
        return machine
