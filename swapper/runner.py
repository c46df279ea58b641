"""Runs an engine over batches of many streams: one SwapBatch worth of results for each batch, always.

No Kafka here. A batch whose frames raise is tried alone, ATTEMPTS times in all, with fresh state, unless
the error says that this is in vain; then it becomes a failure. Nothing that one stream does touches another.
"""

from __future__ import annotations

import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import structlog

from schemas.errors import ContentRefusedError, EngineError, FacestreamError
from schemas.frames import FrameBatch
from schemas.swaps import FailurePolicy
from swapper.engines.base import Engine, Frame, FrameSwap, Plane, SourceFace, Work

_log = structlog.get_logger("swapper")

ATTEMPTS = 3
"""How often frames that raise are tried before they fail for good."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """What a job wants done: by which engine, with which face, and what becomes of failures."""

    engine: Engine
    face: SourceFace
    options: Mapping[str, Any]
    on_failure: FailurePolicy


Recipes = Callable[[str, int], Recipe]
"""(job, revision of its spec) to recipe; may read the store, and raises what that raises."""


@dataclass(slots=True)
class Batch:
    """A frame batch as it was read, with its place in the topic."""

    record: FrameBatch
    planes: Sequence[tuple[Plane, ...]]
    partition: int
    offset: int

    @property
    def key(self) -> tuple[str, int]:
        return self.record.stream, self.record.epoch

    @property
    def place(self) -> tuple[int, int, int]:
        """Unique in a topic; batches of a range share the offset of what names it."""
        return self.partition, self.offset, self.record.seq

    def frames(self) -> list[Frame]:
        record = self.record
        return [
            Frame(info, record.ordinal + i, record.format, record.tick, self.planes[i])
            for i, info in enumerate(record.infos())
        ]


@dataclass(slots=True)
class Done:
    """A batch with its result: decisions for each of its frames, or the reason why there are none."""

    batch: Batch
    engine: str
    model: str = ""
    swaps: list[FrameSwap] = field(default_factory=list)
    timings: dict[str, float] = field(default_factory=dict)
    failure: str = ""
    stack: str = ""
    policy: FailurePolicy = FailurePolicy.FAIL


_Works = dict[tuple[str, int], Work]
"""By stream and epoch."""


@dataclass(slots=True)
class _Stream:
    recipe: Recipe
    state: Any
    pending: deque[Batch] = field(default_factory=deque)
    decided: deque[FrameSwap] = field(default_factory=deque)
    spent: float = 0.0
    """Milliseconds of engine time not yet told in a result."""


class Runner:
    """Owns the state of the streams it is in the middle of. One thread calls it."""

    def __init__(self, recipes: Recipes) -> None:
        self._recipes = recipes
        self._streams: dict[tuple[str, int], _Stream] = {}

    def run(self, batches: Sequence[Batch], ends: Sequence[tuple[str, int]] = ()) -> list[Done]:
        """Run batches of any streams, in order within each; `ends` names streams that are complete
        with these. Returns every batch that is now decided; an engine may hold the newest back."""
        results: list[Done] = []
        fed: dict[tuple[str, int], list[Batch]] = {key: [] for key in ends}
        for batch in batches:
            fed.setdefault(batch.key, []).append(batch)
        work: dict[tuple[str, int], Work] = {}
        for key, group in fed.items():
            stream, failed = self._open(key, group)
            results += failed
            if stream is None:
                continue
            stream.pending.extend(group)
            frames = [frame for batch in group for frame in batch.frames()]
            work[key] = Work(stream.state, frames, last=key in ends)
        for together in self._runs(work):
            results += self._swap(together)
        for key in ends:
            self._streams.pop(key, None)
        return results

    def run_alone(self, batch: Batch) -> Done:
        """Run one batch without state, for share groups and after an error."""
        try:
            recipe = self._recipes(batch.record.job, batch.record.revision)
        except Exception as error:
            return _failed(batch, error, FailurePolicy.FAIL)
        return _alone(batch, recipe)

    def refuse(self, batch: Batch, reason: str) -> Done:
        """Fail a batch without running it, by its job's policy."""
        try:
            recipe = self._recipes(batch.record.job, batch.record.revision)
        except Exception as error:
            return Done(batch, "", failure=f"{reason}; {type(error).__name__}: {error}")
        return Done(batch, recipe.engine.name, failure=reason, policy=recipe.on_failure)

    def drop(self, key: tuple[str, int]) -> None:
        """Forget a stream: its partition moved, or it was given up."""
        self._streams.pop(key, None)

    def _open(self, key: tuple[str, int], group: Sequence[Batch]) -> tuple[_Stream | None, list[Done]]:
        stream = self._streams.get(key)
        if stream is not None or not group:
            return stream, []
        try:
            recipe = self._recipes(group[0].record.job, group[0].record.revision)
            stream = _Stream(recipe, recipe.engine.open(recipe.face, recipe.options))
        except Exception as error:  # whatever is wrong with the job concerns this stream only
            return None, [_failed(batch, error, FailurePolicy.FAIL) for batch in group]
        self._streams[key] = stream
        return stream, []

    def _runs(self, work: _Works) -> Iterator[_Works]:
        """What goes into an engine at once: all streams of one that keeps no state; else one stream, as an
        error then never touches the state of another."""
        together: dict[str, _Works] = {}
        for key, one in work.items():
            engine = self._streams[key].recipe.engine
            if engine.stateful:
                yield {key: one}
            else:
                together.setdefault(engine.name, {})[key] = one
        yield from together.values()

    def _swap(self, work: _Works) -> Iterator[Done]:
        streams = [self._streams[key] for key in work]
        started = time.thread_time()
        try:
            decided = streams[0].recipe.engine.swap(list(work.values()))
        except Exception as error:
            yield from self._raised(work, error)
            return
        spent = (time.thread_time() - started) * 1e3
        count = sum(len(one.frames) for one in work.values()) or 1
        for (key, one), stream, swaps in zip(work.items(), streams, decided, strict=True):
            stream.spent += spent * len(one.frames) / count
            stream.decided.extend(swaps)
            yield from _complete(stream)
            if one.last and stream.pending:
                _log.warning("engine_kept_frames", stream=key[0])
                yield from self._recover(key)

    def _raised(self, work: _Works, error: Exception) -> Iterator[Done]:
        """Streams that were run together are run by themselves: only one of them need be at fault."""
        if len(work) > 1:
            for key, one in work.items():
                yield from self._swap({key: one})
            return
        for key in work:
            _log.warning("engine_raised", stream=key[0], error=repr(error))
            yield from self._recover(key)

    def _recover(self, key: tuple[str, int]) -> Iterator[Done]:
        """Run what the stream still held batch by batch; its next frames find a fresh state."""
        stream = self._streams.pop(key)
        while stream.pending:
            yield _alone(stream.pending.popleft(), stream.recipe)


