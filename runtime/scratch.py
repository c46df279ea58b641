"""A folder for files that live as long as this process, and the clearing away of dead ones."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
from pathlib import Path


def open_scratch(base: Path, role: str) -> Path:
    """Make a new folder of this process under `base`; those of dead processes of its role on this host are
    removed."""
    prefix = f"{role}-{socket.gethostname()}-"
    for folder in base.glob(f"{prefix}*"):
        number = folder.name.removeprefix(prefix).split("-")[0]
        if number.isdigit() and not _alive(int(number)):
            shutil.rmtree(folder, ignore_errors=True)
    base.mkdir(parents=True, exist_ok=True)
    return Path(tempfile.mkdtemp(prefix=f"{prefix}{os.getpid()}-", dir=base))


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
