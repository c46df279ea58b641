"""One owner for a data folder: a lock file that the kernel releases however its owner ends."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from schemas.errors import BrokerStartError

LOCK_FILE = "lock"


class FolderLock:
    """An exclusive lock on a folder, held through an open file.

    The file holds the owner's pid for people and for the error message. Whether the lock is held is
    the kernel's word (`flock`), not the pid's: a file left by a dead process is simply taken over.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / LOCK_FILE
        self._file: int | None = None

    def acquire(self) -> None:
        """Take the lock. Raises BrokerStartError naming the owner if somebody holds it."""
        file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            owner = os.read(file, 32).decode(errors="replace").strip() or "unknown"
            os.close(file)
            raise BrokerStartError(
                f"the broker in {self._path.parent} is in use by process {owner}"
            ) from None
        os.ftruncate(file, 0)
        os.pwrite(file, f"{os.getpid()}\n".encode(), 0)
        self._file = file

    def release(self) -> None:
        """Give the lock back; nothing happens if it is not held."""
        if self._file is not None:
            os.close(self._file)  # closing unlocks; the file stays, removing it would race
            self._file = None
