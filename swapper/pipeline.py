"""The stages inside a worker: decode → run → send, a thread each, a bounded queue before each.

Items go through in the order they were put, so marks (a stream's end, a stream given up) arrive after
all batches before them. An engine that does not come back within `patience` seconds ends the worker.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import structlog
from prometheus_client import Counter, Gauge

from runtime.metrics import REGISTRY
from runtime.outbox import Outbox
from runtime.payload import decode as decode_planes
from schemas.errors import EngineError
from schemas.events import Progress, Role
from schemas.frames import FrameBatch, FrameFlag
from schemas.record import Message, Record, encode
from swapper.results import answer, dead_record
from swapper.runner import Batch, Done, Runner

_log = structlog.get_logger("swapper")
_BATCHES = Counter("facestream_swapper_batches", "Frame batches answered", ["result"], registry=REGISTRY)
_FRAMES = Counter("facestream_swapper_frames", "Frames answered, context included", registry=REGISTRY)
_SECONDS = Counter("facestream_swapper_engine_seconds", "CPU time of the engines", registry=REGISTRY)
_WAITING = Gauge("facestream_swapper_waiting_batches", "Batches between read and run", registry=REGISTRY)
_PROGRESS_SECONDS = 1.0
_GATHER = 8
"""How many waiting batches one run takes together at most."""


@dataclass(slots=True)
class Ticket:
    """One stream on its way through; `live` turns false when its partition is taken away."""

    key: tuple[str, int]
    partition: int
    next_seq: int = 0
    """Sequence number that comes next; lower ones are repetitions."""
    unanswered: dict[int, None] = field(default_factory=dict)
    """Batches put, by `seq` and in order, whose results the broker does not have yet."""
    live: bool = True
    passed: bool = False
    """Its end went through the pipeline: all its results are on their way."""


@dataclass(slots=True)
class Read:
    """A frame batch as it came from Kafka. Without a ticket it is run alone, without state.
    `sent` is called once the broker has its result (from any thread)."""

    message: Message[FrameBatch]
    partition: int
    offset: int
    ticket: Ticket | None
    sent: Callable[[object], None]
    refuse: str = ""
    """A reason not to run it: it becomes a failure at once."""
    alone: bool = False
    """Run it without the state of its stream."""


@dataclass(slots=True)
class End:
    """The stream is complete with what was put before; `passed` is called when its last result is on
    its way."""

    ticket: Ticket
    passed: Callable[[], None]


@dataclass(slots=True)
class Drop:
    """Forget the stream."""

    ticket: Ticket


@dataclass(slots=True)
class Fence:
    """`passed` is called once everything put before has gone through and the broker has the results, except
    for what an engine holds back."""

    passed: Callable[[], None]


@dataclass(slots=True)
class Tell:
    """An event for control."""

    record: Record


@dataclass(slots=True)
class _Decoded:
    read: Read
    batch: Batch
    refuse: str = ""


Item = Read | End | Drop | Fence | Tell
_Result = tuple[Read, Done] | End | Fence | Tell


class Pipeline:
    """Owns the stages. `offer` and `put` feed it; `check` raises what a stage could not handle."""

    def __init__(
        self,
        runner: Runner,
        outbox: Outbox,
        topics: Topics,
        depth: int,
        patience: float = 600.0,
        room: int = 1 << 62,
    ) -> None:
        """`depth`: batches in each queue; `room`: bytes of decoded frames that wait or run, of one batch at
        least. Frames that an engine holds back come on top."""
        self._room = _Room(room)
        self._patience = patience
        self._busy_since: float | None = None
        self._runner = runner
        self._outbox = outbox
        self._topics = topics
        self._input: queue.Queue[Item] = queue.Queue(depth)
        self._decoded: queue.Queue[_Decoded | End | Drop | Fence | Tell] = queue.Queue(depth)
        self._results: queue.Queue[_Result] = queue.Queue(depth)
        self._waiting: dict[tuple[int, int, int], Read] = {}
        self._progress = _Progress(outbox, topics.events)
        self._error: BaseException | None = None
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._guard, args=(loop,), name=loop.__name__.strip("_"), daemon=True)
            for loop in (self._decode_loop, self._run_loop, self._send_loop)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def offer(self, item: Item, timeout: float) -> bool:
        """Put an item if there is room within `timeout` seconds."""
        try:
            self._input.put(item, timeout=timeout)
        except queue.Full:
            return False
        return True

    def put(self, item: Item) -> None:
        """Put an item, waiting for room; raises what a stage could not handle."""
        while not self._stop.is_set():
            self.check()
            if self.offer(item, 0.2):
                return

    def check(self) -> None:
        """Raise the error that ended a stage, if one did, and EngineError for an engine that hangs."""
        if self._error is not None:
            raise self._error
        if self._hangs():
            raise EngineError(f"the engine did not come back for {self._patience:g} s (swapper.hang_seconds)")

    def wait(self, timeout: float) -> None:
        """Sleep, but not past the end of the pipeline."""
        self._stop.wait(timeout)

    def stop(self) -> None:
        """End the stages; what is still inside is dropped (it was not committed)."""
        self._stop.set()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(timeout=0.5 if self._hangs() else 10)

    def _hangs(self) -> bool:
        since = self._busy_since
        return since is not None and time.monotonic() - since > self._patience

    # -- stages ----------------------------------------------------------------------------------

    def _guard(self, loop: Callable[[], None]) -> None:
        try:
            loop()
        except _Stopped:
            pass
        except BaseException as error:  # handed to the main thread, which raises it
            self._error = error

    def _decode_loop(self) -> None:
        while True:
            item = self._take(self._input)
            if not isinstance(item, Read):
                self._give(self._decoded, item)
                continue
            while not self._room.enter(_size(item), 0.2):
                if self._stop.is_set():
                    raise _Stopped
            self._give(self._decoded, _decoded(item))

    def _run_loop(self) -> None:
        while True:
            items = self._gather()
            results = self._run(items)
            while (result := self._timed(results)) is not None:
                self._give(self._results, result)
            self._room.leave(sum(_size(item.read) for item in items if isinstance(item, _Decoded)))

    def _send_loop(self) -> None:
        while True:
            item = self._take(self._results)
            match item:
                case End():
                    item.passed()
                case Fence():
                    self._outbox.flush()
                    item.passed()
                case Tell():
                    self._outbox.send(self._topics.events, encode(item.record), key=item.record.job)
                case _:
                    self._send(*item)
            self._outbox.poll()

    def _timed(self, results: Iterator[_Result]) -> _Result | None:
        """The next result; whoever checks sees for how long an engine has been at it."""
        self._busy_since = time.monotonic()
        try:
            return next(results, None)
        finally:
            self._busy_since = None

    def _gather(self) -> list[_Decoded | End | Drop | Fence | Tell]:
        _WAITING.set(self._input.qsize() + self._decoded.qsize())
        items = [self._take(self._decoded)]
        while len(items) < _GATHER:
            try:
                items.append(self._decoded.get_nowait())
            except queue.Empty:
                break
        return items

    def _run(self, items: list[_Decoded | End | Drop | Fence | Tell]) -> Iterator[_Result]:
        """Runs of stream batches go to the runner together; everything keeps its order."""
        group: list[Batch] = []
        for item in items:
            if isinstance(item, _Decoded) and (ticket := item.read.ticket) is not None:
                if not ticket.live:
                    continue
                if not (item.refuse or item.read.alone):
                    self._waiting[item.batch.place] = item.read
                    group.append(item.batch)
                    continue
            yield from self._paired(self._runner.run(group))
            group = []
            yield from self._mark(item)
        yield from self._paired(self._runner.run(group))

    def _mark(self, item: _Decoded | End | Drop | Fence | Tell) -> Iterator[_Result]:
        if isinstance(item, Drop):
            self._runner.drop(item.ticket.key)
            left = {at: read for at, read in self._waiting.items() if read.ticket is not item.ticket}
            self._waiting = left
        elif isinstance(item, End):
            if item.ticket.live:
                yield from self._paired(self._runner.run([], ends=[item.ticket.key]))
                yield item
        elif isinstance(item, (Fence, Tell)):
            yield item
        elif item.refuse:
            yield item.read, self._runner.refuse(item.batch, item.refuse)
        else:
            yield item.read, self._runner.run_alone(item.batch)

    def _paired(self, results: list[Done]) -> Iterator[_Result]:
        for done in results:
            done.batch.planes = ()  # the patches are made: nobody looks at the frames again
            yield self._waiting.pop(done.batch.place), done

    def _send(self, read: Read, done: Done) -> None:
        record = done.batch.record
        value, done = answer(done)
        _BATCHES.labels("failed" if done.failure else "done").inc()
        _FRAMES.inc(len(record))
        _SECONDS.inc(done.timings.get("engine", 0.0) / 1e3)
        if done.failure:
            _log.error(
                "batch_failed", job=record.job, stream=record.stream, seq=record.seq, reason=done.failure
            )
            dead = dead_record(done, self._topics.frames)
            self._outbox.send(self._topics.dead, encode(dead), key=record.stream)
        self._outbox.send(
            self._topics.swaps,
            value,
            key=record.stream,
            partition=done.batch.partition,
            on_delivery=read.sent,
        )
        self._progress.add(record)

    def _take(self, source: queue.Queue[Any]) -> Any:
        while not self._stop.is_set():
            try:
                return source.get(timeout=0.1)
            except queue.Empty:
                if source is self._results:
                    self._progress.tell()
                    self._outbox.poll()
        raise _Stopped

    def _give(self, target: queue.Queue[Any], item: object) -> None:
        while not self._stop.is_set():
            try:
                target.put(item, timeout=0.2)
            except queue.Full:
                continue
            return
        raise _Stopped


class _Room:
    """Bytes that one thread takes, waiting, and another gives back."""

    def __init__(self, size: int) -> None:
        self._size, self._taken = size, 0
        self._changed = threading.Condition()

    def enter(self, size: int, timeout: float) -> bool:
        """Take so much if it is there within `timeout` seconds; all is there for whoever is alone."""
        with self._changed:
            free = self._changed.wait_for(
                lambda: not self._taken or self._taken + size <= self._size, timeout
            )
            self._taken += size if free else 0
            return free

    def leave(self, size: int) -> None:
        with self._changed:
            self._taken -= size
            self._changed.notify_all()


@dataclass(frozen=True, slots=True)
class Topics:
    """The topics of one lane that a worker reads and writes."""

    frames: str
    swaps: str
    dead: str
    events: str


class _Stopped(Exception):
    """Ends a stage's thread."""


