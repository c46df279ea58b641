"""The engine `none`: every frame passes as it is. For tests and for measuring everything else."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from schemas.errors import UsageError
from swapper.engines.base import Engine, FrameSwap, SourceFace, Wants, Work


class NoneEngine(Engine):
    """Decides at once that a frame has no patches, without reading a pixel."""

    name = "none"
    stateful = False
    context_frames = 0

    def __init__(self, models: Path) -> None:
        """`models` is not read."""

    @property
    def model_id(self) -> str:
        return "none"

    def warm(self) -> None:
        """Nothing to load."""

    def wants(self, options: Mapping[str, Any]) -> Wants:
        return Wants(pictures=False)

    def prepare(
        self,
        pictures: Sequence[bytes],
        face: int | None = None,
        options: Mapping[str, Any] | None = None,
        frame: npt.NDArray[np.uint8] | None = None,
    ) -> SourceFace:
        """An empty face: the pictures are not looked at."""
        return SourceFace(self.name)

    def open(self, face: SourceFace, options: Mapping[str, Any]) -> float:
        """Option `delay_ms`: each call takes a random time up to it, to shake the order of results."""
        if unknown := set(options) - {"delay_ms"}:
            raise UsageError(f"engine none has no option {', '.join(sorted(unknown))}")
        return float(options.get("delay_ms", 0))

    def swap(self, work: Sequence[Work]) -> list[list[FrameSwap]]:
        for one in work:
            if one.state:
                time.sleep(random.uniform(0, one.state) / 1e3)  # noqa: S311 (no secret)
        return [[FrameSwap(frame.info.seq) for frame in one.frames] for one in work]
