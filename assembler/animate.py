"""Pictures as files: GIF, animated WebP, JPEG and PNG, made in one pass out of losslessly stored segments.

Colours are 8-bit RGB (PNG: 16 bit from more than 8 on; JPEG: Y'CbCr of BT.601 in full range). Alpha is kept,
but by JPEG; a GIF shows or hides each pixel, by half of full alpha, and gets a palette for each picture.
Times start at zero and are rounded to what the file counts in, 1/100 s for GIF and 1/1000 s for WebP, each
by itself, so that roundings never add up.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import cast

import av
from av.filter import Graph
from av.filter.context import FilterContext
from av.video.frame import VideoFrame
from av.video.reformatter import ColorPrimaries, ColorRange, ColorTrc

from assembler.convert import Filters, chain, described, full_gray, scaled, source_of
from assembler.encoders import jpeg_step
from assembler.mux import Muxed, Part
from runtime.alpha import copy_alpha, has_alpha
from schemas.errors import EncoderError
from schemas.frames import VideoFormat
from schemas.job import EncodeSpec, JobSpec
from schemas.plan import Plan

_GIF_TICK, _WEBP_TICK = Fraction(1, 100), Fraction(1, 1000)
_INDEX = Fraction(1, 25)
"""Time base in which pictures are numbered on their way through the filters; no time is read from it."""
_UNSPECIFIED = 2
"""AVCOL_SPC_UNSPECIFIED."""


def encode_pictures(target: Path, spec: JobSpec, plan: Plan, parts: Sequence[Part]) -> Muxed:
    """Write `target` from segments in order of presentation; the spec's container names the kind of file.

    Warnings: `timestamps_rounded` counts pictures whose time the file cannot hold exactly,
    `sample_aspect_dropped` is 1 where it cannot say that samples are not square. Raises EncoderError
    where a still picture is to hold several, or where the encoder refuses; OSError where the file cannot
    be written.
    """
    pts = [value for part in parts for value in part.checkpoint.pts]
    if not pts:
        raise EncoderError("no pictures")
    try:
        return _WRITERS[spec.container](target, spec.encode, plan, parts, pts)
    except ValueError as error:
        raise EncoderError(f"{spec.encode.encoder}: {str(error).splitlines()[0]}") from error


def _pictures(parts: Sequence[Part]) -> Iterator[VideoFrame]:
    for part in parts:
        count = 0
        with av.open(str(part.path)) as source:
            for frame in source.decode(video=0):
                count += 1
                yield frame
        if count != len(part.checkpoint.pts):
            raise EncoderError(
                f"segment {part.checkpoint.segment}: {count} pictures for {len(part.checkpoint.pts)} frames"
            )


def _filtered(
    parts: Sequence[Part], video: VideoFormat, build: Callable[[Graph, FilterContext], FilterContext]
) -> Iterator[VideoFrame]:
    """The pictures as they come out of a graph, whose filters `build` adds to the source, one for one."""
    exact = video.pixels.alpha
    graph = Graph()
    graph.threads = 1
    source = source_of(graph, video, _INDEX)
    build(graph, source).link_to(graph.add("buffersink"))
    graph.configure()
    for number, picture in enumerate(_pictures(parts)):
        picture.pts, picture.time_base = number, _INDEX
        graph.vpush(_untagged(picture))
        for made in _ready(graph):
            if exact and has_alpha(made.format.name):
                copy_alpha(picture, made)
            yield made
    graph.vpush(None)
    yield from _ready(graph)


def _untagged(picture: VideoFrame) -> VideoFrame:
    """Without the tags that came through the segment's file: `described` sets them all."""
    picture.color_range = ColorRange.UNSPECIFIED
    picture.color_primaries, picture.color_trc = ColorPrimaries.UNSPECIFIED, ColorTrc.UNSPECIFIED
    picture.colorspace = _UNSPECIFIED
    return picture


