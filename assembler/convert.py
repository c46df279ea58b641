"""Frames into another pixel format by FFmpeg's filters, one for one, with nothing carried between frames."""

from __future__ import annotations

from fractions import Fraction

import av
from av.filter import Graph
from av.filter.context import FilterContext
from av.video.frame import VideoFrame

from runtime.alpha import copy_alpha, has_alpha
from schemas.frames import VideoFormat

Filters = list[tuple[str, str]]
"""[(name, arguments), ...], in order."""
SCALER = "bicubic+accurate_rnd+full_chroma_int+full_chroma_inp+bitexact"
_FIELDS = {"tt": "tff", "bt": "tff", "bb": "bff", "tb": "bff"}
_HD_LINES = 720


class FilterChain:
    """A chain of filters, given as [(name, arguments), ...], through which frames go one at a time."""

    def __init__(self, video: VideoFormat, tick: Fraction, filters: Filters) -> None:
        self._graph = Graph()
        self._graph.threads = 1
        chain(self._graph, source_of(self._graph, video, tick), filters).link_to(
            self._graph.add("buffersink")
        )
        self._graph.configure()
        self._alpha = video.pixels.alpha

    def __call__(self, frame: VideoFrame) -> VideoFrame:
        """The frame that comes out for a frame. Raises av's errors where a filter refuses it."""
        self._graph.vpush(frame)
        made = self._graph.vpull()
        if self._alpha and has_alpha(made.format.name):
            copy_alpha(frame, made)
        return made


def source_of(graph: Graph, video: VideoFormat, tick: Fraction) -> FilterContext:
    """The filter through which frames of a format enter a graph."""
    form = av.VideoFormat(video.pixel_format, video.width, video.height)
    return graph.add_buffer(width=video.width, height=video.height, format=form, time_base=tick)


def chain(graph: Graph, source: FilterContext, filters: Filters) -> FilterContext:
    """Add filters behind one another; returns the last."""
    for name, arguments in filters:
        following = graph.add(name, arguments)
        source.link_to(following)
        source = following
    return source


def described(video: VideoFormat) -> tuple[str, str]:
    """A filter that says what the samples of a format mean; where it does not say, by the rule of the
    swapper: BT.709 from 720 lines on, else BT.601, limited range."""
    known = {"matrix": guessed_matrix(video)}
    if video.color_range == "unknown":
        known["color_range"] = "tv"
    return tagged(video.model_copy(update=known))


def tagged(video: VideoFormat) -> tuple[str, str]:
    """A filter that tags frames as a format does, and as interlaced if they are."""
    tags = {
        "range": video.color_range,
        "colorspace": "gbr" if video.matrix == "rgb" else video.matrix,
        "color_primaries": video.primaries,
        "color_trc": video.transfer,
    }
    stated = [f"{name}={'unknown' if v == 'reserved' else v}" for name, v in tags.items()]
    fields = _FIELDS.get(video.field_order, "prog")
    return "setparams", ":".join([f"field_mode={fields}", *stated])


def guessed_matrix(video: VideoFormat) -> str:
    """The matrix a format names, or the one that is assumed where it names none."""
    if video.matrix in ("unknown", "reserved", "gbr"):
        return "bt709" if video.height >= _HD_LINES else "smpte170m"
    return video.matrix


def scaled(video: VideoFormat, more: str = "") -> tuple[str, str]:
    """A filter that converts between pixel formats, field by field where there are fields."""
    interlaced = int(video.field_order != "progressive" and video.pixels.chroma_y > 0)
    return "scale", f"flags={SCALER}:interl={interlaced}{more}"


def full_gray(video: VideoFormat) -> Filters:
    """Filters that stretch limited gray to full range; none for anything else. The scaler takes all gray
    for full range."""
    if video.pixels.planes != 1 or video.color_range == "pc":
        return []
    unit, top = 1 << (video.pixels.depth - 8), (1 << video.pixels.depth) - 1
    stretch = f"clip(round((val-{16 * unit})*{top}/{219 * unit}),0,{top})"
    return [("lut", f"c0='{stretch}'")]


def converter(video: VideoFormat, result: VideoFormat, tick: Fraction) -> FilterChain:
    """Into the pixel format, range and matrix of `result`; the frames come out tagged."""
    full = {"tv": "limited", "pc": "full"}.get(result.color_range)
    more = f":out_range={full}" if full else ""
    if guessed_matrix(result) != guessed_matrix(video):
        more += f":out_color_matrix={guessed_matrix(result)}"
    form = "format", f"pix_fmts={result.pixel_format}"
    return FilterChain(video, tick, [described(video), scaled(video, more), form, tagged(result)])
