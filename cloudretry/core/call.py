"""What is being called. A Call is made once for each operation of a client and shared by all its invocations."""

from __future__ import annotations

from dataclasses import dataclass

from cloudretry.core.history import printable

__all__ = ["Call", "spelled"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One operation as the SDK sees it. Names are the SDK's event names: service `ec2`, operation `DescribeInstances`.

    `replayable` says that the request may go out again even if the server has perhaps acted on it (core/replayable.py).
    `principal` names who calls, where no account is known: for people, and for keeping apart what is counted. No override
    matches by it and no quota has it, because it may change where the account stays; it is never a secret.
    """

    provider: str
    service: str
    operation: str
    region: str | None = None
    account: str | None = None
    host: str | None = None
    replayable: bool = False
    principal: str | None = None

    def __str__(self) -> str:
        """`ec2:DescribeInstances@111122223333/eu-west-1`, the spelling that `config show --for` takes."""
        return spelled(self.service, self.operation, self.account or self.principal, self.region)


def spelled(service: str, operation: str, account: str | None, region: str | None) -> str:
    """An operation in one word, or in two where it is a method and a type path; `-` for what is not known.

    Parts may come from a server's link, so each is made a printable word.
    """
    method, space, path = operation.partition(" ")
    name = f"{printable(method)} {printable(path)}" if space else printable(method)
    return f"{printable(service)}:{name}@{printable(account)}/{printable(region)}"
