"""Encoders by name: the options of each from the job's spec, and whether it works here.

Sizes: H.264, HEVC and AV1 count in whole chroma samples. Pictures coded in 4:2:0 or 4:2:2 with an odd side
are padded by one row or column, which repeats the edge (two rows more where fields are coded); 4:4:4, VP9,
ProRes and FFV1 keep any size.

ProRes is limited range by definition: full range is converted, in 10 bit. Motion JPEG is full BT.601.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import cast

import av
from av.video.frame import VideoFrame
from av.video.stream import VideoStream

from assembler.scheduling import make_ordinary
from schemas.containers import CONTAINERS, ENCODER_TABLE, is_picture, refusal, stored_as
from schemas.errors import EncoderError, UsageError
from schemas.frames import VideoFormat
from schemas.job import AUTO, EncodeSpec
from schemas.pixels import pixel_format

os.environ.setdefault("SVT_LOG", "1")  # else SVT-AV1 writes its settings to standard error; 1: errors only

_TOP_FIRST = ("tt", "bt")
_BOTTOM_FIRST = ("bb", "tb")
_PADDED = ("libx264", "libx265", "libsvtav1", "h264_nvenc", "hevc_nvenc")
CODING_FIELDS = ("libx264", "prores_ks", "ffv1")
"""Encoders whose pictures say that they are interlaced."""
_BUFFER_SHARE = Fraction(1, 10)
"""Of a segment's length that the rate control's buffer holds: by so much it may pass the cap."""
_SVT_SPEED = {
    "ultrafast": 12, "superfast": 11, "veryfast": 10, "faster": 9, "fast": 8, "medium": 7, "slow": 6,
    "slower": 4, "veryslow": 3, "placebo": 1,
}  # fmt: skip
_VPX_SPEED = {
    "ultrafast": 5, "superfast": 5, "veryfast": 5, "faster": 4, "fast": 4, "medium": 3, "slow": 2,
    "slower": 1, "veryslow": 1, "placebo": 0,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Target:
    """What the encoder has to know beyond its spec: the container that its packets end up in, the cap in
    bits a second (0: none), and the usual length of a segment, in seconds."""

    container: str = "mp4"
    cap: int = 0
    seconds: Fraction = Fraction(4)


PLAIN = Target()


@dataclass(frozen=True, slots=True)
class EncoderChoice:
    """An encoder with everything that decides its bytes."""

    name: str
    pixel_format: str
    width: int
    height: int
    """Coded size: that of the frames, or padded."""
    options: dict[str, str]
    suffix: str
    """Of the container that its segments are stored in; only order is read back, so matroska's
    milliseconds do no harm."""
    warnings: tuple[str, ...] = ()
    """What the encoder cannot say about the picture."""

    def describe(self) -> str:
        """Encoder, version and options in one line, for the record."""
        version = ".".join(str(part) for part in av.library_versions["libavcodec"])
        options = " ".join(f"{name}={value}" for name, value in sorted(self.options.items()))
        return f"{self.name} libavcodec {version} {self.pixel_format} {options}"


def validate(spec: EncodeSpec, container: str) -> None:
    """Check a spec before any work starts. Raises UsageError naming what is possible."""
    name = CONTAINERS[container].encoders[0] if spec.encoder == AUTO else spec.encoder
    entry = ENCODER_TABLE.get(name)
    if entry is None:
        raise UsageError(f"encoder {name!r} is none of {', '.join(ENCODER_TABLE)}")
    if container in CONTAINERS and name not in CONTAINERS[container].encoders:
        raise UsageError(
            f"encoder {name} does not go into .{container}, which takes "
            f"{', '.join(CONTAINERS[container].encoders)}"
        )
    if spec.preset not in entry.presets:
        raise UsageError(f"preset {spec.preset!r} of {name} is none of {', '.join(entry.presets)}")
    if spec.quality > entry.worst:
        raise UsageError(f"quality {spec.quality} of {name} is not in 0..{entry.worst}")
    if (spec.bitrate or spec.like_source) and not entry.capped:
        able = [other for other, e in ENCODER_TABLE.items() if e.capped]
        raise UsageError(f"{name} takes no bit rate; encoders that do: {', '.join(able)}")


def cap_of(spec: EncodeSpec, source: int) -> int:
    """The cap in bits a second, given the input's own bit rate: the lower of those asked for; 0 for none."""
    caps = [rate for rate in (spec.bitrate, source if spec.like_source else 0) if rate]
    return min(caps, default=0)


