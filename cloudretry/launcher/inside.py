"""What `cloudretry run` does in each Python process of the program, when that starts: it waits for an SDK to be imported."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from cloudretry.launcher.hooks import Hooks
from cloudretry.launcher.run_folder import RUN, running

if TYPE_CHECKING:
    from cloudretry.core.events import Listener
    from cloudretry.launcher.run_folder import RunFolder
    from cloudretry.runtime.engine import Engine

__all__ = ["begin"]


def begin(environ: Mapping[str, str] = os.environ) -> None:
    """Hook what this process will import, by the settings of the run that it belongs to. Imports no SDK itself."""
    if not environ.get(RUN) or switched_off(environ):
        return
    folder = running(environ)
    if folder is None:
        raise RuntimeError("the run that it belongs to has ended")
    folder.reach()
    Hooks.begin(lambda: _engine(folder), folder.pass_by)


def switched_off(environ: Mapping[str, str]) -> bool:
    """Whether CLOUDRETRY_DISABLED is set, as `cloudretry.config.switched_off` reads it; that room is not imported here."""
    return environ.get("CLOUDRETRY_DISABLED", "").strip().lower() not in {"", "0", "false", "no", "off"}


def _engine(folder: RunFolder) -> Engine:
    from functools import partial

    from cloudretry.launcher.counts import Counts
    from cloudretry.runtime.engine import Engine
    from cloudretry.runtime.watching import Watch, read_compiled

    found = read_compiled(folder.settings)
    program = os.path.basename(sys.argv[0]) if sys.argv else ""  # noqa: PTH119 - pathlib is not needed
    listeners: list[Listener] = [Counts(os.path.realpath(folder.processes), program)]
    journal = folder.journal()
    if journal is not None:
        from cloudretry.telemetry.journal import Journal

        listeners.append(Journal(journal))
    return Engine(found.settings, listeners=listeners, watch=Watch(found, partial(read_compiled, folder.settings)))
