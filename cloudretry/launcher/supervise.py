"""The parent's part while the program runs: it passes signals on, and ends as the program ended."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

__all__ = ["end_as", "run_to_end"]

_PASSED_ON: Final = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGQUIT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2})
_AWAITED: Final = _PASSED_ON | {signal.SIGCHLD}
_EVERY: Final = 1.0
_POLL: Final = 0.05


def run_to_end(command: Sequence[str], environ: Mapping[str, str], look: Callable[[], None]) -> int:
    """Start a command, wait for it, and return its exit code; the negative number of the signal that ended it.

    Its streams, folder, process group and terminal are ours. A signal that a terminal sends reaches it without us; one
    that was sent to us is passed on. To be called once, in the main thread: the signals stay blocked.

    Args:
        command: the program and its arguments.
        environ: its environment, and where it is looked for.
        look: called once a second.

    Raises:
        OSError: it can't be started.
    """
    signal.signal(signal.SIGCHLD, lambda *_: None)  # ignored, it would not be delivered everywhere
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _AWAITED)
    unblock = partial(signal.pthread_sigmask, signal.SIG_SETMASK, before)
    child = subprocess.Popen(command, env=environ, close_fds=False, preexec_fn=unblock)  # noqa: S603, PLW1509 - one thread
    while child.poll() is None:
        found = _next_signal()
        if found is None:
            look()
        elif found[0] in _PASSED_ON and not found[1]:
            child.send_signal(found[0])
    return child.returncode


def end_as(status: int) -> int:
    """The exit code of `run_to_end`'s program; does not return where a signal ended it, but ends by the same signal."""
    if status >= 0:
        return status
    number = -status
    with suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(
            resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1])
        )  # its core is the one to read
    with suppress(OSError, ValueError):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
    os.kill(os.getpid(), number)
    return 128 + number


def _next_signal() -> tuple[int, bool] | None:
    """The next one of those awaited, and whether a terminal sent it to all its processes; None after a second."""
    if hasattr(signal, "sigtimedwait"):
        info = signal.sigtimedwait(_AWAITED, _EVERY)
        return None if info is None else (info.si_signo, info.si_code > 0)  # 0 and below: sent by a process
    until = time.monotonic() + _EVERY
    while time.monotonic() < until:
        pending = signal.sigpending() & _AWAITED
        if pending:
            number = signal.sigwait(pending)
            return number, number in {signal.SIGINT, signal.SIGQUIT} and _is_in_foreground()
        time.sleep(_POLL)
    return None


def _is_in_foreground() -> bool:
    """Where a system does not tell who sent a signal, the terminal is taken for it."""
    try:
        with open("/dev/tty", "rb") as terminal:  # noqa: PTH123 - no path
            return os.tcgetpgrp(terminal.fileno()) == os.getpgrp()
    except OSError:
        return False
