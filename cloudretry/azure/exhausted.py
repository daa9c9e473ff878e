"""What stands for an answer where every member of a pool was tried in vain (SPEC C1): status 500, as each kind of response."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any, Final

from azure.core.pipeline.transport import AsyncHttpResponse, HttpResponse
from azure.core.rest._http_response_impl import HttpResponseImpl
from azure.core.rest._http_response_impl_async import AsyncHttpResponseImpl

__all__ = ["exhausted"]

_STATUS: Final = 500
_CODE: Final = "EgressPoolExhausted"
_TYPE: Final = "application/json"


def exhausted(request: Any, tried: tuple[str, ...], *, is_async: bool) -> Any:
    """A response to this request, as the SDK's own transport would make one."""
    message = f"no member of the egress pool could make a connection; tried: {', '.join(tried)}"
    body = json.dumps({"error": {"code": _CODE, "message": message}}).encode()
    if not hasattr(request, "content"):  # the classes before azure.core.rest
        return (_AsyncLegacy if is_async else _Legacy)(request, body)
    kind = AsyncHttpResponseImpl if is_async else HttpResponseImpl
    response = kind(
        request=request,
        internal_response=(_AsyncNothing if is_async else _Nothing)(),
        status_code=_STATUS,
        reason=_CODE,
        content_type=_TYPE,
        headers={"Content-Type": _TYPE},
        stream_download_generator=None,
    )
    response._content = body  # noqa: SLF001 - read already
    return response


class _Nothing:
    def close(self) -> None:
        """Nothing is open."""


class _AsyncNothing:
    async def close(self) -> None:
        """Nothing is open."""


class _Legacy(HttpResponse):
    def __init__(self, request: Any, body: bytes) -> None:
        super().__init__(request, None)
        self.status_code, self.reason, self.content_type = _STATUS, _CODE, _TYPE
        self.headers = {"Content-Type": _TYPE}
        self._told = body

    def body(self) -> bytes:
        return self._told

    def stream_download(self, pipeline: Any, **_: Any) -> Iterator[bytes]:  # noqa: ARG002 - azure-core's signature
        return iter((self._told,))


class _AsyncLegacy(AsyncHttpResponse):
    def __init__(self, request: Any, body: bytes) -> None:
        super().__init__(request, None)
        self.status_code, self.reason, self.content_type = _STATUS, _CODE, _TYPE
        self.headers = {"Content-Type": _TYPE}
        self._told = body

    def body(self) -> bytes:
        return self._told

    async def load_body(self) -> None:
        """It is there."""

    async def stream_download(self, pipeline: Any, **_: Any) -> AsyncIterator[bytes]:  # noqa: ARG002 - as above
        yield self._told
