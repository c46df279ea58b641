"""Encoders by name: which pixels each takes, its options from the job's spec, and whether it works here."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import cast

import av
from av.video.frame import VideoFrame
from av.video.stream import VideoStream

from schemas.errors import EncoderError
from schemas.frames import VideoFormat
from schemas.job import EncodeSpec

_PLANAR = ("yuv420p", "yuv422p", "yuv444p")
_NVENC = {"yuv420p": "yuv420p", "yuv444p": "yuv444p", "yuv420p10le": "p010le"}


def _same(*names: str) -> dict[str, str]:
    return {name: name for name in names}


def _deep(depth: int) -> tuple[str, ...]:
    return tuple(f"{name}{depth}le" for name in (*_PLANAR, "gray"))


_TAKES: dict[str, dict[str, str]] = {
    "libx264": _same(*_PLANAR, "gray", *_deep(10)),
    "libx265": _same(*_PLANAR, "gray", *_deep(10), *_deep(12)),
    "ffv1": _same(
        *_PLANAR, "yuv440p", "yuv411p", "yuv410p", "gray",
        *_deep(9), *_deep(10), *_deep(12), *_deep(14), *_deep(16),
    ),
    "h264_nvenc": {k: v for k, v in _NVENC.items() if k != "yuv420p10le"},
    "hevc_nvenc": _NVENC,
}  # fmt: skip
"""For each encoder: the formats that travel which it takes without loss, and as what it wants them
(p010le is yuv420p10le with its chroma interleaved)."""

_TOP_FIRST = ("tt", "bt")
_BOTTOM_FIRST = ("bb", "tb")


@dataclass(frozen=True, slots=True)
class EncoderChoice:
    """An encoder with everything that decides its bytes."""

    name: str
    pixel_format: str
    options: dict[str, str]
    suffix: str
    """Of the container that its segments are stored in; only order is read back, so matroska's
    milliseconds do no harm."""

    def describe(self) -> str:
        """Encoder, version and options in one line, for the record."""
        version = ".".join(str(part) for part in av.library_versions["libavcodec"])
        options = " ".join(f"{name}={value}" for name, value in sorted(self.options.items()))
        return f"{self.name} libavcodec {version} {self.pixel_format} {options}"


def choose(spec: EncodeSpec, video: VideoFormat) -> EncoderChoice:
    """The encoder for frames of a format.

    Raises EncoderError, naming what is possible, where it cannot hold them exactly as they are:
    frames are never scaled, padded or converted.
    """
    takes = _TAKES[spec.encoder]
    if video.pixel_format not in takes:
        others = [name for name, formats in _TAKES.items() if video.pixel_format in formats]
        raise EncoderError(
            f"{spec.encoder} does not take {video.pixel_format}; it takes {', '.join(takes)}. "
            f"Encoders that take it: {', '.join(others) or 'none'}"
        )
    pixels = video.pixels
    odd = (pixels.chroma_x and video.width % 2) or (pixels.chroma_y and video.height % 2)
    if odd and spec.encoder != "ffv1":
        raise EncoderError(
            f"{spec.encoder} cannot hold {video.width}x{video.height} {video.pixel_format}: its sides must "
            "be even. ffv1 in .mkv can"
        )
    options = _common(video) | _OPTIONS[spec.encoder](spec, video) | spec.options
    suffix = "mkv" if spec.encoder == "ffv1" else "mp4"
    return EncoderChoice(spec.encoder, takes[video.pixel_format], options, suffix)


def _common(video: VideoFormat) -> dict[str, str]:
    """Colour tags and field order, under the names of FFmpeg's codec options."""
    tags = {
        "color_range": video.color_range,
        "colorspace": "rgb" if video.matrix == "gbr" else video.matrix,
        "color_primaries": video.primaries,
        "color_trc": video.transfer,
        "field_order": video.field_order,
    }
    return {name: value for name, value in tags.items() if value not in ("unknown", "reserved")}


def _x264(spec: EncodeSpec, video: VideoFormat) -> dict[str, str]:
    params = ["cpu-independent=1"] if spec.cpu_independent else []
    if video.field_order in _TOP_FIRST:
        params.append("tff=1")
    elif video.field_order in _BOTTOM_FIRST:
        params.append("bff=1")
    quality = {"crf": str(spec.quality)} if spec.quality else {"qp": "0"}  # crf 0 is lossless in 8 bit only
    options = {"preset": spec.preset, "threads": str(spec.threads)} | quality
    return options | ({"x264-params": ":".join(params)} if params else {})


def _x265(spec: EncodeSpec, video: VideoFormat) -> dict[str, str]:
    params = [
        f"pools={spec.threads}",
        f"frame-threads={max(1, spec.threads // 2)}",  # else chosen by the machine's cores
        "open-gop=0",  # segments are joined: each must stand alone
        "info=0",  # the info SEI names the CPU, and would differ between workers
        "log-level=none",
    ]
    return {"preset": spec.preset, "crf": str(spec.quality), "x265-params": ":".join(params)}


def _ffv1(spec: EncodeSpec, video: VideoFormat) -> dict[str, str]:
    return {
        "level": "3",
        "slicecrc": "1",
        "threads": str(spec.threads),
    }  # slices follow from size and threads


def _nvenc(spec: EncodeSpec, video: VideoFormat) -> dict[str, str]:
    return {"preset": spec.preset, "rc": "constqp", "qp": str(spec.quality), "forced-idr": "1"}


_OPTIONS = {
    "libx264": _x264,
    "libx265": _x265,
    "ffv1": _ffv1,
    "h264_nvenc": _nvenc,
    "hevc_nvenc": _nvenc,
}


def probe_encoder(name: str) -> str | None:
    """Open an encoder and encode one small frame: None if that works here, else the reason."""
    video = VideoFormat(width=256, height=256, pixel_format="yuv420p")
    try:
        choice = choose(EncodeSpec.model_validate({"encoder": name}), video)
        context = cast(av.VideoCodecContext, av.CodecContext.create(name, "w"))
        context.width, context.height, context.pix_fmt = video.width, video.height, choice.pixel_format
        context.time_base, context.framerate = Fraction(1, 25), Fraction(25)
        context.options = dict(choice.options)
        frame = VideoFrame(video.width, video.height, choice.pixel_format)
        for plane in frame.planes:
            plane.update(bytes(plane.buffer_size))
        frame.pts, frame.time_base = 0, Fraction(1, 25)
        packets = [*context.encode(frame), *context.encode(None)]
    except (EncoderError, ValueError, OSError) as error:  # PyAV's errors are OSErrors or ValueErrors
        return str(error).splitlines()[0]
    return None if packets else f"{name} returned no packet"


def configure(stream: VideoStream, choice: EncoderChoice, video: VideoFormat, tick: Fraction) -> None:
    """Set up a stream of an output for the encoder, before its first frame."""
    stream.width, stream.height, stream.pix_fmt = video.width, video.height, choice.pixel_format
    stream.codec_context.sample_aspect_ratio = Fraction(*video.sample_aspect)
    stream.codec_context.time_base = tick
    stream.codec_context.options = dict(choice.options)
    if choice.name in ("libx265", "hevc_nvenc"):
        stream.codec_tag = "hvc1"  # parameter sets in the header only; players want it
