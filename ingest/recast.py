"""From the picture as it is decoded to the picture that travels: scaled, tone-mapped, turned upright.

The rules:
- `scale` counts as the picture is displayed. With one size 0 the other follows, rounded to even, and samples
  keep their shape; with both given the picture fills them, and the sample aspect changes so that the display
  shape stays (a difference under 1 % is taken for rounding).
  Interlaced pictures are scaled field by field.
- `upright` turns the samples, and the sample aspect with them. Chroma that is subsampled in one direction
  only (4:2:2, 4:4:0, 4:1:1) becomes 4:4:4 first, since encoders have no format for it on its side.
- Pictures that are mirrored as well are always turned upright: no container's rotation says that.
- `hdr = "tonemap"` maps PQ and HLG to BT.709, see `ingest.tonemap`; anything else stays.
- Alpha goes along with all of it. Where the result has no place for alpha, pictures are laid on black as they
  are decoded (`ingest.travel`); VP9 holds it beside 4:2:0 only, so chroma is made that coarse.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import av
import numpy as np
import numpy.typing as npt
from av.video.reformatter import ColorRange, Interpolation

from ingest.tonemap import ToneMap, is_hdr
from runtime.alpha import copy_alpha
from runtime.payload import frame_planes
from schemas.containers import CONTAINERS, ENCODER_TABLE, alpha_format, refusal
from schemas.frames import Rational, VideoFormat
from schemas.job import AUTO, JobSpec, PlanSpec
from schemas.pixels import PixelFormat, holding, pixel_format

SMOOTH = Interpolation.LANCZOS | Interpolation.ACCURATE_RND | Interpolation.BITEXACT
"""Of swscale; bit-exact, so that every CPU gives the same samples."""
_SAME_SHAPE = Fraction(1, 100)
_OTHER_FIRST = {"progressive": "progressive", "tt": "bb", "bb": "tt", "tb": "bt", "bt": "tb"}
"""Field order of pictures turned upside down: lines of one field take the places of the other's."""


def formats(video: VideoFormat, spec: JobSpec, mirrored: bool = False) -> tuple[VideoFormat, VideoFormat]:
    """(as it is decoded, as it travels): the formats of the frames of an input by a job's spec."""
    kept = alpha_format(spec, video.pixel_format)
    given = video if pixel_format(kept).alpha else video.model_copy(update={"pixel_format": kept})
    target = target_format(given, spec.plan, mirrored)
    name = alpha_format(spec, target.pixel_format)
    return given, target if name == target.pixel_format else target.model_copy(update={"pixel_format": name})


def with_encoder(spec: JobSpec, video: VideoFormat, mirrored: bool = False) -> JobSpec:
    """The spec with an encoder. Where that is left open: the container's first on the CPU that holds such
    frames, alpha and all; else the first that holds them without; else its first, to be refused by name."""
    if spec.encode.encoder != AUTO:
        return spec
    able = [name for name in CONTAINERS[spec.container].encoders if not name.endswith("_nvenc")]
    if spec.encode.bitrate or spec.encode.like_source:
        able = [name for name in able if ENCODER_TABLE[name].capped] or able
    specs = [spec.model_copy(update={"encode": spec.encode.by(name)}) for name in able]
    fitting: list[tuple[JobSpec, bool]] = []
    for one in specs:
        _, travels = formats(video, one, mirrored)
        if not refusal(one.encode.encoder, travels, spec.container):
            fitting.append((one, travels.pixels.alpha == video.pixels.alpha))
    whole = [one for one, keeps in fitting if keeps]
    return (whole or [one for one, _ in fitting] or specs)[0]


def lost(given: VideoFormat, travels: VideoFormat, frames: int) -> dict[str, int]:
    """The warnings of frames that lose chroma for the sake of their alpha, or whose fields are turned to
    columns."""
    before, after = given.pixels, travels.pixels
    coarser = after.chroma_x > before.chroma_x or after.chroma_y > before.chroma_y
    warnings = {"chroma_reduced": frames} if after.alpha and coarser else {}
    if given.field_order != "progressive" and travels.field_order == "progressive":
        warnings["interlacing_dropped"] = frames
    return warnings


def target_format(video: VideoFormat, spec: PlanSpec, mirrored: bool = False) -> VideoFormat:
    """The format in which frames of `video` travel by `spec`; `video` itself where nothing is asked for."""
    turned = video.rotation if spec.upright or mirrored else 0
    update: dict[str, Any] = {}
    if spec.scale is not None:
        update |= _scaled(video, spec.scale)
    if spec.hdr == "tonemap" and is_hdr(video):
        update |= {
            "pixel_format": _with_colour(video.pixels, 8),
            "color_range": "tv",
            "matrix": "bt709",
            "primaries": "bt709",
            "transfer": "bt709",
            "mastering_display": "",
            "light_level": (0, 0),
        }
    target = video.model_copy(update=update) if update else video
    return _turned(target, turned) if turned else target


def _scaled(video: VideoFormat, scale: tuple[int, int]) -> dict[str, Any]:
    sideways = video.rotation in (90, 270)
    width, height = scale[::-1] if sideways else scale
    shape = Fraction(video.width, video.height)
    if not width and not height:
        return {}
    if not width:
        return {"width": _even(height * shape), "height": height}
    if not height:
        return {"width": width, "height": _even(width / shape)}
    old = Fraction(*video.sample_aspect)
    aspect = old * shape / Fraction(width, height)
    if abs(aspect / old - 1) < _SAME_SHAPE:
        aspect = old
    return {
        "width": width,
        "height": height,
        "sample_aspect": _rational(aspect.limit_denominator(10_000)),
    }


