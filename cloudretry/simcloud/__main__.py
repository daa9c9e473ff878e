"""The server's process: reads its settings from the first line of standard input and lives until that input ends.

The first line on standard output is JSON with the port, written when requests are answered.
"""

from __future__ import annotations

import asyncio
import gc
import os
import socket
import sys
import threading
import time

from cloudretry.simcloud.settings import Settings

_PARENT_LOOK_S = 0.5
_SWITCH_S = 0.0005  # a throttled caller should not wait while moto writes a long page


def main() -> None:
    """Serve until the parent is gone."""
    parent = os.getppid()
    settings = Settings.from_json(sys.stdin.readline())
    gc.disable()  # moto's tables of instance types and the inventory stay for good
    threading.Thread(target=_end_with_input, daemon=True).start()
    threading.Thread(target=_end_with_parent, args=(parent,), daemon=True).start()
    asyncio.run(_serve(settings, _listen(settings.port)))


def _end_with_input() -> None:
    sys.stdin.read()
    os._exit(0)


def _end_with_parent(parent: int) -> None:
    """End when the parent died although our input is still open: children that it forked hold the other end."""
    while os.getppid() == parent:
        time.sleep(_PARENT_LOOK_S)
    os._exit(0)


def _listen(port: int) -> socket.socket:
    try:
        return socket.create_server(("127.0.0.1", port))
    except OSError as error:
        raise SystemExit(f"port {port} of 127.0.0.1 can't be used: {os.strerror(error.errno or 0)}") from None


async def _serve(settings: Settings, listener: socket.socket) -> None:
    _seal_models()
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app

    from cloudretry.simcloud.inventory import build_inventory
    from cloudretry.simcloud.memo import make_moto_remember
    from cloudretry.simcloud.server import SimulatedAwsServer

    make_moto_remember()
    sys.setswitchinterval(_SWITCH_S)
    inventory = build_inventory(settings.seed, settings.accounts, settings.regions, settings.size)
    server = SimulatedAwsServer(DomainDispatcherApplication(create_backend_app), inventory, settings)
    await server.start(listener)
    gc.freeze()
    gc.enable()
    sys.stdout.write(f'{{"port": {listener.getsockname()[1]}}}\n')
    sys.stdout.flush()
    await asyncio.Event().wait()


def _seal_models() -> None:
    """Service models of the user's own, which may be broken or older, are for the user's clients."""
    from botocore.loaders import Loader

    os.environ.pop("AWS_DATA_PATH", None)
    Loader.CUSTOMER_DATA_PATH = Loader.BUILTIN_DATA_PATH


if __name__ == "__main__":
    main()
