"""Which field of an interlaced picture is shown first."""

from __future__ import annotations

from typing import Literal, cast

import av
from av.filter import Graph
from av.video.stream import VideoStream

FieldOrder = Literal["progressive", "tt", "bb", "tb", "bt"]
"""As FFmpeg names them: first the field that is stored first, then the one that is shown first."""

_STATED: dict[int, FieldOrder] = {2: "tt", 3: "bb", 4: "tb", 5: "bt"}
_PICTURES_OF_ONE_FIELD = "hevc"
"""Codec whose interlaced pictures are single fields."""


def field_order(stream: VideoStream, frame: av.VideoFrame) -> FieldOrder:
    """By the frame's own flags where it is interlaced; else as the container or the codec's headers state it.

    Containers are not to be trusted in this: FFmpeg's own tool states `tb` for H.264 whose top field is shown
    first, and DV states nothing.
    """
    if not frame.interlaced_frame or stream.codec_context.name == _PICTURES_OF_ONE_FIELD:
        return _STATED.get(stream.codec_context.field_order, "progressive")
    return "tt" if _top_first(frame) else "bb"


def _top_first(frame: av.VideoFrame) -> bool:
    """PyAV does not tell, but FFmpeg's filter that parts fields gives out the first one first: here of a
    picture with the flags of `frame`, in which the lines of the bottom field are white."""
    graph = Graph()
    source = graph.add_buffer(
        width=frame.width, height=frame.height, format=frame.format, time_base=frame.time_base
    )
    steps = (
        graph.add("crop", "min(iw\\,16):min(ih\\,16):0:0"),
        graph.add("format", "gray"),
        graph.add("geq", "lum=255*mod(Y\\,2)"),
        graph.add("separatefields"),
        graph.add("buffersink"),
    )
    graph.link_nodes(source, *steps).configure()
    graph.push(frame)
    graph.push(None)
    first = cast(av.VideoFrame, graph.pull())
    return not first.to_ndarray().any()
