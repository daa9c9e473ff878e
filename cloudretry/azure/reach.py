"""Hosts that don't answer, as an azure-core client sees them: what a connection may take, and when not to try one at all."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from azure.core.exceptions import ServiceRequestError, ServiceResponseError

from cloudretry.azure.causes import causes_of
from cloudretry.runtime import reach
from cloudretry.runtime.reach import REACH, is_held_unreachable, marked, missed, patience_shown

if TYPE_CHECKING:
    from azure.core.pipeline import PipelineContext

__all__ = ["note_missed", "refuse_unreachable", "shorten_connect_timeout"]

_SDKS_OWN: Final = 300
"""Seconds: what azure-core gives one connection, so that a blocked host costs many minutes."""
_TIMED_OUT: Final = frozenset({"ConnectTimeout", "ConnectTimeoutError", "ConnectionTimeoutError"})
"""What requests, urllib3 and aiohttp call it; older azure-core has no class of its own for it."""
_HOST_IN_TEXT: Final = re.compile(r"timeout to host (\S+)")


def shorten_connect_timeout(context: PipelineContext) -> None:
    """Give this request's connections our own time where nobody set another; the transport, which may be shared, stays."""
    options = context.options
    if "connection_timeout" not in options and _timeout_of_transport(context) == _SDKS_OWN:
        options["connection_timeout"] = reach.CONNECT_TIMEOUT


def refuse_unreachable(host: str, url: str, context: PipelineContext) -> None:
    """Raise the SDK's own ServiceRequestError at once for a host that is known not to answer."""
    if REACH.is_doubted(host) and is_held_unreachable(host, _patience(context)) and _is_direct(url, context):
        raise marked(ServiceRequestError(f"not tried: {host} could not be reached before"))


def note_missed(error: BaseException, host: str, url: str, context: PipelineContext) -> None:
    """Judge a connection that failed. What failed may be another one: a credential's, beneath the retry policy."""
    if not isinstance(error, (ServiceRequestError, ServiceResponseError)) or urlsplit(url).hostname not in _hosts_in(error):
        return
    causes = list(causes_of(error))
    timed_out = any(type(cause).__name__ in _TIMED_OUT for cause in causes)
    patience = patience_shown(host, causes, _patience(context), timed_out=timed_out)
    if patience is not None and _is_direct(url, context):
        missed(error, host, patience)


def _patience(context: PipelineContext) -> float:
    given = context.options.get("connection_timeout", _timeout_of_transport(context))
    return float(given) if isinstance(given, (int, float)) else 0.0


def _timeout_of_transport(context: PipelineContext) -> Any:
    return getattr(getattr(context.transport, "connection_config", None), "timeout", None)


def _hosts_in(error: BaseException) -> Iterator[str | None]:
    """Where the connections went that are named as causes: by an attribute of theirs (urllib3, aiohttp) or in a text."""
    for cause in causes_of(error):
        named = _HOST_IN_TEXT.search(str(cause))
        if named:
            yield urlsplit(named[1]).hostname
        for thing in (cause, *cause.args, *vars(cause).values()):
            host = getattr(thing, "host", None)
            if isinstance(host, str):
                yield host.lower()


def _is_direct(url: str, context: PipelineContext) -> bool:
    """Whether no proxy is in between: what one way can't reach, another may."""
    transport, parts = context.transport, urlsplit(url)
    if context.options.get("proxies") or getattr(getattr(transport, "session", None), "proxies", None):
        return False
    if not getattr(transport, "_use_env_settings", True):
        return True
    known = getproxies()
    return not (known.get(parts.scheme) or known.get("all")) or bool(proxy_bypass(parts.hostname or ""))
