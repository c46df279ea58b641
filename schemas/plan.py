"""The plan of an input: its frames in presentation order and how they are cut."""

from __future__ import annotations

from typing import Self

from pydantic import model_validator

from schemas.frames import Rational, VideoFormat
from schemas.record import Model, Record, register


class Segment(Model):
    """Frames [first, first + frames) of the input in presentation order; ticks [start, end)."""

    index: int
    first: int
    frames: int
    context: int
    """Frames before `first` that travel with the segment."""
    start: int
    end: int
    bytes: int
    """Estimated bytes on the frames topic, context included."""


class SideTrack(Model):
    """A track other than the picture, as it lies in the `sides` object."""

    stream: int
    """Index of the track in the sides object."""
    shift: int = 0
    """Ticks of the track's time base that were added when it was stored; taken off when muxed."""
    kind: str
    codec: str
    time_base: Rational
    packets: int = 0
    language: str = ""
    disposition: int = 0


@register
class Plan(Record):
    """Result of the scan. Stored as one object per job, since pts lists may be long.

    Frames are described by parallel lists in presentation order: `pts` and `duration` in ticks of
    `time_base`, `keys` the ordinals of key frames.
    """

    KIND = "plan"

    revision: int = 1
    format: VideoFormat
    time_base: Rational
    rate: Rational = (0, 1)
    """Nominal frame rate as the container says; a hint for encoders, never used for time."""
    seekable: bool
    """Whether the decoder can start in the middle; else the input is one order."""
    pts: list[int]
    duration: list[int]
    keys: list[int]
    segments: list[Segment]
    orders: list[list[int]]
    """Runs of segment indices decoded in one pass."""
    sides: str = ""
    """Object name of the other tracks; empty if there are none."""
    tracks: list[SideTrack] = []
    metadata: dict[str, str] = {}
    chapters: list[tuple[int, int, int, int, str]] = []
    """(start, end, time base numerator, denominator, title) of each chapter."""
    warnings: dict[str, int] = {}

    @model_validator(mode="after")
    def _check(self) -> Self:
        if len(self.pts) != len(self.duration):
            raise ValueError(f"{len(self.pts)} pts, {len(self.duration)} durations")
        if sum(s.frames for s in self.segments) != len(self.pts):
            raise ValueError("segments do not cover the frames exactly")
        return self