def _ready(graph: Graph) -> Iterator[VideoFrame]:
    with suppress(av.error.BlockingIOError, av.error.EOFError):
        while True:
            yield graph.vpull()


def _rgb(video: VideoFormat, pixel_format: str, more: str = "") -> Filters:
    """From a format that frames travel in into one of full range."""
    scale = scaled(video, f":out_range=full{more}")
    return [*full_gray(video), described(video), scale, ("format", f"pix_fmts={pixel_format}")]


def _times(plan: Plan, parts: Sequence[Part], pts: list[int], tick: Fraction) -> tuple[list[int], int]:
    """Start of each picture in ticks from zero, and then the end of the last; how many were rounded.

    Two pictures never share a tick.
    """
    base = Fraction(*plan.time_base)
    exact = [(value - pts[0]) * base / tick for value in [*pts, max(parts[-1].checkpoint.end, pts[-1] + 1)]]
    times = [0]
    for value in exact[1:]:
        times.append(max(round(value), times[-1] + 1))
    return times, sum(a != b for a, b in zip(times[:-1], exact[:-1], strict=True))


def _warnings(video: VideoFormat, rounded: int = 0, **more: int) -> dict[str, int]:
    deep = int(video.pixels.depth > 8)
    counts = {"timestamps_rounded": rounded, "depth_reduced": deep} | more
    return {name: count for name, count in counts.items() if count}


def _gif(target: Path, encode: EncodeSpec, plan: Plan, parts: Sequence[Part], pts: list[int]) -> Muxed:
    video = plan.format

    def palettes(graph: Graph, source: FilterContext) -> FilterContext:
        both = chain(graph, source, [*_rgb(video, "bgra"), ("split", "2")])
        palette = graph.add("palettegen", f"stats_mode=single:reserve_transparent={int(video.pixels.alpha)}")
        applied = graph.add("paletteuse", "new=1:dither=sierra2_4a")
        both.link_to(applied, 0, 0)
        both.link_to(palette, 1, 0)
        palette.link_to(applied, 0, 1)
        return applied

    times, rounded = _times(plan, parts, pts, _GIF_TICK)
    with av.open(str(target), "w", format="gif", container_options={"loop": _repeats(plan)}) as output:
        stream = output.add_stream("gif", rate=25)
        _configure_context(stream.codec_context, video, "pal8", _GIF_TICK, encode.options)
        for number, picture in enumerate(_filtered(parts, video, palettes)):
            picture.pts, picture.time_base = times[number], _GIF_TICK
            for packet in stream.encode(picture):
                packet.duration = times[number + 1] - times[number]
                output.mux_one(packet)
        output.mux(stream.encode(None))
    return Muxed(len(pts), _warnings(video, rounded))


def _webp(target: Path, encode: EncodeSpec, plan: Plan, parts: Sequence[Part], pts: list[int]) -> Muxed:
    video = plan.format

    def rgb(graph: Graph, source: FilterContext) -> FilterContext:
        return chain(graph, source, _rgb(video, "bgra"))

    times, rounded = _times(plan, parts, pts, _WEBP_TICK)
    quality = {"quality": str(100 - encode.quality)} if encode.quality else {"lossless": "1"}
    context = av.CodecContext.create("libwebp_anim", "w")
    _configure_context(context, video, "bgra", _WEBP_TICK, quality | encode.options)
    for number, picture in enumerate(_filtered(parts, video, rgb)):
        picture.pts, picture.time_base = times[number], _WEBP_TICK
        context.encode(picture)
    data = b"".join(bytes(packet) for packet in context.encode(None))
    target.write_bytes(completed(data, times[-1], times_shown(plan)))
    square = video.sample_aspect[0] == video.sample_aspect[1]
    return Muxed(len(pts), _warnings(video, rounded, sample_aspect_dropped=int(not square)))


def times_shown(plan: Plan) -> int:
    """How often an animation is to be shown: as often as the input; 0, for ever, if that is none."""
    return int(plan.metadata.get("loop", "0"))


