"""All faces of many pictures, each stage run over all of them at once."""

from __future__ import annotations

from collections.abc import Sequence

from swapper.engines.onnx.detect import detect
from swapper.engines.onnx.faces import Face
from swapper.engines.onnx.landmarks import landmarks
from swapper.engines.onnx.options import DetectorOptions, LandmarkerOptions
from swapper.engines.onnx.session import Models
from swapper.engines.onnx.surface import Surface


def analyse(
    models: Models, surfaces: Sequence[Surface], detector: DetectorOptions, landmarker: LandmarkerOptions
) -> list[list[Face]]:
    """The faces of each picture with their landmarks, in the detector's order."""
    hits = detect(models, surfaces, detector)
    flat = [(surface, hit) for surface, found in zip(surfaces, hits, strict=True) for hit in found]
    faces = iter(landmarks(models, flat, landmarker))
    return [[next(faces) for _ in found] for found in hits]
