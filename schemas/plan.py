"""The plan of an input: its frames in presentation order and how they are cut."""

from __future__ import annotations

from typing import Self

from pydantic import model_validator

from schemas.frames import RangeRef, Rational, VideoFormat
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


class Source(Model):
    """The picture as it is decoded, where that differs from what travels: trimmed, resampled in time, scaled,
    turned or tone-mapped. Only ingest reads it."""

    format: VideoFormat
    time_base: Rational
    pts: list[int]
    """Of every frame of the input, in presentation order, ticks of `time_base`."""
    keys: list[int]
    """Numbers of key frames among them."""
    picks: list[int]
    """For each frame of the plan the number of the frame of the input that it shows. Never falls."""
    mirrored: bool = False
    """Whether the picture is mirrored left to right after it was turned upright."""


@register
class Plan(Record):
    """Result of the scan. Stored as one object per job, since pts lists may be long.

    Frames are described by parallel lists in presentation order: `pts` and `duration` in ticks of
    `time_base`, `keys` the ordinals of key frames.

    Two clocks: the *input's*, in which sides and chapters are stored, and the *result's*. A moment t of the
    input is t - `origin` in the result. Frames are in the result's clock already; who muxes takes `origin`
    off everything else, and leaves out what lies outside `span`. Repairs of a broken input clock (restarts,
    wraps) are in the sides already.
    """

    KIND = "plan"

    revision: int = 1
    format: VideoFormat
    time_base: Rational
    rate: Rational = (0, 1)
    """Nominal frame rate as the container says; a hint for encoders, never used for time."""
    bitrate: int = 0
    """Bits a second of the picture's packets in the input, on average; 0 if unknown."""
    origin: Rational = (0, 1)
    """Seconds of the input's clock at which the result's clock is zero; may be negative, by less than a
    frame."""
    span: tuple[Rational | None, Rational | None] = (None, None)
    """[start, end) in seconds of the input's clock that the job was trimmed to. None: not cut there; sound
    before the first and after the last picture stays."""
    source: Source | None = None
    """What ingest decodes, where it is not what travels."""
    encoder: str = ""
    """Encoder chosen for the job, where its spec leaves that open."""
    seekable: bool
    """Whether the decoder can start in the middle; else the input is one order."""
    pts: list[int]
    duration: list[int]
    keys: list[int]
    segments: list[Segment]
    orders: list[list[int]]
    """Runs of segment indices decoded in one pass."""
    ranges: list[RangeRef | None] = []
    """Of a replay: for each segment the batches that stand for it, where Kafka still holds them."""
    sides: str = ""
    """Object name of the other tracks; empty if there are none."""
    tracks: list[SideTrack] = []
    metadata: dict[str, str] = {}
    """The input's tags. `timecode`, if any: of the first frame of the input. `loop`, of animations only: how
    often they are shown, 0 for ever."""
    picture: dict[str, str] = {}
    """Tags of the picture's own track: `language`, `title`."""
    chapters: list[tuple[int, int, int, int, str]] = []
    """(start, end, time base numerator, denominator, title) of each chapter, in the input's clock."""
    warnings: dict[str, int] = {}
    """What was changed or lost, counted by name. `degraded` is there if the input is damaged."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if len(self.pts) != len(self.duration):
            raise ValueError(f"{len(self.pts)} pts, {len(self.duration)} durations")
        if sum(s.frames for s in self.segments) != len(self.pts):
            raise ValueError("segments do not cover the frames exactly")
        if self.source is not None and len(self.source.picks) != len(self.pts):
            raise ValueError(f"{len(self.pts)} frames, {len(self.source.picks)} picks")
        if self.ranges and len(self.ranges) != len(self.segments):
            raise ValueError(f"{len(self.segments)} segments, {len(self.ranges)} ranges")
        return self
