"""Encode one segment into a file of its own: the same frames and spec give the same bytes."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import Any, Self, cast

import av
import numpy as np
import numpy.typing as npt
from av.container import Flags, OutputContainer
from av.video.frame import VideoFrame
from av.video.stream import VideoStream

from assembler.convert import FilterChain, converter, tagged
from assembler.encoders import (
    CODING_FIELDS,
    PLAIN,
    EncoderChoice,
    Target,
    choose,
    coded_colour,
    configure,
)
from assembler.scheduling import make_ordinary
from assembler.timing import reorder_depth
from runtime.payload import frame_planes
from schemas.errors import EncoderError, StoreError
from schemas.frames import Rational, VideoFormat
from schemas.job import EncodeSpec
from schemas.pixels import pixel_format

DEFAULT_RATE = Fraction(25)
"""Hint for the rate control where the input names no rate; never used for time."""

MOST_REORDERED = 64
"""Frames; both H.264 and HEVC allow 16."""

CAP_TOLERANCE = Fraction(11, 10)
"""By how much a segment may pass its cap before that is a warning."""

FORMATS = {"mp4": "mp4", "mov": "mov", "mkv": "matroska"}
"""FFmpeg's muxer for each suffix of a segment."""

_COLUMN_LEFT, _ROW_ABOVE = (90, 180), (180, 270)
"""Rotations by which the left column as it is coded is shown at the right or the bottom, and the top row."""

Plane = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class EncodedSegment:
    """What a finished segment file holds."""

    pts: list[int]
    """In presentation order, ticks of the source's time base."""
    reorder: int
    bytes: int
    encoder: str
    warnings: dict[str, int]
    """`padded_to_even`, `hdr_metadata_dropped`, `interlacing_dropped`, `depth_reduced`: frames;
    `bitrate_exceeded`: 1."""


@dataclass(frozen=True, slots=True)
class Picture:
    """A frame that belongs to the encoder, and its planes: writable views of (height, width) samples."""

    frame: VideoFrame
    planes: Sequence[Plane]


class SegmentEncoder:
    """Encodes frames in presentation order into `path`.

    Use: `picture()`, fill its planes, `encode(picture, pts)`, ..., `finish()`; or `abort()`. Leaving it
    as a context manager without `finish` removes the file. Raises EncoderError where the encoder does
    not take the format, cannot be opened, or refuses a frame.
    """

    def __init__(
        self,
        path: Path,
        video: VideoFormat,
        time_base: Rational,
        rate: Rational,
        spec: EncodeSpec,
        target: Target = PLAIN,
    ) -> None:
        self._path, self._video, self._target = path, video, target
        self._choice = choose(spec, video, target)
        self._coded = _coded(video, self._choice)
        self._padded = (self._coded.width, self._coded.height) != (video.width, video.height)
        self._tick = Fraction(*time_base)
        self._pts: list[int] = []
        self._decoded: list[int] = []
        self._bits = 0
        self._finished = False
        with _translated(self._choice.name):
            self._output = self._open()
            hint = Fraction(*rate) if rate[0] > 0 and rate[1] > 0 else DEFAULT_RATE
            hint = min(hint, 1 / self._tick)  # libvpx refuses frames that last less than a tick
            self._stream = cast(VideoStream, self._output.add_stream(self._choice.name, rate=hint))
            configure(self._stream, self._choice, video, self._tick)
            self._convert = _conversion(self._choice, self._coded, self._tick)

    @property
    def suffix(self) -> str:
        """Suffix of the segment's file name, without the dot."""
        return self._choice.suffix

    def _open(self) -> OutputContainer:
        scale = str(self._tick.denominator)
        options = {"movie_timescale": scale, "video_track_timescale": scale}
        form = FORMATS[self._choice.suffix]
        output = av.open(
            str(self._path), "w", format=form, container_options={} if form == "matroska" else options
        )
        output.flags = int(output.flags) | cast(int, Flags.bitexact.value)  # no random ids
        return output

    def picture(self) -> Picture:
        """A frame to fill; its samples are undefined."""
        frame = VideoFrame(self._coded.width, self._coded.height, self._coded.pixel_format)
        for chroma in frame_planes(frame, self._coded)[self._video.pixels.planes :]:
            chroma.fill(1 << (self._coded.pixels.depth - 1))  # gray that is coded as colour
        return Picture(frame, frame_planes(frame, self._video))

    def encode(self, picture: Picture, pts: int) -> None:
        """Encode the next frame, at `pts` ticks. The picture must not be written to afterwards."""
        if self._pts and pts <= self._pts[-1]:
            raise EncoderError(f"pts {pts} does not come after {self._pts[-1]}")
        frame = picture.frame
        with _translated(self._choice.name):
            if self._padded:
                pad(picture.planes, frame_planes(frame, self._coded), self._video)
            frame.pts, frame.time_base = pts, self._tick
            if self._convert is not None:
                frame = self._convert(frame)
            self._pts.append(pts)
            try:
                self._mux(frame)
            finally:
                if len(self._pts) == 1:  # the first frame opens the encoder
                    make_ordinary()

    def _mux(self, frame: VideoFrame | None) -> None:
        for packet in self._stream.encode(frame):
            if packet.pts is None or packet.time_base != self._tick:
                raise EncoderError(f"{self._choice.name} gave a packet of pts {packet.pts}")
            # Only the order of a segment's packets is read back, so any dts will do that rises and stays
            # below the pts. libx265's own is garbage for segments shorter than its delay.
            packet.dts = self._pts[0] - MOST_REORDERED + len(self._decoded)
            self._decoded.append(packet.pts)
            self._bits += packet.size * 8
            self._output.mux_one(packet)

    def finish(self, end: int | None = None) -> EncodedSegment:
        """Write what the encoder still holds and close the file. `end`: where the last frame ends, ticks."""
        if not self._pts:
            raise EncoderError("a segment without frames")
        with _translated(self._choice.name):
            self._mux(None)
            self._output.close()
        if sorted(self._decoded) != self._pts:
            raise EncoderError(
                f"{self._choice.name} was given {len(self._pts)} frames and made {len(self._decoded)} "
                "packets, or at other times"
            )
        self._finished = True
        size = self._path.stat().st_size
        encoder, depth = self._choice.describe(), reorder_depth(self._decoded)
        return EncodedSegment(self._pts, depth, size, encoder, self._warnings(end))

    def _warnings(self, end: int | None) -> dict[str, int]:
        warnings = dict.fromkeys(self._choice.warnings, len(self._pts))
        if self._padded:
            warnings["padded_to_even"] = len(self._pts)
        if self._target.cap and end is not None and end > self._pts[0]:
            seconds = (end - self._pts[0]) * self._tick
            if self._bits > self._target.cap * seconds * CAP_TOLERANCE:
                warnings["bitrate_exceeded"] = 1
        return warnings

    def abort(self) -> None:
        """Close the encoder and remove the file. Harmless after `finish`, which keeps the file."""
        if self._finished:
            return
        self._finished = True
        with suppress(OSError, ValueError):  # nothing of it is kept
            self._output.close()
        self._path.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.abort()


