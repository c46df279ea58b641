"""Records keep their bytes, refuse what they cannot read, and are readable without us."""

from __future__ import annotations

import contextlib
import struct
from pathlib import Path

import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.errors import MalformedRecordError, RecordError, UnknownVersionError
from schemas.frames import FrameBatch, PayloadCodec, VideoFormat
from schemas.record import Record, allocate, decode, encode, kinds
from schemas.swaps import SwapBatch
from tests.support.records import FORMAT, SAMPLES

pytestmark = pytest.mark.unit
GOLDEN = Path(__file__).parent / "golden"


def test_every_kind_has_a_sample() -> None:
    assert {record.KIND for record, _ in SAMPLES.values()} == set(kinds())


@pytest.mark.parametrize("name", SAMPLES)
def test_a_record_is_written_as_the_golden_bytes(name: str) -> None:
    record, body = SAMPLES[name]
    assert encode(record, [body]).tobytes() == (GOLDEN / f"{name}.bin").read_bytes()


@pytest.mark.parametrize("name", SAMPLES)
def test_golden_bytes_are_read_back_as_the_record(name: str) -> None:
    record, body = SAMPLES[name]
    message = decode((GOLDEN / f"{name}.bin").read_bytes())
    assert message.record == record
    assert bytes(message.body) == body


def test_plain_msgpack_reads_the_header_and_planes_are_sliced() -> None:
    raw = (GOLDEN / "frames.bin").read_bytes()
    (length,) = struct.unpack_from("<I", raw)
    header = msgpack.unpackb(raw[4 : 4 + length])
    assert header["v"] == 1
    assert header["pts"] == [100, 101]
    body = raw[4 + length :]
    offset, size = header["spans"][3]
    luma = np.frombuffer(body, np.uint8, size, offset).reshape(4, 6)
    assert luma[0, 0] == 36
    assert luma[3, 5] == 59


def test_the_body_is_a_view_of_the_record() -> None:
    raw = bytearray((GOLDEN / "frames.bin").read_bytes())
    message = decode(raw)
    raw[-1] = 200
    assert message.body[-1] == 200


def test_a_reserved_body_is_written_in_place() -> None:
    record, body = SAMPLES["frames"]
    whole, view = allocate(record, len(body))
    view[:] = np.frombuffer(body, np.uint8)
    assert whole.tobytes() == encode(record, [body]).tobytes()


@pytest.mark.parametrize("name", SAMPLES)
def test_unknown_fields_are_ignored(name: str) -> None:
    record, _ = SAMPLES[name]
    assert decode(_frame(record.header() | {"added_later": [1, {"x": 2}]})).record == record


@pytest.mark.parametrize("version", [2, 0, -1, None, "1"])
def test_unknown_versions_are_refused_by_name(version: object) -> None:
    record, _ = SAMPLES["swaps"]
    with pytest.raises(UnknownVersionError, match=r"swaps record of version"):
        decode(_frame(record.header() | {"v": version}))


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(MalformedRecordError, match="unknown record kind 'nonsense'"):
        decode(_frame({"kind": "nonsense", "v": 1}))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"pts": []}, "at least one frame"),
        ({"pts": [1]}, "1 pts, 2 durations"),
        ({"spans": [[0, 1]]}, "1 spans for 2 frames of 3 parts"),
        ({"time_base": [0, 30]}, "not positive"),
        ({"seq": -1}, "seq"),
        ({"format": {"width": 0, "height": 4, "pixel_format": "gray"}}, "format.width"),
    ],
)
def test_contradictions_in_a_batch_are_named(change: dict[str, object], says: str) -> None:
    record, _ = SAMPLES["frames"]
    with pytest.raises(MalformedRecordError, match=says):
        decode(_frame(record.header() | change))


def test_a_swap_batch_without_patches_or_failure_is_refused() -> None:
    record, _ = SAMPLES["swaps"]
    with pytest.raises(MalformedRecordError, match="2 frames, 0 lists of patches"):
        decode(_frame(record.header() | {"patches": []}))


@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    with pytest.raises(RecordError):
        decode(data)


@given(st.data())
def test_a_damaged_record_is_read_or_refused(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(SAMPLES)))
    raw = bytearray((GOLDEN / f"{name}.bin").read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(raw)))
    with contextlib.suppress(RecordError):
        assert isinstance(decode(raw[:cut]).record, Record)


@given(
    st.integers(0, 2**40),
    st.lists(st.tuples(st.integers(-(2**62), 2**62), st.integers(0, 2**31)), min_size=1, max_size=40),
    st.sampled_from([PayloadCodec.LOSSLESS, PayloadCodec.JPEG]),
)
def test_any_batch_survives_the_wire(seq: int, times: list[tuple[int, int]], codec: PayloadCodec) -> None:
    batch = FrameBatch(
        job="j", stream="j/0", epoch=1, seq=seq, format=FORMAT, time_base=(1, 90000),
        pts=[t for t, _ in times], duration=[d for _, d in times], flags=[0] * len(times),
        codec=codec, spans=[(i, 1) for i in range(len(times))],
    )  # fmt: skip
    assert decode(encode(batch)).record == batch
    assert [info.seq for info in batch.infos()] == list(range(seq, seq + len(times)))


@given(st.integers(1, 33), st.integers(1, 33), st.sampled_from(["yuv420p", "yuv444p10le", "yuv411p", "gray"]))
def test_frame_sizes_are_the_sum_of_their_planes(width: int, height: int, name: str) -> None:
    video = VideoFormat(width=width, height=height, pixel_format=name)
    pixels = video.pixels
    sizes = [pixels.plane_size(p, width, height) for p in range(pixels.planes)]
    assert video.frame_bytes == sum(w * h for w, h in sizes) * pixels.sample_bytes
    assert all(w << pixels.chroma_x >= width and h << pixels.chroma_y >= height for w, h in sizes)


def test_a_failed_batch_needs_no_patches() -> None:
    record, _ = SAMPLES["swaps-failed"]
    assert isinstance(record, SwapBatch)
    assert record.failed is not None


def _frame(header: dict[str, object]) -> bytes:
    packed = msgpack.packb(header)
    return struct.pack("<I", len(packed)) + packed + bytes(72)
