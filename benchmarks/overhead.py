"""What cloudretry costs where nothing is throttled: the sum of its pieces in one call, and a paired run against plain boto3.

    python benchmarks/overhead.py

Prints a Markdown table. The server is a process of its own on loopback; calls of both kinds alternate, so that whatever
else the machine does meets both alike.
"""

from __future__ import annotations

import functools
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import boto3
import botocore

import cloudretry
from cloudretry.aws.transport import Transport

PIECES_ROUNDS = 20_000
PAIRED_ROUNDS = 3_000

SERVER = """
import http.server, sys
BODY = (b"<GetCallerIdentityResponse><GetCallerIdentityResult><Account>1</Account></GetCallerIdentityResult>"
        b"</GetCallerIdentityResponse>")
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response_only(200)
        self.send_header("Content-Length", str(len(BODY)))
        self.end_headers()
        self.wfile.write(BODY)
        self.wfile.flush()
    def log_message(self, *_): pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
"""


@contextmanager
def loopback_server() -> Iterator[str]:
    process = subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True)  # noqa: S603 - our own text
    try:
        assert process.stdout is not None  # noqa: S101 - narrows the type
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
    finally:
        process.terminate()
        process.wait()


def client(url: str) -> Any:
    session = boto3.Session("AKIAIOSFODNN7EXAMPLE", "fake", region_name="eu-west-1")
    return session.client("sts", endpoint_url=url)


def captured(hooked: Any) -> tuple[Any, dict[str, dict[str, Any]]]:
    """The arguments with which botocore calls our handlers in one real call."""
    seen: dict[str, dict[str, Any]] = {}

    def keep(_name: str, *, event_name: str, **kwargs: Any) -> None:
        del event_name
        seen[_name] = kwargs

    events = hooked.meta.events
    for name in ("before-parameter-build", "request-created", "before-send", "needs-retry", "after-call"):
        events.register_first(f"{name}.sts", functools.partial(keep, name))
    hooked.get_caller_identity()
    return vars(hooked)["_cloudretry"], seen


def microseconds(work: Callable[[], object], rounds: int) -> float:
    """Median of ten blocks, per round."""
    blocks = []
    for _ in range(10):
        start = time.perf_counter()
        for _ in range(rounds // 10):
            work()
        blocks.append((time.perf_counter() - start) / (rounds // 10) * 1e6)
    return statistics.median(blocks)


def pieces(hooked: Any) -> dict[str, float]:
    """What each step adds to the ones before it: a turn that is taken is used and judged, as in a call."""
    hook, seen = captured(hooked)
    request, (answer, _) = seen["before-send"]["request"], seen["needs-retry"]["response"]
    transport = Transport(SimpleNamespace(send=lambda _: answer), 5.0, own_proxies=False)
    context = seen["needs-retry"]["request_dict"]["context"]
    request_dict, parsed = seen["needs-retry"]["request_dict"], seen["after-call"]["parsed"]
    steps: dict[str, Callable[[], object]] = {
        "before-parameter-build: see for which page it asks": lambda: hook.before_parameter_build(
            **seen["before-parameter-build"]
        ),
        "around the request: put another call aside": lambda: hook.begun(request_dict),
        "request-created: begin the call, take a turn": lambda: hook.request_created(**seen["request-created"]),
        "transport: use the turn, check host and length": lambda: transport.send(request),
        "needs-retry: see the answer": lambda: hook.needs_retry(**seen["needs-retry"]),
        "around the request: count it": lambda: hook.answered(parsed, context),
    }

    def until(number: int) -> Callable[[], None]:
        chosen = list(steps.values())[:number]

        def work() -> None:
            for step in chosen:
                step()
            machine = context.pop("cloudretry", None)
            if machine is not None and number < len(steps):
                machine.place.leave()  # a turn that nobody has used

        return work

    sums = [microseconds(until(number), PIECES_ROUNDS) for number in range(len(steps) + 1)]
    return {name: after - before for name, before, after in zip(steps, sums, sums[1:], strict=False)}


def paired(plain: Any, hooked: Any) -> tuple[float, float]:
    """Medians of alternating calls, in microseconds."""
    times: dict[str, list[float]] = {"plain": [], "hooked": []}
    for warm in (plain, hooked):
        for _ in range(100):
            warm.get_caller_identity()
    for round_number in range(PAIRED_ROUNDS):
        pair = [("plain", plain), ("hooked", hooked)]
        for name, one in pair if round_number % 2 else reversed(pair):
            start = time.perf_counter()
            one.get_caller_identity()
            times[name].append((time.perf_counter() - start) * 1e6)
    return statistics.median(times["plain"]), statistics.median(times["hooked"])


def main() -> None:
    for name in [name for name in os.environ if name.startswith("AWS_") or name.upper().endswith("_PROXY")]:
        del os.environ[name]
    with loopback_server() as url:
        plain, hooked = client(url), client(url)
        cloudretry.attach(hooked, configuration={}, report=cloudretry.Report())
        parts = pieces(hooked)
        hooked = cloudretry.attach(client(url), configuration={}, report=cloudretry.Report())
        before, after = paired(plain, hooked)
    print(f"botocore {botocore.__version__}, CPython {platform.python_version()}, {os.cpu_count()} cores\n")
    print("| piece of an un-throttled call | µs |\n|---|---|")
    for name, value in parts.items():
        print(f"| {name} | {value:.1f} |")
    print(f"| **sum of our pieces** | **{sum(parts.values()):.1f}** |")
    print(f"| plain boto3 call, median of {PAIRED_ROUNDS} | {before:.0f} |")
    print(f"| the same under cloudretry, alternating | {after:.0f} |")


if __name__ == "__main__":
    main()
