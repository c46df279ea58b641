"""A single frame of a target, for engines that look for a face that it shows."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ingest.open import open_input
from ingest.packets import decoded_frames
from ingest.probe import probe, video_stream
from runtime.settings import InputSettings
from schemas.errors import UsageError


def frame(path: Path, number: int, limits: InputSettings) -> npt.NDArray[np.uint8]:
    """(height, width, 3) B G R: a frame by its number in presentation order, from 0, turned upright.

    Raises InputError for what is no video, and UsageError if it has fewer frames.
    """
    seen = probe(str(path), limits)
    with open_input(str(path), limits) as container:
        frames = decoded_frames(container, video_stream(container), Counter())
        found = next(islice(frames, number, None), None)
        if found is None:
            raise UsageError(f"target {path} has no frame {number}")
        pixels = np.rot90(found.to_ndarray(format="bgr24"), seen.format.rotation // 90)
    return np.ascontiguousarray(pixels[:, ::-1] if seen.mirrored else pixels)
