"""The simulated Azure as an HTTP server: knows the caller, meters, injects faults, and answers what was let in.

Its own pages: cloudretry.simcloud.pages.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, unquote
from uuid import UUID

from aiohttp import web

from cloudretry.simcloud.answers import Answer, html_page
from cloudretry.simcloud.azure.answers import Refusal, error, remaining, throttle, unauthorized
from cloudretry.simcloud.azure.calls import PLACE, Call, Target, parse_target
from cloudretry.simcloud.azure.directory import Directory, read_form
from cloudretry.simcloud.azure.door import Door
from cloudretry.simcloud.azure.estate import build_estate
from cloudretry.simcloud.azure.limits import AzureMeter, Passage
from cloudretry.simcloud.azure.manager import Asked, ResourceManager
from cloudretry.simcloud.azure.operations import Operations
from cloudretry.simcloud.delivery import deliver, make_request, read_body, reset_connection
from cloudretry.simcloud.faults import Strike
from cloudretry.simcloud.numbers import Numbers
from cloudretry.simcloud.pages import OWN_PAGES, OwnPages

if TYPE_CHECKING:
    import socket
    import ssl
    from collections.abc import Callable

    from cloudretry.simcloud.azure.settings import AzureSettings

__all__ = ["SimulatedAzureServer"]

_SERVED: Final = Strike(kind="served", status=0, seconds=0.0, share=0.0)
_THROTTLED: Final = Strike(kind="throttle", status=0, seconds=0.0, share=0.0)
_OF_THE_MANAGER: Final = frozenset({"subscriptions", "providers", "tenants", "batch"})
_MACHINE: Final = "/metadata/identity/oauth2/token"


class SimulatedAzureServer:
    """Answers requests, on the event loop's thread."""

    def __init__(self, settings: AzureSettings, context: ssl.SSLContext) -> None:
        estate = build_estate(settings.seed, settings.subscriptions, settings.locations, settings.size)
        operations = Operations(settings.operation_polls, settings.operation_wait, settings.seed)
        self._settings = settings
        self._context = context
        self._manager = ResourceManager(estate, operations, settings.locations, settings.page_size)
        self._directory = Directory(estate.tenant, settings.principals, settings.seed, time.time())
        self._meter = AzureMeter(settings.limits)
        self._ids = Numbers(settings.seed)
        inventory = {
            **self._directory.page(),
            "subscriptions": list(estate.subscriptions),
            "locations": settings.locations,
            "resources": estate.truth(),
        }
        self._pages = OwnPages(
            "Azure",
            place=PLACE,
            meter=self._meter,
            faults=settings.faults,
            seed=settings.seed,
            inventory=lambda: inventory,
        )

    async def serve(self, listener: socket.socket) -> None:
        """Answer what comes in at this socket, for ever."""
        self._directory.port = listener.getsockname()[1]
        server = web.Server(self._handle, request_factory=make_request, access_log=None, auto_decompress=False)
        factory: Callable[[], Any] = server
        await Door(factory, self._context).open(listener)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        path, _, query = _without_host(request.raw_path).partition("?")
        if path.startswith(OWN_PAGES):
            return self._pages.answer(request.method, path.removeprefix(OWN_PAGES), await request.read())
        path, parameters = unquote(path), dict(parse_qsl(query, keep_blank_values=True))
        if path.lstrip("/").partition("/")[0].lower() in _OF_THE_MANAGER:
            return await self._manage(request, path, parameters)
        return await self._give_token(request, path, parameters)

    async def _manage(self, request: web.BaseRequest, path: str, parameters: dict[str, str]) -> web.StreamResponse:
        who, wrong = self._directory.caller(request.headers.get("Authorization", ""), time.time())
        call = Call(principal=who or "unknown", target=parse_target(request.method, path))
        base = f"{'https' if request.secure else 'http'}://{request.host}"
        if who:
            return await self._serve(
                request, call, None, lambda body: self._manager.answer(Asked(call.target, parameters, body, base))
            )
        self._record(call, "unauthorized", wrong)
        await read_body(request)
        return await deliver(request, self._named(request, unauthorized(self._directory.tenant, wrong)), _SERVED)

    async def _give_token(self, request: web.BaseRequest, path: str, parameters: dict[str, str]) -> web.StreamResponse:
        body, good_for = await read_body(request), self._settings.token_seconds
        form, asks_well = read_form(body), request.headers.get("Metadata", "").lower() == "true"
        if path == _MACHINE:
            call = _token_call("imds", request.method, "token", parameters.get("client_id", ""))
            return await self._serve(
                request, call, body, lambda _: self._directory.answer_machine(parameters, asks_well, time.time(), good_for)
            )
        call = _token_call("login", request.method, path.rpartition("/")[2], form.get("client_id", ""))
        return await self._serve(
            request,
            call,
            body,
            lambda _: self._directory.answer(path[1:], request.host, parameters, form, time.time(), good_for),
        )

    async def _serve(
        self, request: web.BaseRequest, call: Call, body: bytes | None, answer: Callable[[bytes], Answer]
    ) -> web.StreamResponse:
        strike, passage = self._judge(call)
        if strike.kind == "reset_unread":
            return reset_connection(request)
        if body is None:
            body = await read_body(request)
        made = self._answer(request, call, strike, passage, lambda: answer(body))
        if wait := self._settings.latency + (strike.seconds if strike.kind == "slow" else 0.0):
            await asyncio.sleep(wait)
        return await deliver(request, made, strike)

    def _judge(self, call: Call) -> tuple[Strike, Passage]:
        """Decide what the request meets, and count it."""
        passage = self._meter.admit(call, asyncio.get_running_loop().time())
        if passage.stopped:
            self._record(call, "throttled")
            return _THROTTLED, passage
        strike = self._pages.injector.strike(call)
        self._record(call, strike.verdict if strike else "accepted", strike.done if strike else "")
        return strike or _SERVED, passage

    def _record(self, call: Call, verdict: str, done: str = "") -> None:
        self._pages.counts.record((asyncio.get_running_loop().time(), *call.place, verdict, done))

    def _answer(
        self, request: web.BaseRequest, call: Call, strike: Strike, passage: Passage, answer: Callable[[], Answer]
    ) -> Answer:
        match strike.kind:
            case "page":
                return html_page(strike.status)
            case "empty":
                return Answer(status=strike.status, body=b"")
            case "throttle":
                made = self._refuse(call, strike, passage)
            case _:
                made = _made(answer)
        return self._named(request, made, remaining(call, passage))

    def _refuse(self, call: Call, strike: Strike, passage: Passage) -> Answer:
        stopped = passage.stopped
        refusal = Refusal(
            call=call,
            name=stopped.rule.name if stopped else "injected",
            of_manager=stopped.by_manager if stopped else call.target.provider == "Microsoft.Resources",
            allowed=stopped.rule.limit.burst if stopped else 0,
            wait=stopped.wait if stopped else strike.seconds,
            now=datetime.now(timezone.utc).isoformat(),
        )
        made = throttle(refusal)
        rule = next((rule for rule in self._settings.retry_after if call.fits(rule.match)), None)
        if rule is None:
            return made
        kept = {name: value for name, value in made.headers.items() if "retry-after" not in name.lower()}
        ours = {name: value for name, value in rule.lines(refusal.wait).items() if not name.startswith("x-amz-")}
        return replace(made, headers={**kept, **ours})

    def _named(self, request: web.BaseRequest, answer: Answer, more: dict[str, str] | None = None) -> Answer:
        """With the headers by which Azure's support finds a request."""
        request_id = str(UUID(int=self._ids.getrandbits(128), version=4))
        ids = {"x-ms-request-id": request_id, "x-ms-correlation-request-id": request_id, "x-ms-routing-request-id": request_id}
        if request.headers.get("x-ms-return-client-request-id", "").lower() == "true":
            ids["x-ms-client-request-id"] = request.headers.get("x-ms-client-request-id", "")
        return replace(answer, headers={**ids, **(more or {}), **answer.headers})


def _made(answer: Callable[[], Answer]) -> Answer:
    try:
        return answer()
    except Exception as problem:  # noqa: BLE001 - whatever a request breaks is a failure of the service
        return error(500, "InternalServerError", f"{type(problem).__name__}: {problem}")


def _without_host(target: str) -> str:
    """The path of a request that came as one to a proxy of plain HTTP, as IMDS is asked, or as it is."""
    if not target.startswith("http://"):
        return target
    return "/" + target.removeprefix("http://").partition("/")[2]


def _token_call(provider: str, method: str, page: str, principal: str) -> Call:
    target = Target(subscription="", group="", provider=provider, types=(), operation=f"{method} {page}", path="")
    return Call(principal=principal or "unknown", target=target)
