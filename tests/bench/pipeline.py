"""A `none` job through Kafka against a bare decode and encode with the same settings.

The swapper reads every frame. Services are warm; best of three by wall time (lossless payload: one
run). CPU is that of all our processes and the broker, against that of the one bare process.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import av
import psutil

from runtime.settings import load
from schemas.job import EncodeSpec
from tests.bench.clips import long_clip
from tests.support.cluster import Cluster, running_cluster

SIZES = ((640, 360), (1280, 720), (1920, 1080))
RUNS = 3


def main(seconds: int = 60, sizes: tuple[tuple[int, int], ...] = SIZES, runs: int = RUNS) -> None:
    print(f"{seconds} s clips, best of {runs}; wall and CPU seconds")
    print("| size | payload | bare wall | ours wall | ratio | bare CPU | ours CPU | ratio |")
    print("|---|---|---|---|---|---|---|---|")
    with TemporaryDirectory() as folder:
        settings = load({"data": Path(folder), "swapper": {"engines": ["none"]}})
        with running_cluster(settings) as cluster:
            warm = long_clip(640, 360, 4)
            our_run(cluster, warm, Path(folder), "raw")
            for width, height in sizes:
                clip = long_clip(width, height, seconds)
                bare = best(runs, lambda clip=clip: bare_run(clip, Path(folder) / "bare.mp4"))
                for payload, times in (("raw", runs), ("lossless", 1)):
                    ours = best(times, lambda clip=clip, p=payload: our_run(cluster, clip, Path(folder), p))
                    print(
                        f"| {width}x{height} | {payload} | {bare[0]:.1f} | {ours[0]:.1f} "
                        f"| **{bare[0] / ours[0]:.2f}** | {bare[1]:.1f} | {ours[1]:.1f} "
                        f"| {bare[1] / ours[1]:.2f} |",
                        flush=True,
                    )


def best(runs: int, run: Callable[[], tuple[float, float]]) -> tuple[float, float]:
    return min(run() for _ in range(runs))


def bare_run(clip: Path, output: Path) -> tuple[float, float]:
    """(wall, CPU) seconds of PyAV decoding and encoding in one process, with an EncodeSpec's settings."""
    spec = EncodeSpec()
    options = {
        "crf": str(spec.quality),
        "preset": spec.preset,
        "threads": str(spec.threads),
        "x264-params": "cpu-independent=1",
    }
    wall, cpu = time.monotonic(), time.process_time()
    with av.open(str(clip)) as given, av.open(str(output), "w") as made:
        (source,) = given.streams.video
        source.thread_type = "AUTO"
        stream = made.add_stream(spec.encoder, rate=source.average_rate, options=options)
        stream.width, stream.height, stream.pix_fmt = source.width, source.height, source.pix_fmt
        stream.codec_context.time_base = source.time_base
        for frame in given.decode(source):
            frame.pict_type = av.video.frame.PictureType.NONE
            made.mux(stream.encode(frame))
        made.mux(stream.encode())
    return time.monotonic() - wall, time.process_time() - cpu


def our_run(cluster: Cluster, clip: Path, folder: Path, payload: str) -> tuple[float, float]:
    """(wall, CPU) seconds of a job, from its submission to its end."""
    spec = cluster.spec(clip, folder / "ours.mp4", plan={"payload": payload, "segment_seconds": 4.0})
    wall, cpu = time.monotonic(), cpu_seconds()
    cluster.done(spec, seconds=900)
    return time.monotonic() - wall, cpu_seconds() - cpu


def cpu_seconds() -> float:
    """CPU time of this process and all its descendants so far."""
    processes = [psutil.Process(), *psutil.Process().children(recursive=True)]
    return sum(sum(p.cpu_times()[:2]) for p in processes)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--heights", type=int, nargs="*", default=[360, 720, 1080])
    parser.add_argument("--runs", type=int, default=RUNS)
    given = parser.parse_args()
    main(given.seconds, tuple(s for s in SIZES if s[1] in given.heights), given.runs)
