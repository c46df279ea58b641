"""The planes of frame batches: written into records by ingest, read back by everybody else.

Samples travel as they are: no conversion of colour, range or depth takes place here. The codecs are
described in `schemas.frames.PayloadCodec`; `raw` and `lossless` give back the very same samples.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import cast

import av
import numpy as np
import numpy.typing as npt
import zstandard

from schemas.errors import EncoderError, MalformedRecordError, RecordTooLargeError, UsageError
from schemas.frames import FrameBatch, PayloadCodec, Rational, VideoFormat
from schemas.framing import ByteArray
from schemas.record import Message, allocate, encode
from schemas.topics import RECORD_LIMIT

Plane = npt.NDArray[np.uint8 | np.uint16]
"""(rows, cols) samples of one plane; 16-bit ones are little endian."""
Planes = tuple[Plane, ...]

BATCH_BYTES = 4 << 20
"""Default byte budget of a batch: large enough that Kafka's cost per record vanishes, small enough
that a few batches in flight fit every worker."""
HEADER_ROOM = 64 << 10
"""Left free below the record limit for the header and Kafka's own framing."""

_MAGICYUV_FORMATS = frozenset({"yuv420p", "yuv422p", "yuv444p", "gray"})
_JPEG_FORMATS = frozenset({"yuv420p", "yuv422p", "yuv444p", "yuv440p", "yuv411p", "gray"})
_CODEC_THREADS = 4
_SLICED_ROWS = 64
"""Below this height threads cost more than they win."""
_ZSTD_LEVEL = 1


def _sample_type(video: VideoFormat) -> np.dtype[np.uint8 | np.uint16]:
    return np.dtype(np.uint8) if video.pixels.sample_bytes == 1 else np.dtype("<u2")


def frame_planes(frame: av.VideoFrame, video: VideoFormat) -> Planes:
    """Views of the samples of a decoded frame, without its row padding.

    The frame's layout must be that of `video` (yuvj* counts as its yuv* twin). The views keep the
    frame's memory alive; rows are `line_size` bytes apart.
    """
    pixels = video.pixels
    dtype = _sample_type(video)
    views: list[Plane] = []
    for index in range(pixels.planes):
        plane = frame.planes[index]
        width, height = pixels.plane_size(index, video.width, video.height)
        views.append(
            np.ndarray((height, width), dtype, memoryview(plane), 0, (plane.line_size, dtype.itemsize))
        )
    return tuple(views)


def check_record_size(video: VideoFormat, record_limit: int = RECORD_LIMIT) -> None:
    """Refuse a format of which one raw frame does not fit a record.

    Raises RecordTooLargeError naming both sizes and the setting; called before work starts.
    """
    if video.frame_bytes + HEADER_ROOM > record_limit:
        raise RecordTooLargeError(
            f"one frame of {video.width}x{video.height} {video.pixel_format} has {video.frame_bytes} bytes; "
            f"with its header it does not fit a record of {record_limit} bytes (setting record_limit)"
        )


# Reading


def decode(message: Message[FrameBatch]) -> list[Planes]:
    """Planes of each frame of a batch, as read-only (rows, cols) views of uint8 or uint16 samples.

    `raw` is read without a copy: the views share memory with the Kafka message (16-bit planes that
    came to lie on an odd address are copied, since such arrays are slow or refused further on).
    Decoders are held per thread. Raises MalformedRecordError where the body does not hold what the
    header says.
    """
    batch, body = message.record, message.body
    for offset, size in batch.spans:
        if offset < 0 or size < 0 or offset + size > len(body):
            raise MalformedRecordError(f"span ({offset}, {size}) lies outside a body of {len(body)} bytes")
    if batch.codec is PayloadCodec.RAW:
        return _decode_raw(batch, body)
    decoder = _decoders.jpeg if batch.codec is PayloadCodec.JPEG else _decoders.lossless(batch.format)
    return [decoder.decode(body[offset : offset + size], batch.format) for offset, size in batch.spans]


