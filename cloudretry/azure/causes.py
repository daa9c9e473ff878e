"""What an azure-core exception came from: the only walk through a chain of causes."""

from __future__ import annotations

from collections.abc import Iterator

__all__ = ["causes_of"]


def causes_of(error: BaseException) -> Iterator[BaseException]:
    """The error itself, then whatever it came from.

    azure-core keeps the cause in `inner_exception`, urllib3 in `reason` or among the arguments. `__context__` is not
    followed: it also names what the program was handling when it made the call. urllib3's NewConnectionError alone, which
    older versions raise while they handle the socket's own error, can have no other.
    """
    seen: list[BaseException] = []
    waiting: list[object] = [error]
    while waiting:
        current = waiting.pop()
        if not isinstance(current, BaseException) or any(current is known for known in seen):
            continue
        seen.append(current)
        yield current
        waiting += [
            current.__cause__,
            current.__context__ if type(current).__name__ == "NewConnectionError" else None,
            getattr(current, "inner_exception", None),
            getattr(current, "reason", None),
            *current.args,
        ]
