"""Finds the face in a source picture: however large, small or turned it is."""

from __future__ import annotations

from collections.abc import Iterator

import cv2
import numpy as np
import numpy.typing as npt

from schemas.errors import NoFaceError
from swapper.decode import Picture
from swapper.engines.mesh.detect import Detection, Detector, input_size
from swapper.engines.mesh.landmarks import SIDE, Landmarks, Mesh, Square
from swapper.sampling import unturned

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


class SourceFinder:
    """A face of a picture: the largest, or one by its number."""

    def __init__(self, detector: Detector, mesh: Mesh) -> None:
        self._detector, self._mesh = detector, mesh

    def __call__(self, picture: Picture, number: int, face: int | None = None) -> Landmarks:
        """Landmarks of the largest face, or of the `face`-th from the left, counted from 1.

        Raises NoFaceError, naming the picture by `number` and how many faces it shows.
        """
        if face is None:
            found = next(self._found(picture), None)
            if found is None:
                raise NoFaceError(f"source picture {number} shows no face")
            return found
        faces = self._all(picture)
        if len(faces) < face:
            shows = f"shows {len(faces) or 'no'} face{'s' * (len(faces) != 1)}"
            raise NoFaceError(f"source picture {number} {shows}: there is no face {face} to take")
        return faces[face - 1]

    def _all(self, picture: Picture) -> list[Landmarks]:
        """All faces, from left to right."""
        faces: list[Landmarks] = []
        for marks in self._found(picture):
            square = Square.of_landmarks(marks)
            if not any(square.same_face(Square.of_landmarks(other)) for other in faces):
                faces.append(marks)
        return sorted(faces, key=lambda marks: float(marks[:, 0].mean()))

    def _found(self, picture: Picture) -> Iterator[Landmarks]:
        """Faces in the first turn of the picture that shows any, the largest of a view first; faces
        come again in other views."""
        for quarter in range(4):
            shown = False
            turned = np.ascontiguousarray(np.rot90(picture, quarter))
            for view, shift in _views(turned):
                for face in sorted(self._faces(view), key=lambda face: -float(face.size.max())):
                    square = Square.of_detection(_moved(face, shift, turned, quarter))
                    marks = self._landmarks(picture, square)
                    if marks is not None:
                        shown = True
                        yield marks
            if shown:
                return

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
