"""`make demo`: a clip with sound goes through ingest, Kafka, swapper and assembler.

Leaves demo/out.mp4 and demo/out.png (above: the clip, below: the result) and prints what ran.
"""

from __future__ import annotations

import sys
import time
from fractions import Fraction
from pathlib import Path

import av
import cv2
import numpy as np

from control import admission, local
from control.cli.progress import Display
from control.cli.swap import follow
from demo.assets import astronaut, carphone
from runtime import logs
from runtime.kafka import bounds, reader
from runtime.settings import LogSettings, Settings, load
from runtime.store import Store
from schemas.errors import FacestreamError

HERE = Path(__file__).parent
CLIP, OUT, SHEET = HERE / "clip.mp4", HERE / "out.mp4", HERE / "out.png"
SIZE = (704, 576)
"""The clip is 176 x 144: enlarged, so that there is something to see."""
RATE = 48_000
SHOWN = 5


def main() -> int:
    logs.configure(LogSettings(level="error", format="console"))
    settings = load({"data": HERE / ".data"})
    make_clip(carphone(), CLIP)
    engine = admission.open_for(settings, "mesh")
    face = admission.prepare(settings, engine, [astronaut()])
    assert face is not None
    with Display(plain=False) as display, local.run(settings, swappers=1) as here:
        spec = admission.make_spec(
            job=admission.job_id("demo"),
            input=str(CLIP.absolute()),
            output=str(OUT.absolute()),
            plan={"segment_seconds": 1.0, "context_frames": engine.context_frames},
            swap={"engine": "mesh", "face": admission.store_face(Store.of(here.settings), face)},
        )
        started = time.monotonic()
        follow(here, spec, display)
        seconds = time.monotonic() - started
        assert here.supervisor is not None
        print("processes:", ", ".join(f"{name} {pid}" for name, pid in here.supervisor.pids().items()))
        print("offsets:  ", ", ".join(f"{t} {n}" for t, n in records(here.settings).items()))
    make_sheet(CLIP, OUT, SHEET)
    frames = count(OUT)
    print(f"frames:    {frames} in {seconds:.1f} s, {frames / seconds:.0f} frames/s")
    print(f"result:    {OUT.relative_to(Path.cwd())}, picture: {SHEET.relative_to(Path.cwd())}")
    return 0


def make_clip(source: Path, target: Path, size: tuple[int, int] = SIZE) -> None:
    """The clip, enlarged, with a rising tone as its sound."""
    with av.open(str(source)) as given, av.open(str(target), "w") as made:
        (pictures,) = given.streams.video
        video = made.add_stream("libx264", rate=pictures.average_rate, options={"crf": "14", "g": "30"})
        video.width, video.height = size
        video.pix_fmt, video.time_base = "yuv420p", pictures.time_base
        sound = made.add_stream("aac", rate=RATE, layout="mono")
        end = Fraction(0)
        for frame in given.decode(pictures):
            large = frame.reformat(*size, "yuv420p", interpolation="LANCZOS")
            large.pts, large.time_base = frame.pts, frame.time_base
            made.mux(video.encode(large))
            end = (frame.pts + frame.duration) * frame.time_base
        made.mux(video.encode())
        for frame in tone(int(end * RATE)):
            made.mux(sound.encode(frame))
        made.mux(sound.encode())


def tone(samples: int) -> list[av.AudioFrame]:
    """A tone that climbs an octave, a short beep louder every half second."""
    at = np.arange(samples)
    wave = 0.1 * np.sin(2 * np.pi * 220 * at / RATE * (1 + at / samples / 2))
    wave += 0.3 * np.sin(2 * np.pi * 880 * at / RATE) * (at % (RATE // 2) < RATE // 20)
    frames = []
    for start in range(0, samples, 1024):
        part = wave[start : start + 1024].astype(np.float32)
        frame = av.AudioFrame.from_ndarray(part[None], format="fltp", layout="mono")
        frame.sample_rate, frame.pts, frame.time_base = RATE, start, Fraction(1, RATE)
        frames.append(frame)
    return frames


def records(settings: Settings) -> dict[str, int]:
    """How many offsets each topic used, by name without the prefix: records, and marks of transactions."""
    client = reader(settings.kafka, "demo")
    counts = {}
    for name, topic in sorted(client.list_topics(timeout=10).topics.items()):
        if name.startswith(settings.topic_prefix):
            marks = [bounds(client, name, p) for p in topic.partitions]
            if total := sum(high - low for low, high in marks):
                counts[name.removeprefix(settings.topic_prefix)] = total
    client.close()
    return counts


def make_sheet(before: Path, after: Path, sheet: Path) -> None:
    """A contact sheet: frames of the clip above, the same frames of the result below."""
    rows = [np.hstack(pictures(path)) for path in (before, after)]
    cv2.imwrite(str(sheet), np.vstack(rows))


def pictures(path: Path) -> list[np.ndarray]:
    total = count(path)
    wanted = {round((i + 0.5) * total / SHOWN) for i in range(SHOWN)}
    with av.open(str(path)) as clip:
        return [f.to_ndarray(format="bgr24") for i, f in enumerate(clip.decode(video=0)) if i in wanted]


def count(path: Path) -> int:
    with av.open(str(path)) as clip:
        return sum(1 for _ in clip.decode(video=0))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except FacestreamError as error:
        print(f"demo: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