class _Progress:
    """Counts frames per job and tells control about once a second."""

    def __init__(self, outbox: Outbox, topic: str) -> None:
        self._outbox = outbox
        self._topic = topic
        self._counts: dict[str, int] = {}
        self._told = time.monotonic()

    def add(self, record: FrameBatch) -> None:
        fresh = sum(not flags & FrameFlag.CONTEXT for flags in record.flags)
        self._counts[record.job] = self._counts.get(record.job, 0) + fresh
        self.tell()

    def tell(self) -> None:
        if self._counts and time.monotonic() - self._told >= _PROGRESS_SECONDS:
            for job, frames in self._counts.items():
                event = Progress(job=job, role=Role.SWAPPER, frames=frames)
                self._outbox.send(self._topic, encode(event), key=job)
            self._counts.clear()
            self._told = time.monotonic()


def _size(read: Read) -> int:
    """Bytes of a batch's frames once they are decoded."""
    record = read.message.record
    return len(record) * record.format.frame_bytes


def _decoded(read: Read) -> _Decoded:
    record = read.message.record
    refuse = read.refuse
    if not refuse:
        try:
            planes = decode_planes(read.message)
            return _Decoded(read, Batch(record, planes, read.partition, read.offset))
        except Exception as error:  # damaged payload: this batch only
            refuse = f"{type(error).__name__}: {error}"
    return _Decoded(read, Batch(record, [], read.partition, read.offset), refuse)
