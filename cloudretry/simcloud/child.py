"""The server process's side: its settings, its listening socket, its ready line, and that it ends with its parent."""

from __future__ import annotations

import json
import os
import shutil
import socket
import sys
import threading
import time
from typing import Any

__all__ = ["listen", "read_settings", "say_ready"]

_PARENT_LOOK_S = 0.5


def read_settings(folder: str = "") -> str:
    """The first line of standard input; from then on the process, and the folder, live until that input or the parent ends."""
    parent = os.getppid()
    line = sys.stdin.readline()
    threading.Thread(target=_end_with_input, args=(folder,), daemon=True).start()
    threading.Thread(target=_end_with_parent, args=(parent, folder), daemon=True).start()
    return line


def listen(port: int) -> socket.socket:
    """A listening socket on 127.0.0.1; ends the process, with the reason, where there can be none."""
    try:
        return socket.create_server(("127.0.0.1", port))
    except OSError as error:
        raise SystemExit(f"port {port} of 127.0.0.1 can't be used: {os.strerror(error.errno or 0)}") from None


def say_ready(**facts: Any) -> None:
    """Write the one line that the parent waits for."""
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


def _end_with_input(folder: str) -> None:
    sys.stdin.read()
    _end(folder)


def _end_with_parent(parent: int, folder: str) -> None:
    """End when the parent died although our input is still open: children that it forked hold the other end."""
    while os.getppid() == parent:
        time.sleep(_PARENT_LOOK_S)
    _end(folder)


def _end(folder: str) -> None:
    if folder:
        shutil.rmtree(folder, ignore_errors=True)
    os._exit(0)
