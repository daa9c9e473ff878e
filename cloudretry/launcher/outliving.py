"""Finds the processes of a program that are still there when it has ended: what they lose from now on, nobody adds up."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

__all__ = ["going_on"]

_MOMENT: Final = 0.1  # seconds; what ends together with the program may take some


def going_on(documents: Iterable[str]) -> int:
    """How many of the processes that have written these files are still there. A number that was given anew counts too."""
    numbers = {Path(path).name.partition("-")[0] for path in documents}
    pids = {int(number) for number in numbers if number.isdecimal()}
    if any(map(_is_there, pids)):
        time.sleep(_MOMENT)
    return sum(map(_is_there, pids))


def _is_there(pid: int) -> bool:
    """Whether the process runs. One that has ended, and that nobody has waited for, does not."""
    try:
        os.kill(pid, 0)
    except PermissionError:  # it is another user's
        pass
    except (OSError, OverflowError):
        return False
    with suppress(OSError, IndexError):  # not every system has it
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] not in {b"Z", b"X"}
    return True
