"""What must be true after a run, by the topics and the disk. Each check returns what is wrong."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Literal

import numpy as np
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, TopicPartition

from runtime.kafka import admin, reader, share_consumer
from runtime.settings import Settings
from runtime.tables import read_table
from schemas.checkpoint import Checkpoint
from schemas.frames import FrameBatch, StreamAbort
from schemas.job import JobRecord, JobSpec, JobState, Lane
from schemas.objects import finish_object, plan_object, sides_object
from schemas.orders import DecodeOrder, FinishOrder, PlanOrder
from schemas.record import Record, decode
from schemas.segments import SegmentRecord, SegmentState
from schemas.swaps import SwapBatch
from swapper.service import group_name
from tests.support.cluster import frames

Isolation = Literal["read_committed", "read_uncommitted"]


def eventually_none(check: Callable[[], list[str]], seconds: float) -> list[str]:
    """The complaints that are left after so many seconds at most."""
    deadline = time.monotonic() + seconds
    while (wrong := check()) and time.monotonic() < deadline:
        time.sleep(0.5)
    return wrong


def records_on(
    settings: Settings, topic: str, seconds: float = 300.0, isolation: Isolation = "read_committed"
) -> Iterator[Record]:
    """All records of a topic, in order of their partitions; by default those that are committed."""
    wide = {"queued.max.messages.kbytes": 65536, "max.partition.fetch.bytes": 16 << 20}
    client = reader(settings.kafka, "chaos", isolation=isolation, overrides=wide)
    deadline = time.monotonic() + seconds
    try:
        for number in client.list_topics(topic, timeout=10).topics[topic].partitions:
            client.assign([TopicPartition(topic, number, 0)])
            while True:
                message = client.poll(1.0)
                assert time.monotonic() < deadline, f"{topic} was not read to its end in {seconds:g} s"
                if message is None:
                    continue
                if (error := message.error()) is not None:
                    assert error.code() == KafkaError._PARTITION_EOF, error.str()
                    break
                if message.value() is not None:
                    yield decode(message.value()).record
    finally:
        client.close()


def states(records: Mapping[str, JobRecord], specs: Iterable[JobSpec]) -> list[str]:
    """Every job is done."""
    wrong = []
    for spec in specs:
        record = records.get(spec.job)
        if record is None or record.state is not JobState.DONE:
            found = "is unknown" if record is None else f"is {record.state}: {record.reason}"
            wrong.append(f"job {spec.job} ({Path(spec.output).name}) {found}")
    return wrong


def differences(reference: Path, result: Path, exact: bool = True) -> list[str]:
    """A result is the undisturbed one, byte for byte; if not `exact`, as many frames at the same times."""
    if not result.exists():
        return [f"{result} is missing"]
    if reference.read_bytes() == result.read_bytes():
        return []
    try:
        before, after = frames(reference), frames(result)
    except Exception as error:
        return [f"{result} cannot be read: {error}"]
    if len(before) != len(after):
        return [f"{result} has {len(after)} frames instead of {len(before)}"]
    if [at for at, _ in before] != [at for at, _ in after]:
        return [f"{result} shows its frames at other times"]
    if not exact:
        return []
    other = [i for i, (a, b) in enumerate(zip(before, after, strict=True)) if not np.array_equal(a[1], b[1])]
    return [f"{result} has other bytes; other pictures: {other or 'none'}"]


def checkpoints(settings: Settings, counts: Counter[str]) -> list[str]:
    """Committed checkpoints: one for each segment and epoch, none of a lower epoch after a higher one.
    Counts also how often streams had to be released again, and how many checkpoints are on the topic but
    were never committed: of assemblers that died in a transaction, or woke up to be refused."""
    wrong: list[str] = []
    seen: Counter[tuple[str, int]] = Counter()
    highest: dict[str, int] = {}
    for record in records_on(settings, settings.topic_set.checkpoints):
        if not isinstance(record, Checkpoint):
            continue
        seen[record.stream, record.epoch] += 1
        if record.epoch < highest.get(record.stream, 0):
            wrong.append(
                f"{record.stream}: a checkpoint of epoch {record.epoch} after {highest[record.stream]}"
            )
        highest[record.stream] = max(record.epoch, highest.get(record.stream, 0))
    wrong += [f"{s}: {n} committed checkpoints of epoch {e}" for (s, e), n in seen.items() if n > 1]
    topic = settings.topic_set.checkpoints
    written = sum(
        isinstance(record, Checkpoint) for record in records_on(settings, topic, isolation="read_uncommitted")
    )
    counts.update(checkpoints_written=written, checkpoints_refused_or_cut_off=written - seen.total())
    counts.update(segments=len(highest), released_again=sum(epoch - 1 for epoch in highest.values()))
    return wrong


def decisions(settings: Settings, specs: Iterable[JobSpec]) -> list[str]:
    """Each decision of the schedulers is written once, as if one that never died had made them all."""
    topics, made = settings.topic_set, Counter[tuple[object, ...]]()
    went: dict[str, list[JobState]] = {}
    for record in records_on(settings, topics.jobs):
        if isinstance(record, JobRecord) and went.setdefault(record.job, [])[-1:] != [record.state]:
            went[record.job].append(record.state)
    for record in records_on(settings, topics.segments):
        if isinstance(record, SegmentRecord) and record.state in (SegmentState.RELEASED, SegmentState.DONE):
            made[record.stream, record.epoch, record.state] += 1
    for topic in (topics.orders_ingest, topics.orders_finish):
        for record in records_on(settings, topic):
            if isinstance(record, DecodeOrder):
                made.update(
                    (record.job, release.segment, record.epoch, "order") for release in record.releases
                )
            elif isinstance(record, PlanOrder | FinishOrder):
                made[record.job, record.KIND] += 1
    wrong = [f"{what} was decided {n} times" for what, n in made.items() if n > 1]
    steps = [JobState.QUEUED, JobState.PLANNING, JobState.RUNNING, JobState.FINISHING, JobState.DONE]
    wrong += [f"job {s.job} went {went.get(s.job)}" for s in specs if went.get(s.job) != steps]
    return wrong


def answers(settings: Settings, counts: Counter[str]) -> list[str]:
    """Every frame batch of a stream that was not given up has a swap batch with as many frames, and every
    sequence of a stream is whole. Counts also how many records are there twice: readers drop them."""
    topics = settings.topic_set
    sent: dict[tuple[str, int], dict[int, int]] = {}
    given_up: set[tuple[str, int]] = set()
    for record in records_on(settings, topics.frames(Lane.BATCH)):
        key = record.stream, record.epoch
        if isinstance(record, StreamAbort):
            given_up.add(key)
        elif isinstance(record, FrameBatch):
            counts["frame_batches"] += 1
            counts["frame_batches_twice"] += record.seq in sent.setdefault(key, {})
            sent[key][record.seq] = len(record)
    answered: dict[tuple[str, int], dict[int, int]] = {}
    for record in records_on(settings, topics.swaps(Lane.BATCH)):
        if isinstance(record, SwapBatch):
            made = answered.setdefault((record.stream, record.epoch), {})
            counts["swap_batches"] += 1
            counts["swap_batches_twice"] += record.seq in made
            counts["swap_batches_failed"] += record.failed is not None
            made[record.seq] = record.count
    wrong = []
    for key, batches in sent.items():
        if key in given_up:
            continue
        if missing := sorted(set(batches.items()) - set(answered.get(key, {}).items())):
            wrong.append(f"{key[0]} epoch {key[1]}: no swaps for {missing[:5]}")
        whole = 0
        for seq, count in sorted(batches.items()):
            if seq != whole:
                wrong.append(f"{key[0]} epoch {key[1]}: frames {whole} to {seq} were never sent")
            whole = seq + count
    return wrong


def lag(settings: Settings) -> list[str]:
    """No group has records before it. Marks of transactions count as none: nobody reads them."""
    topics, prefix = settings.topic_set, settings.topic_prefix
    groups = {
        f"{prefix}ingest": [topics.orders_ingest],
        f"{prefix}finish": [topics.orders_finish],
        f"{prefix}assembler.{Lane.BATCH}": [topics.frames(Lane.BATCH), topics.swaps(Lane.BATCH)],
        f"{prefix}control": [topics.jobs, topics.checkpoints],
    }
    if settings.swapper.group == "consumer":
        groups[group_name(settings, Lane.BATCH)] = [topics.frames(Lane.BATCH)]
    wrong = []
    client, probe = admin(settings.kafka), reader(settings.kafka, "chaos")
    try:
        for group, names in groups.items():
            asked = ConsumerGroupTopicPartitions(group)
            (future,) = client.list_consumer_group_offsets([asked]).values()
            at = {(p.topic, p.partition): p.offset for p in future.result(30).topic_partitions}
            for name in names:
                for number in probe.list_topics(name, timeout=10).topics[name].partitions:
                    count = _unread(probe, name, number, max(at.get((name, number), 0), 0))
                    if count:
                        wrong.append(f"group {group} has {count} records before it in {name}/{number}")
    finally:
        probe.close()
    return wrong


def _unread(probe: object, topic: str, partition: int, offset: int) -> int:
    probe.assign([TopicPartition(topic, partition, offset)])  # type: ignore[attr-defined]
    count, deadline = 0, time.monotonic() + 30
    while time.monotonic() < deadline:
        message = probe.poll(1.0)  # type: ignore[attr-defined]
        if message is None:
            continue
        if message.error() is None:
            count += 1
        elif message.error().code() == KafkaError._PARTITION_EOF:
            return count
        else:
            raise AssertionError(message.error().str())
    raise AssertionError(f"no end of {topic}/{partition}")


def share_lag(settings: Settings, seconds: float = 10.0) -> list[str]:
    """A new member of the swappers' share group, when all others are gone, gets nothing. (No client can
    ask for the lag of a share group.)"""
    client = share_consumer(settings.kafka, group_name(settings, Lane.BATCH), "chaos")
    client.subscribe([settings.topic_set.frames(Lane.BATCH)])
    found, deadline = 0, time.monotonic() + seconds
    try:
        while not found and time.monotonic() < deadline:
            found = sum(message.error() is None for message in client.poll(0.5))
    finally:
        client.close()
    return [f"the share group still gives out {found} records"] if found else []


def store_leavings(settings: Settings, records: Mapping[str, JobRecord]) -> list[str]:
    """The store's folder holds nothing but what the policy keeps of jobs that are done: plan, other tracks,
    finish order, the mark of the finish step; and faces."""
    root = Path(settings.store_url.removeprefix("file://"))
    named = (plan_object, sides_object, finish_object)
    kept = {name(job) for job in records for name in named}
    found = [str(p.relative_to(root)) for p in root.rglob("*") if p.is_file()]
    return [f"left in the store: {n}" for n in found if n not in kept and not n.startswith("faces/")]


def scratch_leavings(settings: Settings) -> list[str]:
    """No service has left a file of its own."""
    return [f"left in scratch: {p.name}" for p in settings.scratch_dir.rglob("*") if p.is_file() or _empty(p)]


def _empty(path: Path) -> bool:
    return path.is_dir() and not os.listdir(path)


def output_leavings(folders: Iterable[Path], specs: Iterable[JobSpec]) -> list[str]:
    """Nothing lies beside the results."""
    wanted = {Path(spec.output) for spec in specs}
    return [
        f"left beside the results: {p}" for folder in folders for p in folder.iterdir() if p not in wanted
    ]


def segments_left(settings: Settings) -> list[str]:
    """The scheduler keeps no notes of jobs that are done."""
    table = read_table(settings, settings.topic_set.segments, "chaos")
    return [f"{key} is still in the table of segments" for key in table]