def _decode_raw(batch: FrameBatch, body: memoryview) -> list[Planes]:
    video, pixels = batch.format, batch.format.pixels
    sizes = [pixels.plane_bytes(p, video.width, video.height) for p in range(pixels.planes)]
    frames: list[Planes] = []
    for first in range(0, len(batch.spans), pixels.planes):
        spans = batch.spans[first : first + pixels.planes]
        if [size for _, size in spans] != sizes:
            raise MalformedRecordError(f"planes {spans} do not have the sizes {sizes}")
        frames.append(tuple(_plane(body, offset, index, video) for index, (offset, _) in enumerate(spans)))
    return frames


def _plane(body: memoryview, offset: int, index: int, video: VideoFormat) -> Plane:
    width, height = video.pixels.plane_size(index, video.width, video.height)
    dtype = _sample_type(video)
    view: Plane = np.frombuffer(body, dtype, width * height, offset).reshape(height, width)
    if not view.flags.aligned:
        view = view.copy()
    view.flags.writeable = False
    return view


class _ImageDecoder:
    """One FFmpeg decoder of intra-only pictures, kept open from frame to frame."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._context = _open_decoder(name)

    def decode(self, data: memoryview, video: VideoFormat) -> Planes:
        try:
            frames = self._context.decode(av.Packet(bytes(data)))
        except av.error.FFmpegError as error:
            self._context = _open_decoder(self._name)
            raise MalformedRecordError(f"{self._name} picture of {len(data)} bytes: {error}") from error
        if len(frames) != 1 or not _same_layout(frames[0], video):
            raise MalformedRecordError(f"{self._name} picture is no {video.pixel_format} of the batch's size")
        views = frame_planes(frames[0], video)
        for view in views:
            view.flags.writeable = False
        return views


def _open_decoder(name: str) -> av.VideoCodecContext:
    context = cast(av.VideoCodecContext, av.CodecContext.create(name, "r"))
    context.thread_type = "SLICE"  # frame threads would hold pictures back
    context.thread_count = _CODEC_THREADS
    return context


def _same_layout(frame: av.VideoFrame, video: VideoFormat) -> bool:
    """Compared by plane sizes: a JPEG of one column does not tell 4:2:0 from 4:4:4, nor need it."""
    pixels = video.pixels
    sizes = [pixels.plane_size(p, video.width, video.height) for p in range(pixels.planes)]
    return pixels.depth == 8 and [(plane.width, plane.height) for plane in frame.planes] == sizes


class _ZstdDecoder:
    def __init__(self) -> None:
        self._context = zstandard.ZstdDecompressor()

    def decode(self, data: memoryview, video: VideoFormat) -> Planes:
        try:
            stated = zstandard.frame_content_size(data)
            if stated != video.frame_bytes:
                raise MalformedRecordError(f"zstd part of {stated} bytes for a frame of {video.frame_bytes}")
            raw = memoryview(self._context.decompress(data))
        except zstandard.ZstdError as error:
            raise MalformedRecordError(f"zstd part of {len(data)} bytes: {error}") from error
        planes, offset = [], 0
        for index in range(video.pixels.planes):
            planes.append(_plane(raw, offset, index, video))
            offset += video.pixels.plane_bytes(index, video.width, video.height)
        return tuple(planes)


class _Decoders(threading.local):
    """Opened at the first use in each thread: contexts of FFmpeg and zstd are not shared between threads."""

    def __init__(self) -> None:
        self._held: dict[str, _ImageDecoder] = {}
        self._zstd = _ZstdDecoder()

    def _image(self, name: str) -> _ImageDecoder:
        if name not in self._held:
            self._held[name] = _ImageDecoder(name)
        return self._held[name]

    @property
    def jpeg(self) -> _ImageDecoder:
        return self._image("mjpeg")

    def lossless(self, video: VideoFormat) -> _ImageDecoder | _ZstdDecoder:
        return self._image("magicyuv") if video.pixel_format in _MAGICYUV_FORMATS else self._zstd


_decoders = _Decoders()


# Writing


class PayloadEncoder:
    """Compresses single frames with one codec; `raw` needs none. Held for many streams of one format.

    Raises UsageError for `jpeg` with a format that JPEG does not hold.
    """

    def __init__(self, video: VideoFormat, codec: PayloadCodec, jpeg_quality: int = 92) -> None:
        self.video, self.codec = video, codec
        self._quality = jpeg_quality
        if codec is PayloadCodec.JPEG and video.pixel_format not in _JPEG_FORMATS:
            raise UsageError(
                f"payload jpeg holds 8-bit pictures only, not {video.pixel_format}; use lossless"
            )
        self._magicyuv = codec is PayloadCodec.LOSSLESS and video.pixel_format in _MAGICYUV_FORMATS
        self._context = self._open_magicyuv() if self._magicyuv else None
        self._zstd = zstandard.ZstdCompressor(level=_ZSTD_LEVEL)
        self._scratch = np.empty(video.frame_bytes if codec is PayloadCodec.LOSSLESS else 0, np.uint8)

    def _open_magicyuv(self) -> av.VideoCodecContext:
        context = av.CodecContext.create("magicyuv", "w")
        context.width, context.height = self.video.width, self.video.height
        context.pix_fmt = self.video.pixel_format
        context.time_base = Fraction(1, 25)
        sliced = self.video.height >= _SLICED_ROWS
        context.thread_type = "SLICE"
        context.thread_count = _CODEC_THREADS if sliced else 1
        context.options = {"slices": str(_CODEC_THREADS if sliced else 1)}
        context.open()
        return context

    def encode(self, frame: av.VideoFrame) -> bytes:
        """One frame, compressed. Its layout must be that of the format this encoder was made for."""
        if self.codec is PayloadCodec.JPEG:
            return self._jpeg(frame)
        if self._context is not None:
            return self._encode_magicyuv(self._context, frame)
        copy_planes(frame_planes(frame, self.video), self._scratch)
        return self._zstd.compress(self._scratch.data)

    def _jpeg(self, frame: av.VideoFrame) -> bytes:
        import simplejpeg  # only ingest has it; this module is imported by all services

        planes = [np.ascontiguousarray(plane) for plane in frame_planes(frame, self.video)]
        luma, blue, red = planes if len(planes) == 3 else (planes[0], None, None)
        return bytes(simplejpeg.encode_jpeg_yuv_planes(luma, blue, red, self._quality))

    def _encode_magicyuv(self, context: av.VideoCodecContext, frame: av.VideoFrame) -> bytes:
        try:
            packets = context.encode(self._relabelled(frame))
        except av.error.FFmpegError as error:
            raise EncoderError(f"magicyuv refused a frame of {frame.format.name}: {error}") from error
        return b"".join(bytes(packet) for packet in packets)

    def _relabelled(self, frame: av.VideoFrame) -> av.VideoFrame:
        """The same samples under the name of our format: FFmpeg would convert yuvj* to limited range."""
        if frame.format.name == self.video.pixel_format:
            return frame
        twin = av.VideoFrame(self.video.width, self.video.height, self.video.pixel_format)
        for source, target in zip(
            frame_planes(frame, self.video), frame_planes(twin, self.video), strict=True
        ):
            np.copyto(target, source)
        return twin


def copy_planes(planes: Sequence[Plane], out: ByteArray) -> None:
    """Write planes one behind another, without row padding, into a byte array of exactly their size."""
    offset = 0
    for plane in planes:
        rows, cols = plane.shape
        size = rows * cols * plane.itemsize
        target: Plane = np.ndarray((rows, cols), plane.dtype, out.data, offset)
        np.copyto(target, plane)
        offset += size


@dataclass(frozen=True, slots=True)
class BatchBase:
    """What all batches of one stream have in common."""

    job: str
    stream: str
    epoch: int
    revision: int
    format: VideoFormat
    time_base: Rational
    start_offset: Callable[[], int]
    """Where the stream's start lies in its partition: asked for when the first record is built, so that
    decoding need not wait for the brokers' answer."""


