"""The command `facestream` as a user types it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from runtime.settings import Settings, environment
from tests.support.processes import PATIENCE, ROOT


class Command:
    """`facestream`, with its data in a folder of the test's."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    @contextmanager
    def start(self, *args: str | Path) -> Iterator[subprocess.Popen[str]]:
        """The running command; killed at the end if it still runs."""
        process = subprocess.Popen(
            [sys.executable, "-m", "control.cli.main", *map(str, args)],
            cwd=ROOT,
            env=environment(self._settings, os.environ),
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

    def __call__(self, *args: str | Path) -> tuple[int, str, str]:
        """(exit code, standard output, last line of standard error)"""
        with self.start(*args) as process:
            out, err = process.communicate(timeout=PATIENCE)
        return process.returncode, out, (err.strip().splitlines() or [""])[-1]
