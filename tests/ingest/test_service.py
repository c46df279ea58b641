"""The ingest service on a real broker."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from ingest import worker
from ingest.scan import scan
from ingest.service import IngestService
from runtime.cluster import ensure_topics
from runtime.kafka import producer, reader
from runtime.outbox import Outbox
from runtime.payload import decode as decode_planes
from runtime.settings import Settings
from runtime.store import Store
from schemas.events import Failed, Planned, Progress, Warned
from schemas.frames import FrameBatch, FrameFlag, PayloadCodec, StreamEnd, StreamStart
from schemas.job import JobRecord, JobSpec, JobState, Lane, PlanSpec, stream_id
from schemas.objects import plan_object
from schemas.orders import DecodeOrder, PlanOrder, SegmentRelease
from schemas.plan import Plan
from schemas.record import Message, Record, decode, encode
from tests.support.broker import read_all
from tests.support.media import decode_whole, digest, make_clip

pytestmark = pytest.mark.broker


class Ingest:
    """A running service, and what a scheduler does with it."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        ensure_topics(settings)
        self.service = IngestService(settings, pauses=(0.1,))
        self.service.start()
        self._outbox = Outbox(producer(settings.kafka, "test"))

    def close(self) -> None:
        self.service.close()
        self._outbox.close()

    def order(self, order: Record) -> None:
        self._outbox.send(self.settings.topic_set.orders_ingest, encode(order), key=order.job)
        self._outbox.flush()

    def events(self) -> list[Record]:
        return self.records(self.settings.topic_set.events)

    def records(self, topic: str, partition: int = 0) -> list[Record]:
        values = read_all(self.settings, topic, partition)
        return [decode(value).record for value in values if value is not None]

    def until(self, done: Callable[[], bool], seconds: float = 60) -> None:
        deadline = time.monotonic() + seconds
        while not done():
            assert time.monotonic() < deadline, "nothing happened in time"
            self.service.step(0.2)

    def until_event(self, kind: type[Record], job: str) -> Record:
        found: list[Record] = []

        def arrived() -> bool:
            found[:] = [e for e in self.events() if isinstance(e, kind) and e.job == job]
            return bool(found) and not self.service.busy

        self.until(arrived)
        return found[-1]

    def plan(self, spec: JobSpec) -> Plan:
        self.order(PlanOrder(job=spec.job, spec=spec))
        planned = self.until_event(Planned, spec.job)
        assert isinstance(planned, Planned)
        record = decode(Store.of(self.settings).get(planned.plan)).record
        assert isinstance(record, Plan)
        assert (planned.frames, planned.segments) == (len(record.pts), len(record.segments))
        return record

    def decode(self, spec: JobSpec, plan: Plan, epoch: int = 1) -> None:
        for order in plan.orders:
            releases = [SegmentRelease(segment=index, partition=index % 4) for index in order]
            name = plan_object(spec.job)
            self.order(DecodeOrder(job=spec.job, epoch=epoch, spec=spec, plan=name, releases=releases))
        self.until(lambda: len(self.ends(spec.lane)) >= len(plan.segments) and not self.service.busy)

    def ends(self, lane: Lane) -> list[Record]:
        topic = self.settings.topic_set.swaps(lane)
        return [r for p in range(4) for r in self.records(topic, p) if isinstance(r, StreamEnd)]


@pytest.fixture
def ingest(kafka: Settings) -> Iterator[Ingest]:
    running = Ingest(kafka)
    yield running
    running.close()


def spec_of(path: Path, job: str = "clip", **plan: object) -> JobSpec:
    return JobSpec(job=job, input=str(path), output="out.mp4", plan=PlanSpec(segment_seconds=1, **plan))


def committed(settings: Settings) -> int:
    """Orders that the group is done with."""
    client = reader(settings.kafka, "test", overrides={"group.id": f"{settings.topic_prefix}ingest"})
    parts = [TopicPartition(settings.topic_set.orders_ingest, p) for p in range(4)]
    total = sum(max(part.offset, 0) for part in client.committed(parts, timeout=10))
    client.close()
    return total