def _alone(batch: Batch, recipe: Recipe) -> Done:
    engine = recipe.engine
    for attempt in range(1, ATTEMPTS + 1):
        started = time.thread_time()
        try:
            state = engine.open(recipe.face, recipe.options)
            (swaps,) = engine.swap([Work(state, batch.frames(), last=True)])
            if len(swaps) != len(batch.record):
                raise EngineError(f"{engine.name} decided {len(swaps)} of {len(batch.record)} frames")
        except Exception as error:
            if attempt == ATTEMPTS or _stays(error):
                refused = isinstance(error, ContentRefusedError)
                policy = FailurePolicy.FAIL if refused else recipe.on_failure
                return _failed(batch, error, policy, engine.name)
            continue
        spent = round((time.thread_time() - started) * 1e3, 3)
        return Done(batch, engine.name, engine.model_id, swaps, {"engine": spent}, policy=recipe.on_failure)
    raise AssertionError("unreachable")


def _stays(error: Exception) -> bool:
    """Whether trying again is in vain."""
    return isinstance(error, FacestreamError) and not error.retryable


def _complete(stream: _Stream) -> Iterator[Done]:
    while stream.pending and len(stream.decided) >= len(stream.pending[0].record):
        batch = stream.pending.popleft()
        swaps = [stream.decided.popleft() for _ in range(len(batch.record))]
        engine = stream.recipe.engine
        timings = {"engine": round(stream.spent, 3)}
        yield Done(batch, engine.name, engine.model_id, swaps, timings, policy=stream.recipe.on_failure)
        stream.spent = 0.0


def _failed(batch: Batch, error: Exception, policy: FailurePolicy, engine: str = "") -> Done:
    """To be called where the error is handled: the stack is that of now."""
    reason = f"{type(error).__name__}: {error}"
    return Done(batch, engine, failure=reason, stack=traceback.format_exc(), policy=policy)
