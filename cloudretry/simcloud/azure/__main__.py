"""The server's process: reads its settings from the first line of standard input and lives until that input ends.

The first line on standard output is JSON with the port and the file of the authority's certificate, written when requests are
answered.
"""

from __future__ import annotations

import asyncio
import gc
import tempfile
from pathlib import Path

from cloudretry.simcloud.azure.door import make_authority
from cloudretry.simcloud.azure.server import SimulatedAzureServer
from cloudretry.simcloud.azure.settings import AzureSettings
from cloudretry.simcloud.child import listen, read_settings, say_ready


def main() -> None:
    """Serve until the parent is gone."""
    with tempfile.TemporaryDirectory(prefix="cloudretry-") as folder:
        settings = AzureSettings.from_json(read_settings(folder))
        listener = listen(settings.port)
        authority, context = make_authority()
        ca_file = Path(folder) / "ca.pem"
        ca_file.write_text(authority)
        server = SimulatedAzureServer(settings, context)
        gc.freeze()  # the estate stays for good
        say_ready(port=listener.getsockname()[1], ca_file=str(ca_file))  # who connects before it accepts, waits in the backlog
        asyncio.run(server.serve(listener))


if __name__ == "__main__":
    main()