def stream_records(
    ingest: Ingest, topic: str, partition: int, stream: str
) -> list[tuple[int, Message[Record]]]:
    values = read_all(ingest.settings, topic, partition)
    messages = [(offset, decode(value)) for offset, value in enumerate(values) if value is not None]
    return [(offset, message) for offset, message in messages if message.record.stream == stream]


@pytest.mark.parametrize("codec", [PayloadCodec.RAW, PayloadCodec.LOSSLESS])
def test_every_segment_arrives_complete_and_bit_exact(
    ingest: Ingest, tmp_path: Path, codec: PayloadCodec
) -> None:
    clip = make_clip(tmp_path / "clip.mp4", 90, options={"g": "45", "keyint_min": "45"}, sound="aac")
    spec = spec_of(clip, payload=codec, context_frames=3)
    plan = ingest.plan(spec)
    whole = decode_whole(clip, plan.format)
    assert [pts for pts, _ in whole] == plan.pts
    assert [track.codec for track in plan.tracks] == ["aac"]
    assert Store.of(ingest.settings).exists(plan.sides)
    ingest.decode(spec, plan)
    topics = ingest.settings.topic_set
    covered: list[int] = []
    for segment in plan.segments:
        stream, partition = stream_id(spec.job, segment.index), segment.index % 4
        records = stream_records(ingest, topics.frames(spec.lane), partition, stream)
        start, end = records[0][1].record, records[-1][1].record
        assert isinstance(start, StreamStart)
        assert isinstance(end, StreamEnd)
        assert (start.start, start.end, start.frames, start.context) == (
            segment.start, segment.end, segment.frames, segment.context,
        )  # fmt: skip
        assert (end.count, end.context, end.end) == (
            segment.frames + segment.context, segment.context, segment.end,
        )  # fmt: skip
        assert end.warnings == {}
        seq = 0
        for _, message in records[1:-1]:
            batch = message.record
            assert isinstance(batch, FrameBatch)
            assert (batch.seq, batch.epoch, batch.start_offset) == (seq, 1, records[0][0])
            assert batch.ordinal == segment.first - segment.context + seq
            planes = decode_planes(Message(batch, message.body))
            for info, got in zip(batch.infos(), planes, strict=True):
                ordinal = batch.ordinal + info.seq - batch.seq
                assert (info.pts, digest(got)) == whole[ordinal]
                assert bool(info.flags & FrameFlag.CONTEXT) == (ordinal < segment.first)
                assert bool(info.flags & FrameFlag.KEY) == (ordinal in plan.keys)
                if ordinal >= segment.first:
                    covered.append(ordinal)
            seq += len(batch)
        marks = stream_records(ingest, topics.swaps(spec.lane), partition, stream)
        assert [type(message.record) for _, message in marks] == [StreamStart, StreamEnd]
    assert covered == list(range(90))
    progress = [e for e in ingest.events() if isinstance(e, Progress)]
    assert sum(event.frames for event in progress) == 90
    assert committed(ingest.settings) == 1 + len(plan.orders)


def test_a_bad_input_fails_its_job_and_the_next_order_is_done(ingest: Ingest, tmp_path: Path) -> None:
    text = tmp_path / "words.mp4"
    text.write_text("no video at all " * 50)
    ingest.order(PlanOrder(job="bad", spec=spec_of(text, "bad")))
    failed = ingest.until_event(Failed, "bad")
    assert isinstance(failed, Failed)
    assert "words.mp4" in failed.reason
    assert "\n" not in failed.reason
    assert failed.exit_code == 1
    clip = make_clip(tmp_path / "clip.mp4", 25)
    assert len(ingest.plan(spec_of(clip, "good")).pts) == 25
    assert committed(ingest.settings) == 2