def _repeats(plan: Plan) -> str:
    """As FFmpeg wants it for a GIF, which counts repetitions: 0 for ever, -1 none."""
    shown = times_shown(plan)
    return str(shown - 1 or -1) if shown else "0"


def completed(webp: bytes, milliseconds: int, shown: int = 0) -> bytes:
    """An animated WebP whose last picture ends at a time, which libwebp guesses, and that is shown so often.
    Stills come back as they are.

    Layout: RIFF chunks; the duration of a picture is the 24-bit number at byte 12 of its ANMF chunk, how
    often all is shown the 16-bit number at byte 4 of the ANIM chunk.
    """
    data, at, spent, last = bytearray(webp), 12, 0, -1
    while at + 8 <= len(data):
        size = struct.unpack_from("<I", data, at + 4)[0]
        if data[at : at + 4] == b"ANIM":
            struct.pack_into("<H", data, at + 12, min(shown, 0xFFFF))
        if data[at : at + 4] == b"ANMF":
            spent += int.from_bytes(data[last : last + 3], "little") if last >= 0 else 0
            last = at + 8 + 12
        at += 8 + size + size % 2
    if last >= 0:
        data[last : last + 3] = max(1, milliseconds - spent).to_bytes(3, "little")
    return bytes(data)


def _jpeg(target: Path, encode: EncodeSpec, plan: Plan, parts: Sequence[Part], pts: list[int]) -> Muxed:
    pixels = plan.format.pixels
    chroma = "420" if pixels.planes == 1 or pixels.chroma_y else "422" if pixels.chroma_x else "444"
    if (pixels.chroma_x, pixels.chroma_y) == (0, 1):
        chroma = "444"
    step = str(jpeg_step(encode))
    matrix = ":out_color_matrix=bt601"
    return _still(
        target, "mjpeg", f"yuvj{chroma}p", {"qmin": step, "qmax": step}, matrix, encode, plan, parts
    )


def _png(target: Path, encode: EncodeSpec, plan: Plan, parts: Sequence[Part], pts: list[int]) -> Muxed:
    pixels = plan.format.pixels
    forms = {1: ("gray", "gray16be"), 3: ("rgb24", "rgb48be"), 4: ("rgba", "rgba64be")}
    form = forms[pixels.planes]
    return _still(target, "png", form[pixels.depth > 8], {}, "", encode, plan, parts)


def _still(
    target: Path,
    name: str,
    pixel_format: str,
    options: dict[str, str],
    scaling: str,
    encode: EncodeSpec,
    plan: Plan,
    parts: Sequence[Part],
) -> Muxed:
    video = plan.format
    frames = sum(len(part.checkpoint.pts) for part in parts)
    if frames != 1:
        raise EncoderError(f"{name} holds one picture, the input has {frames}")

    def convert(graph: Graph, source: FilterContext) -> FilterContext:
        return chain(graph, source, _rgb(video, pixel_format, scaling))

    context = cast(av.VideoCodecContext, av.CodecContext.create(name, "w"))
    _configure_context(context, video, pixel_format, _INDEX, options | encode.options)
    packets = [p for picture in _filtered(parts, video, convert) for p in context.encode(picture)]
    target.write_bytes(b"".join(bytes(packet) for packet in [*packets, *context.encode(None)]))
    return Muxed(1, _warnings(video) if name == "mjpeg" else {})


def _configure_context(
    context: av.VideoCodecContext,
    video: VideoFormat,
    pixel_format: str,
    tick: Fraction,
    options: dict[str, str],
) -> None:
    context.width, context.height, context.pix_fmt = video.width, video.height, pixel_format
    context.time_base, context.framerate = tick, 1 / _INDEX
    context.sample_aspect_ratio = Fraction(*video.sample_aspect)
    context.options = dict(options)


_WRITERS = {"gif": _gif, "webp": _webp, "jpg": _jpeg, "png": _png}
