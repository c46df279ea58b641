"""The beginning of an input, decoded: what its first frame is like, and what its key frames are worth."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, cast

import av
from av.container import InputContainer
from av.video.stream import VideoStream

from ingest.decoders import decoder_of
from ingest.packets import packets_of

HEAD_PACKETS = 64
"""Packets that are decoded at most to see the first group of pictures, and again after the second key."""
KEY_PACKETS = 2000
"""Packets among which the first frame, and then the second key frame, is looked for."""

if TYPE_CHECKING:  # the class itself takes no parameters
    _Packet = av.Packet[VideoStream]


@dataclass(slots=True)
class Head:
    """The first group of pictures that can be decoded, as far as HEAD_PACKETS."""

    first: av.VideoFrame | None = None
    pts: list[int | None] = field(default_factory=list)
    """Of all its frames, in the order they came out."""
    packets: int = 0
    """The packets that they came from."""
    clean_keys: bool = True
    """Whether decoding can start at the second key frame. Where a picture is refreshed piece by piece, the
    packets flagged as key frames are recovery points, from which the first frames do not come out whole."""
    reorders: bool = True
    """Whether frames come out in another order than they are stored."""


def read_head(container: InputContainer, stream: VideoStream) -> Head:
    """Decode the first group of pictures from which a frame comes out, with what lies before it, then a
    little from the second key frame on."""
    decoder = decoder_of(stream)
    head = Head()
    packets = _video_packets(container, stream)
    key: _Packet | None = None
    last = KEY_PACKETS
    for packet in packets:
        if (head.first and packet.is_keyframe) or head.packets >= last:
            key = packet if packet.is_keyframe else None
            break
        head.packets += 1
        _take(head, _decode(decoder, packet))
        if head.first:
            last = min(last, head.packets + HEAD_PACKETS)
    _take(head, _decode(decoder, None))
    head.reorders = bool(stream.codec_context.has_b_frames)
    key = key or next((packet for packet in islice(packets, KEY_PACKETS) if packet.is_keyframe), None)
    if key is not None and key.pts is not None:
        decoder.flush_buffers()
        head.clean_keys = _starts_cleanly(key, packets, decoder)
    return head


def _starts_cleanly(key: _Packet, packets: Iterator[_Packet], decoder: av.VideoCodecContext) -> bool:
    """Whether a decoder that starts at `key` gives out that very frame, as a key frame, before any later."""
    for packet in (key, *islice(packets, HEAD_PACKETS), None):
        for frame in _decode(decoder, packet):
            if frame.pts is None or frame.pts >= cast(int, key.pts):
                return frame.pts == key.pts and frame.key_frame
    return False


def _take(head: Head, frames: list[av.VideoFrame]) -> None:
    head.first = head.first or next(iter(frames), None)
    head.pts += [frame.pts for frame in frames]


def _video_packets(container: InputContainer, stream: VideoStream) -> Iterator[_Packet]:
    for packet in packets_of(container, stream):
        if packet is not None and packet.size:
            yield cast("_Packet", packet)


def _decode(decoder: av.VideoCodecContext, packet: _Packet | None) -> list[av.VideoFrame]:
    """Damaged packets give nothing; the decoder goes on with the next. None: what it still holds."""
    try:
        return decoder.decode(packet)
    except av.error.FFmpegError:
        return []
