"""Sends the segments of an order as streams: start, batches of frames, end."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator, Mapping

from confluent_kafka import Message

from ingest.decode import DecodedFrame
from ingest.scenes import CutFinder
from runtime.outbox import OnDelivery, Outbox
from runtime.payload import BatchBase, Packer, PayloadEncoder
from runtime.settings import Settings
from schemas.errors import BrokerError
from schemas.events import Progress, Role
from schemas.frames import FrameFlag, StreamEnd, StreamStart
from schemas.framing import ByteArray
from schemas.job import JobSpec, stream_id
from schemas.orders import DecodeOrder, SegmentRelease
from schemas.plan import Plan, Segment
from schemas.record import Record, encode

START_SECONDS = 60.0
"""Time limit for the brokers to take a StreamStart."""
PROGRESS_SECONDS = 1.0
DAMAGE = ("decode_errors", "read_errors", "frames_corrupt", "frames_missing")
"""Warnings of a decoding that mark the job as degraded. `frames_corrupt` were concealed by the decoder."""


class FrameRun:
    """The frames of one decode pass, handed out segment by segment.

    The context frames of a segment are the last frames of the one before, so they are kept; nothing
    else is. `windows`: where segments may begin sooner than planned, at a scene cut (`ingest.scenes`).
    """

    def __init__(
        self, frames: Iterator[DecodedFrame], context: int, windows: Mapping[int, range] | None = None
    ) -> None:
        self._frames = frames
        self._recent: deque[DecodedFrame] = deque(maxlen=context)
        self._ahead: DecodedFrame | None = None
        self._windows = windows or {}
        self._starts: dict[int, int] = {}
        """Numbers of the first frames of segments, where that has been decided."""

    def close(self) -> None:
        """Stop decoding."""
        if isinstance(self._frames, Generator):
            self._frames.close()

    def placed(self, segment: Segment) -> Segment:
        """The segment as it begins, decoding up to there; where it ends shows when it gets there. At a cut
        no frame of the scene before travels with it."""
        window = self._windows.get(segment.index)
        if window and segment.index not in self._starts:
            for _ in self._until(segment.first, window, segment.index):
                pass
        first = self._starts.get(segment.index, segment.first)
        if first == segment.first:
            return segment
        frames = segment.first + segment.frames - first
        return segment.model_copy(update={"first": first, "frames": frames, "context": 0})

    def end(self, segment: Segment) -> int:
        """Number of the frame after the last; known for sure once the segment was handed out."""
        return self._starts.get(segment.index + 1, segment.first + segment.frames)

    def of(self, segment: Segment) -> Iterator[DecodedFrame]:
        """Context and frames of a placed segment, in order; segments must be asked for in order."""
        first = segment.first - segment.context
        yield from [frame for frame in self._recent if frame.ordinal >= first]
        following = segment.index + 1
        window = self._windows.get(following, range(0))
        for frame in self._until(segment.first + segment.frames, window, following):
            if frame.ordinal >= first:
                yield frame

    def _until(self, end: int, window: range, following: int) -> Iterator[DecodedFrame]:
        """Frames up to where segment `following` begins: at a cut in the window, else at `end`."""
        finder = CutFinder() if window else None
        while (frame := self._next()) is not None:
            at = frame.ordinal
            seen = finder is not None and at >= window.start - 1 and finder.is_cut(frame.frame)
            if at >= end or (seen and at in window):
                self._ahead = frame
                break
            self._recent.append(frame)
            yield frame
        self._starts[following] = min(frame.ordinal, end) if frame is not None else end

    def _next(self) -> DecodedFrame | None:
        frame, self._ahead = self._ahead, None
        return frame or next(self._frames, None)


class Delivery:
    """Counts the records of an order that the brokers have not taken yet. Changed by the thread that owns
    the outbox; others may look."""

    def __init__(self) -> None:
        self.outstanding = 0
        self.whole: set[int] = set()
        """Segments of which everything was sent."""

    def track(self, then: OnDelivery | None = None) -> OnDelivery:
        """The callback for one more record; it calls `then`."""
        self.outstanding += 1

        def delivered(message: Message) -> None:
            self.outstanding -= 1
            if then is not None:
                then(message)

        return delivered


class StreamSender:
    """Sends the streams of one order. `alive` is called between batches and may raise to abandon it.

    Nothing is waited for at the end: `delivery` tells when the brokers have everything.
    """

    def __init__(
        self,
        settings: Settings,
        outbox: Outbox,
        order: DecodeOrder,
        plan: Plan,
        alive: Callable[[], None],
        delivery: Delivery,
    ) -> None:
        """Raises UsageError or RecordTooLargeError before work starts."""
        spec = order.spec
        topics = settings.topic_set
        self._settings, self._outbox, self._order, self._plan = settings, outbox, order, plan
        self._frames_topic, self._swaps_topic = topics.frames(spec.lane), topics.swaps(spec.lane)
        self._events_topic = topics.events
        self._alive, self._delivery = alive, delivery
        self._encoder = PayloadEncoder(plan.format, spec.plan.payload, spec.plan.jpeg_quality)
        self._keys = frozenset(plan.keys)
        self.missing = 0
        """Frames of the plan that were not sent."""

    @property
    def _spec(self) -> JobSpec:
        return self._order.spec

    def send(self, release: SegmentRelease, run: FrameRun, warnings: Counter[str]) -> None:
        """Send one segment. `warnings`: filled by the decoder meanwhile; what is new goes into the end."""
        segment = run.placed(self._plan.segments[release.segment])
        stream = stream_id(self._order.job, segment.index)
        before = Counter(warnings)
        packer = self._packer(stream, self._start(segment, stream, release.partition))
        sent, context, end = 0, 0, self._plan.pts[segment.first]
        corrupt = 0
        progress = _Progress(self._report, stream)
        for decoded in run.of(segment):
            ordinal = decoded.ordinal
            pts, duration = self._plan.pts[ordinal], self._plan.duration[ordinal]
            is_context = ordinal < segment.first
            flags = self._flags(decoded, is_context)
            record = packer.add(decoded.frame, ordinal, pts, duration, flags)
            context += is_context
            sent += not is_context
            corrupt += decoded.corrupt and not is_context
            end = pts + duration
            if record is not None:
                self._frames(record, stream, release.partition)
                progress.frames(sent)
                self._alive()
        record = packer.flush()
        if record is not None:
            self._frames(record, stream, release.partition)
        missing = run.end(segment) - segment.first - sent
        self.missing += missing
        new = warnings - before
        new["frames_missing"] += missing
        new["frames_corrupt"] += corrupt
        new["degraded"] += sum(new[name] for name in DAMAGE)
        self._both(
            StreamEnd(
                job=self._order.job,
                stream=stream,
                epoch=self._order.epoch,
                count=packer.count,
                context=context,
                end=end,
                warnings=dict(+new),
            ),
            stream,
            release.partition,
        )
        progress.frames(sent, last=True)

    def _start(self, segment: Segment, stream: str, partition: int) -> Callable[[], int]:
        """Send the StreamStart; returns what waits for its offset in the frames partition."""
        plan = self._plan
        offsets: list[int] = []

        def delivered(message: Message) -> None:
            offset = message.offset()
            offsets.append(-1 if offset is None else offset)

        start = StreamStart(
            job=self._order.job,
            stream=stream,
            epoch=self._order.epoch,
            revision=self._spec.revision,
            segment=segment.index,
            start=plan.pts[segment.first],
            end=segment.end,
            time_base=plan.time_base,
            frames=segment.frames,
            context=segment.context,
            format=plan.format,
            rate=plan.rate,
            bitrate=plan.bitrate,
            encoder=plan.encoder,
        )
        self._both(start, stream, partition, delivered)

        def offset() -> int:
            deadline = time.monotonic() + START_SECONDS
            while not offsets:
                if time.monotonic() > deadline:
                    raise BrokerError(f"the start of {stream} was not taken within {START_SECONDS:g} s")
                self._outbox.poll(0.05)
                self._alive()
            return offsets[0]

        return offset

    def _frames(self, record: ByteArray, stream: str, partition: int, then: OnDelivery | None = None) -> None:
        self._outbox.send(self._frames_topic, record, stream, partition, self._delivery.track(then))

    def _both(self, record: Record, stream: str, partition: int, then: OnDelivery | None = None) -> None:
        """Send a control record on frames and swaps: an assembler may have paused its frames."""
        value = encode(record)
        self._frames(value, stream, partition, then)
        self._outbox.send(self._swaps_topic, value, stream, partition, self._delivery.track())

    def _packer(self, stream: str, offset: Callable[[], int]) -> Packer:
        order, plan = self._order, self._plan
        base = BatchBase(
            order.job, stream, order.epoch, self._spec.revision, plan.format, plan.time_base, offset
        )
        return Packer(
            base,
            self._encoder,
            budget=self._settings.limits.batch_bytes,
            record_limit=self._settings.kafka.record_limit,
        )

    def _flags(self, decoded: DecodedFrame, is_context: bool) -> int:
        flags = FrameFlag.CONTEXT if is_context else FrameFlag(0)
        if decoded.ordinal in self._keys:
            flags |= FrameFlag.KEY
        if decoded.corrupt:
            flags |= FrameFlag.CORRUPT
        return int(flags)

    def _report(self, stream: str, frames: int) -> None:
        event = Progress(
            job=self._order.job, stream=stream, epoch=self._order.epoch, role=Role.INGEST, frames=frames
        )
        self._outbox.send(self._events_topic, encode(event), key=self._order.job)


class _Progress:
    """Reports the frames of a stream about once a second, and at its end."""

    def __init__(self, report: Callable[[str, int], None], stream: str) -> None:
        self._report, self._stream = report, stream
        self._reported = 0
        self._at = time.monotonic()

    def frames(self, sent: int, *, last: bool = False) -> None:
        now = time.monotonic()
        if sent > self._reported and (last or now - self._at >= PROGRESS_SECONDS):
            self._report(self._stream, sent - self._reported)
            self._reported, self._at = sent, now