def choose(spec: EncodeSpec, video: VideoFormat, target: Target = PLAIN) -> EncoderChoice:
    """The encoder for the frames of a segment; those of pictures (GIF, WebP, stills) store them with ffv1.

    Raises EncoderError, naming what is possible, where it cannot hold them.
    """
    try:
        validate(spec, "")
    except UsageError as error:
        raise EncoderError(str(error)) from None
    if reason := refusal(spec.encoder, video, target.container):
        raise EncoderError(reason)
    stored = cast(str, stored_as(spec.encoder, video.pixel_format, target.container))
    if is_picture(spec.encoder, target.container):
        spec = spec.model_copy(update={"encoder": "ffv1", "options": {}})
    name = spec.encoder
    family = _FAMILIES[name]
    width, height = coded_size(name, video, stored)
    options = _tags(coded_colour(name, video)) | family.options(spec, video, target) | spec.options
    if "nvenc" in name and stored == "yuv420p10le":
        stored = "p010le"  # the same samples with interleaved chroma
    return EncoderChoice(
        name, stored, width, height, options, family.suffix, _losses(name, video, target.container)
    )


def coded_size(encoder: str, video: VideoFormat, stored: str) -> tuple[int, int]:
    """(width, height) in which an encoder codes pictures of a format that it stores as `stored`."""
    if encoder not in _PADDED:
        return video.width, video.height
    pixels = pixel_format(stored)
    across, down = 1 << pixels.chroma_x, 1 << pixels.chroma_y
    if encoder == "libx264" and video.field_order != "progressive":
        down *= 2
    return -(-video.width // across) * across, -(-video.height // down) * down


def coded_colour(encoder: str, video: VideoFormat) -> VideoFormat:
    """The format with the range and matrix that an encoder codes: ProRes is limited, JPEG full BT.601."""
    if encoder == "mjpeg":
        return video.model_copy(update={"color_range": "pc", "matrix": "smpte170m"})
    if encoder == "prores_ks" and video.color_range == "pc":
        return video.model_copy(update={"color_range": "tv"})
    return video


def _losses(encoder: str, video: VideoFormat, container: str) -> tuple[str, ...]:
    losses = []
    tags = (video.primaries,) if encoder == "mjpeg" else tuple(_tags(video).values())[:-1]
    if not CONTAINERS[container].tags and not set(tags) <= _USUAL:
        losses.append("colour_tags_dropped")
    if (video.mastering_display or any(video.light_level)) and encoder not in _HDR10:
        losses.append("hdr_metadata_dropped")
    if video.field_order != "progressive" and encoder not in CODING_FIELDS:
        losses.append("interlacing_dropped")
    if video.pixel_format in ENCODER_TABLE[encoder].rounds:
        losses.append("depth_reduced")
    return tuple(losses)


def _tags(video: VideoFormat) -> dict[str, str]:
    """Colour tags and field order, under the names of FFmpeg's codec options."""
    tags = {
        "color_range": video.color_range,
        "colorspace": "rgb" if video.matrix == "gbr" else video.matrix,
        "color_primaries": video.primaries,
        "color_trc": video.transfer,
        "field_order": video.field_order,
    }
    return {name: value for name, value in tags.items() if value not in ("unknown", "reserved")}


def _joined(params: list[str]) -> str:
    return ":".join(params)


def _capped(target: Target) -> dict[str, str]:
    """A bucket that is half full at first, so that a segment of `seconds` passes the cap by 5 %, one of half
    of that by 10 %. The same for all segments: sizes and levels in the headers must be."""
    if not target.cap:
        return {}
    bucket = int(target.cap * target.seconds * _BUFFER_SHARE)
    return {"maxrate": str(target.cap), "bufsize": str(bucket), "rc_init_occupancy": str(bucket // 2)}


def _light_level(video: VideoFormat) -> str:
    return ",".join(map(str, video.light_level)) if any(video.light_level) else ""


def _x264(spec: EncodeSpec, video: VideoFormat, target: Target) -> dict[str, str]:
    params = ["cpu-independent=1"] if spec.cpu_independent else []
    if video.field_order in _TOP_FIRST:
        params.append("tff=1")
    elif video.field_order in _BOTTOM_FIRST:
        params.append("bff=1")
    if video.mastering_display:
        params.append(f"mastering-display={video.mastering_display}")
    if level := _light_level(video):
        params.append(f"cll={level}")
    quality = {"crf": str(spec.quality)} if spec.quality else {"qp": "0"}  # crf 0 is lossless in 8 bit only
    options = {"preset": spec.preset, "threads": str(spec.threads)} | quality | _capped(target)
    return options | ({"x264-params": _joined(params)} if params else {})


def _x265(spec: EncodeSpec, video: VideoFormat, target: Target) -> dict[str, str]:
    params = [
        f"pools={spec.threads}",
        f"frame-threads={max(1, spec.threads // 2)}",  # else chosen by the machine's cores
        "open-gop=0",  # segments are joined: each must stand alone
        "info=0",  # the info SEI names the CPU, and would differ between workers
        "log-level=none",
    ]
    if video.mastering_display:
        params.append(f"master-display={video.mastering_display}")
    if level := _light_level(video):
        params.append(f"max-cll={level}")
    options = {"preset": spec.preset, "crf": str(spec.quality)} | _capped(target)
    return options | {"x265-params": _joined(params)}


def _svtav1(spec: EncodeSpec, video: VideoFormat, target: Target) -> dict[str, str]:
    params = [f"lp={min(spec.threads, 6)}"]
    if video.mastering_display:
        params.append(f"mastering-display={in_units(video.mastering_display)}")
    if level := _light_level(video):
        params.append(f"content-light={level}")
    options = {"preset": str(_SVT_SPEED.get(spec.preset, spec.preset))}
    if target.cap:
        # Its capped CRF passes the cap by half; constant bit rate, never better than the quality, keeps it.
        params += ["rc=2", "pred-struct=1", f"min-qp={spec.quality}"]
        options |= {"b": str(target.cap)} | _capped(target)
    elif spec.quality:
        options["crf"] = str(spec.quality)
    else:
        params.append("crf=0")  # as an option it is taken for none given
    return options | {"svtav1-params": _joined(params)}


def in_units(mastering_display: str) -> str:
    """A mastering display in chromaticities and cd/m2, as SVT-AV1 wants it, from ST 2086's integers."""

    def scaled(match: re.Match[str]) -> str:
        unit = 10_000 if match[1] == "L" else 50_000
        return f"{match[1]}({int(match[2]) / unit:.6g},{int(match[3]) / unit:.6g})"

    return re.sub(r"([A-Z]+)\((\d+),(\d+)\)", scaled, mastering_display)


def _vp9(spec: EncodeSpec, video: VideoFormat, target: Target) -> dict[str, str]:
    rate = {"crf": str(spec.quality), "b": "0"}
    if target.cap:
        # Its constrained quality passes the cap by a third; constant bit rate, never better than the
        # quality, keeps it.
        cap = str(target.cap)
        rate = {"qmin": str(spec.quality), "b": cap, "minrate": cap} | _capped(target)
    return rate | {
        "deadline": "good", "cpu-used": str(_VPX_SPEED.get(spec.preset, spec.preset)),
        "row-mt": "1", "tile-columns": "2", "threads": str(spec.threads),
    }  # fmt: skip


def _prores(spec: EncodeSpec, video: VideoFormat, target: Target) -> dict[str, str]:
    """Profile by chroma and quality: 4444 for 4:4:4, else HQ, standard, LT and proxy."""
    if "444" in cast(str, stored_as("prores_ks", video.pixel_format)):
        profile = "4444"
    else:
        steps = ((18, "hq"), (28, "standard"), (40, "lt"))
        profile = next((name for most, name in steps if spec.quality <= most), "proxy")
    options = {"profile": profile, "vendor": "apl0", "threads": str(spec.threads)}
    if video.pixels.alpha:
        options["alpha_bits"] = "16"
    return options | ({} if video.field_order == "progressive" else {"flags": "+ildct"})


def _mjpeg(spec: EncodeSpec, video: VideoFormat, target: Target) -> dict[str, str]:
    step = str(jpeg_step(spec))
    return {"qmin": step, "qmax": step, "threads": "1"}


def jpeg_step(spec: EncodeSpec) -> int:
    """FFmpeg's quantiser of JPEG, from 2, for a quality."""
    return max(2, spec.quality // 6)


def _ffv1(spec: EncodeSpec, video: VideoFormat, target: Target) -> dict[str, str]:
    return {
        "level": "3",
        "slicecrc": "1",
        "threads": str(spec.threads),
    }  # slices follow from size and threads


def _nvenc(spec: EncodeSpec, video: VideoFormat, target: Target) -> dict[str, str]:
    rate = {"rc": "constqp", "qp": str(spec.quality)}
    if target.cap:
        rate = {"rc": "vbr", "cq": str(spec.quality)} | _capped(target)
    return {"preset": spec.preset, "forced-idr": "1"} | rate


@dataclass(frozen=True, slots=True)
class _Family:
    options: Callable[[EncodeSpec, VideoFormat, Target], dict[str, str]]
    suffix: str = "mp4"


_FAMILIES = {
    "libx264": _Family(_x264),
    "libx265": _Family(_x265),
    "libsvtav1": _Family(_svtav1),
    "libvpx-vp9": _Family(_vp9, "mkv"),
    "prores_ks": _Family(_prores, "mov"),
    "ffv1": _Family(_ffv1, "mkv"),
    "mjpeg": _Family(_mjpeg, "mkv"),
    "h264_nvenc": _Family(_nvenc),
    "hevc_nvenc": _Family(_nvenc),
}
_USUAL = frozenset({"unknown", "tv", "smpte170m", "bt470bg", "bt709"})
"""Colours that readers take for granted where a file does not tell."""
_HDR10 = ("libx264", "libx265", "libsvtav1")
"""Encoders that write mastering display and light level into the bitstream."""
_PICTURE_FORMATS = {"gif": "rgb8", "libwebp_anim": "bgra", "mjpeg": "yuvj420p", "png": "rgb24"}


def probe_encoder(name: str) -> str | None:
    """Open an encoder and encode one small frame: None if that works here, else the reason."""
    video = VideoFormat(width=256, height=256, pixel_format="yuv420p")
    try:
        pixels, options = _PICTURE_FORMATS.get(name, ""), {}
        if not pixels:
            choice = choose(EncodeSpec.model_validate({"encoder": name}), video)
            pixels, options = choice.pixel_format, choice.options
        context = cast(av.VideoCodecContext, av.CodecContext.create(name, "w"))
        context.width, context.height, context.pix_fmt = video.width, video.height, pixels
        context.time_base, context.framerate = Fraction(1, 25), Fraction(25)
        context.options = dict(options)
        frame = VideoFrame(video.width, video.height, pixels)
        for plane in frame.planes:
            plane.update(bytes(plane.buffer_size))
        frame.pts, frame.time_base = 0, Fraction(1, 25)
        packets = [*context.encode(frame), *context.encode(None)]
    except (EncoderError, ValueError, OSError) as error:  # PyAV's errors are OSErrors or ValueErrors
        return str(error).splitlines()[0]
    finally:
        make_ordinary()
    return None if packets else f"{name} returned no packet"


def configure(stream: VideoStream, choice: EncoderChoice, video: VideoFormat, tick: Fraction) -> None:
    """Set up a stream of an output for the encoder, before its first frame."""
    stream.width, stream.height, stream.pix_fmt = choice.width, choice.height, choice.pixel_format
    stream.codec_context.sample_aspect_ratio = Fraction(*video.sample_aspect)
    stream.codec_context.time_base = tick
    stream.codec_context.options = dict(choice.options)
    if choice.name == "libvpx-vp9" and video.pixels.alpha:
        stream.metadata["alpha_mode"] = "1"  # alpha lies beside the packets
    if choice.name in ("libx265", "hevc_nvenc"):
        stream.codec_tag = "hvc1"  # parameter sets in the header only; players want it
