"""A service to be run as a process of its own by tests of the service loop.

    python -m tests.support.services FILE [fail|stubborn|broker FOLDER]

It appends what happens to it to FILE.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from runtime import logs
from runtime.broker.embedded import EmbeddedBroker
from runtime.service import run
from runtime.settings import load


class Recorder:
    """Writes down each call but `step`, which works a little."""

    def __init__(self, path: Path, mode: str) -> None:
        self._path = path
        self._mode = mode
        self._steps = 0

    def _write(self, line: str) -> None:
        with self._path.open("a") as file:
            file.write(line + "\n")

    def start(self) -> None:
        self._write("start")

    def step(self, timeout: float) -> None:
        if self._steps == 0:
            self._write("step")
        self._steps += 1
        if self._mode == "fail":
            raise RuntimeError("the frame is square")
        time.sleep(min(timeout, 0.02))

    def drain(self, deadline: float) -> None:
        self._write("drain")
        while self._mode == "stubborn" and time.monotonic() < deadline:
            time.sleep(0.02)
        self._write("drained")

    def close(self) -> None:
        self._write("close")


def main(path: str, mode: str = "", folder: str = "") -> int:
    settings = load()
    logs.configure(settings.log)
    service = Recorder(Path(path), mode)
    if mode != "broker":
        return run(service, settings)
    with EmbeddedBroker(Path(folder), settings):
        return run(service, settings)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
