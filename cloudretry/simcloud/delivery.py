"""How answers leave the server: whole, cut off, or not at all. For aiohttp's low-level server."""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import TYPE_CHECKING, Any, Final

from aiohttp import web

if TYPE_CHECKING:
    from cloudretry.simcloud.answers import Answer
    from cloudretry.simcloud.faults import Strike

__all__ = ["deliver", "make_request", "read_body", "reset_connection"]

_LARGEST_BODY = 256 * 1024**2
_RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)  # struct linger: on, no time


def make_request(message: Any, payload: Any, protocol: Any, writer: Any, task: Any) -> web.BaseRequest:
    """What web.Server makes of a request: one with a large body too."""
    loop = asyncio.get_running_loop()
    return web.BaseRequest(message, payload, protocol, writer, task, loop, client_max_size=_LARGEST_BODY)


async def read_body(request: web.BaseRequest) -> bytes:
    """The whole body, asked for where the client waits to be asked."""
    if "Expect" in request.headers:
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    return await request.read()


async def deliver(request: web.BaseRequest, answer: Answer, strike: Strike) -> web.StreamResponse:
    """Send the answer as the strike wants it sent."""
    match strike.kind:
        case "reset":
            return reset_connection(request)
        case "cut":
            return await _cut(request, answer, strike.share)
        case _:
            return web.Response(status=answer.status, headers=answer.headers, body=answer.body)


async def _cut(request: web.BaseRequest, answer: Answer, share: float) -> web.StreamResponse:
    length = len(answer.body)
    if length <= 1 or request.method == "HEAD":
        return reset_connection(request)
    headers = {name: value for name, value in answer.headers.items() if name.lower() != "content-length"}
    response = web.StreamResponse(status=answer.status, headers=headers)
    response.content_length = length
    await response.prepare(request)
    await response.write(answer.body[: min(length - 1, max(1, int(length * share)))])
    if request.transport is not None:
        request.transport.close()  # once what was written is out
    return response


def reset_connection(request: web.BaseRequest) -> web.Response:
    """Reset the connection, at once."""
    if (transport := request.transport) is not None:
        connection: socket.socket = transport.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        transport.abort()
    return web.Response()  # to nobody
