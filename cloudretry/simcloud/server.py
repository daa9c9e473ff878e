"""The simulated AWS as an HTTP server: identifies, meters, and lets moto answer what was admitted.

Throttled requests never reach moto. Pages of its own under /_cloudretry/, a name that no bucket can have:
GET inventory, counters, log; POST reset.
"""

from __future__ import annotations

import asyncio
import io
import sys
from collections import Counter, deque
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote_to_bytes
from uuid import UUID

from aiohttp import web
from werkzeug.test import run_wsgi_app

from cloudretry.simcloud.answers import Answer, Fault, error_answer, throttle
from cloudretry.simcloud.identity import Identity, identify
from cloudretry.simcloud.limits import Meter

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

    from cloudretry.simcloud.inventory import Inventory
    from cloudretry.simcloud.settings import Settings

__all__ = ["OWN_PAGES", "SimulatedAwsServer", "Verdict"]

OWN_PAGES = "/_cloudretry/"
_LOGGED = 200_000
_THREADS = 1  # moto only computes: more threads fight over the interpreter, and answer fewer requests
_LARGEST_BODY = 256 * 1024**2


class Verdict(NamedTuple):
    """One metered request; `time` is the server's monotonic clock."""

    time: float
    account: str
    region: str
    service: str
    action: str
    verdict: str


class SimulatedAwsServer:
    """Answers requests; everything but moto itself runs on the event loop's thread."""

    def __init__(self, app: WSGIApplication, inventory: Inventory, settings: Settings) -> None:
        self._app = app
        self._inventory = inventory
        self._settings = settings
        self._meter = Meter(settings.limits)
        self._log: deque[Verdict] = deque(maxlen=_LOGGED)
        self._counts: Counter[tuple[str, ...]] = Counter()
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="moto")
        self._ids = Random(settings.seed)

    async def start(self, host: str, port: int) -> int:
        """Listen, and return the port; 0 picks a free one."""
        server = web.Server(self._handle, request_factory=_make_request, access_log=None, auto_decompress=False)
        runner = web.ServerRunner(server)
        await runner.setup()
        await web.TCPSite(runner, host, port, backlog=1024).start()
        return int(runner.addresses[0][1])

    async def _handle(self, request: web.BaseRequest) -> web.Response:
        if "Expect" in request.headers:
            await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = await request.read()
        path, _, query = request.raw_path.partition("?")
        if path.startswith(OWN_PAGES):
            return self._own_page(request.method, path.removeprefix(OWN_PAGES))
        identity = identify(request.method, path, query, request.headers, body)
        if self._admit(identity):
            answer = await self._ask_moto(identity, _environ(request, path, query, body, identity.account))
        else:
            answer = self._refuse(identity, throttle(identity))
        if self._settings.latency:
            await asyncio.sleep(self._settings.latency)
        return web.Response(status=answer.status, headers=answer.headers, body=answer.body)

    async def _ask_moto(self, identity: Identity, environ: dict[str, Any]) -> Answer:
        call = partial(run_wsgi_app, self._app, environ, buffered=True)
        try:
            chunks, status, headers = await asyncio.get_running_loop().run_in_executor(self._threads, call)
        except Exception as error:  # noqa: BLE001 - whatever breaks in moto is a failure of the service
            return self._refuse(identity, Fault(500, "InternalFailure", f"{type(error).__name__}: {error}"))
        return Answer(status=int(status.partition(" ")[0]), headers=dict(headers), body=b"".join(chunks))

    def _refuse(self, identity: Identity, fault: Fault) -> Answer:
        return error_answer(identity.protocol, fault, str(UUID(int=self._ids.getrandbits(128), version=4)))

    def _admit(self, identity: Identity) -> bool:
        now = asyncio.get_running_loop().time()
        admitted = self._meter.admit(identity, now)
        said = "accepted" if admitted else "throttled"
        verdict = Verdict(now, identity.account, identity.region, identity.service, identity.action, said)
        self._log.append(verdict)
        self._counts[verdict[1:]] += 1
        return admitted

    def _own_page(self, method: str, page: str) -> web.Response:
        match method, page:
            case "GET", "inventory":
                return web.json_response(self._inventory_page())
            case "GET", "counters":
                return web.json_response(self._counters_page())
            case "GET", "log":
                return web.json_response(list(self._log))
            case "POST", "reset":
                self._meter.reset()
                self._log.clear()
                self._counts.clear()
                return web.json_response({})
            case _:
                return web.json_response({"error": "no such page"}, status=404)

    def _inventory_page(self) -> dict[str, Any]:
        return {
            "accounts": self._inventory.credentials,
            "regions": self._settings.regions,
            "resources": sorted(self._inventory.resources),
        }

    def _counters_page(self) -> dict[str, Any]:
        rows: dict[tuple[str, ...], dict[str, int]] = {}
        totals = {"accepted": 0, "throttled": 0}
        for (*what, verdict), count in sorted(self._counts.items()):
            rows.setdefault(tuple(what), {"accepted": 0, "throttled": 0})[verdict] = count
            totals[verdict] += count
        names = ("account", "region", "service", "action")
        return totals | {"rows": [dict(zip(names, what, strict=True)) | counts for what, counts in rows.items()]}


def _make_request(message: Any, payload: Any, protocol: Any, writer: Any, task: Any) -> web.BaseRequest:
    loop = asyncio.get_running_loop()
    return web.BaseRequest(message, payload, protocol, writer, task, loop, client_max_size=_LARGEST_BODY)


def _environ(request: web.BaseRequest, path: str, query: str, body: bytes, account: str) -> dict[str, Any]:
    host, _, port = request.host.partition(":")
    environ: dict[str, Any] = {
        "REQUEST_METHOD": request.method,
        "SCRIPT_NAME": "",
        "PATH_INFO": unquote_to_bytes(path).decode("latin-1"),
        "QUERY_STRING": query,
        "RAW_URI": request.raw_path,
        "REQUEST_URI": request.raw_path,
        "SERVER_NAME": host,
        "SERVER_PORT": port or "80",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "REMOTE_ADDR": "127.0.0.1",
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "http",
        "wsgi.input": io.BytesIO(body),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
    }
    for name, value in request.headers.items():
        key = "HTTP_" + name.upper().replace("-", "_")
        environ[key] = f"{environ[key]},{value}" if key in environ else value
    environ.pop("HTTP_TRANSFER_ENCODING", None)
    environ.pop("HTTP_CONTENT_LENGTH", None)
    environ["CONTENT_TYPE"] = environ.pop("HTTP_CONTENT_TYPE", "")
    environ["CONTENT_LENGTH"] = str(len(body))
    environ["HTTP_X_MOTO_ACCOUNT_ID"] = account
    return environ
