"""One service as a process to which chaos can be done: `python -m tests.chaos.child ROLE`.

It runs the product's own worker. Its environment names the block that arms its crash points, and what of
the product is to be broken on purpose.
"""

from __future__ import annotations

import os
import sys
from functools import wraps
from pathlib import Path
from typing import Any

from control.cli import main as cli
from control.cli import worker
from runtime.settings import load
from schemas.events import Role
from tests.chaos import broken, points, rebuilt
from tests.chaos.block import ENVIRONMENT, Block


def main(name: str) -> None:
    role, block = Role(name), Block(Path(os.environ[ENVIRONMENT]))
    points.skew_clock(block)
    broken.install(role, os.environ.get(broken.ENVIRONMENT, ""))
    points.install(role, load().swapper.group, points.Points(block))
    if role is Role.CONTROL:
        rebuilt.watch(Path(os.environ[ENVIRONMENT]).parent)
    original = worker.make

    def make(of: Role, settings: Any) -> Any:
        service = original(of, settings)
        _tell_busy(service, of, block)
        return service

    worker.make = make
    cli.main(["worker", name, "--until-eof"])


def _tell_busy(service: Any, role: Role, block: Block) -> None:
    step = service.step

    @wraps(step)
    def told(timeout: float) -> None:
        step(timeout)
        block.busy = _busy(service, role)

    service.step = told


def _busy(service: Any, role: Role) -> bool:
    match role:
        case Role.CONTROL:
            return bool(service._active)
        case Role.INGEST:
            return bool(service.busy)
        case Role.SWAPPER:
            return any(_reads(reader) for reader in service._readers)
        case Role.ASSEMBLER:
            return bool(service.streams[0])


def _reads(reader: Any) -> bool:
    """Whether a reader of either kind has work in its hands."""
    if hasattr(reader, "_tickets"):
        return bool(reader._tickets)
    return bool(reader._turnstile._inside or reader._turnstile._alone)


if __name__ == "__main__":
    main(sys.argv[1])
