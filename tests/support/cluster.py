"""All services as processes on the test's broker, and jobs that run through them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import numpy.typing as npt

from control import admission, local
from control.watch import Status, Watcher
from runtime.settings import Settings
from runtime.store import Store
from schemas.job import JobSpec
from tests.support.processes import PATIENCE, eventually

Array = npt.NDArray[Any]


class Cluster:
    """Jobs on running services."""

    def __init__(self, here: local.Local) -> None:
        self.here = here
        self.settings: Settings = here.settings

    def spec(self, target: Path, output: Path, source: Path | None = None, **fields: Any) -> JobSpec:
        """A spec with engine `mesh` if there is a source picture, else `none`."""
        share = self.settings.swapper.group == "share"
        swap: dict[str, Any] = {"engine": "none"}
        plan: dict[str, Any] = {"segment_seconds": 1.0}
        if source is not None:
            engine = admission.open_for(self.settings, "mesh")
            face = admission.prepare(self.settings, engine, [source])
            assert face is not None
            swap = {"engine": "mesh", "face": admission.store_face(Store.of(self.settings), face)}
            plan["context_frames"] = 0 if share else engine.context_frames
        plan |= fields.pop("plan", {})
        swap |= fields.pop("swap", {})
        named = {"job": admission.job_id("test"), "input": str(target), "output": str(output)}
        return admission.make_spec(**named, plan=plan, swap=swap, **fields)

    def run(self, *specs: JobSpec, seconds: float = PATIENCE) -> list[Status]:
        """Submit the jobs at once and wait until all have ended."""
        return self.wait(*self.submit(*specs), seconds=seconds)

    def submit(self, *specs: JobSpec) -> list[Watcher]:
        """Submit the jobs at once; what comes back is for `wait`."""
        watchers = [Watcher(self.settings, spec.job) for spec in specs]
        for spec in specs:
            admission.submit(self.settings, spec)
        return watchers

    def wait(self, *watchers: Watcher, seconds: float = PATIENCE) -> list[Status]:
        """Wait until the jobs have ended."""
        for watcher in watchers:
            eventually("the job's end", lambda w=watcher: self._ended(w), seconds)  # type: ignore[misc]
            watcher.close()
        return [watcher.status for watcher in watchers]

    def _ended(self, watcher: Watcher) -> bool:
        self.here.check()  # a service that died is started again, as `swap` and `up` do
        return watcher.poll(0.05).state.ended

    def done(self, *specs: JobSpec, seconds: float = PATIENCE) -> None:
        """As `run`; all must succeed."""
        for status in self.run(*specs, seconds=seconds):
            assert status.record is not None
            assert (status.state, status.record.reason) == ("done", "")


@contextmanager
def running_cluster(settings: Settings, swappers: int = 1) -> Iterator[Cluster]:
    """Start the services on the broker that `settings` name."""
    with local.run(settings, swappers) as here:
        yield Cluster(here)


def frames(path: Path) -> list[tuple[Fraction, Array]]:
    """(time in seconds, planes as one array) of every frame in order of presentation."""
    with av.open(str(path)) as clip:
        return [(f.pts * f.time_base, f.to_ndarray()) for f in clip.decode(video=0)]


def times(path: Path) -> list[Fraction]:
    return [at for at, _ in frames(path)]


def sound(path: Path) -> list[tuple[int | None, int | None, bytes]]:
    """(pts, dts, bytes) of every packet of the first sound track."""
    with av.open(str(path)) as clip:
        return [(p.pts, p.dts, bytes(p)) for p in clip.demux(audio=0) if p.size]


def psnr(one: Array, other: Array) -> float:
    """Peak signal to noise ratio of 8-bit samples, dB; infinite for equal ones."""
    error = np.mean((one.astype(np.float64) - other) ** 2)
    return float("inf") if error == 0 else float(10 * np.log10(255**2 / error))
