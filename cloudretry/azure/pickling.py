"""Lets azure-core's errors be pickled, so that a worker process can hand them back with what they carry.

They keep the traceback of what they were raised from in a field, and sometimes a connection in their causes; those two are
left out of a pickled copy. Class, message, response and every other field stay.
"""

from __future__ import annotations

import copyreg
import pickle
from typing import Any

from azure.core import exceptions

from cloudretry.azure.errors import PoolUnavailable, TurnTimeout

__all__ = ["make_errors_picklable"]


def make_errors_picklable() -> None:
    """For this process, and for every class of azure.core.exceptions, and ours."""
    for kind in (*vars(exceptions).values(), PoolUnavailable, TurnTimeout):
        if isinstance(kind, type) and issubclass(kind, exceptions.AzureError):
            copyreg.pickle(kind, _reduced)


def _reduced(error: exceptions.AzureError) -> tuple[Any, ...]:
    state = {name: value if _is_portable(value) else None for name, value in vars(error).items()}
    return _made, (type(error), error.args), state


def _made(kind: type[exceptions.AzureError], args: tuple[Any, ...]) -> exceptions.AzureError:
    """Without its constructor: some want a response."""
    return kind.__new__(kind, *args)


def _is_portable(value: object) -> bool:
    try:
        pickle.loads(pickle.dumps(value))  # noqa: S301 - our own bytes
    except Exception:  # noqa: BLE001 - whatever a field holds
        return False
    return True
