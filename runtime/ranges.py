"""Replay: batches that lie in a frames topic, read again as batches of another stream.

Read by a consumer of its own outside any group, with small fetches: with the settings of a group member
each single read would fetch eight to fourteen times too much.
"""

from __future__ import annotations

from types import TracebackType
from typing import Self, cast

from confluent_kafka import KafkaError, TopicPartition
from confluent_kafka import Message as KafkaMessage

from runtime.kafka import bounds, broker_error, reader, translated
from runtime.settings import KafkaSettings
from schemas.checkpoint import FrameRange
from schemas.errors import FramesLostError
from schemas.frames import FrameBatch, FrameFlag, PayloadCodec, RangeRef
from schemas.record import Message, decode

_GONE = (KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._AUTO_OFFSET_RESET)  # noqa: SLF001 (public constants)


class RangeReader:
    """The batches of one RangeRef, in order, as those of its own stream. One thread calls it.

    `seq` is the number of the first frame to give out. With a last offset of -1 the stream may still grow.
    Records of other streams between them are passed over, and so are batches that were sent twice.
    """

    def __init__(self, kafka: KafkaSettings, role: str, ref: RangeRef, seq: int = 0) -> None:
        self._ref = ref
        self._next = ref.first_offset
        """Offset that is read next."""
        self._seq = seq
        """Sequence number that comes next; the source's and ours are the same."""
        self._consumer = reader(kafka, role)
        with translated(f"reading {self._named()}"):
            self._consumer.assign([TopicPartition(ref.topic, ref.partition, ref.first_offset)])

    @property
    def done(self) -> bool:
        """All frames of the range were given out."""
        return self._seq >= self._ref.count

    def poll(self, timeout: float) -> Message[FrameBatch] | None:
        """The next batch; None when it is not there within `timeout` seconds, or when all were given.

        Raises FramesLostError if batches of the range are gone, BrokerError, RecordError.
        """
        if self.done:
            return None
        message = self._consumer.poll(timeout)
        if message is None:
            return None
        if (error := message.error()) is not None:
            self._refuse(error)
            return None
        return self._take(message)

    def close(self) -> None:
        self._consumer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _take(self, raw: KafkaMessage) -> Message[FrameBatch] | None:
        ref, offset = self._ref, cast(int, raw.offset())
        if offset > ref.last_offset >= 0:
            raise FramesLostError(f"{self._named()} ends after {self._seq} of {ref.count} frames")
        self._next = offset + 1
        message = decode(cast(bytes, raw.value()))
        record = message.record
        if not isinstance(record, FrameBatch) or not self._is_ours(record):
            return None
        if record.seq < self._seq:
            return None  # sent twice
        if record.seq > self._seq:
            raise FramesLostError(f"{self._named()} lacks frames {self._seq} to {record.seq - 1}")
        batch = adopt(record, ref)
        self._seq += len(batch)
        return Message(batch, message.body)

    def _is_ours(self, record: FrameBatch) -> bool:
        return (record.stream, record.epoch) == (self._ref.source, self._ref.source_epoch)

    def _refuse(self, error: KafkaError) -> None:
        if error.code() in _GONE:
            raise FramesLostError(f"{self._named()} has left the topic from offset {self._next} on")
        if error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 (public constant)
            if self._ref.last_offset < 0:
                return
            raise FramesLostError(f"{self._named()} lies past the end of the topic")
        if error.fatal() or not error.retriable():
            raise broker_error(f"reading {self._named()}", Exception(error))

    def _named(self) -> str:
        ref = self._ref
        place = f"{ref.topic}[{ref.partition}] {ref.first_offset} to {ref.last_offset}"
        return f"the range of {ref.source} ({place})"


class Retained:
    """Says whether all batches of a range are still in their topic, as of when their partition was first
    asked for. Closed by `with`."""

    def __init__(self, kafka: KafkaSettings, role: str) -> None:
        self._consumer = reader(kafka, role)
        self._bounds: dict[tuple[str, int], tuple[int, int]] = {}

    def __call__(self, at: FrameRange) -> bool:
        """Raises BrokerError."""
        place = at.topic, at.partition
        if place not in self._bounds:
            self._bounds[place] = bounds(self._consumer, *place)
        first, following = self._bounds[place]
        return first <= at.first_offset and at.last_offset < following

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._consumer.close()


def adopt(record: FrameBatch, ref: RangeRef) -> FrameBatch:
    """A batch of `ref.source` as one of the stream that refers to it; planes stay where they are."""
    keep = min(len(record), ref.count - record.seq)
    parts = record.format.pixels.planes if record.codec is PayloadCodec.RAW else 1
    flags = [
        flag | FrameFlag.CONTEXT if pts < ref.start else flag
        for flag, pts in zip(record.flags[:keep], record.pts[:keep], strict=True)
    ]
    return record.model_copy(
        update={
            "job": ref.job,
            "stream": ref.stream,
            "epoch": ref.epoch,
            "revision": ref.revision,
            "start_offset": -1,
            "pts": [pts + ref.shift for pts in record.pts[:keep]],
            "duration": record.duration[:keep],
            "flags": [int(flag) for flag in flags],
            "spans": record.spans[: keep * parts],
        }
    )
