"""What an SDK exception came from: the only walk through a chain of causes."""

from __future__ import annotations

from collections.abc import Iterator

__all__ = ["causes_of"]


def causes_of(error: BaseException) -> Iterator[BaseException]:
    """The error itself, then whatever it came from.

    botocore keeps the cause in `kwargs["error"]`, urllib3 in `reason` or among the arguments. `__context__` is left out: it
    may be an error that the program was just handling when it made this call.
    """
    seen: list[BaseException] = []
    waiting: list[BaseException | None] = [error]
    while waiting:
        current = waiting.pop()
        if current is None or any(current is known for known in seen):
            continue
        seen.append(current)
        yield current
        kwargs = getattr(current, "kwargs", None)
        linked = [current.__cause__, getattr(current, "reason", None), *current.args]
        linked.append(kwargs.get("error") if isinstance(kwargs, dict) else None)
        waiting.extend(item for item in linked if isinstance(item, BaseException))
