"""One segment on its way from pairs of batches to a stored file, in a thread of its own."""

from __future__ import annotations

import queue
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
import structlog

from assembler.encode import EncodedSegment, Picture, Plane, SegmentEncoder
from assembler.encoders import Target, cap_of
from assembler.join import Pair, StreamKey
from assembler.paste import blur, paste
from runtime.payload import Planes, decode
from runtime.store import Store
from schemas.checkpoint import Checkpoint
from schemas.errors import EngineError, FacestreamError, MalformedRecordError, StoreError
from schemas.frames import FrameFlag, FrameInfo, StreamEnd, StreamStart
from schemas.job import JobSpec
from schemas.swaps import Failure, FailurePolicy, Patch, SwapFlag

_log = structlog.get_logger("assembler")
STORE_TRIES = 3
STORE_PAUSE_SECONDS = 1.0
_NOTHING = EncodedSegment(pts=[], reorder=0, bytes=0, encoder="", warnings={})


class Cancelled(Exception):
    """The segment's thread was told to stop."""


@dataclass(slots=True)
class Tally:
    """What was done to the frames of a segment."""

    encoded: int = 0
    swapped: int = 0
    no_face: int = 0
    replaced: int = 0
    engine: str = ""


class SegmentTask:
    """Pastes, encodes and stores one stream. Fed by the polling thread, works in its own.

    `specs` gives the job's spec and may wait for it; the file lives in `scratch` until it is handed to
    the store. `room`: pairs that may wait; `size`: bytes that it takes for all of it.
    """

    def __init__(
        self,
        key: StreamKey,
        start: StreamStart,
        specs: Callable[[Callable[[], bool]], JobSpec],
        store: Store,
        scratch: Path,
        room: int,
        size: int = 0,
    ) -> None:
        self.key, self.start, self.size = key, start, size
        self.tally = Tally()
        self.reported = 0
        """Frames told of in progress events."""
        self.outcome: Checkpoint | FacestreamError | None = None
        """Set once, when the thread ends by itself."""
        self._specs, self._store = specs, store
        self._path = scratch / uuid.uuid4().hex
        self._queue: queue.Queue[Pair | StreamEnd] = queue.Queue(room)
        self._cancelled = threading.Event()
        self._last: Picture | None = None
        self._thread = threading.Thread(target=self._run, name=f"segment-{key.stream}", daemon=True)
        self._thread.start()

    def offer(self, item: Pair | StreamEnd) -> bool:
        """Hand over the next pair, or the end; False if there is no room now."""
        try:
            self._queue.put_nowait(item)
        except queue.Full:
            return False
        return True

    @property
    def full(self) -> bool:
        return self._queue.full()

    def cancel(self) -> None:
        """Stop soon; what was made of it is removed. Does not wait."""
        self._cancelled.set()

    def join(self, timeout: float | None = None) -> None:
        self._thread.join(timeout)

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    # -- in the thread ---------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self.outcome = self._make(self._specs(self._cancelled.is_set))
        except Cancelled:
            pass
        except FacestreamError as error:
            self.outcome = error
        except OSError as error:
            self.outcome = StoreError(f"the segment could not be written: {error}")
        except Exception as error:
            _log.exception("segment_crashed", stream=self.key.stream)
            self.outcome = EngineError(f"assembler: {type(error).__name__}: {error}")
        finally:
            self._last = None
            self._path.unlink(missing_ok=True)

    def _next(self) -> Pair | StreamEnd:
        while True:
            if self._cancelled.is_set():
                raise Cancelled
            try:
                return self._queue.get(timeout=0.2)
            except queue.Empty:
                continue

    def _make(self, spec: JobSpec) -> Checkpoint:
        start = self.start
        encode = spec.encode.by(start.encoder)
        target = Target(
            spec.container, cap_of(spec.encode, start.bitrate), Fraction(spec.plan.segment_seconds)
        )
        with SegmentEncoder(self._path, start.format, start.time_base, start.rate, encode, target) as encoder:
            last_end = start.end
            while not isinstance(item := self._next(), StreamEnd):
                last_end = self._encode(encoder, item)
            done = encoder.finish(last_end) if self.tally.encoded else _NOTHING
        if not done.pts:  # of a damaged input: not one frame of the segment could be decoded
            self._path.touch()
            last_end = item.end
        name = f"segments/{self.key.stream}/{self.key.epoch}/{self._path.name[:12]}.{encoder.suffix}"
        self._keep(name)
        return Checkpoint(
            job=start.job,
            stream=self.key.stream,
            epoch=self.key.epoch,
            segment=start.segment,
            object=name,
            time_base=start.time_base,
            pts=done.pts,
            end=item.end if done.pts and item.end > done.pts[-1] else last_end,
            reorder=done.reorder,
            bytes=done.bytes,
            encoder=done.encoder,
            engine=self.tally.engine,
            swapped=self.tally.swapped,
            no_face=self.tally.no_face,
            replaced=self.tally.replaced,
            warnings=dict(Counter(item.warnings) + Counter(done.warnings)),
        )

    def _keep(self, name: str) -> None:
        for attempt in range(1, STORE_TRIES + 1):
            try:
                self._store.put_file(self._path, name)
                return
            except StoreError as error:
                if attempt == STORE_TRIES or not self._path.exists():
                    raise
                _log.warning("store_failed", object=name, attempt=attempt, reason=str(error))
                time.sleep(STORE_PAUSE_SECONDS)

    def _encode(self, encoder: SegmentEncoder, pair: Pair) -> int:
        """Encode the frames of one pair; returns where the last of them ends."""
        batch, result = pair.frames.record, pair.swaps.record
        if batch.format != self.start.format or batch.time_base != self.start.time_base:
            raise MalformedRecordError(f"stream {self.key.stream} changes its format at seq {batch.seq}")
        failed = result.failed
        if failed is not None and failed.policy is FailurePolicy.FAIL:
            raise EngineError(failed.reason)
        if not self.tally.engine:
            self.tally.engine = f"{result.engine} {result.model}".strip()
        pictures = decode(pair.frames)
        for index, (info, planes) in enumerate(zip(batch.infos(), pictures, strict=True)):
            if self._cancelled.is_set():
                raise Cancelled
            if info.flags & FrameFlag.CONTEXT:
                continue
            if failed is None:
                picture = self._paste(encoder, planes, result.patches[index], pair.swaps.body)
                self._count(result.patches[index], SwapFlag(result.flags[index]))
            else:
                picture = self._replace(encoder, planes, failed)
            encoder.encode(picture, info.pts)
            self.tally.encoded += 1
        return _end(info)

    def _paste(
        self, encoder: SegmentEncoder, planes: Planes, patches: list[Patch], body: memoryview
    ) -> Picture:
        picture = _copy(encoder, planes)
        paste(picture.planes, self.start.format, patches, body)
        self._last = picture
        return picture

    def _replace(self, encoder: SegmentEncoder, planes: Planes, failure: Failure) -> Picture:
        """What is shown where the engine failed: the last good picture, a blurred or the original one.
        Freezing without a picture before blurs, so that no face comes through."""
        self.tally.replaced += 1
        if failure.policy is FailurePolicy.FREEZE and self._last is not None:
            return _copy(encoder, self._last.planes)
        picture = _copy(encoder, planes)
        if failure.policy is not FailurePolicy.PASS:
            blur(picture.planes)
        return picture

    def _count(self, patches: list[Patch], flags: SwapFlag) -> None:
        self.tally.swapped += bool(patches)
        self.tally.no_face += bool(flags & SwapFlag.NO_FACE)


def _copy(encoder: SegmentEncoder, planes: Sequence[Plane]) -> Picture:
    picture = encoder.picture()
    for target, source in zip(picture.planes, planes, strict=True):
        np.copyto(target, source)
    return picture


def _end(info: FrameInfo) -> int:
    return info.pts + max(info.duration, 1)
