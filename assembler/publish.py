"""Put a finished file in place: whole, durable, or not at all."""

from __future__ import annotations

import errno
import fcntl
import filecmp
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from runtime import durable
from schemas.errors import OutputError

LOCK_SECONDS = 60.0


def hidden_name(target: Path, owner: str) -> Path:
    """Where `owner` writes what becomes `target`."""
    name = f".{target.name}.{owner}.part"
    return target.with_name(name if len(os.fsencode(name)) <= 255 else f".{owner}.part")


@contextmanager
def published(target: Path, owner: str, overwrite: bool = True) -> Iterator[Path]:
    """A hidden name beside `target` to write to; renamed over it at the end, removed after an error.

    The name is the same for each try of `owner`, so a try that died leaves nothing behind once it is
    repeated; a lock keeps two tries apart. Raises OutputError, in one line, for a target that cannot be
    written; with `overwrite` off also for one that exists with other content.
    """
    hidden = hidden_name(target, owner)
    try:
        if target.is_dir():
            raise OutputError(f"output {target} is a directory")
        if not target.parent.is_dir():
            raise OutputError(f"output folder {target.parent} does not exist")
        with _locked(hidden):
            try:
                yield hidden
                durable.sync_file(hidden)
                if not overwrite and target.exists() and not filecmp.cmp(hidden, target, shallow=False):
                    raise OutputError(f"output {target} exists")
                os.replace(hidden, target)
                durable.sync_folders(target, target.parent)
            finally:
                hidden.unlink(missing_ok=True)
    except OSError as error:
        reason = error.strerror or str(error).splitlines()[0]
        raise OutputError(f"cannot write output {target}: {reason}") from error


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the file at `path` against other processes; waits for its holder up to LOCK_SECONDS."""
    deadline = time.monotonic() + LOCK_SECONDS
    while True:
        with path.open("ab") as file:
            if _lock(file.fileno()) and _still_there(path, file.fileno()):
                yield
                return
        if time.monotonic() > deadline:
            raise OutputError(f"another process writes {path} for more than {LOCK_SECONDS:g} s")
        time.sleep(0.2)


def _lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        # File systems without locks (some network mounts) are written to without.
        return error.errno in (errno.ENOLCK, errno.ENOTSUP, errno.EINVAL)
    return True


def _still_there(path: Path, descriptor: int) -> bool:
    """Whether the locked file is the one of that name, not one that its holder has just renamed."""
    try:
        return os.stat(path).st_ino == os.fstat(descriptor).st_ino
    except FileNotFoundError:
        return False
