"""Finds the face in a source picture: however large, small or turned it is."""

from __future__ import annotations

from collections.abc import Iterator

import cv2
import numpy as np
import numpy.typing as npt

from schemas.errors import InputError, NoFaceError
from swapper.engines.mesh.detect import Detection, Detector, input_size
from swapper.engines.mesh.landmarks import SIDE, Landmarks, Mesh, Square
from swapper.engines.mesh.sampling import unturned
from swapper.engines.mesh.texture import Picture

_LONGEST = 3072
"""Larger pictures are shrunk: a texture has 512 texels, and every view of a picture costs time."""
_MIN_SCORE = 0.5
_MIN_BELIEF = 0.95
"""Of each look but the first: real faces give 1.00 again and again, a cat gives 0.99 and then 0.91."""
_LOOKS = 8
"""A wide open mouth is measured longer with each of the first looks."""
_PAD = 0.5
"""Of the longer side, added all around a picture that a face may fill."""
_TILES = ((2, 0.6), (4, 0.3))
"""Tiles a side, and the side of a tile in the picture's: they overlap. For faces small in a picture."""

Shift = npt.NDArray[np.float32]


def decode(data: bytes, number: int) -> Picture:
    """B G R, 8 bit, upright after its EXIF tag, sides at most 3072.

    Raises InputError for what is no picture.
    """
    try:
        picture = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR) if data else None
    except cv2.error:
        picture = None
    if picture is None:
        raise InputError(f"source picture {number} is no picture that can be read")
    scale = _LONGEST / max(picture.shape[:2])
    if scale < 1:
        size = (round(picture.shape[1] * scale) or 1, round(picture.shape[0] * scale) or 1)
        picture = cv2.resize(picture, size, interpolation=cv2.INTER_AREA)
    return picture.astype(np.uint8, copy=False)


class SourceFinder:
    """The largest face of a picture."""

    def __init__(self, detector: Detector, mesh: Mesh) -> None:
        self._detector, self._mesh = detector, mesh

    def __call__(self, picture: Picture, number: int) -> Landmarks:
        """Its landmarks. Raises NoFaceError, naming the picture by `number`."""
        for quarter in range(4):
            turned = np.ascontiguousarray(np.rot90(picture, quarter))
            for view, shift in _views(turned):
                found = sorted(self._faces(view), key=lambda face: -float(face.size.max()))
                for face in found:
                    square = Square.of_detection(_moved(face, shift, turned, quarter))
                    marks = self._landmarks(picture, square)
                    if marks is not None:
                        return marks
        raise NoFaceError(f"source picture {number} shows no face")

    def _faces(self, view: Picture) -> list[Detection]:
        height, width = view.shape[:2]
        size = input_size(width, height)
        small = cv2.resize(view, size, interpolation=cv2.INTER_AREA)
        scale = np.array([width / size[0], height / size[1]], np.float32)
        rgb = np.ascontiguousarray(small[..., ::-1]).astype(np.uint8, copy=False)
        return [
            Detection(f.score, f.centre * scale, f.size * scale, f.points * scale)
            for f in self._detector(rgb, _MIN_SCORE)
        ]

    def _landmarks(self, picture: Picture, square: Square) -> Landmarks | None:
        beliefs = []
        for _ in range(_LOOKS):
            marks, belief = self._mesh(_cut(picture, square), square)
            square = Square.of_landmarks(marks)
            beliefs.append(belief)
        return marks if min(beliefs[1:]) > _MIN_BELIEF else None


def _views(picture: Picture) -> Iterator[tuple[Picture, Shift]]:
    """The picture, then with a border, then in tiles, each with its place."""
    height, width = picture.shape[:2]
    yield picture, np.zeros(2, np.float32)
    pad = round(_PAD * max(height, width))
    padded = cv2.copyMakeBorder(picture, pad, pad, pad, pad, cv2.BORDER_REPLICATE)
    yield padded.astype(np.uint8, copy=False), np.array([-pad, -pad], np.float32)
    for count, share in _TILES:
        tall, wide = max(1, round(height * share)), max(1, round(width * share))
        for y in np.linspace(0, height - tall, count, dtype=int):
            for x in np.linspace(0, width - wide, count, dtype=int):
                yield picture[y : y + tall, x : x + wide], np.array([x, y], np.float32)


def _moved(face: Detection, shift: Shift, turned: Picture, quarter: int) -> Detection:
    """A face of a view in the coordinates of the picture before it was turned."""
    height, width = turned.shape[:2]
    size = face.size[::-1] if quarter % 2 else face.size

    def back(points: Shift) -> Shift:
        return unturned(points + shift, width, height, quarter)

    return Detection(face.score, back(face.centre), size, back(face.points))


def _cut(picture: Picture, square: Square) -> npt.NDArray[np.uint8]:
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    cut = cv2.warpAffine(picture, square.matrix(), (SIDE, SIDE), flags=flags, borderMode=cv2.BORDER_REPLICATE)
    return np.ascontiguousarray(cut[..., ::-1]).astype(np.uint8, copy=False)
