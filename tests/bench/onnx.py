"""The engine `onnx`'s own work, without the models: CPU milliseconds a frame on one core.

    python -m tests.bench.onnx

Stand-in models and a painted face 200 pixels wide in frames of 1920x1080. What a model's run takes is counted
apart and says nothing about real weights.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from swapper.engines.base import Frame, Work
from swapper.engines.onnx import session
from swapper.engines.onnx.engine import OnnxEngine
from tests.golden.standins import build
from tests.golden.vectors import HERE, picture
from tests.support.painted import frame

GOAL = 6.0
CASES: dict[str, dict[str, Any]] = {
    "inswapper_128": {"swapper.model": "inswapper_128"},
    "without landmarker": {"swapper.model": "inswapper_128", "landmarker.score": 0},
    "ghost_1_256": {"swapper.model": "ghost_1_256"},
    "pixel boost 512": {"swapper.model": "inswapper_128", "swapper.pixel_boost": 512},
    "box and occlusion": {"swapper.model": "inswapper_128", "mask.types": "box,occlusion"},
    "and enhanced": {"swapper.model": "inswapper_128", "processors": "face_swapper,face_enhancer"},
}
_REPEAT = 20


class _Clock:
    """Time inside models, by standing in for `Model.__call__`."""

    def __init__(self) -> None:
        self.spent = 0.0
        self._run = session.Model.__call__

    def __enter__(self) -> _Clock:
        clock = self

        def timed(model: session.Model, *args: Any) -> Any:
            start = time.thread_time()
            try:
                return clock._run(model, *args)
            finally:
                clock.spent += time.thread_time() - start

        session.Model.__call__ = timed  # type: ignore[method-assign]
        return self

    def __exit__(self, *args: object) -> None:
        session.Model.__call__ = self._run  # type: ignore[method-assign]


def material() -> Frame:
    """One frame; the face is 207 x 253 pixels."""
    shown = np.full((1080, 1920, 3), 90, np.uint8)
    shown[270:810, 480:1440] = cv2.resize(picture("frames/f01_single.png"), (960, 540))
    return frame(shown)


def measure(engine: OnnxEngine, options: dict[str, Any]) -> tuple[float, float]:
    """Milliseconds a frame, the least of some runs: our own, and in the models."""
    source = engine.prepare([(HERE / "sources/s1.png").read_bytes()], None, options)
    work = [Work(engine.open(source, options), [material()])]
    own, inside = [], []
    with _Clock() as clock:
        for _ in range(_REPEAT):
            clock.spent, start = 0.0, time.thread_time()
            ((swap,),) = engine.swap(work)
            assert len(swap.patches) == 1
            own.append(time.thread_time() - start - clock.spent)
            inside.append(clock.spent)
    return min(own) * 1e3, min(inside) * 1e3


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        engine = OnnxEngine(build(Path(folder)))
        engine.warm()
        print(f"| what | own ms a frame (goal {GOAL:g}) | in stand-ins ms |\n|---|---|---|")
        for name, options in CASES.items():
            own, inside = measure(engine, options)
            print(f"| {name} | {own:.1f} | {inside:.0f} |")


if __name__ == "__main__":
    main()
