"""Credentials that have a token already, in the shape that azure-core asks for; azure-core itself is not needed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["AsyncGivenToken", "GivenToken"]


class _Token(NamedTuple):
    """As azure.core.credentials.AccessToken."""

    token: str
    expires_on: int


@dataclass(frozen=True, slots=True)
class GivenToken:
    """A TokenCredential."""

    token: str = field(repr=False)
    expires_on: int

    def get_token(self, *_scopes: str, **_options: Any) -> Any:
        """An AccessToken, whatever it is for."""
        return _Token(self.token, self.expires_on)


@dataclass(frozen=True, slots=True)
class AsyncGivenToken:
    """An AsyncTokenCredential."""

    token: str = field(repr=False)
    expires_on: int

    async def get_token(self, *_scopes: str, **_options: Any) -> Any:
        """An AccessToken, whatever it is for."""
        return _Token(self.token, self.expires_on)

    async def close(self) -> None:
        """There is nothing to close."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass
