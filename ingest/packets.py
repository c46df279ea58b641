"""Packets and frames of an open input, going on past what is damaged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterator
from typing import cast

import av
from av.container import InputContainer
from av.stream import Stream
from av.video.stream import VideoStream

from ingest.decoders import decoder_of
from ingest.timeline import Mend

READ_ERRORS = 100
"""Errors of the demuxer after which the rest of an input is given up."""


def use_one_thread(stream: VideoStream) -> None:
    """Decode in one thread, so that an order gives the same samples whenever and wherever it is decoded.

    How FFmpeg conceals damage depends on the number of its threads and on their race (up to 7 results
    from 10 runs over a damaged MPEG-2 file), and HEVC does not even flag such frames. Orders are decoded
    side by side by several workers instead.
    """
    stream.codec_context.thread_count = 1


def packets_of(container: InputContainer, *streams: Stream) -> Iterator[av.Packet[Stream] | None]:
    """Demux, going on after errors as long as there is something left; None stands for an error."""
    for _ in range(READ_ERRORS):
        try:
            yield from container.demux(*streams)
            return
        except av.error.EOFError:
            return
        except (av.error.FFmpegError, IndexError):  # PyAV's, for a track that damage made appear on the way
            yield None


def correct(packet: av.Packet[Stream], mend: Mend, number: int) -> None:
    """Correct the times of packet `number` of its track."""
    more = mend.outliers.get(number, 0)
    if more is None:
        packet.pts = packet.dts = None
        return
    shift = mend.shift(number) + more
    if shift and packet.pts is not None:
        packet.pts += shift
    if shift and packet.dts is not None:
        packet.dts += shift


def decoded_frames(
    container: InputContainer, stream: VideoStream, errors: Counter[str], mend: Mend | None = None
) -> Generator[av.VideoFrame]:
    """Decode on from where the container stands; damaged packets are counted and passed over. `mend` corrects
    their times, which frames get theirs from; it only fits a decoding from the very beginning."""
    number, decoder = -1, decoder_of(stream)
    for packet in packets_of(container, stream):
        if packet is None:
            errors["read_errors"] += 1
            continue
        number += packet.size > 0
        if mend is not None and packet.size:
            correct(packet, mend, number)
        try:
            frames = decoder.decode(cast("av.Packet[VideoStream]", packet))
        except av.error.EOFError:
            return
        except av.error.FFmpegError:
            errors["decode_errors"] += 1
            continue
        for frame in frames:
            if isinstance(frame, av.VideoFrame):
                yield frame
