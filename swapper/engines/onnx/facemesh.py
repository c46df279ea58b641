"""68 points of each face out of MediaPipe's mesh of 468, looked at in the squares that the mesh wants."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from swapper.engines.mesh.detect import Detection
from swapper.engines.mesh.landmarks import SIDE, Square, read
from swapper.engines.onnx.align import Points, inverse
from swapper.engines.onnx.catalog import Landmarker
from swapper.engines.onnx.faces import Hit
from swapper.engines.onnx.session import Models
from swapper.engines.onnx.surface import Surface

_LOOKS = 6
"""At most. A detector's box is rough, and one that cuts off a chin hides how long the face is."""

Found = tuple[Points, float]
"""68 points and how sure they are, 0..1."""


def outlines(models: Models, faces: Sequence[tuple[Surface, Hit]], kind: Landmarker) -> list[Found]:
    """Of each face, in pixels of its surface."""
    squares = dict(enumerate(Square.of_detection(detection_of(hit)) for _, hit in faces))
    found: dict[int, Found] = {}
    for _ in range(_LOOKS):
        images = np.stack([_cut(faces[i][0], square) for i, square in squares.items()])
        said = models[kind.file]({"image": images})
        unsettled = {}
        for (i, square), raw, logit in zip(squares.items(), *said, strict=True):
            marks, belief = read(raw, logit, square)
            found[i] = marks[list(kind.vertices), :2].astype(np.float64), belief
            if (better := Square.of_landmarks(marks)) != square:
                unsettled[i] = better
        if not (squares := unsettled):
            break
    return [found[i] for i in range(len(faces))]


def detection_of(hit: Hit) -> Detection:
    """A hit as the engine `mesh` has it."""
    low, high = hit.box.reshape(2, 2).astype(np.float32)
    centre = ((low + high) / 2).astype(np.float32)
    return Detection(hit.score, centre, high - low, hit.points.astype(np.float32))


def _cut(surface: Surface, square: Square) -> npt.NDArray[np.uint8]:
    return surface.cut(inverse(square.matrix()), SIDE)[..., ::-1]
