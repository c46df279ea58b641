"""The assembler as a service: joins frames and swaps, encodes segments, makes them real by checkpoints."""

from __future__ import annotations

import os
import shutil
import socket
import time
import warnings
from collections.abc import Callable
from contextlib import suppress

import structlog
from confluent_kafka import Message as KafkaMessage
from prometheus_client import Counter, Gauge

from assembler import losses
from assembler.finish import FinishService
from assembler.join import Join, Side, StreamKey, StreamState
from assembler.membership import PairedConsumer
from assembler.refetch import Refetch
from assembler.room import Room, encoder_bytes
from assembler.segment import Cancelled, SegmentTask
from assembler.watchdog import Finding, Watchdog
from runtime.jobs import JobBoard
from runtime.kafka import producer, transactional_producer
from runtime.memory import fitted, share
from runtime.metrics import REGISTRY
from runtime.outbox import Outbox, TransactionalOutbox
from runtime.redact import cleaned
from runtime.scratch import open_scratch
from runtime.settings import Settings
from runtime.store import Store
from runtime.tables import read_table
from schemas.checkpoint import Checkpoint
from schemas.errors import BrokerError, FacestreamError, FramesLostError, RecordError, StoreError
from schemas.events import STREAM_WAITS, Failed, Progress, Role, Warned
from schemas.frames import StreamStart
from schemas.job import JobSpec, Lane
from schemas.record import Record, decode, encode

_log = structlog.get_logger("assembler")

BUSY_SECONDS = 0.01
"""Longest wait for records while encoders run: their queues must not run dry."""
TURN_RECORDS = 64
REPORT_SECONDS = 1.0
OFFSETS_SECONDS = 5.0
"""Offsets of streams that ended without a checkpoint are committed this often."""
SPEC_SECONDS = 20.0
"""A stream whose job stays unknown for so long is skipped."""
REJOIN_SECONDS = 10.0
LOSSES_SECONDS = 15.0
"""How often to look whether records were deleted before they were read."""

_FRAMES = Counter("facestream_assembler_frames", "Frames encoded", registry=REGISTRY)
_SEGMENTS = Counter("facestream_assembler_segments", "Segments committed", registry=REGISTRY)
_HELD = Gauge("facestream_assembler_held_bytes", "Frames held in memory", registry=REGISTRY)


