"""Files that survive a power cut: sync the bytes, then the folders that name them."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path


def sync_file(path: Path) -> None:
    """Force a file's bytes to the disk."""
    _fsync(path, os.O_RDONLY)


def sync_folders(path: Path, root: Path) -> None:
    """Force to the disk the entries of all folders from the one that holds `path` up to `root`."""
    for folder in path.parents:
        _fsync(folder, os.O_RDONLY | os.O_DIRECTORY)
        if folder == root:
            return


def move(source: Path, target: Path, root: Path) -> None:
    """Move a file to its final name below `root`, durably: it is there in full, or not at all."""
    target.parent.mkdir(parents=True, exist_ok=True)
    sync_file(source)
    try:
        os.replace(source, target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        _copy_over(source, target)
    sync_folders(target, root)


def _copy_over(source: Path, target: Path) -> None:
    """The move between file systems: by way of a temporary name beside the target."""
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        shutil.copyfile(source, partial)
        sync_file(partial)
        os.replace(partial, target)
    finally:
        partial.unlink(missing_ok=True)
    source.unlink()


def _fsync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
