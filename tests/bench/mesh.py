"""Frames a second of the engine `mesh` on one core, and where the time goes.

    python -m tests.bench.mesh

Carphone is enlarged until its face has the size of a row, and centred in frames of the row's size.
Counted is the process's CPU time for all of `swap`; nothing is decoded or encoded inside.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np

from schemas.frames import VideoFormat
from swapper.engines.base import Frame, Work
from swapper.engines.mesh.engine import MeshEngine
from tests.support import faces
from tests.support.assets import astronaut

STAGES = ("detect", "landmark", "smooth", "mask", "colour", "raster", "render")
_NATIVE = VideoFormat(width=176, height=144, pixel_format="yuv420p")
_REPEAT = 3


@dataclass(frozen=True, slots=True)
class Row:
    """A frame size, the height of the face in it, and the goal in frames/s."""

    width: int
    height: int
    face: int
    goal: int | None = None


ROWS = (
    Row(640, 360, 199, 150),
    Row(640, 360, 69),
    Row(1280, 720, 139, 150),
    Row(1280, 720, 398, 100),
    Row(1920, 1080, 211),
    Row(1920, 1080, 603),
)


@dataclass(frozen=True, slots=True)
class Result:
    """Best of some runs: frames/s, and milliseconds a frame by stage."""

    row: Row
    face: tuple[int, int]
    fps: float
    stages: dict[str, float]


def measure(rows: Sequence[Row] = ROWS) -> list[Result]:
    """Run the rows; the engine is warm."""
    engine = MeshEngine(faces.models())
    engine.warm()
    engine.stages.clock = time.thread_time
    source = engine.prepare([astronaut().read_bytes()])
    results = []
    for row in rows:
        frames, face = material(row)
        best = Result(row, face, 0.0, {})
        for _ in range(_REPEAT):
            state = engine.open(source, {})
            engine.stages.clear()
            start = time.process_time()
            swaps = engine.swap([Work(state, frames, last=True)])[0]
            fps = len(frames) / (time.process_time() - start)
            assert all(len(swap.patches) == 1 for swap in swaps)
            if fps > best.fps:
                spent = {s: engine.stages[s] / len(frames) * 1e3 for s in STAGES}
                best = Result(row, face, fps, spent)
        results.append(best)
    return results


def material(row: Row) -> tuple[list[Frame], tuple[int, int]]:
    """Carphone's frames with the face at the row's size, and that size (mean width, height)."""
    pictures = [faces.bgr(frame.planes, _NATIVE) for frame in faces.clip(_NATIVE)]
    marks = np.array([faces.landmarks(picture)[:, :2] for picture in pictures[::10]])
    size = np.ptp(marks, axis=1).mean(0)
    scale = row.face / size[1]
    centre = (marks.min(1) + marks.max(1)).mean(0) / 2
    shift = np.array([row.width, row.height]) / 2 - centre * scale
    matrix = np.array([[scale, 0, shift[0]], [0, scale, shift[1]]])
    form = VideoFormat(width=row.width, height=row.height, pixel_format="yuv420p")
    frames = []
    for number, picture in enumerate(pictures):
        placed = cv2.warpAffine(
            picture,
            matrix,
            (row.width, row.height),
            flags=cv2.INTER_CUBIC,
            borderMode=cv2.BORDER_REPLICATE,
        )
        frames.append(faces.picture_frame(placed.astype(np.uint8), form, number))
    width, height = size * scale
    return frames, (round(width), round(height))


def table(results: Sequence[Result]) -> str:
    """As Markdown."""
    lines = [
        "| frame | face px | frames/s | goal | " + " | ".join(f"{s} ms" for s in STAGES) + " |",
        "|---" * (4 + len(STAGES)) + "|",
    ]
    for result in results:
        row = result.row
        cells = [f"{row.width}x{row.height}", "x".join(map(str, result.face))]
        cells += [f"{result.fps:.0f}", str(row.goal or "")]
        cells += [f"{result.stages[stage]:.2f}" for stage in STAGES]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    print(table(measure()))


if __name__ == "__main__":
    main()
