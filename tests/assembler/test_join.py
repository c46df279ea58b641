from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assembler.join import Join, Side, StreamKey
from schemas.errors import MalformedRecordError
from schemas.events import Progress, Role
from schemas.frames import FrameBatch, RangeRef, StreamAbort, StreamEnd, StreamStart, VideoFormat
from schemas.record import Message, Record
from schemas.swaps import SwapBatch

pytestmark = pytest.mark.unit

VIDEO = VideoFormat(width=2, height=2, pixel_format="gray")


def start(stream: str, epoch: int = 0) -> StreamStart:
    return StreamStart(
        job="j", stream=stream, epoch=epoch, segment=0, start=0, end=9, time_base=(1, 25), frames=9,
        context=0, format=VIDEO,
    )  # fmt: skip


def batch(stream: str, seq: int, count: int, epoch: int = 0) -> FrameBatch:
    return FrameBatch(
        job="j", stream=stream, epoch=epoch, seq=seq, format=VIDEO, time_base=(1, 25),
        pts=list(range(seq, seq + count)), duration=[1] * count, flags=[0] * count,
        spans=[(4 * i, 4) for i in range(count)],
    )  # fmt: skip


def swaps(stream: str, seq: int, count: int, epoch: int = 0) -> SwapBatch:
    return SwapBatch(
        job="j", stream=stream, epoch=epoch, seq=seq, count=count, patches=[[]] * count,
        flags=[1] * count, engine="none",
    )  # fmt: skip


def end(stream: str, count: int, epoch: int = 0) -> StreamEnd:
    return StreamEnd(job="j", stream=stream, epoch=epoch, count=count, context=0)


def message(record: Record) -> Message[Record]:
    size = 4 * len(record) if isinstance(record, FrameBatch) else 0
    return Message(record, memoryview(bytes(size)))


@dataclass
class Partition:
    """Gives records their offsets, as the log would."""

    join: Join
    number: int = 0

    def __post_init__(self) -> None:
        self.next = {Side.FRAMES: 0, Side.SWAPS: 0}

    def frames(self, *records: Record) -> None:
        self._add(Side.FRAMES, records)

    def swaps(self, *records: Record) -> None:
        self._add(Side.SWAPS, records)

    def _add(self, side: Side, records: tuple[Record, ...]) -> None:
        for record in records:
            self.join.add(side, self.number, self.next[side], message(record))
            self.next[side] += 1


def taken(join: Join, key: StreamKey) -> list[int]:
    """Sequence numbers of all frames that can be had now."""
    state = join.get(key)
    assert state is not None
    numbers: list[int] = []
    while (pair := state.take()) is not None:
        numbers += [info.seq for info in pair.frames.record.infos()]
    return numbers


@st.composite
def deliveries(draw: st.DrawFn) -> tuple[dict[str, int], list[tuple[Side, Record]]]:
    """Several streams cut into batches, each with records of lower epochs among them, every record
    delivered one to three times, all in any order."""
    counts: dict[str, int] = {}
    records: list[tuple[Side, Record]] = []
    for name in draw(st.lists(st.sampled_from(["j/0", "j/1", "j/2"]), min_size=1, unique=True)):
        seq = 0
        for epoch in range(draw(st.integers(0, 2)), 3):
            sizes = draw(st.lists(st.integers(1, 3), min_size=1, max_size=5))
            seq = 0
            own: list[tuple[Side, Record]] = [(side, start(name, epoch)) for side in Side]
            for size in sizes:
                own.append((Side.FRAMES, batch(name, seq, size, epoch)))
                own.append((Side.SWAPS, swaps(name, seq, size, epoch)))
                seq += size
            own += [(side, end(name, seq, epoch)) for side in Side]
            records += [entry for entry in own for _ in range(draw(st.integers(1, 3)))]
        counts[name] = seq
    return counts, draw(st.permutations(records))


@given(deliveries())
def test_any_order_gives_each_frame_of_the_last_epoch_once_and_in_order(
    case: tuple[dict[str, int], list[tuple[Side, Record]]],
) -> None:
    counts, records = case
    join = Join()
    offsets = {Side.FRAMES: 0, Side.SWAPS: 0}
    seen: dict[str, list[int]] = {name: [] for name in counts}
    finished: list[str] = []
    for side, record in records:
        join.add(side, 0, offsets[side], message(record))
        offsets[side] += 1
        for key in join.discarded():
            seen[key.stream] = []
        state = join.get(StreamKey(record.stream, 2))
        if state is not None:
            seen[record.stream] += taken(join, state.key)
            if state.complete:
                finished.append(record.stream)
                join.close(state.key)
    assert sorted(finished) == sorted(counts)
    assert seen == {name: list(range(count)) for name, count in counts.items()}
    assert join.held == 0
    assert join.committable() == {(side, 0): offset for side, offset in offsets.items()}


