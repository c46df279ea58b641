"""Encode one segment into a file of its own: the same frames and spec give the same bytes."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import Any, Self, cast

import av
import numpy.typing as npt
from av.container import Flags, OutputContainer
from av.video.frame import VideoFrame
from av.video.stream import VideoStream

from assembler.encoders import choose, configure
from assembler.timing import reorder_depth
from runtime.payload import frame_planes
from schemas.errors import EncoderError
from schemas.frames import Rational, VideoFormat
from schemas.job import EncodeSpec

DEFAULT_RATE = Fraction(25)
"""Hint for the rate control where the input names no rate; never used for time."""

MOST_REORDERED = 64
"""Frames; both H.264 and HEVC allow 16."""

Plane = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class EncodedSegment:
    """What a finished segment file holds."""

    pts: list[int]
    """In presentation order, ticks of the source's time base."""
    reorder: int
    bytes: int
    encoder: str


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
        self, path: Path, video: VideoFormat, time_base: Rational, rate: Rational, spec: EncodeSpec
    ) -> None:
        self._path, self._video = path, video
        self._choice = choose(spec, video)
        self._tick = Fraction(*time_base)
        self._pts: list[int] = []
        self._decoded: list[int] = []
        self._finished = False
        with _translated(self._choice.name):
            self._output = self._open()
            hint = Fraction(*rate) if rate[0] > 0 and rate[1] > 0 else DEFAULT_RATE
            self._stream = cast(VideoStream, self._output.add_stream(self._choice.name, rate=hint))
            configure(self._stream, self._choice, video, self._tick)

    @property
    def suffix(self) -> str:
        """Suffix of the segment's file name, without the dot."""
        return self._choice.suffix

    def _open(self) -> OutputContainer:
        scale = str(self._tick.denominator)
        mp4 = {"movie_timescale": scale, "video_track_timescale": scale}
        in_mp4 = self._choice.suffix == "mp4"
        output = av.open(
            str(self._path),
            "w",
            format="mp4" if in_mp4 else "matroska",
            container_options=mp4 if in_mp4 else {},
        )
        output.flags = int(output.flags) | cast(int, Flags.bitexact.value)  # no random ids
        return output

    def picture(self) -> Picture:
        """A frame to fill; its samples are undefined."""
        frame = VideoFrame(self._video.width, self._video.height, self._video.pixel_format)
        return Picture(frame, frame_planes(frame, self._video))

    def encode(self, picture: Picture, pts: int) -> None:
        """Encode the next frame, at `pts` ticks. The picture must not be written to afterwards."""
        if self._pts and pts <= self._pts[-1]:
            raise EncoderError(f"pts {pts} does not come after {self._pts[-1]}")
        frame = picture.frame
        with _translated(self._choice.name):
            if self._choice.pixel_format != self._video.pixel_format:
                frame = frame.reformat(format=self._choice.pixel_format)  # interleaves chroma, no more
            frame.pts, frame.time_base = pts, self._tick
            self._pts.append(pts)
            self._mux(frame)

    def _mux(self, frame: VideoFrame | None) -> None:
        for packet in self._stream.encode(frame):
            if packet.pts is None or packet.time_base != self._tick:
                raise EncoderError(f"{self._choice.name} gave a packet of pts {packet.pts}")
            # Only the order of a segment's packets is read back, so any dts will do that rises and stays
            # below the pts. libx265's own is garbage for segments shorter than its delay.
            packet.dts = self._pts[0] - MOST_REORDERED + len(self._decoded)
            self._decoded.append(packet.pts)
            self._output.mux_one(packet)

    def finish(self) -> EncodedSegment:
        """Write what the encoder still holds and close the file."""
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
        return EncodedSegment(self._pts, reorder_depth(self._decoded), size, self._choice.describe())

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


class _translated:  # noqa: N801 (reads as a verb)
    """Turns PyAV's errors into EncoderError with the encoder's name."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, (OSError, ValueError)):
            raise EncoderError(f"{self._name}: {str(error).splitlines()[0]}") from error
