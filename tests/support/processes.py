"""Run a module in a process of its own and wait for what it does."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
PATIENCE = 240.0
"""Seconds after which a test believes that nothing will come any more: machines stand still for a minute and
more where disks are shared."""


@contextmanager
def module_process(module: str, *args: str | Path) -> Iterator[subprocess.Popen[str]]:
    """`python -m module args` with pipes for its output; killed at the end if it still runs."""
    process = subprocess.Popen(
        [sys.executable, "-m", module, *map(str, args)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()


def eventually(what: str, condition: Callable[[], bool], seconds: float = PATIENCE) -> None:
    """Wait until `condition` holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not seen within {seconds:g} s: {what}"
        time.sleep(0.02)