def pad(inner: Sequence[Plane], outer: Sequence[Plane], video: VideoFormat) -> None:
    """Repeat the last rows and columns of a picture up to its coded size, rows field by field if it has
    fields. `inner` are views of the top left of `outer`, which may have chroma beyond them.

    A column or row is put to the right or the bottom as pictures are shown: of those that are turned by their
    container that may be the left or the top as they are coded. Fields keep their places.
    """
    step = 1 if video.field_order == "progressive" else 2
    for small, large in zip(inner, outer, strict=False):
        rows, columns = small.shape
        large[:rows, columns:] = large[:rows, columns - 1 : columns]
        for row in range(rows, large.shape[0]):
            large[row] = large[max(row - step, 0)]
    higher, wider = (large > small for small, large in zip(inner[0].shape, outer[0].shape, strict=True))
    for index, large in enumerate(outer):
        chroma = index in (1, 2)
        if wider and video.rotation in _COLUMN_LEFT:
            _shift(large.T, 1 << video.pixels.chroma_x * chroma)
        if higher and video.rotation in _ROW_ABOVE and step == 1:
            _shift(large, 1 << video.pixels.chroma_y * chroma)


def _shift(rows: Plane, steps: int) -> None:
    """Move rows down by 1/`steps` of a row, between which samples are blended; the first stays."""
    before, after = rows[:-1].astype(np.uint32), rows[1:].astype(np.uint32)
    rows[1:] = (before + after * (steps - 1) + steps // 2) // steps


def _coded(video: VideoFormat, choice: EncoderChoice) -> VideoFormat:
    """The format of the frames that are filled: padded, and with chroma where gray is coded as colour."""
    name = video.pixel_format
    if video.pixels.planes == 1 and pixel_format(choice.pixel_format).planes > 1:
        name = name.replace("gray", "yuv420p")
    return video.model_copy(update={"width": choice.width, "height": choice.height, "pixel_format": name})


def _conversion(choice: EncoderChoice, coded: VideoFormat, tick: Fraction) -> FilterChain | None:
    """What turns frames into what the encoder takes; None where it takes them as they are. ProRes takes its
    tags from the frames, and all encoders of fields which of them is shown first."""
    result = coded_colour(choice.name, coded.model_copy(update={"pixel_format": choice.pixel_format}))
    if choice.name == "prores_ks" or result != coded:
        return converter(coded, result, tick)
    if choice.name in CODING_FIELDS and coded.field_order != "progressive":
        return FilterChain(coded, tick, [tagged(coded)])
    return None


_DISK = {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS}
"""Errors of the disk, not of the encoder: the same segment may be written later, or elsewhere."""


class _translated:  # noqa: N801 (reads as a verb)
    """Turns PyAV's errors into EncoderError with the encoder's name."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, OSError) and error.errno in _DISK:
            raise StoreError(f"the segment could not be written: {error.strerror}") from error
        if isinstance(error, (OSError, ValueError)):
            raise EncoderError(f"{self._name}: {str(error).splitlines()[0]}") from error