def _even(size: Fraction) -> int:
    return max(round(size / 2) * 2, 2)


def _rational(value: Fraction) -> Rational:
    return value.numerator, value.denominator


def _turned(video: VideoFormat, degrees: int) -> VideoFormat:
    if degrees == 180:
        fields = video.field_order if video.height % 2 else _OTHER_FIRST[video.field_order]
        return video.model_copy(update={"rotation": 0, "field_order": fields})
    return video.model_copy(
        update={
            "width": video.height,
            "height": video.width,
            "pixel_format": _turnable(video.pixels),
            "sample_aspect": video.sample_aspect[::-1],
            "rotation": 0,
            "field_order": "progressive",
        }
    )


def _turnable(pixels: PixelFormat) -> str:
    return pixels.name if pixels.chroma_x == pixels.chroma_y else holding(0, 0, pixels.depth, pixels.alpha)


def _with_colour(pixels: PixelFormat, depth: int) -> str:
    """The format of a depth; gray has no chroma, and gets the coarsest, sampling of other kinds 4:4:4."""
    if pixels.planes == 1:
        return holding(1, 1, depth)
    known = (pixels.chroma_x, pixels.chroma_y) in ((1, 1), (1, 0))
    return holding(pixels.chroma_x if known else 0, pixels.chroma_y if known else 0, depth, pixels.alpha)


class Recast:
    """Turns frames of format `source` into frames of format `target`, as `target_format` gave it."""

    def __init__(self, source: VideoFormat, target: VideoFormat, mirrored: bool = False) -> None:
        turns = (source.rotation - target.rotation) % 360 // 90
        size = {"width": target.width, "height": target.height}
        if turns % 2:
            size = {"width": target.height, "height": target.width}
        tone = is_hdr(source) and not is_hdr(target)
        name = target.pixel_format
        self._flat = target.model_copy(update=size)
        """Before it is turned."""
        if tone:
            name = _with_colour(target.pixels, source.pixels.depth)
        self._before = source.model_copy(update=size | {"pixel_format": name})
        """Before tones are mapped."""
        self._source, self._target = source, target
        self._tones = ToneMap(self._before) if tone else None
        self._turns, self._mirrored = turns, mirrored
        self._idle = source == target and not mirrored

    def apply(self, frame: av.VideoFrame) -> av.VideoFrame:
        """The frame itself where nothing is to be done."""
        if self._idle:
            return frame
        frame = same_samples(frame, self._source, self._before)
        if self._tones is not None:
            mapped = av.VideoFrame(self._flat.width, self._flat.height, self._flat.pixel_format)
            self._tones.apply(frame_planes(frame, self._before), frame_planes(mapped, self._flat))
            if self._flat.pixels.alpha:
                copy_alpha(frame, mapped)
            frame = mapped
        if self._turns or self._mirrored:
            frame = self._turn(frame)
        return frame

    def _turn(self, frame: av.VideoFrame) -> av.VideoFrame:
        target = self._target
        turned = av.VideoFrame(target.width, target.height, target.pixel_format)
        for plane, out in zip(frame_planes(frame, self._flat), frame_planes(turned, target), strict=True):
            out[:] = self._oriented(plane)
        return turned

    def _oriented(self, plane: npt.NDArray[Any]) -> npt.NDArray[Any]:
        upright = np.rot90(plane, self._turns)
        return upright[:, ::-1] if self._mirrored else upright


def same_samples(frame: av.VideoFrame, source: VideoFormat, target: VideoFormat) -> av.VideoFrame:
    """Another size, chroma sampling or depth, but the same matrix and range; fields stay apart."""
    if source.field_order == "progressive" or frame.height == target.height:
        return _same_samples(frame, source, target)
    result = av.VideoFrame(target.width, target.height, target.pixel_format)
    for first in (0, 1):
        given, made = (_field(video, first) for video in (source, target))
        field = av.VideoFrame(given.width, given.height, given.pixel_format)
        _put(frame_planes(field, given), [plane[first::2] for plane in frame_planes(frame, source)])
        field = _same_samples(field, given, made)
        _put([plane[first::2] for plane in frame_planes(result, target)], frame_planes(field, made))
    return result


def _field(video: VideoFormat, first: int) -> VideoFormat:
    """The format of the lines from `first` on, every other one."""
    return video.model_copy(update={"height": (video.height + 1 - first) // 2})


def _put(into: Sequence[npt.NDArray[Any]], planes: Sequence[npt.NDArray[Any]]) -> None:
    """Chroma of a field may be a line longer or shorter than every other line of the frame's."""
    for out, plane in zip(into, planes, strict=True):
        lines = min(len(out), len(plane))
        out[:lines], out[lines:] = plane[:lines], plane[-1:]


def _same_samples(frame: av.VideoFrame, source: VideoFormat, target: VideoFormat) -> av.VideoFrame:
    size = (frame.width, frame.height)
    if size == (target.width, target.height) and source.pixel_format == target.pixel_format:
        return frame
    full = source.color_range == "pc" or frame.format.name.startswith("yuvj")
    span = ColorRange.JPEG if full else ColorRange.MPEG
    result = frame.reformat(
        target.width,
        target.height,
        target.pixel_format,
        interpolation=SMOOTH,
        src_color_range=span,
        dst_color_range=span,
    )
    if target.pixels.alpha and size == (target.width, target.height):
        copy_alpha(frame, result)
    return result