@given(deliveries(), st.data())
def test_reading_again_from_the_committed_offsets_loses_nothing(
    case: tuple[dict[str, int], list[tuple[Side, Record]]], data: st.DataObject
) -> None:
    counts, records = case
    logs = {side: [r for s, r in records if s is side] for side in Side}
    closed: dict[str, int] = {}
    committed = {Side.FRAMES: 0, Side.SWAPS: 0}
    done: list[str] = []
    for _ in range(3):  # two crashes at any place, then an undisturbed run
        last = _ == 2
        join = Join()
        for stream, epoch in closed.items():
            join.close(StreamKey(stream, epoch))
        for side in Side:
            limit = len(logs[side])
            until = limit if last else data.draw(st.integers(committed[side], limit))
            for offset in range(committed[side], until):
                join.add(side, 0, offset, message(logs[side][offset]))
        for state in join:
            taken(join, state.key)
            if state.complete and state.key.epoch == 2:
                join.close(state.key)
                closed[state.key.stream] = 2
                done.append(state.key.stream)
        committed |= {side: offset for (side, _p), offset in join.committable().items()}
    assert sorted(done) == sorted(counts)


def test_the_first_of_a_sequence_number_wins() -> None:
    join = Join()
    log = Partition(join)
    first = batch("j/0", 0, 2)
    log.frames(start("j/0"), first, batch("j/0", 0, 2))
    log.swaps(swaps("j/0", 0, 2))
    state = join.get(StreamKey("j/0", 0))
    assert state is not None
    pair = state.take()
    assert pair is not None
    assert pair.frames.record is first


def test_frames_are_counted_while_they_wait() -> None:
    join = Join()
    log = Partition(join)
    log.frames(start("j/0"), batch("j/0", 0, 2), batch("j/0", 2, 1))
    assert join.held == 12
    log.swaps(swaps("j/0", 2, 1))
    assert taken(join, StreamKey("j/0", 0)) == []
    log.swaps(swaps("j/0", 0, 2))
    assert taken(join, StreamKey("j/0", 0)) == [0, 1, 2]
    assert join.held == 0


def test_only_what_is_being_encoded_keeps_its_frames_when_room_is_made() -> None:
    join = Join()
    for number, stream in enumerate(("j/0", "j/1", "j/2")):
        log = Partition(join, number)
        log.frames(start(stream), batch(stream, 0, 2))
        if stream != "j/2":
            log.swaps(swaps(stream, 0, 2))
    encoded, waiting, bare = (join.get(StreamKey(f"j/{n}", 0)) for n in range(3))
    assert encoded is not None
    assert waiting is not None
    assert bare is not None
    encoded.encoding = True
    join.let_go("f", 0)
    assert encoded.frames
    assert not waiting.frames
    assert not bare.frames
    assert waiting.wanting
    assert waiting.known
    assert not join.starving, "they are fetched when they are encoded"
    waiting.next_seq = 2
    Partition(join, 1).swaps(swaps("j/1", 2, 2))
    assert join.starving, "nobody has seen yet where these lie"


def test_a_stream_is_answered_when_no_patches_are_missing() -> None:
    join = Join()
    log = Partition(join)
    log.frames(start("j/0"), batch("j/0", 0, 2))
    log.swaps(swaps("j/0", 0, 2), swaps("j/0", 4, 2))
    assert not join.answered, "its end is not known"
    log.swaps(end("j/0", 6))
    assert not join.answered
    log.swaps(swaps("j/0", 2, 2))
    assert join.answered


def test_offsets_stay_at_the_start_of_the_oldest_unfinished_stream() -> None:
    join = Join()
    log = Partition(join, 3)
    log.frames(start("j/0"), batch("j/0", 0, 1), start("j/1"), batch("j/1", 0, 1), end("j/1", 1))
    log.swaps(start("j/0"), start("j/1"), swaps("j/1", 0, 1))
    assert join.committable() == {(Side.FRAMES, 3): 0, (Side.SWAPS, 3): 0}
    assert taken(join, StreamKey("j/1", 0)) == [0]
    join.close(StreamKey("j/1", 0))
    assert join.committable() == {(Side.FRAMES, 3): 0, (Side.SWAPS, 3): 0}
    join.close(StreamKey("j/0", 0))
    assert join.committable() == {(Side.FRAMES, 3): 5, (Side.SWAPS, 3): 3}


def test_a_higher_epoch_discards_the_lower_and_the_lower_stays_away() -> None:
    join = Join()
    log = Partition(join)
    log.frames(start("j/0"), batch("j/0", 0, 1), start("j/0", 1))
    assert join.discarded() == [StreamKey("j/0", 0)]
    assert join.held == 0
    log.frames(batch("j/0", 0, 1))
    assert join.held == 0
    assert join.get(StreamKey("j/0", 0)) is None
    assert join.committable()[Side.FRAMES, 0] == 2


