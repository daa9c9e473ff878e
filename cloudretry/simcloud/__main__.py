"""The server's process: reads its settings from the first line of standard input and lives until that input ends.

The first line on standard output is JSON with the port, written when requests are answered.
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
from typing import TYPE_CHECKING

from cloudretry.simcloud.child import listen, read_settings, say_ready
from cloudretry.simcloud.settings import Settings

if TYPE_CHECKING:
    import socket

_SWITCH_S = 0.0005  # a throttled caller should not wait while moto writes a long page


def main() -> None:
    """Serve until the parent is gone."""
    settings = Settings.from_json(read_settings())
    gc.disable()  # moto's tables of instance types and the inventory stay for good
    asyncio.run(_serve(settings, listen(settings.port)))


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
    say_ready(port=listener.getsockname()[1])
    await asyncio.Event().wait()


def _seal_models() -> None:
    """Service models of the user's own, which may be broken or older, are for the user's clients."""
    from botocore.loaders import Loader

    os.environ.pop("AWS_DATA_PATH", None)
    Loader.CUSTOMER_DATA_PATH = Loader.BUILTIN_DATA_PATH


if __name__ == "__main__":
    main()