def test_a_scratch_disk_that_is_full_for_a_moment_does_not_fail_the_plan(
    ingest: Ingest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = [OSError(errno.ENOSPC, "No space left on device")]

    def writing(*given: Any) -> Any:
        if full:
            raise full.pop()
        return scan(*given)

    monkeypatch.setattr(worker, "scan", writing)
    spec = spec_of(make_clip(tmp_path / "in.mp4", 10), "j")
    ingest.order(PlanOrder(job="j", spec=spec))
    ingest.until(lambda: any(isinstance(e, Planned | Failed) for e in ingest.events()))
    assert not [event for event in ingest.events() if isinstance(event, Failed)]
    assert not full


def test_an_input_that_is_gone_fails_each_segment_that_was_not_sent(ingest: Ingest, tmp_path: Path) -> None:
    clip = make_clip(tmp_path / "clip.mp4", 50, options={"g": "50"})
    spec = spec_of(clip)
    plan = ingest.plan(spec)
    clip.unlink()
    releases = [SegmentRelease(segment=s.index, partition=0) for s in plan.segments]
    ingest.order(DecodeOrder(job="clip", epoch=3, spec=spec, plan=plan_object("clip"), releases=releases))
    ingest.until_event(Failed, "clip")
    failed = [e for e in ingest.events() if isinstance(e, Failed)]
    assert [(e.stream, e.epoch) for e in failed] == [(f"clip/{s.index}", 3) for s in plan.segments]
    assert all(e.retryable for e in failed), "it was readable when it was planned"
    ingest.order(PlanOrder(job="clip", spec=spec))
    ingest.until(lambda: not [e for e in ingest.events() if isinstance(e, Failed)][-1].stream)
    assert not [e for e in ingest.events() if isinstance(e, Failed)][-1].retryable


def test_a_frame_over_the_record_limit_fails_the_job_before_work_starts(
    ingest: Ingest, tmp_path: Path
) -> None:
    clip = make_clip(tmp_path / "clip.mp4", 5, width=640, height=480)
    small = ingest.settings.kafka.model_copy(update={"record_limit": 200_000})
    limited = Ingest(
        ingest.settings.model_copy(
            update={"kafka": small, "topic_prefix": ingest.settings.topic_prefix + "s."}
        )
    )
    limited.order(PlanOrder(job="clip", spec=spec_of(clip)))
    failed = limited.until_event(Failed, "clip")
    limited.close()
    assert isinstance(failed, Failed)
    assert "record_limit" in failed.reason
    assert "460800" in failed.reason


def test_a_job_that_wants_nvdec_is_warned_where_there_is_no_gpu(ingest: Ingest, tmp_path: Path) -> None:
    clip = make_clip(tmp_path / "clip.mp4", 25)
    spec = spec_of(clip, decoder="nvdec")
    plan = ingest.plan(spec)
    ingest.decode(spec, plan)
    assert [e.name for e in ingest.events() if isinstance(e, Warned)] == ["nvdec_unavailable"]
    assert [e.count for e in ingest.ends(spec.lane) if isinstance(e, StreamEnd)] == [25]


def test_orders_of_ended_jobs_are_passed_over(ingest: Ingest, kafka: Settings, tmp_path: Path) -> None:
    clip = make_clip(tmp_path / "clip.mp4", 25)
    gone = spec_of(clip, "gone")
    record = JobRecord(job="gone", spec=gone, state=JobState.CANCELLED)
    ingest._outbox.send(kafka.topic_set.jobs, encode(record), key="gone")
    ingest._outbox.flush()
    ingest.order(PlanOrder(job="gone", spec=gone))
    ingest.plan(spec_of(clip, "clip"))
    ingest.until(lambda: committed(kafka) == 2)
    assert [e.job for e in ingest.events() if isinstance(e, Planned)] == ["clip"]
    again = record.model_copy(update={"epoch": 1})
    ingest._outbox.send(kafka.topic_set.jobs, encode(again), key="gone")
    ingest._outbox.flush()
    ingest.order(PlanOrder(job="gone", epoch=2, spec=gone))  # taken up again: the news of it comes later
    ingest.until_event(Planned, "gone")


def test_an_order_of_a_job_that_ends_is_left_in_the_middle(kafka: Settings, tmp_path: Path) -> None:
    """The producer's queue is so short that sending all of it takes some seconds."""
    limits = kafka.limits.model_copy(update={"batch_bytes": 16_384})
    short = kafka.kafka.model_copy(update={"producer_queue_bytes": 32_768})
    ingest = Ingest(kafka.model_copy(update={"limits": limits, "kafka": short}))
    clip = make_clip(tmp_path / "clip.mp4", 6000, width=64, height=48, options={"g": "6000"})
    spec = spec_of(clip)
    plan = ingest.plan(spec)
    releases = [SegmentRelease(segment=s.index, partition=0) for s in plan.segments]
    ingest.order(DecodeOrder(job="clip", epoch=1, spec=spec, plan=plan_object("clip"), releases=releases))
    ingest.until(lambda: ingest.service.busy)
    record = JobRecord(job="clip", spec=spec, state=JobState.CANCELLED, epoch=1)
    ingest._outbox.send(kafka.topic_set.jobs, encode(record), key="clip")
    ingest._outbox.flush()
    ingest.until(lambda: not ingest.service.busy)
    assert len(ingest.ends(spec.lane)) < len(plan.segments)
    assert committed(kafka) == 2, "nobody does it again"
    good = make_clip(tmp_path / "good.mp4", 25)
    assert len(ingest.plan(spec_of(good, "good")).pts) == 25
    ingest.close()


def test_parts_of_an_order_go_on_where_the_one_before_ended(ingest: Ingest, tmp_path: Path) -> None:
    """Two jobs in turn, each one order released in parts: the same frames as in one piece, decoded once."""
    clips = [make_clip(tmp_path / f"{n}.mp4", 110, options={"g": "200", "bf": "2"}) for n in "ab"]
    specs = [spec_of(clip, clip.stem, context_frames=3) for clip in clips]
    plans = [ingest.plan(spec) for spec in specs]
    assert all(plan.orders == [[0, 1, 2, 3]] for plan in plans)

    def order(spec: JobSpec, epoch: int, *segments: int) -> None:
        releases = [SegmentRelease(segment=index, partition=index) for index in segments]
        name = plan_object(spec.job)
        ingest.order(DecodeOrder(job=spec.job, epoch=epoch, spec=spec, plan=name, releases=releases))

    for part in ((0, 1), (2,), (3,)):
        for spec in specs:
            order(spec, 1, *part)
    ingest.until(lambda: len(ingest.ends(specs[0].lane)) == 8 and not ingest.service.busy)
    assert ingest.service._worker is not None
    assert ingest.service._worker.gone_on == 4
    for spec in specs:
        order(spec, 2, 0, 1, 2, 3)
    order(specs[0], 3, 1)  # one that failed, alone
    ingest.until(lambda: len(ingest.ends(specs[0].lane)) == 17 and not ingest.service.busy)
    for spec, plan in zip(specs, plans, strict=True):
        for segment in plan.segments:
            stream = stream_id(spec.job, segment.index)
            found = stream_records(ingest, ingest.settings.topic_set.frames(spec.lane), segment.index, stream)
            runs = {
                epoch: [
                    (m.record.model_copy(update={"epoch": 0, "stamps": {}, "start_offset": 0}), bytes(m.body))
                    for _, m in found
                    if m.record.epoch == epoch
                ]
                for epoch in (1, 2, 3)
            }
            assert runs[1] == runs[2]
            assert runs[3] in ([], runs[1])


def test_rubbish_among_the_orders_is_passed_over(ingest: Ingest, tmp_path: Path) -> None:
    ingest._outbox.send(ingest.settings.topic_set.orders_ingest, b"rubbish", key="clip")
    clip = make_clip(tmp_path / "clip.mp4", 25)
    assert len(ingest.plan(spec_of(clip)).pts) == 25


def test_an_order_that_is_stopped_half_way_is_done_by_the_next_worker(
    kafka: Settings, tmp_path: Path
) -> None:
    clip = make_clip(tmp_path / "clip.mp4", 200, width=320, height=240, options={"g": "200"})
    spec = spec_of(clip)
    first = Ingest(kafka)
    plan = first.plan(spec)
    (order,) = plan.orders
    releases = [SegmentRelease(segment=index, partition=0) for index in order]
    first.order(DecodeOrder(job="clip", epoch=1, spec=spec, plan=plan_object("clip"), releases=releases))
    first.until(lambda: first.service.busy)
    first.service.drain(time.monotonic())
    first.close()
    assert committed(kafka) == 1
    second = Ingest(kafka)
    second.until(lambda: len(second.ends(spec.lane)) >= len(plan.segments) and not second.service.busy)
    assert committed(kafka) == 2
    second.close()
