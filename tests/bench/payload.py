"""Payload codecs on the frames of a benchmark clip: milliseconds a frame and size against raw."""

from __future__ import annotations

import time

import av

from runtime.payload import BatchBase, Packer, PayloadEncoder, decode
from schemas.frames import FrameBatch, PayloadCodec, VideoFormat
from schemas.record import Message
from schemas.record import decode as decode_record
from tests.bench.clips import long_clip

FRAMES = 60


def main() -> None:
    print("| size | codec | write ms | read ms | raw / size |")
    print("|---|---|---|---|---|")
    for width, height in ((640, 360), (1280, 720), (1920, 1080)):
        with av.open(str(long_clip(width, height, 10))) as clip:
            frames = [frame for frame, _ in zip(clip.decode(video=0), range(FRAMES), strict=False)]
        for codec in PayloadCodec:
            print(measure(frames, codec))


def measure(frames: list[av.VideoFrame], codec: PayloadCodec) -> str:
    """One row; CPU time of this process, codec threads included."""
    packer = make_packer(frames[0], codec)
    started = time.process_time()
    records = [r for n, f in enumerate(frames) if (r := packer.add(f, n, n, 1)) is not None]
    if (last := packer.flush()) is not None:
        records.append(last)
    wrote = (time.process_time() - started) / len(frames) * 1e3
    started = time.process_time()
    for record in records:
        message = decode_record(record.data)
        assert isinstance(message.record, FrameBatch)
        for planes in decode(Message(message.record, message.body)):
            assert planes[0].shape[0]
    read = (time.process_time() - started) / len(frames) * 1e3
    width, height = frames[0].width, frames[0].height
    ratio = width * height * 1.5 * len(frames) / sum(len(r) for r in records)
    return f"| {width}x{height} | {codec} | {wrote:.2f} | {read:.2f} | {ratio:.2f} |"


def make_packer(frame: av.VideoFrame, codec: PayloadCodec) -> Packer:
    """A packer for 8-bit 4:2:0 frames of this size."""
    video = VideoFormat(width=frame.width, height=frame.height, pixel_format="yuv420p")
    base = BatchBase("bench", "bench/0", 1, 1, video, (1, 30), lambda: 0)
    return Packer(base, PayloadEncoder(video, codec))
