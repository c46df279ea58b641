"""What goes into a batch comes out of it."""

from __future__ import annotations

import av
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.payload import BatchBase, Packer, PayloadEncoder, Planes, decode, frame_planes
from schemas.errors import MalformedRecordError, RecordTooLargeError, UsageError
from schemas.frames import FrameBatch, FrameFlag, PayloadCodec, VideoFormat
from schemas.framing import ByteArray
from schemas.pixels import PIXEL_FORMATS
from schemas.record import Message
from schemas.record import decode as decode_record
from schemas.record import encode as encode_record

pytestmark = pytest.mark.unit


def video(name: str, width: int, height: int) -> VideoFormat:
    return VideoFormat(width=width, height=height, pixel_format=name)


def noise(fmt: VideoFormat, seed: int, name: str | None = None) -> av.VideoFrame:
    """A frame whose samples use the whole depth; `name` gives it another name of the same layout."""
    frame = av.VideoFrame(fmt.width, fmt.height, name or fmt.pixel_format)
    rng = np.random.default_rng(seed)
    for plane in frame_planes(frame, fmt):
        plane[:] = rng.integers(0, 1 << fmt.pixels.depth, plane.shape)
    return frame


def smooth(fmt: VideoFormat) -> av.VideoFrame:
    frame = av.VideoFrame(fmt.width, fmt.height, fmt.pixel_format)
    for plane in frame_planes(frame, fmt):
        rows, cols = plane.shape
        plane[:] = np.add.outer(np.arange(rows) * 90 / rows, np.arange(cols) * 90 / cols) + 30
    return frame


def base(fmt: VideoFormat) -> BatchBase:
    return BatchBase("j", "j/3", 2, 1, fmt, (1, 25), lambda: 17)


def records(packer: Packer, frames: list[av.VideoFrame]) -> list[ByteArray]:
    done = [packer.add(frame, 100 + i, 10 * i, 10, int(i == 0)) for i, frame in enumerate(frames)]
    return [record for record in [*done, packer.flush()] if record is not None]


def read(record: ByteArray) -> tuple[FrameBatch, list[Planes]]:
    message = decode_record(record.tobytes())
    assert isinstance(message.record, FrameBatch)
    return message.record, decode(Message(message.record, message.body))


def same(left: Planes, right: Planes) -> bool:
    return all(np.array_equal(a, b) and a.dtype == b.dtype for a, b in zip(left, right, strict=True))


@settings(max_examples=120, deadline=None)
@given(
    name=st.sampled_from(sorted(PIXEL_FORMATS)),
    codec=st.sampled_from([PayloadCodec.RAW, PayloadCodec.LOSSLESS]),
    width=st.integers(1, 131),
    height=st.integers(1, 131),
    seed=st.integers(0, 99),
)
def test_raw_and_lossless_give_back_every_sample_of_every_format_and_size(
    name: str, codec: PayloadCodec, width: int, height: int, seed: int
) -> None:
    fmt = video(name, width, height)
    frames = [noise(fmt, seed), noise(fmt, seed + 1)]
    (record,) = records(Packer(base(fmt), PayloadEncoder(fmt, codec)), frames)
    batch, planes = read(record)
    assert batch.codec is codec
    assert [same(got, frame_planes(frame, fmt)) for got, frame in zip(planes, frames, strict=True)] == [
        True
    ] * 2
    assert not any(plane.flags.writeable for got in planes for plane in got)


@pytest.mark.parametrize("codec", [PayloadCodec.RAW, PayloadCodec.LOSSLESS])
def test_full_range_frames_keep_their_samples(codec: PayloadCodec) -> None:
    fmt = video("yuv420p", 98, 66)
    frame = noise(fmt, 1, "yuvj420p")
    (record,) = records(Packer(base(fmt), PayloadEncoder(fmt, codec)), [frame])
    assert same(read(record)[1][0], frame_planes(frame, fmt))