def test_an_abort_frees_the_stream() -> None:
    join = Join()
    log = Partition(join)
    log.frames(start("j/0"), batch("j/0", 0, 1))
    log.swaps(StreamAbort(job="j", stream="j/0", reason="cancelled"))
    assert join.discarded() == [StreamKey("j/0", 0)]
    assert len(join) == 0
    log.frames(batch("j/0", 1, 1))
    assert join.held == 0
    assert join.committable() == {(Side.FRAMES, 0): 3, (Side.SWAPS, 0): 1}


def test_a_finished_stream_is_not_begun_again_but_a_higher_epoch_is() -> None:
    join = Join()
    join.close(StreamKey("j/0", 1))
    log = Partition(join)
    log.frames(start("j/0", 0), start("j/0", 1), batch("j/0", 0, 1, 1))
    assert len(join) == 0
    log.frames(start("j/0", 2))
    assert join.get(StreamKey("j/0", 2)) is not None


def test_a_revoked_partition_takes_its_streams_along() -> None:
    join = Join()
    Partition(join, 0).frames(start("j/0"), batch("j/0", 0, 1))
    Partition(join, 1).frames(start("j/1"), batch("j/1", 0, 2))
    assert join.revoke([0]) == [StreamKey("j/0", 0)]
    assert join.held == 8
    assert join.committable() == {(Side.FRAMES, 1): 0}


def test_sides_that_contradict_each_other_are_refused() -> None:
    join = Join()
    log = Partition(join)
    log.frames(batch("j/0", 0, 2))
    log.swaps(swaps("j/0", 0, 3))
    state = join.get(StreamKey("j/0", 0))
    assert state is not None
    with pytest.raises(MalformedRecordError, match="2 frames, but patches for 3"):
        state.take()


def test_more_frames_than_the_end_says_are_refused() -> None:
    join = Join()
    log = Partition(join)
    log.frames(batch("j/0", 0, 2), end("j/0", 1))
    log.swaps(swaps("j/0", 0, 2))
    state = join.get(StreamKey("j/0", 0))
    assert state is not None
    with pytest.raises(MalformedRecordError, match="its end says 1"):
        state.take()


def test_a_record_of_another_topic_is_refused() -> None:
    with pytest.raises(MalformedRecordError, match=r"event\.progress"):
        Join().add(Side.FRAMES, 0, 0, message(Progress(job="j", stream="j/0", role=Role.INGEST, frames=1)))


def test_a_stream_says_what_it_waits_for() -> None:
    join = Join()
    log = Partition(join)
    log.frames(start("j/0"))
    state = join.get(StreamKey("j/0", 0))
    assert state is not None
    assert state.missing() == "frames and swaps at seq 0"
    log.frames(batch("j/0", 0, 1))
    assert state.missing() == "swaps at seq 0"


def test_a_stream_knows_where_its_batches_lie() -> None:
    join = Join()
    key = StreamKey("j/0", 0)
    join.add(Side.FRAMES, 3, 10, message(start("j/0")))
    for offset, seq in ((11, 0), (14, 4), (15, 0)):
        join.add(Side.FRAMES, 3, offset, message(batch("j/0", seq, 4)), 1000 + offset)
    join.add(Side.FRAMES, 3, 17, message(end("j/0", 8)))
    state = join.get(key)
    assert state is not None
    at = state.frame_range("f")
    assert at is not None
    assert (at.partition, at.first_offset, at.last_offset, at.count, at.written_ms) == (3, 11, 15, 8, 1011)


def test_a_replay_wants_frames_only_once_their_patches_are_here() -> None:
    join = Join()
    ref = RangeRef(
        job="j", stream="j/0", epoch=0, topic="f", partition=1, first_offset=5, last_offset=6, source="i/0",
        source_epoch=2, start=0, end=9, count=8, context=0,
    )  # fmt: skip
    for offset, record in enumerate((start("j/0"), ref, end("j/0", 8))):
        join.add(Side.FRAMES, 3, offset, message(record))
    state = join.get(StreamKey("j/0", 0))
    assert state is not None
    assert state.range == ref
    assert not state.wanting
    join.add(Side.SWAPS, 3, 0, message(swaps("j/0", 0, 4)))
    assert state.wanting
    found = batch("j/0", 0, 4)
    state.accept(Message(found, memoryview(bytes(16))))
    pair = state.take()
    assert pair is not None
    assert pair.frames.record == found
    assert not state.wanting
    assert state.frame_range("f") is None, "its frames are another's"
