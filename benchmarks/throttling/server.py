"""A provider on loopback, in a process of its own: token buckets that answer as EC2's and Resource Manager's do.

    python server.py            prints its port

/_reset?burst=…&refill=…&latency=…, /_refill?factor=… and /_counts are for the benchmark.

Buckets are kept per access key and action, or per subscription. A refused call costs no token. Answers leave `latency` seconds
after the bucket was asked.
"""

from __future__ import annotations

import asyncio
import json
import math
import re
import sys
from typing import Final
from urllib.parse import parse_qs, urlsplit

__all__ = ["Provider"]

EC2_OK: Final = (
    b'<?xml version="1.0" encoding="UTF-8"?><DescribeRegionsResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">'
    b"<requestId>1</requestId><regionInfo/></DescribeRegionsResponse>"
)
EC2_THROTTLED: Final = (
    b'<?xml version="1.0" encoding="UTF-8"?><Response><Errors><Error><Code>RequestLimitExceeded</Code>'
    b"<Message>Request limit exceeded.</Message></Error></Errors><RequestID>1</RequestID></Response>"
)
ARM_OK: Final = b'{"value":[]}'
ARM_THROTTLED: Final = b'{"error":{"code":"TooManyRequests","message":"Please try again after 1 second."}}'
KEY: Final = re.compile(rb"Credential=([^/]+)/")
ACTION: Final = re.compile(rb"Action=(\w+)")
LENGTH: Final = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)


class Bucket:
    """Tokens of one quota, and what became of those who asked."""

    __slots__ = ("accepted", "at", "burst", "level", "refill", "throttled")

    def __init__(self, burst: float, refill: float, now: float) -> None:
        self.burst = self.level = burst
        self.refill = refill
        self.at = now
        self.accepted = self.throttled = 0

    def accrue(self, now: float) -> None:
        """Fill up for the time that has passed."""
        self.level = min(self.burst, self.level + (now - self.at) * self.refill)
        self.at = now

    def take(self, now: float) -> bool:
        """Take a token, if there is one."""
        self.accrue(now)
        if self.level < 1.0:
            self.throttled += 1
            return False
        self.level -= 1.0
        self.accepted += 1
        return True


class Provider:
    """All buckets; those that the benchmark asks for come into being at their first call."""

    def __init__(self) -> None:
        self.burst, self.refill, self.latency = 100.0, 20.0, 0.05
        self.buckets: dict[bytes, Bucket] = {}

    def answer(self, head: bytes, body: bytes, now: float) -> tuple[bytes, float]:
        """A response, and after how many seconds it leaves."""
        method, target, _ = head.split(b" ", 2)
        if target.startswith(b"/_"):
            return self._control(target.decode(), now), 0.0
        if method == b"GET":
            return self._resource_manager(target, now), self.latency
        key, action = KEY.search(head), ACTION.search(body)
        name = b"%b:%b" % (key.group(1) if key else b"", action.group(1) if action else b"")
        if self._bucket(name, now).take(now):
            return response(b"200 OK", b"text/xml", EC2_OK), self.latency
        return response(b"503 Service Unavailable", b"text/xml", EC2_THROTTLED), self.latency

    def _resource_manager(self, target: bytes, now: float) -> bytes:
        bucket = self._bucket(target.split(b"/")[2], now)
        taken = bucket.take(now)
        left = b"x-ms-ratelimit-remaining-subscription-reads: %d\r\n" % math.floor(bucket.level)
        if taken:
            return response(b"200 OK", b"application/json", ARM_OK, left)
        return response(b"429 Too Many Requests", b"application/json", ARM_THROTTLED, left + b"Retry-After: 1\r\n")

    def _bucket(self, name: bytes, now: float) -> Bucket:
        bucket = self.buckets.get(name)
        if bucket is None:
            bucket = self.buckets[name] = Bucket(self.burst, self.refill, now)
        return bucket

    def _control(self, target: str, now: float) -> bytes:
        url = urlsplit(target)
        if url.path == "/_reset":
            given = {name: float(values[0]) for name, values in parse_qs(url.query).items()}
            self.burst, self.refill, self.latency = given["burst"], given["refill"], given["latency"]
            self.buckets.clear()
        elif url.path == "/_refill":
            factor = float(parse_qs(url.query)["factor"][0])
            for bucket in self.buckets.values():
                bucket.accrue(now)
                bucket.refill *= factor
        counts = {
            "accepted": sum(bucket.accepted for bucket in self.buckets.values()),
            "throttled": sum(bucket.throttled for bucket in self.buckets.values()),
        }
        return response(b"200 OK", b"application/json", json.dumps(counts).encode())


def response(status: bytes, kind: bytes, body: bytes, more: bytes = b"") -> bytes:
    return b"HTTP/1.1 %b\r\nContent-Type: %b\r\nContent-Length: %d\r\n%b\r\n%b" % (status, kind, len(body), more, body)


class Connection(asyncio.Protocol):
    """One client's connection; requests are answered in their order, whatever pipelining there is."""

    def __init__(self, provider: Provider) -> None:
        self._provider = provider
        self._received = b""
        self._loop = asyncio.get_running_loop()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the way back."""
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - narrows the type
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer each request that is complete."""
        self._received += data
        while (end := self._received.find(b"\r\n\r\n")) >= 0:
            head = self._received[:end]
            found = LENGTH.search(head)
            length = int(found.group(1)) if found else 0
            if len(self._received) < end + 4 + length:
                return
            body = self._received[end + 4 : end + 4 + length]
            self._received = self._received[end + 4 + length :]
            answer, seconds = self._provider.answer(head, body, self._loop.time())
            self._loop.call_later(seconds, self._transport.write, answer)


async def serve() -> None:
    loop, provider = asyncio.get_running_loop(), Provider()
    server = await loop.create_server(lambda: Connection(provider), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)  # ends with whoever started it


if __name__ == "__main__":
    asyncio.run(serve())
