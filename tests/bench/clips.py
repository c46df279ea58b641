"""Clips for benchmarks: carphone enlarged and repeated, with grain so that nothing is too easy."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import av
import cv2
import numpy as np

from runtime.settings import load
from tests.support.assets import carphone

RATE = 30


def long_clip(width: int, height: int, seconds: int) -> Path:
    """H.264 (x264 medium, crf 20, a key frame every 2 s) of so many seconds; made once and kept."""
    path = load().cache / "bench" / f"{width}x{height}-{seconds}s.mp4"
    if path.is_file():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part.mp4")
    with av.open(str(carphone())) as given:
        small = [frame.to_ndarray(format="bgr24") for frame in given.decode(video=0)]
    large = [cv2.resize(picture, (width, height), interpolation=cv2.INTER_CUBIC) for picture in small]
    grain = np.random.default_rng(1).normal(0, 3, (8, height, width, 1)).astype(np.int8)
    with av.open(str(part), "w") as made:
        stream = made.add_stream("libx264", rate=RATE, options={"crf": "20", "g": "60", "preset": "fast"})
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        for number in range(seconds * RATE):
            picture = cv2.add(large[number % len(large)], 0)
            noisy = np.clip(picture.astype(np.int16) + grain[number % 8], 0, 255).astype(np.uint8)
            frame = av.VideoFrame.from_ndarray(noisy, format="bgr24")
            frame.pts, frame.time_base = number, Fraction(1, RATE)
            made.mux(stream.encode(frame))
        made.mux(stream.encode())
    part.replace(path)
    return path