class AssemblerService:
    """One assembler of one lane, with the finish service beside it. One thread polls.

    `instance` names this process in its transactional id: a second one of that name fences the first.
    """

    name = "assembler"

    def __init__(
        self,
        settings: Settings,
        lane: Lane = Lane.BATCH,
        instance: str = "",
        clock: Callable[[], float] = time.monotonic,
        finish: bool = True,
    ) -> None:
        self._room = Room(share(settings, Role.ASSEMBLER).work)
        settings = fitted(settings, Role.ASSEMBLER)
        self._settings, self._lane, self._clock = settings, lane, clock
        self._instance = instance or f"{socket.gethostname()}-{os.getpid()}"
        self._topics = settings.topic_set
        self._tasks: dict[StreamKey, SegmentTask] = {}
        self._leaving: list[SegmentTask] = []
        self._refetch = Refetch(settings)
        self._watchdog = Watchdog(settings.limits.stuck_seconds)
        self._next_report = self._next_offsets = self._next_losses = self._rejoin_after = 0.0
        self._draining = self._started = False
        self.rejoined = 0
        """Times that the group was joined again after a refusal."""
        self._committed: set[tuple[str, int, int]] = set()
        self._join = Join()
        self._finish = FinishService(settings) if finish else None

    @property
    def held(self) -> int:
        """Bytes of frames in memory that wait for their patches or an encoder."""
        return self._join.held

    @property
    def streams(self) -> tuple[int, int]:
        """Streams that are not finished, and those of them of which every frame was handed to an encoder."""
        return len(self._join), sum(state.complete for state in self._join)

    @property
    def encoders(self) -> int:
        """Streams that are being encoded."""
        return len(self._tasks)

    @property
    def partitions(self) -> set[int]:
        """Partitions held, of frames and swaps alike."""
        return set(self._consumer.assigned)

    # -- life --------------------------------------------------------------------------------------

    def start(self) -> None:
        """Connect and join the group."""
        self._scratch = open_scratch(self._settings.scratch_dir, self.name)
        self._store = Store.of(self._settings)
        self._board = JobBoard(self._settings, "assembler")
        self._events = Outbox(producer(self._settings.kafka, "assembler"))
        self._connect()
        if self._finish is not None:
            self._finish.start()
        self._started = True

    def step(self, timeout: float) -> None:
        """One turn: read records, feed the encoders, commit what is done."""
        try:
            self._read(min(timeout, BUSY_SECONDS) if self._tasks or self._refetch else timeout)
            self._feed()
            self._settle()
            self._look_for_losses()
            self._commit_offsets()
        except BrokerError as error:
            if self._clock() < self._rejoin_after:
                raise
            _log.warning("rejoining", reason=str(error))
            self._rejoin()
        self._report()
        if self._finish is not None:
            self._finish.check()

    def drain(self, deadline: float) -> None:
        """Finish the streams of which everything is here; the others are another's to do again."""
        self._draining = True
        while self._clock() < deadline and any(state.complete for state in self._join):
            self.step(BUSY_SECONDS)
        if self._finish is not None:
            self._finish.drain(deadline)

    def close(self) -> None:
        """Stop the encoders, leave the group. A start that failed half-way ends with its process."""
        if not self._started:
            return
        if self._finish is not None:
            self._finish.close()
        self._drop_tasks(list(self._tasks))
        self._refetch.close()
        self._consumer.close()
        _discard(self._outbox)
        for task in self._leaving:
            task.join()
        self._events.close()
        self._board.close()
        shutil.rmtree(self._scratch, ignore_errors=True)

    def _connect(self) -> None:
        identity = f"{self._settings.topic_prefix}assembler-{self._lane}-{self._instance}"
        self._outbox = TransactionalOutbox(
            transactional_producer(self._settings.kafka, "assembler", identity)
        )
        self._consumer = PairedConsumer(self._settings, self._lane, self._lose)

    def _rejoin(self) -> None:
        """Somebody else owns the work, or the broker failed: forget everything and begin anew.

        `step` raises instead if this was tried a moment ago: two processes of one name would fence each
        other for ever.
        """
        self._rejoin_after = self._clock() + REJOIN_SECONDS
        self.rejoined += 1
        self._drop_tasks(list(self._tasks))
        self._refetch.close()
        self._consumer.close()
        _discard(self._outbox)
        self._join = Join()
        self._connect()

    # -- reading -----------------------------------------------------------------------------------

    def _read(self, timeout: float) -> None:
        for _ in range(TURN_RECORDS):
            message = self._consumer.poll(timeout)
            if self._consumer.gained:
                self._skip_finished()
            if message is None:
                break
            self._take(message)
            self._hold_back()
            timeout = 0
        for key in self._join.discarded():
            _log.info("stream_given_up", stream=key.stream, epoch=key.epoch)
            self._drop_tasks([key])
        self._hold_back()

    def _skip_finished(self) -> None:
        """After an assignment: what others finished before us is not done again."""
        self._consumer.gained = False
        self._next_losses = 0.0
        for stream, record in read_table(self._settings, self._topics.checkpoints, "assembler").items():
            if isinstance(record, Checkpoint):
                self._close(StreamKey(stream, record.epoch))
        _log.info("assigned", partitions=sorted(self._consumer.assigned))

    def _take(self, message: KafkaMessage) -> None:
        side = self._consumer.side(message)
        partition, offset, value = message.partition(), message.offset(), message.value()
        assert partition is not None
        assert offset is not None
        if partition not in self._consumer.assigned:
            return
        try:
            read = decode(value if isinstance(value, bytes) else b"")
            self._join.add(side, partition, offset, read, message.timestamp()[1])
            self._follow(side, read.record)
        except RecordError as error:
            self._join.skip(side, partition, offset)
            _log.error(
                "bad_record", topic=message.topic(), partition=partition, offset=offset, reason=str(error)
            )

    def _follow(self, side: Side, record: Record) -> None:
        """Notice what is missing before a record."""
        if side is Side.SWAPS:
            self._watchdog.last_swaps = self._clock()
            return
        state = self._join.get(StreamKey(record.stream, record.epoch))
        if state is None:
            return
        try:
            state.follow(record)
        except FramesLostError as error:
            self._fail(state.key, state.job, error)

    def _look_for_losses(self) -> None:
        """Have streams released again of which records were deleted unread."""
        if self._clock() < self._next_losses or not self._consumer.assigned:
            return
        self._next_losses = self._clock() + LOSSES_SECONDS
        try:
            found = list(losses.find(self._settings, self._consumer, self._join))
        except BrokerError as error:  # it does not answer: there is time for this later
            _log.warning("losses_not_looked_for", reason=str(error))
            return
        for loss in found:
            self._fail(loss.key, loss.job, loss.error)

    def _hold_back(self) -> None:
        """Keep the frames in memory below the bound, and the patches below half of it as long as there is
        something to encode without more of them."""
        held, bound = self._join.held, self._settings.limits.assembler_bytes
        _HELD.set(held)
        if self._join.starving and (held > bound or Side.FRAMES in self._consumer.paused):
            # what is held waits for a swapper, what could go on lies behind it: make room
            self._join.let_go(self._consumer.topics[Side.FRAMES], bound // 2)
            held = self._join.held
        if held > bound or self._draining:
            self._consumer.pause(Side.FRAMES, True)
        elif held <= bound // 2:
            self._consumer.pause(Side.FRAMES, False)
        patches = self._join.patches
        if not self._join.answered or patches <= bound // 4:
            self._consumer.pause(Side.SWAPS, False)
        elif patches > bound // 2:
            self._consumer.pause(Side.SWAPS, True)

    # -- encoding ----------------------------------------------------------------------------------

    def _feed(self) -> None:
        for state in self._join:
            try:
                self._feed_stream(state)
            except (RecordError, FramesLostError) as error:
                self._fail(state.key, state.job, error)

    def _feed_stream(self, state: StreamState) -> None:
        task = self._tasks.get(state.key)
        if task is None:
            task = self._open(state)
            if task is None:
                return
        if not task.full:
            self._refetch.bring(state)
        while not task.full and (pair := state.take()) is not None:
            task.offer(pair)
        if state.complete and not state.closing and state.end is not None:
            state.closing = task.offer(state.end)

    def _open(self, state: StreamState) -> SegmentTask | None:
        """Begin a stream, if it can be begun and there is room."""
        start = state.start
        due = (
            state.ready or state.complete or (state.wanting and state.known)
        )  # complete: it has no frame at all
        if start is None or not due:
            return None
        size = encoder_bytes(start.format, start.encoder, self._settings.limits)
        if not self._room.has(size, state.answered, self._encoding()):
            return None
        state.encoding = True
        task = self._tasks[state.key] = self._task(state.key, start, size)
        return task

    def _encoding(self) -> list[tuple[int, bool]]:
        """The size of each encoder, and whether all patches for it are here."""
        states = {key: self._join.get(key) for key in self._tasks}
        now = [
            (task.size, (s := states[key]) is not None and s.answered) for key, task in self._tasks.items()
        ]
        return now + [(task.size, False) for task in self._leaving]

    def _task(self, key: StreamKey, start: StreamStart, size: int) -> SegmentTask:
        board = self._board

        def spec(stopped: Callable[[], bool]) -> JobSpec:
            deadline = time.monotonic() + SPEC_SECONDS
            while True:
                if stopped():
                    raise Cancelled
                try:
                    return board.spec(start.job, start.revision, 0.2)
                except BrokerError:
                    if time.monotonic() > deadline:
                        raise

        room = self._settings.limits.queue_batches
        return SegmentTask(key, start, spec, self._store, self._scratch, room, size)

    def _settle(self) -> None:
        """Commit the segments that are done, and tell of those that failed."""
        self._leaving = [task for task in self._leaving if task.alive]
        for key, task in list(self._tasks.items()):
            outcome = task.outcome
            if outcome is None:
                continue
            if isinstance(outcome, Checkpoint):
                self._progress(task)
                self._finish_stream(key, outcome)
            elif isinstance(outcome, BrokerError):
                _log.warning("stream_skipped", stream=key.stream, reason=str(outcome))
                self._close(key)
            else:
                self._fail(key, task.start.job, outcome)

    def _finish_stream(self, key: StreamKey, checkpoint: Checkpoint) -> None:
        """The one step that makes a segment real: checkpoint and offsets in one transaction."""
        state = self._join.get(key)
        at = None if state is None else state.frame_range(self._consumer.topics[Side.FRAMES])
        checkpoint = checkpoint.model_copy(update={"frames": at})
        self._close(key)
        offsets = self._consumer.offsets(self._join.committable())
        with self._outbox.transaction(offsets, self._consumer.group()):
            self._outbox.send(self._topics.checkpoints, encode(checkpoint), key=key.stream)
        _SEGMENTS.inc()
        _log.info("segment_done", stream=key.stream, epoch=key.epoch, frames=len(checkpoint.pts))

    def _fail(self, key: StreamKey, job: str, error: FacestreamError) -> None:
        self._close(key)
        reason = f"{key.stream}: {error}"
        _log.error("stream_failed", stream=key.stream, epoch=key.epoch, reason=str(error))
        failed = Failed(
            job=job, stream=key.stream, epoch=key.epoch, role=Role.ASSEMBLER, reason=cleaned(reason),
            exit_code=error.exit_code, retryable=isinstance(error, StoreError | FramesLostError),
        )  # fmt: skip
        offsets = self._consumer.offsets(self._join.committable())
        with self._outbox.transaction(offsets, self._consumer.group()):
            self._outbox.send(self._topics.events, encode(failed), key=job)

    def _commit_offsets(self) -> None:
        """Move on past streams that ended without a checkpoint."""
        if self._clock() < self._next_offsets:
            return
        self._next_offsets = self._clock() + OFFSETS_SECONDS
        offsets = self._consumer.offsets(self._join.committable())
        places = {(place.topic, place.partition, place.offset) for place in offsets}
        if places and places != self._committed:
            with self._outbox.transaction(offsets, self._consumer.group()):
                pass
            self._committed = places

    # -- letting go --------------------------------------------------------------------------------

    def _close(self, key: StreamKey) -> None:
        self._join.close(key)
        self._drop_tasks([key])

    def _lose(self, partitions: set[int]) -> None:
        self._drop_tasks(self._join.revoke(partitions))

    def _drop_tasks(self, keys: list[StreamKey]) -> None:
        for key in keys:
            self._watchdog.forget(key)
            self._refetch.forget(key)
            if (task := self._tasks.pop(key, None)) is not None:
                task.cancel()
                self._leaving.append(task)

    # -- telling -----------------------------------------------------------------------------------

    def _report(self) -> None:
        now = self._clock()
        if now < self._next_report:
            return
        self._next_report = now + REPORT_SECONDS
        for task in self._tasks.values():
            self._progress(task)
        self._events.poll()
        for state in self._join:
            self._watch(state, now)

    def _progress(self, task: SegmentTask) -> None:
        done = task.tally.encoded
        if done == task.reported:
            return
        _FRAMES.inc(done - task.reported)
        self._tell(
            Progress(
                job=task.start.job, stream=task.key.stream, epoch=task.key.epoch, role=Role.ASSEMBLER,
                frames=done - task.reported,
            )
        )  # fmt: skip
        task.reported = done

    def _tell(self, event: Record) -> None:
        self._events.send(self._topics.events, encode(event), key=event.job)

    def _watch(self, state: StreamState, now: float) -> None:
        key = state.key
        findings = self._watchdog.look(state, now, bool(self._consumer.paused))
        if Finding.ENDED in findings and self._board.ended(state.job, key.epoch):
            _log.info("stream_of_ended_job", stream=key.stream, epoch=key.epoch)
            self._close(key)  # decoded once more after its end: nothing more comes of it
            return
        if Finding.NAME in findings:
            _log.warning("stream_waits", stream=key.stream, missing=state.missing())
        if Finding.TELL in findings:
            self._tell(
                Warned(
                    job=state.job, stream=key.stream, epoch=key.epoch, role=Role.ASSEMBLER,
                    name=STREAM_WAITS, detail=state.missing(),
                )
            )  # fmt: skip


def _discard(outbox: TransactionalOutbox) -> None:
    """Let go of a producer that may be fenced: closing one is said by an error and a RuntimeWarning. One that
    was closed before, when joining again failed, says so by a RuntimeError, which would hide the reason."""
    with suppress(BrokerError, RuntimeError), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        outbox.close()
