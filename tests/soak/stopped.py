"""All services at steady work; then the swappers stop for a while, with jobs queueing behind them."""

from __future__ import annotations

import itertools
import signal
import time
from pathlib import Path

import psutil

from control.watch import Watcher
from runtime.settings import MIB, Settings
from runtime.tables import read_table
from schemas.job import JobState, Lane
from schemas.segments import SegmentRecord, SegmentState
from tests.soak.resident import Resident
from tests.support.cluster import Cluster, running_cluster, times

QUEUED = 6
"""Jobs in the queue."""


def run(settings: Settings, clip: Path, face: Path, steady: float, still: float) -> Resident:
    """Both phases in seconds. What is in flight must stay below its limits, and the frames topic must not
    grow beyond them while nobody swaps; then all jobs must be done. Returns the memory that it took."""
    with running_cluster(settings) as cluster:
        supervisor = cluster.here.supervisor
        assert supervisor is not None
        with Resident(supervisor.pids) as resident:
            work = _Work(cluster, clip, face)
            end = time.monotonic() + steady
            while time.monotonic() < end:
                work.keep_busy()
            swapper = psutil.Process(supervisor.pids()["swapper-0"])
            before = work.topic_bytes()
            swapper.send_signal(signal.SIGSTOP)
            try:
                end = time.monotonic() + still
                while time.monotonic() < end:
                    work.keep_busy()
                    segments, size = work.in_flight()
                    assert segments <= settings.limits.segments_in_flight
                    assert size <= settings.limits.bytes_in_flight
                    assert work.topic_bytes() - before <= settings.limits.bytes_in_flight + 16 * MIB
            finally:
                swapper.send_signal(signal.SIGCONT)
            done = work.finish()
    flight = f"{segments} segments of {size // MIB} MiB in flight"
    print(f"{done} jobs; {flight} while swappers stood for {still:g} s")
    return resident


class _Work:
    """Keeps jobs queued, and looks after them."""

    def __init__(self, cluster: Cluster, clip: Path, face: Path) -> None:
        self._cluster, self._clip, self._face = cluster, clip, face
        self._numbers = itertools.count()
        self._watchers: list[Watcher] = []
        self._outputs: list[Path] = []
        self._model = cluster.spec(clip, clip.with_name("model.mp4"), face)

    def keep_busy(self) -> None:
        """Have so many jobs in the queue, then wait a little."""
        self._cluster.here.check()
        running = sum(not watcher.poll(0).state.ended for watcher in self._watchers)
        for _ in range(QUEUED - running):
            self._submit()
        time.sleep(1)

    def in_flight(self) -> tuple[int, int]:
        """(segments, bytes) that are released, by the topic."""
        settings = self._cluster.settings
        found = read_table(settings, settings.topic_set.segments, "test").values()
        flying = [r for r in found if isinstance(r, SegmentRecord) and r.state is SegmentState.RELEASED]
        return len(flying), sum(record.bytes for record in flying)

    def topic_bytes(self) -> int:
        """Size of the frames topic on the broker's disk."""
        settings = self._cluster.settings
        folders = settings.broker_dir.rglob(f"{settings.topic_set.frames(Lane.BATCH)}-*")
        return sum(file.stat().st_size for folder in folders for file in folder.glob("*.log"))

    def finish(self) -> int:
        """Wait for the end of all jobs, which must be right; returns how many there were."""
        statuses = self._cluster.wait(*self._watchers, seconds=600)
        assert {status.state for status in statuses} == {JobState.DONE}
        wanted = times(self._clip)
        assert all(times(output) == wanted for output in self._outputs)
        return len(statuses)

    def _submit(self) -> None:
        output = self._cluster.settings.data / f"out{next(self._numbers)}.mp4"
        self._outputs.append(output)
        name = f"{self._model.job}-{len(self._outputs)}"
        spec = self._model.model_copy(update={"job": name, "output": str(output)})
        self._watchers += self._cluster.submit(spec)
