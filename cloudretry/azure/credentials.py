"""Credentials as the command's clients get them: the user's own, with tokens that all of them share.

azure-core's policies keep a token for each client, and the sync one lets every thread of a cold client fetch its own. The
wrapper has the methods that the credential has and no others, because the SDK asks for them by name; whatever else it is
asked for, the credential answers. The credential itself stays as it is.
"""

from __future__ import annotations

import inspect
from functools import lru_cache, partial
from operator import getitem
from typing import TYPE_CHECKING, Any, Final, TypeVar

from cloudretry.azure.identity import fetched, fetched_async
from cloudretry.azure.tokens import Key, tokens_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from typing_extensions import Self

    from cloudretry.runtime.engine import Engine

__all__ = ["shared"]

T = TypeVar("T")

_KNOWN: Final = frozenset({"claims", "enable_cae", "tenant_id"})
"""Options that tell tokens apart. With any other one, such as a proof of possession, each call is its own."""


def shared(credential: T, engine: Engine) -> T:
    """The credential with shared tokens. What gives no tokens (a key, a signature, a string, None) is returned as it is.

    So is every credential where the SDK decides about retries. Wrappers of one credential share what they keep.
    """
    inner = credential._inner if isinstance(credential, _Shared) else credential  # noqa: SLF001 - our own
    azure = engine.settings.providers["azure"]
    if not _has(inner, "get_token", "get_token_info") or azure.mode == "observe" or azure.retry.strategy == "sdk":
        return inner
    parts = _AIO if _is_async(inner) else _SYNC
    made: T = _kind(tuple(part for name, part in parts.items() if _has(inner, name)))(inner, engine)
    return made


def _has(thing: object, *names: str) -> bool:
    """Whether it has any of these methods. A class is none that gives tokens, but makes one."""
    where = type(thing)
    return not isinstance(thing, type) and any(
        callable(getattr(where if name.startswith("__") else thing, name, None)) for name in names
    )


def _is_async(credential: Any) -> bool:
    names = ("get_token_info", "get_token", "close")
    return any(inspect.iscoroutinefunction(getattr(credential, name, None)) for name in names)


class _Shared:
    def __init__(self, inner: Any, engine: Engine) -> None:
        self._inner = inner
        self._engine = engine
        self._tokens = tokens_of(inner)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # protocols of Python are asked of the wrapper itself
            raise AttributeError(name)
        return getattr(self._inner, name)

    def __repr__(self) -> str:
        return f"<{type(self._inner).__name__} with shared tokens>"

    def __reduce__(self) -> tuple[Any, ...]:
        """The user's credential: tokens and engine stay here."""
        return getitem, ((self._inner,), 0)


class _Sync(_Shared):
    def _get(self, method: str, scopes: tuple[str, ...], options: Mapping[str, Any], get: Callable[[], Any]) -> Any:
        def fetch(urgent: bool) -> Any:  # noqa: FBT001 - called by a seat
            return fetched(self._engine, self._inner, get, urgent=urgent)

        key = _key(method, scopes, options)
        if key is None:
            return fetch(True)
        claims = options.get("claims")
        if not claims:
            return self._tokens.seat(key).get(fetch)
        try:  # the token that is kept was refused
            token = self._tokens.seat((*key, claims)).get(fetch)
        finally:
            self._tokens.drop((*key, claims))
        return self._tokens.seat(key).keep(token)


class _Async(_Shared):
    async def _get(
        self, method: str, scopes: tuple[str, ...], options: Mapping[str, Any], get: Callable[[], Awaitable[Any]]
    ) -> Any:
        async def fetch(urgent: bool) -> Any:  # noqa: FBT001 - called by a seat
            return await fetched_async(self._engine, self._inner, get, urgent=urgent)

        key = _key(method, scopes, options)
        if key is None:
            return await fetch(True)
        claims = options.get("claims")
        if not claims:
            return await self._tokens.seat(key).get_async(fetch)
        try:  # the token that is kept was refused
            token = await self._tokens.seat((*key, claims)).get_async(fetch)
        finally:
            self._tokens.drop((*key, claims))
        return self._tokens.seat(key).keep(token)


def _key(method: str, scopes: tuple[str, ...], options: Mapping[str, Any]) -> Key | None:
    """What tells this kind of token from others; None: not to be kept. Claims are no part of it."""
    if not options:
        return (method, scopes, None, False)
    if not options.keys() <= _KNOWN:
        return None
    return (method, scopes, options.get("tenant_id") or None, bool(options.get("enable_cae")))


class _GetToken(_Sync):
    def get_token(self, *scopes: str, **options: Any) -> Any:
        return self._get("get_token", scopes, options, partial(self._inner.get_token, *scopes, **options))


class _GetTokenInfo(_Sync):
    def get_token_info(self, *scopes: str, options: Any = None) -> Any:
        get = partial(self._inner.get_token_info, *scopes, options=options)
        return self._get("get_token_info", scopes, options or {}, get)


class _Close(_Shared):
    def close(self) -> None:
        self._tokens.clear()
        self._inner.close()


class _Enter(_Shared):
    def __enter__(self) -> Self:
        self._inner.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._tokens.clear()
        self._inner.__exit__(*error)


class _AsyncGetToken(_Async):
    async def get_token(self, *scopes: str, **options: Any) -> Any:
        return await self._get("get_token", scopes, options, partial(self._inner.get_token, *scopes, **options))


class _AsyncGetTokenInfo(_Async):
    async def get_token_info(self, *scopes: str, options: Any = None) -> Any:
        get = partial(self._inner.get_token_info, *scopes, options=options)
        return await self._get("get_token_info", scopes, options or {}, get)


class _AsyncClose(_Shared):
    async def close(self) -> None:
        self._tokens.clear()
        await self._inner.close()


class _AsyncEnter(_Shared):
    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        self._tokens.clear()
        await self._inner.__aexit__(*error)


_SYNC: Final = {"get_token": _GetToken, "get_token_info": _GetTokenInfo, "close": _Close, "__enter__": _Enter}
_AIO: Final = {
    "get_token": _AsyncGetToken,
    "get_token_info": _AsyncGetTokenInfo,
    "close": _AsyncClose,
    "__aenter__": _AsyncEnter,
}


@lru_cache(maxsize=64)
def _kind(parts: tuple[type[_Shared], ...]) -> Any:
    """The class of wrappers with these methods: real ones, because the SDK's protocols look for them in the class."""
    return type("SharedCredential", parts, {})