@pytest.mark.parametrize("name", ["yuv420p", "yuv422p", "yuv444p", "yuv440p", "yuv411p", "gray"])
@pytest.mark.parametrize(("width", "height"), [(96, 64), (97, 65), (2, 3), (1, 1)])
def test_jpeg_keeps_sample_values_close_without_a_change_of_range(name: str, width: int, height: int) -> None:
    fmt = video(name, width, height)
    frame = smooth(fmt)
    (record,) = records(Packer(base(fmt), PayloadEncoder(fmt, PayloadCodec.JPEG, 97)), [frame])
    for got, sent in zip(read(record)[1][0], frame_planes(frame, fmt), strict=True):
        assert got.shape == sent.shape
        assert np.abs(got.astype(int) - sent).max() <= 8
        assert abs(got.mean() - sent.mean()) < 1.5


def test_batches_hold_what_fits_the_budget_and_number_their_frames() -> None:
    fmt = video("yuv420p", 64, 64)
    frames = [noise(fmt, i) for i in range(8)]
    packer = Packer(base(fmt), PayloadEncoder(fmt, PayloadCodec.RAW), budget=3 * fmt.frame_bytes + 1)
    batches = [read(record) for record in records(packer, frames)]
    assert [(b.seq, b.ordinal, len(b)) for b, _ in batches] == [(0, 100, 3), (3, 103, 3), (6, 106, 2)]
    assert [pts for b, _ in batches for pts in b.pts] == [10 * i for i in range(8)]
    assert [flag for b, _ in batches for flag in b.flags] == [int(FrameFlag.CONTEXT)] + [0] * 7
    assert {(b.job, b.stream, b.epoch, b.start_offset) for b, _ in batches} == {("j", "j/3", 2, 17)}
    assert all(
        same(got, frame_planes(sent, fmt))
        for got, sent in zip((p for _, planes in batches for p in planes), frames, strict=True)
    )
    assert packer.count == 8


def test_a_gap_between_frames_ends_a_batch() -> None:
    fmt = video("gray", 8, 8)
    packer = Packer(base(fmt), PayloadEncoder(fmt, PayloadCodec.RAW))
    done = [packer.add(noise(fmt, i), ordinal, i, 1) for i, ordinal in enumerate([5, 6, 9])]
    batches = [read(record)[0] for record in [*done, packer.flush()] if record is not None]
    assert [(b.seq, b.ordinal, len(b)) for b in batches] == [(0, 5, 2), (2, 9, 1)]


def test_a_frame_over_the_budget_travels_alone() -> None:
    fmt = video("yuv420p", 64, 64)
    packer = Packer(base(fmt), PayloadEncoder(fmt, PayloadCodec.RAW), budget=100)
    assert [len(read(record)[0]) for record in records(packer, [noise(fmt, i) for i in range(3)])] == [
        1,
        1,
        1,
    ]


def test_a_frame_over_the_record_limit_is_refused_before_work_starts() -> None:
    fmt = video("yuv420p", 1000, 1000)
    with pytest.raises(RecordTooLargeError, match=r"1000x1000.*1500000 bytes.*1500000 .*record_limit"):
        Packer(base(fmt), PayloadEncoder(fmt, PayloadCodec.RAW), record_limit=1_500_000)


def test_jpeg_refuses_deep_samples() -> None:
    with pytest.raises(UsageError, match="yuv420p10le"):
        PayloadEncoder(video("yuv420p10le", 8, 8), PayloadCodec.JPEG)


@pytest.mark.parametrize("name", ["yuv420p", "yuv420p10le"])
@pytest.mark.parametrize("codec", list(PayloadCodec))
def test_damaged_bodies_are_told_as_malformed_and_the_next_batch_is_read(
    name: str, codec: PayloadCodec
) -> None:
    if codec is PayloadCodec.JPEG:
        name = "yuv420p"
    fmt = video(name, 64, 48)
    (good,) = records(Packer(base(fmt), PayloadEncoder(fmt, codec)), [smooth(fmt)])
    batch, expected = read(good)
    short = encode_record(batch, [b"\x07" * 20])
    with pytest.raises(MalformedRecordError):
        read(short)
    wrong = batch.model_copy(update={"format": video(name, 66, 48)})
    with pytest.raises(MalformedRecordError):
        read(encode_record(wrong, [bytes(decode_record(good.tobytes()).body)]))
    rubbish = batch.model_copy(update={"spans": [(0, 40)] * len(batch.spans)})
    with pytest.raises(MalformedRecordError):
        read(encode_record(rubbish, [b"\x55" * 40]))
    assert same(read(good)[1][0], expected[0])
