"""What the samples of a frame mean: Y'CbCr under the matrix and range a format names.

Rule where a format does not say: matrix bt709 from 720 lines on, else smpte170m; range limited
("tv"), but full for gray, as FFmpeg takes it. Matrices that are no linear Y'CbCr (ycgco, ictcp,
gbr) are treated as not said: faces are then matched by eye to what lies around them, so that a
wrong guess tints a patch hardly at all.

Transfers are told apart where it shows: PQ, HLG and SDR (`swapper.transfer`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from schemas.frames import VideoFormat
from swapper.transfer import has_wide_gamut, is_hdr

Matrix = npt.NDArray[np.float32]

LUMA_WEIGHTS: Mapping[str, tuple[float, float]] = {
    "bt709": (0.2126, 0.0722),
    "fcc": (0.30, 0.11),
    "bt470bg": (0.299, 0.114),
    "smpte170m": (0.299, 0.114),
    "smpte240m": (0.212, 0.087),
    "bt2020nc": (0.2627, 0.0593),
    "bt2020c": (0.2627, 0.0593),
}
"""Kr, Kb of each matrix under FFmpeg's name (ITU-T H.273, table 4)."""

_HD_LINES = 720


@dataclass(frozen=True, slots=True)
class Samples:
    """Luma sample = `black + luma * y`, chroma sample = `grey + chroma * c`; y 0..1, c -.5..+.5.

    `low` and `high` bound a luma sample, `grey` ± `chroma / 2` a chroma sample.
    """

    kr: float
    kb: float
    black: float
    luma: float
    grey: float
    chroma: float
    transfer: str = "sdr"
    """FFmpeg's name if it is HDR."""
    primaries: str = "bt709"
    """FFmpeg's name if they are wider."""

    def from_rgb(self) -> Matrix:
        """(3, 3): R'G'B' 0..1 to y, cb, cr."""
        kr, kb = self.kr, self.kb
        kg = 1 - kr - kb
        cb, cr = 2 * (1 - kb), 2 * (1 - kr)
        rows = [[kr, kg, kb], [-kr / cb, -kg / cb, 0.5], [0.5, -kg / cr, -kb / cr]]
        return np.array(rows, np.float32)

    def to_rgb(self) -> Matrix:
        """(3, 4): samples Y, Cb, Cr, 1 to R'G'B' 0..255. Not to be written to."""
        return _to_rgb(self)


@lru_cache(maxsize=64)
def _to_rgb(meaning: Samples) -> Matrix:
    inverse = np.linalg.inv(meaning.from_rgb().astype(np.float64)) * 255
    linear = inverse / [meaning.luma, meaning.chroma, meaning.chroma]
    offset = -linear @ [meaning.black, meaning.grey, meaning.grey]
    matrix = np.column_stack([linear, offset]).astype(np.float32)
    matrix.flags.writeable = False
    return matrix


@lru_cache(maxsize=64)
def samples(form: VideoFormat) -> Samples:
    """The meaning of a format's samples, after the rule above."""
    pixels = form.pixels
    guess = "bt709" if form.height >= _HD_LINES else "smpte170m"
    kr, kb = LUMA_WEIGHTS.get(form.matrix, LUMA_WEIGHTS[guess])
    unit = float(1 << (pixels.depth - 8))
    full = form.color_range == "pc" or (form.color_range == "unknown" and pixels.planes == 1)
    transfer = form.transfer if is_hdr(form.transfer) else "sdr"
    primaries = form.primaries if has_wide_gamut(form.primaries) else "bt709"
    if full:
        top = float((1 << pixels.depth) - 1)
        return Samples(kr, kb, 0.0, top, 128 * unit, top, transfer, primaries)
    return Samples(kr, kb, 16 * unit, 219 * unit, 128 * unit, 224 * unit, transfer, primaries)
