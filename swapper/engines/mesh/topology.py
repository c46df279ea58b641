"""MediaPipe's canonical face mesh, and which of its 468 vertices make which part of a face.

Left and right are the person's own. The table is described in NOTICE and `swapper.models.canonical`.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import numpy as np
import numpy.typing as npt


def _table() -> dict[str, npt.NDArray[Any]]:
    with (
        (files("swapper.engines.mesh") / "canonical_face.npz").open("rb") as file,
        np.load(file) as stored,
    ):
        return {name: np.ascontiguousarray(stored[name]) for name in stored.files}


_stored = _table()
UV: npt.NDArray[np.float32] = _stored["uv"]
"""(468, 2): texture coordinates, 0 to 1 from the top left."""
TRIANGLES: npt.NDArray[np.int32] = _stored["triangles"]
"""(898, 3): vertices of each triangle."""
VERTICES = len(UV)

RIGHT_EYE_OUTER, LEFT_EYE_OUTER = 33, 263
UPPER_LIP_INNER, LOWER_LIP_INNER = 13, 14
FOREHEAD, CHIN, SUBNASALE = 10, 152, 2
RIGHT_EDGE, LEFT_EDGE = 234, 454
"""Where the face's outline meets the ears."""
FACE_OVAL = [
    *(10, 338, 297, 332, 284, 251, 389, 356, 454, 323, 361, 288, 397, 365, 379, 378, 400, 377),
    *(152, 148, 176, 149, 150, 136, 172, 58, 132, 93, 234, 127, 162, 21, 54, 103, 67, 109),
]
INNER_LIPS = [
    *(78, 95, 88, 178, 87, 14, 317, 402, 318, 324),
    *(308, 415, 310, 311, 312, 13, 82, 81, 80, 191),
]
RIGHT_EYE = [33, 7, 163, 144, 145, 153, 154, 155, 133, 173, 157, 158, 159, 160, 161, 246]
LEFT_EYE = [263, 249, 390, 373, 374, 380, 381, 382, 362, 398, 384, 385, 386, 387, 388, 466]
RIGHT_LIDS = [130, 247, 30, 29, 27, 28, 56, 190, 243, 112, 26, 22, 23, 24, 110, 25]
LEFT_LIDS = [359, 467, 260, 259, 257, 258, 286, 414, 463, 341, 256, 252, 253, 254, 339, 255]
"""Around the eyes, lashes included."""
RIGHT_BROW = [70, 63, 105, 66, 107, 46, 53, 52, 65, 55]
LEFT_BROW = [300, 293, 334, 296, 336, 276, 283, 282, 295, 285]
LIPS = [61, 146, 91, 181, 84, 17, 314, 405, 321, 375, 291, 409, 270, 269, 267, 0, 37, 39, 40, 185]
NOSTRILS = [98, 97, 2, 326, 327, 240, 460, 75, 305]
BROWS = [70, 63, 105, 66, 107, 9, 336, 296, 334, 293, 300]
"""Upper edge of both brows, from the right temple to the left."""
INNER_FACE = [
    *BROWS,
    *(383, 372, 345, 352, 411, 432, 422, 424, 418, 421),
    *(200, 201, 194, 204, 202, 212, 187, 123, 116, 143, 156),
]
"""Ring around brows, cheeks and chin: what must be there for a face to be recognised."""
SKIN_PATCHES = [
    [50, 101, 118, 117, 123, 147, 187, 205],
    [280, 330, 347, 346, 352, 376, 411, 425],
    [151, 9, 108, 337],
    [4, 5, 195, 197],
]
"""Cheeks, brow, nose: bare skin on nearly every face."""
