"""Records of the frames topics: batches of frames, and the marks around a stream."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntFlag, StrEnum
from fractions import Fraction
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from schemas.pixels import PixelFormat, pixel_format
from schemas.record import Model, Record, register

Rational = tuple[int, int]


class PayloadCodec(StrEnum):
    """How the planes of a batch are stored."""

    RAW = "raw"
    """Planes one behind another, no row padding."""
    LOSSLESS = "lossless"
    """magicyuv, one packet a frame, for 8-bit formats; zstd of the raw planes, one part a frame, else."""
    JPEG = "jpeg"
    """Baseline JPEG, one picture a frame; 8 bit only, lossy, chosen by the job."""


class FrameFlag(IntFlag):
    """Bits of `FrameBatch.flags`."""

    CONTEXT = 1
    """Run for state only: never patched, never encoded."""
    KEY = 2
    """Was a key frame in the input."""
    CORRUPT = 4
    """The decoder reported damage."""


class VideoFormat(Model):
    """What the samples of a frame mean. Names are FFmpeg's; `unknown` where the input says nothing."""

    width: Annotated[int, Field(gt=0)]
    height: Annotated[int, Field(gt=0)]
    pixel_format: str
    color_range: Literal["unknown", "tv", "pc"] = "unknown"
    matrix: str = "unknown"
    primaries: str = "unknown"
    transfer: str = "unknown"
    sample_aspect: Rational = (1, 1)
    rotation: int = 0
    """Degrees counter-clockwise to turn the stored picture upright for viewing: 0, 90, 180, 270."""
    field_order: Literal["progressive", "tt", "bb", "tb", "bt"] = "progressive"
    mastering_display: str = ""
    """HDR10 mastering display as `G(x,y)B(x,y)R(x,y)WP(x,y)L(max,min)`, chromaticities in 1/50000,
    luminance in 1/10000 cd/m2 (the notation of x265 and SMPTE ST 2086); empty if unknown."""
    light_level: tuple[int, int] = (0, 0)
    """Largest and average light level of the content, cd/m2 (CTA 861.3); zeros if unknown."""

    @property
    def pixels(self) -> PixelFormat:
        return pixel_format(self.pixel_format)

    @property
    def frame_bytes(self) -> int:
        return self.pixels.frame_bytes(self.width, self.height)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.rotation not in (0, 90, 180, 270):
            raise ValueError(f"rotation {self.rotation} is not a multiple of 90 below 360")
        return self


@dataclass(frozen=True, slots=True)
class FrameInfo:
    """One frame of a batch: its place in the stream and in time (ticks of the batch's time base)."""

    seq: int
    pts: int
    duration: int
    flags: FrameFlag


@register
class FrameBatch(Record):
    """Consecutive frames of one stream. Self-describing: a reader may start at any offset.

    `spans` are (offset, size) in the body: one for each plane of each frame with codec `raw`, one
    for each frame otherwise.
    """

    KIND = "frames"

    revision: int = 1
    """Revision of the job spec."""
    start_offset: int = -1
    """Offset of the stream's StreamStart in this partition, so that a reader that landed in the
    middle can go back to it; -1 where unknown."""
    seq: Annotated[int, Field(ge=0)]
    """Number in the stream, from 0 and counting context frames, of the first frame."""
    ordinal: int = 0
    """Number of the first frame in the presentation order of the whole input, from 0: decisions taken
    every n frames are then the same wherever segments are cut."""
    format: VideoFormat
    time_base: Rational
    pts: list[int]
    duration: list[int]
    flags: list[int]
    codec: PayloadCodec = PayloadCodec.RAW
    spans: list[tuple[int, int]]
    stamps: dict[str, int] = {}
    """Wall-clock time (ns since 1970) at which each stage was done, for display only."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        n = len(self.pts)
        if n == 0:
            raise ValueError("a batch holds at least one frame")
        if len(self.duration) != n or len(self.flags) != n:
            raise ValueError(f"{n} pts, {len(self.duration)} durations, {len(self.flags)} flags")
        if self.time_base[0] <= 0 or self.time_base[1] <= 0:
            raise ValueError(f"time base {self.time_base} is not positive")
        per_frame = self.format.pixels.planes if self.codec is PayloadCodec.RAW else 1
        if len(self.spans) != n * per_frame:
            raise ValueError(f"{len(self.spans)} spans for {n} frames of {per_frame} parts")
        return self

    def __len__(self) -> int:
        return len(self.pts)

    @property
    def tick(self) -> Fraction:
        """Seconds of one tick."""
        return Fraction(*self.time_base)

    def infos(self) -> Iterator[FrameInfo]:
        for i, (pts, duration, flags) in enumerate(zip(self.pts, self.duration, self.flags, strict=True)):
            yield FrameInfo(self.seq + i, pts, duration, FrameFlag(flags))


@register
class StreamStart(Record):
    """First record of a stream, on the frames and on the swaps partition.

    The span is [start, end) in ticks; `frames` and `context` are the planned counts: frames to
    encode, and context frames before them.
    """

    KIND = "start"

    revision: int = 1
    segment: int
    start: int
    end: int
    time_base: Rational
    frames: int
    context: int
    format: VideoFormat
    rate: Rational = (0, 1)
    """Nominal frame rate, a hint for the encoder's rate control; never used for time. 0 if unknown."""
    bitrate: int = 0
    """Average bits a second of the picture in the input, for jobs that ask for the like; 0 if unknown."""
    encoder: str = ""
    """Encoder chosen for the job, where its spec leaves that open."""


@register
class StreamEnd(Record):
    """Last record of a stream, on both partitions. `count` is the number of frames sent, context included."""

    KIND = "end"

    count: int
    context: int
    end: int = 0
    """Presentation end of the last frame, in ticks."""
    warnings: dict[str, int] = {}
    """What differed from the plan, counted by name."""


@register
class StreamAbort(Record):
    """Given up: written by control into the partition of the stream, frames and swaps."""

    KIND = "abort"

    reason: str


@register
class RangeRef(Record):
    """Replay: batches of another stream that are still in Kafka stand for the stream's own.

    On frames and swaps alike, between StreamStart and StreamEnd. Who reads it fetches the batches of
    `source` at `source_epoch` within the offsets (inclusive), and takes them as the stream's own: frames
    before `start` as context, none from `end` on, all moved by `shift` (ticks of their time base). `count`
    frames are left then, `context` of them context.
    """

    KIND = "range"

    revision: int = 1
    topic: str
    partition: int
    first_offset: int
    last_offset: int
    source: str
    source_epoch: int
    start: int
    end: int
    count: int
    context: int
    shift: int = 0
