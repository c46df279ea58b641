"""Timecode of a trimmed result: hours, minutes, seconds and frames, counted on."""

from __future__ import annotations

import re
from fractions import Fraction

_FORM = re.compile(r"^(\d\d):(\d\d):(\d\d)([:;.])(\d\d)$")
RATES = (24, 25, 30, 48, 50, 60, 100, 120)
"""Frames counted per second that a timecode track can have."""


def counted_rate(rate: tuple[int, int]) -> int:
    """Frames that a timecode counts per second at a frame rate: 30 for 30000/1001; 0 if it cannot."""
    if rate[0] <= 0 or rate[1] <= 0:
        return 0
    nearest = round(Fraction(*rate))
    return nearest if nearest in RATES else 0


def advanced(timecode: str, frames: int, per_second: int) -> str:
    """The timecode a number of frames later; empty if `timecode` is none, or none at this rate.

    Drop frame (`;`): of every minute but each tenth the first two numbers, at 60 a second four, are left out
    (SMPTE ST 12-1).
    """
    match = _FORM.match(timecode)
    if match is None or per_second <= 0:
        return ""
    hours, minutes, seconds, frame = (int(match[n]) for n in (1, 2, 3, 5))
    drop = per_second // 15 if match[4] in ";." else 0
    if frame >= per_second or (drop and per_second % 30):
        return ""
    minute = hours * 60 + minutes
    count = (minute * 60 + seconds) * per_second + frame - drop * (minute - minute // 10) + frames
    if drop:
        long, short = 600 * per_second - 9 * drop, 60 * per_second - drop
        tens, rest = divmod(count, long)
        skipped = 9 * drop * tens + drop * max((rest - drop) // short, 0)
        count += skipped
    count %= 24 * 3600 * per_second
    second, frame = divmod(count, per_second)
    return f"{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}{match[4]}{frame:02}"
