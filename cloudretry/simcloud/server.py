"""The simulated AWS as an HTTP server: identifies, meters, injects faults, and lets moto answer what was admitted.

What is throttled never reaches moto. Its own pages: cloudretry.simcloud.pages.
"""

from __future__ import annotations

import asyncio
import io
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote_to_bytes
from uuid import UUID

from aiohttp import web
from werkzeug.test import run_wsgi_app

from cloudretry.simcloud.answers import Answer, Failure, error_answer, html_page, throttle
from cloudretry.simcloud.counts import Verdict
from cloudretry.simcloud.delivery import deliver, make_request, read_body, reset_connection
from cloudretry.simcloud.faults import Strike
from cloudretry.simcloud.identity import PLACE, Identity, identify, is_form
from cloudretry.simcloud.limits import Meter
from cloudretry.simcloud.pages import OWN_PAGES, OwnPages

if TYPE_CHECKING:
    import socket

    from _typeshed.wsgi import WSGIApplication

    from cloudretry.simcloud.inventory import Inventory
    from cloudretry.simcloud.settings import Settings

__all__ = ["SimulatedAwsServer"]

_THREADS = 1  # moto only computes: more threads fight over the interpreter, and answer fewer requests
_BACKLOG = 1024
_SERVED: Final = Strike(kind="served", status=0, seconds=0.0, share=0.0)
_THROTTLED: Final = replace(_SERVED, kind="throttle")


class SimulatedAwsServer:
    """Answers requests; everything but moto itself runs on the event loop's thread."""

    def __init__(self, app: WSGIApplication, inventory: Inventory, settings: Settings) -> None:
        self._app = app
        self._inventory = inventory
        self._settings = settings
        self._meter = Meter(settings.limits)
        self._pages = OwnPages(
            "AWS",
            place=PLACE,
            meter=self._meter,
            faults=settings.faults,
            seed=settings.seed,
            inventory=self._inventory_page,
        )
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="moto")
        self._ids = Random(settings.seed)

    async def start(self, listener: socket.socket) -> None:
        """Answer what comes in at this socket, until the event loop ends."""
        server = web.Server(self._handle, request_factory=make_request, access_log=None, auto_decompress=False)
        runner = web.ServerRunner(server)
        await runner.setup()
        await web.SockSite(runner, listener, backlog=_BACKLOG).start()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        path, _, query = request.raw_path.partition("?")
        if path.startswith(OWN_PAGES):
            return self._pages.answer(request.method, path.removeprefix(OWN_PAGES), await request.read())
        body = await read_body(request) if is_form(request.headers) else None
        identity = identify(request.method, path, query, request.headers, body or b"")
        strike = self._judge(identity)
        if strike.kind == "reset_unread":
            return reset_connection(request)
        if body is None:
            body = await read_body(request)
        answer = await self._answer(identity, strike, _environ(request, path, query, body, identity.account))
        if wait := self._settings.latency + (strike.seconds if strike.kind == "slow" else 0.0):
            await asyncio.sleep(wait)
        return await deliver(request, answer, strike)

    def _judge(self, identity: Identity) -> Strike:
        """Decide what the request meets, and count it."""
        now = asyncio.get_running_loop().time()
        verdict, done = "accepted", ""
        if not self._meter.admit(identity, now):
            verdict, strike = "throttled", _THROTTLED
            if self._settings.retry_after:
                strike = replace(_THROTTLED, seconds=self._meter.wait(identity, now))
        elif (strike := self._pages.injector.strike(identity) or _SERVED) is not _SERVED:
            verdict, done = strike.verdict, strike.done
        self._pages.counts.record(Verdict(now, *identity.place, verdict, done))
        return strike

    async def _answer(self, identity: Identity, strike: Strike, environ: dict[str, Any]) -> Answer:
        match strike.kind:
            case "throttle":
                answer, waits = self._refuse(identity, throttle(identity)), self._retry_after(identity, strike.seconds)
                return replace(answer, headers={**answer.headers, **waits}) if waits else answer
            case "page":
                return html_page(strike.status)
            case "empty":
                return Answer(status=strike.status, body=b"")
            case _:
                return await self._ask_moto(identity, environ)

    async def _ask_moto(self, identity: Identity, environ: dict[str, Any]) -> Answer:
        call = partial(run_wsgi_app, self._app, environ, buffered=True)
        try:
            chunks, status, headers = await asyncio.get_running_loop().run_in_executor(self._threads, call)
        except Exception as error:  # noqa: BLE001 - whatever breaks in moto is a failure of the service
            return self._refuse(identity, Failure(500, "InternalFailure", f"{type(error).__name__}: {error}"))
        return Answer(status=int(status.partition(" ")[0]), headers=dict(headers), body=b"".join(chunks))

    def _refuse(self, identity: Identity, failure: Failure) -> Answer:
        return error_answer(identity.protocol, failure, str(UUID(int=self._ids.getrandbits(128), version=4)))

    def _retry_after(self, identity: Identity, wait: float) -> dict[str, str]:
        rule = next((rule for rule in self._settings.retry_after if identity.fits(rule.match)), None)
        return rule.lines(wait) if rule else {}

    def _inventory_page(self) -> dict[str, Any]:
        return {
            "accounts": self._inventory.credentials,
            "regions": self._settings.regions,
            "resources": sorted(self._inventory.resources),
        }


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
