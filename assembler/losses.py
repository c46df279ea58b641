"""Finds the streams of which records were deleted from Kafka before they were read.

Retention takes whole log segments, whoever still needs them. A reader that comes too late is put to the
first record that is left, without a word: what it never read has to be found out by looking.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import structlog

from assembler.join import Join, StreamKey
from assembler.membership import PairedConsumer
from runtime.settings import Settings
from runtime.tables import read_table
from schemas.errors import FramesLostError
from schemas.segments import SegmentRecord, SegmentState

_log = structlog.get_logger("assembler")


@dataclass(frozen=True, slots=True)
class Loss:
    """A stream that cannot be completed any more."""

    key: StreamKey
    job: str
    error: FramesLostError


def find(settings: Settings, consumer: PairedConsumer, join: Join) -> Iterator[Loss]:
    """Streams in flight on partitions that have lost records before they were read: those of which not all
    was read, and those of which nothing was. Some of them may still be complete: doing those again is
    harmless."""
    gaps = _gaps(consumer, join)
    if not gaps:
        return
    known: set[StreamKey] = set()
    for state in join:
        known.add(state.key)
        if state.partition in gaps and not state.all_read:
            yield Loss(state.key, state.job, _error(state.key.stream, gaps[state.partition]))
    for record in read_table(settings, settings.topic_set.segments, "assembler").values():
        if not isinstance(record, SegmentRecord) or record.state is not SegmentState.RELEASED:
            continue
        key = StreamKey(record.stream, record.epoch)
        if record.partition in gaps and key not in known and not join.closed(key):
            yield Loss(key, record.job, _error(record.stream, gaps[record.partition]))


def _gaps(consumer: PairedConsumer, join: Join) -> dict[int, str]:
    """What was deleted unread, in words, of each partition where that happened."""
    gaps: dict[int, str] = {}
    starts = consumer.first_offsets()
    for (side, partition), position in (consumer.committed() | join.positions).items():
        first = starts.get((side, partition), 0)
        if position < first:
            gaps[partition] = f"{side} of partition {partition} from offset {position} to {first}"
            _log.error("records_lost", side=side, partition=partition, position=position, first=first)
            join.skip(side, partition, first - 1)
    return gaps


def _error(stream: str, gap: str) -> FramesLostError:
    return FramesLostError(f"{stream}: deleted from Kafka before they were read: {gap}")
