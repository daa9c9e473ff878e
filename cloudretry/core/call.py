"""What is being called. A Call is made once for each operation of a client and shared by all its invocations."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Call"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One operation as the SDK sees it. Names are the SDK's event names: service `ec2`, operation `DescribeInstances`.

    `replayable` says that the request may go out again even if the server has perhaps acted on it (core/replayable.py).
    """

    provider: str
    service: str
    operation: str
    region: str | None = None
    account: str | None = None
    host: str | None = None
    replayable: bool = False

    def __str__(self) -> str:
        """`ec2:DescribeInstances@111122223333/eu-west-1`, the spelling that `config show --for` takes."""
        return f"{self.service}:{self.operation}@{self.account or '-'}/{self.region or '-'}"
