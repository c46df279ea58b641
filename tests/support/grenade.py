"""A swapper with an engine that goes off: `python -m tests.support.grenade`, settings from the environment.

What happens is written on the frame, in its first sample, or asked for by the job's options.
"""

from __future__ import annotations

import ctypes
import os
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from runtime.settings import Settings, environment
from swapper.engines import registry
from swapper.engines.base import Engine, Frame, FrameSwap, SourceFace, Work
from tests.support.processes import ROOT

SEGFAULT, RAISE, HANG = 13, 14, 15
PATIENCE_ENDS = threading.Event()
"""Set by a test in whose process an engine hangs, to let it go."""
SECRETS = "store said: https://me:hunter2@host/x?X-Amz-Signature=abcdef password='hunter2'"


class Grenade(Engine):
    """Options: `hold`: newest frames that are held back; `ms`: time for each call; `at`: frame of the input
    that goes off, `how`, until a file `unless` exists; `trace`: file that gets a line for each call."""

    name = "grenade"
    stateful = True
    context_frames = 0

    def __init__(self, models: Path) -> None: ...

    @property
    def model_id(self) -> str:
        return "grenade"

    def warm(self) -> None: ...

    def prepare(self, pictures: Sequence[bytes], face: int | None = None) -> SourceFace:
        return SourceFace(self.name)

    def open(self, face: SourceFace, options: Mapping[str, Any]) -> tuple[Mapping[str, Any], list[Frame]]:
        return options, []

    def swap(self, work: Sequence[Work]) -> list[list[FrameSwap]]:
        return [self._one(*one.state, one.frames, one.last) for one in work]

    def _one(
        self, options: Mapping[str, Any], held: list[Frame], frames: Sequence[Frame], last: bool
    ) -> list[FrameSwap]:
        if trace := options.get("trace"):
            with Path(trace).open("a") as file:
                file.write(f"{os.getpid()} {[f.info.seq for f in frames]}\n")
        time.sleep(options.get("ms", 0) / 1e3 if frames else 0)
        for frame in frames:
            _go_off(int(frame.planes[0][0, 0]))
            if frame.ordinal == options.get("at") and not Path(options.get("unless", "none")).exists():
                _go_off(options["how"])
        held.extend(frames)
        keep = 0 if last else options.get("hold", 0)
        out = held[: max(len(held) - keep, 0)]
        del held[: len(out)]
        return [FrameSwap(frame.info.seq) for frame in out]


def _go_off(how: int) -> None:
    if how == SEGFAULT:
        ctypes.string_at(0)
    if how == RAISE:
        raise RuntimeError(SECRETS)
    if how == HANG:
        PATIENCE_ENDS.wait(600)


@dataclass
class Crew:
    """Worker processes that are started again when they die, as a supervisor does."""

    settings: Settings
    log: Path
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)
    deaths: list[int] = field(default_factory=list)
    """Exit codes."""

    def start(self, count: int) -> None:
        self.workers += [self._launch() for _ in range(count)]

    def check(self) -> None:
        for number, worker in enumerate(self.workers):
            if (code := worker.poll()) is not None:
                self.deaths.append(code)
                self.workers[number] = self._launch()

    def stop(self) -> None:
        for worker in self.workers:
            worker.terminate()
        for worker in self.workers:
            try:
                worker.wait(20)
            except subprocess.TimeoutExpired:
                worker.kill()
                worker.wait()
        self.workers.clear()

    def _launch(self) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as out:
            return subprocess.Popen(
                [sys.executable, "-m", "tests.support.grenade"],
                cwd=ROOT,
                stdout=out,
                stderr=out,
                env=environment(self.settings, os.environ),
            )


@contextmanager
def crew(settings: Settings, count: int = 1) -> Iterator[Crew]:
    """So many workers, each started again when it dies."""
    swapper = settings.swapper.model_copy(update={"engines": ("grenade",)})
    settings.data.mkdir(parents=True, exist_ok=True)
    workers = Crew(settings.model_copy(update={"swapper": swapper}), settings.data / "grenade.log")
    workers.start(count)
    try:
        yield workers
    finally:
        workers.stop()


def main() -> None:
    from control.cli.main import main as facestream

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    register()
    facestream(["worker", "swapper"])


def register() -> None:
    """Make the engine known to this process."""
    known = dict(registry.ENGINES) | {"grenade": ("tests.support.grenade", "Grenade")}
    registry.ENGINES = MappingProxyType(known)  # type: ignore[misc]


if __name__ == "__main__":
    main()