@dataclass(slots=True)
class _Pending:
    frames: list[av.VideoFrame] = field(default_factory=list)
    parts: list[bytes] = field(default_factory=list)
    pts: list[int] = field(default_factory=list)
    duration: list[int] = field(default_factory=list)
    flags: list[int] = field(default_factory=list)
    ordinal: int = 0
    """Of the first frame."""
    bytes: int = 0


class Packer:
    """Collects the frames of one stream and builds its FrameBatch records.

    A record holds as many frames as fit the byte budget, at least one. Raw planes are copied once,
    from the decoder's frames straight into the record. Raises RecordTooLargeError at construction if
    one raw frame would pass `record_limit`.
    """

    def __init__(
        self,
        base: BatchBase,
        encoder: PayloadEncoder,
        *,
        budget: int = BATCH_BYTES,
        record_limit: int = RECORD_LIMIT,
    ) -> None:
        check_record_size(base.format, record_limit)
        self._base, self._encoder = base, encoder
        self._budget = min(budget, record_limit - HEADER_ROOM)
        self._pending = _Pending()
        self._seq = 0

    @property
    def count(self) -> int:
        """Frames given so far."""
        return self._seq + len(self._pending.pts)

    def add(
        self, frame: av.VideoFrame, ordinal: int, pts: int, duration: int, flags: int = 0
    ) -> ByteArray | None:
        """Take the next frame; returns the finished record of those before it, if it had no room left or
        does not follow them directly (`ordinal` is the frame's number in the whole input).

        The frame must not be written to afterwards.
        """
        raw = self._encoder.codec is PayloadCodec.RAW
        part = b"" if raw else self._encoder.encode(frame)
        size = self._base.format.frame_bytes if raw else len(part)
        pending = self._pending
        follows = ordinal == pending.ordinal + len(pending.pts)
        finished = None if follows and pending.bytes + size <= self._budget else self.flush()
        pending = self._pending
        if not pending.pts:
            pending.ordinal = ordinal
        if raw:
            pending.frames.append(frame)
        else:
            pending.parts.append(part)
        pending.pts.append(pts)
        pending.duration.append(duration)
        pending.flags.append(flags)
        pending.bytes += size
        return finished

    def flush(self, stamps: dict[str, int] | None = None) -> ByteArray | None:
        """The record of all frames still held, or None if there are none."""
        pending = self._pending
        if not pending.pts:
            return None
        self._pending = _Pending()
        batch = self._record(pending, stamps or {})
        self._seq += len(pending.pts)
        if pending.parts:
            return encode(batch, pending.parts)
        record, body = allocate(batch, pending.bytes)
        size = self._base.format.frame_bytes
        for index, frame in enumerate(pending.frames):
            copy_planes(frame_planes(frame, self._base.format), body[index * size : (index + 1) * size])
        return record

    def _record(self, pending: _Pending, stamps: dict[str, int]) -> FrameBatch:
        base = self._base
        return FrameBatch(
            job=base.job,
            stream=base.stream,
            epoch=base.epoch,
            revision=base.revision,
            start_offset=base.start_offset(),
            seq=self._seq,
            ordinal=pending.ordinal,
            format=base.format,
            time_base=base.time_base,
            pts=pending.pts,
            duration=pending.duration,
            flags=pending.flags,
            codec=self._encoder.codec,
            spans=self._spans(pending),
            stamps=stamps,
        )

    def _spans(self, pending: _Pending) -> list[tuple[int, int]]:
        video = self._base.format
        if pending.parts:
            sizes = [len(part) for part in pending.parts]
        else:
            planes = [
                video.pixels.plane_bytes(p, video.width, video.height) for p in range(video.pixels.planes)
            ]
            sizes = planes * len(pending.frames)
        spans, offset = [], 0
        for size in sizes:
            spans.append((offset, size))
            offset += size
        return spans
