"""Resident memory of processes, sampled while something goes on."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Self

import numpy as np
import psutil

from runtime.settings import MIB

SECONDS = 0.5


class Resident:
    """Samples the processes that `pids` names, each half second, from `with` to its end. One that is gone, or
    was started again, begins a new line of samples under the same name."""

    def __init__(self, pids: Callable[[], Mapping[str, int]]) -> None:
        self._pids = pids
        self.samples: dict[str, list[tuple[float, int]]] = {}
        """(seconds since the beginning, bytes) by the name of the process."""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def peak(self, name: str) -> int:
        """Bytes."""
        return max(size for _, size in self.samples[name])

    def slope(self, name: str, part: float = 0.5) -> float:
        """How fast it grew over the last `part` of the time: bytes a minute, by least squares."""
        samples = np.array(self.samples[name])
        late = samples[samples[:, 0] >= samples[-1, 0] * (1 - part)]
        return float(np.polyfit(late[:, 0], late[:, 1], 1)[0]) * 60

    def lines(self) -> list[str]:
        """One line of text for each process."""
        return [
            f"{name}: peak {self.peak(name) // MIB} MiB, last {samples[-1][1] // MIB} MiB, "
            f"{self.slope(name) / MIB:+.1f} MiB a minute in the second half of {samples[-1][0]:.0f} s"
            for name, samples in sorted(self.samples.items())
        ]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        print(*self.lines(), sep="\n", flush=True)

    def _watch(self) -> None:
        begin = time.monotonic()
        while not self._stop.wait(SECONDS):
            for name, pid in self._pids().items():
                try:
                    size = psutil.Process(pid).memory_info().rss
                except psutil.NoSuchProcess:
                    continue
                self.samples.setdefault(name, []).append((time.monotonic() - begin, size))
