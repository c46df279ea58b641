"""The decoder of a picture stream."""

from __future__ import annotations

import av
from av.video.stream import VideoStream


def decoder_of(stream: VideoStream) -> av.VideoCodecContext:
    """What decodes a stream's packets from where it stands; single-threaded, see `ingest.packets`.

    FFmpeg's own, except for VP9 with alpha, which lies beside the packets where only libvpx sees it: that is
    a new decoder at each call.
    """
    own = stream.codec_context
    if not has_alpha_beside(stream):
        if own.thread_count != 1:  # it cannot be set once the decoder is open
            own.thread_count = 1
        return own
    decoder = av.CodecContext.create("libvpx-vp9", "r")
    decoder.thread_count = 1
    decoder.extradata = own.extradata
    decoder.color_primaries, decoder.color_trc = own.color_primaries, own.color_trc  # the container's
    return decoder


def has_alpha_beside(stream: VideoStream) -> bool:
    """Whether it is VP9 with alpha, by the tag of WebM and Matroska."""
    tags = {name.lower(): value for name, value in stream.metadata.items()}
    return stream.codec_context.name == "vp9" and tags.get("alpha_mode") == "1"
