"""Files that are written under a program and read after it, whatever it does meanwhile."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from typing import BinaryIO, Final

__all__ = ["AppendedFile", "is_whole", "open_regular"]

_FIRST_FREE: Final = 3  # those below are the program's standard streams, also where it has closed them


class AppendedFile:
    """A file that only grows, line by line. Where a line could not be written, the one before it has lost its end.

    That needs no room on the disk. Its descriptor is kept, for it serves another user too, and a process that can have no
    other. Not thread-safe.

    Args:
        path: of a file that is not there yet.

    Raises:
        OSError: it can't be made.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._open(os.O_CREAT | os.O_EXCL)
        with suppress(OSError):
            self.append(b"")

    def append(self, line: bytes) -> None:
        """Write a line, all of it or nothing. Raises OSError."""
        if _identity(self._descriptor) != self._identity:  # the program has closed what it did not know
            self._open()
        left, written = b"\n%s\n" % line, 0
        try:
            while left:
                step = os.write(self._descriptor, left)
                left, written = left[step:], written + step
        except OSError:
            self._cut(written)
            raise

    def close(self) -> None:
        """In this process."""
        if _identity(self._descriptor) == self._identity:
            os.close(self._descriptor)

    def _cut(self, written: int) -> None:
        """Take back what was written of a line, and the end of the one before, unless that was done already."""
        size = os.fstat(self._descriptor).st_size - written
        if size and os.pread(self._descriptor, 1, size - 1) == b"\n":
            size -= 1
        os.ftruncate(self._descriptor, size)

    def _open(self, flags: int = 0) -> None:
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | flags, 0o600)
        if self._descriptor < _FIRST_FREE:
            self._descriptor = _moved(self._descriptor)
        self._identity = _identity(self._descriptor)


def _moved(descriptor: int) -> int:
    from fcntl import F_DUPFD_CLOEXEC, fcntl

    try:
        return fcntl(descriptor, F_DUPFD_CLOEXEC, _FIRST_FREE)
    finally:
        os.close(descriptor)


def _identity(descriptor: int) -> tuple[int, int] | None:
    """Of what it leads to by now."""
    try:
        found = os.fstat(descriptor)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def is_whole(last: bytes) -> bool:
    """Whether all was written into an AppendedFile whose last line this is."""
    return last.endswith(b"\n")


def open_regular(path: str) -> BinaryIO:
    """Open a file to be read that somebody else may have put there: nothing that lasts for ever, and no link to another.

    Raises:
        OSError: there is no such file.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(f"{path}: not a regular file")
    return open(descriptor, "rb")  # noqa: PTH123 - no path
