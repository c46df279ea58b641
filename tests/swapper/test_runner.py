"""Every batch gets exactly one result, whatever the engine does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.errors import ContentRefusedError, ModelError
from schemas.frames import FrameBatch, VideoFormat
from schemas.record import decode
from schemas.swaps import FailurePolicy, SwapBatch, SwapFlag
from swapper.engines.base import Engine, Frame, FrameSwap, PatchPixels, SourceFace, Work
from swapper.results import answer, dead_record
from swapper.runner import ATTEMPTS, Batch, Done, Recipe, Runner

pytestmark = pytest.mark.unit
FORMAT = VideoFormat(width=4, height=4, pixel_format="gray")
POISON = 255


class Delaying(Engine):
    """Holds the newest `hold` frames back, and raises on a poisoned picture."""

    name = "delaying"
    stateful = True
    context_frames = 0

    def __init__(self, hold: int = 0) -> None:
        self.hold = hold
        self.calls = 0

    @property
    def model_id(self) -> str:
        return "delaying"

    def warm(self) -> None: ...

    def prepare(self, pictures: Sequence[bytes]) -> SourceFace:
        return SourceFace(self.name)

    def open(self, face: SourceFace, options: Mapping[str, Any]) -> list[Frame]:
        return []

    def swap(self, work: Sequence[Work]) -> list[list[FrameSwap]]:
        self.calls += 1
        return [self._one(w) for w in work]

    def _one(self, work: Work) -> list[FrameSwap]:
        held: list[Frame] = work.state
        if any(int(f.planes[0][0, 0]) == POISON for f in work.frames):
            raise RuntimeError("poisoned frame")
        held.extend(work.frames)
        keep = 0 if work.last else min(self.hold, len(held))
        out = held[: len(held) - keep]
        del held[: len(out)]
        return [FrameSwap(f.info.seq, flags=SwapFlag.NO_FACE) for f in out]


def runner_of(engine: Engine) -> Runner:
    def recipe(job: str, revision: int) -> Recipe:
        if job == "unknown":
            raise ModelError("no such face")
        return Recipe(engine, SourceFace("delaying"), {}, FailurePolicy.FREEZE)

    return Runner(recipe)


def batch(stream: str, seq: int, count: int, poison: bool = False) -> Batch:
    record = FrameBatch(
        job=stream.split("/")[0],
        stream=stream,
        epoch=1,
        seq=seq,
        format=FORMAT,
        time_base=(1, 30),
        pts=list(range(seq, seq + count)),
        duration=[1] * count,
        flags=[0] * count,
        spans=[(0, 16)] * count,
    )
    plane = np.full((4, 4), POISON if poison else 0, np.uint8)
    return Batch(record, [(plane,)] * count, 0, seq)


def seqs(results: Sequence[Done]) -> list[tuple[str, int, list[int]]]:
    return [(d.batch.record.stream, d.batch.record.seq, [s.seq for s in d.swaps]) for d in results]


@given(
    sizes=st.lists(st.integers(1, 5), min_size=1, max_size=8),
    hold=st.integers(0, 12),
    group=st.integers(1, 4),
)
def test_an_engine_that_holds_frames_back_still_decides_every_batch_once(
    sizes: list[int], hold: int, group: int
) -> None:
    runner, at = runner_of(Delaying(hold)), 0
    batches = []
    for size in sizes:
        batches.append(batch("j/0", at, size))
        at += size
    results: list[Done] = []
    for i in range(0, len(batches), group):
        results += runner.run(batches[i : i + group])
    results += runner.run([], ends=[("j/0", 1)])
    decided = [s.seq for d in results for s in d.swaps]
    assert [d.batch.record.seq for d in results] == [b.record.seq for b in batches]
    assert decided == list(range(at))


def test_a_poisoned_batch_fails_after_three_tries_and_its_neighbours_do_not() -> None:
    engine = Delaying(hold=1)
    runner = runner_of(engine)
    results = runner.run([batch("j/0", 0, 2)])
    results += runner.run([batch("j/0", 2, 2, poison=True)])
    results += runner.run([batch("j/0", 4, 2)], ends=[("j/0", 1)])
    assert [(d.batch.record.seq, bool(d.failure)) for d in results] == [(0, False), (2, True), (4, False)]
    assert results[1].policy is FailurePolicy.FREEZE
    assert results[1].failure == "RuntimeError: poisoned frame"
    assert "poisoned frame" in results[1].stack
    assert engine.calls == 2 + 1 + ATTEMPTS + 1


def test_poison_in_one_stream_leaves_another_untouched() -> None:
    runner = runner_of(Delaying())
    results = runner.run([batch("a/0", 0, 1, poison=True), batch("b/0", 0, 1)])
    assert {(d.batch.record.stream, bool(d.failure)) for d in results} == {("a/0", True), ("b/0", False)}


class Together(Delaying):
    """Keeps no state, so streams come together; remembers with how many."""

    stateful = False

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []

    def swap(self, work: Sequence[Work]) -> list[list[FrameSwap]]:
        self.sizes.append(len(work))
        return super().swap(work)


def test_streams_of_an_engine_without_state_are_run_together() -> None:
    engine = Together()
    results = runner_of(engine).run([batch("a/0", 0, 2), batch("b/0", 3, 1), batch("a/0", 2, 1)])
    assert seqs(results) == [("a/0", 0, [0, 1]), ("a/0", 2, [2]), ("b/0", 3, [3])]
    assert engine.sizes == [2]


def test_poison_in_one_of_streams_run_together_leaves_the_others_untouched() -> None:
    engine = Together()
    results = runner_of(engine).run([batch(f"{s}/0", 0, 1, poison=s == "b") for s in "abc"])
    assert {(d.batch.record.stream, bool(d.failure)) for d in results} == {
        ("a/0", False),
        ("b/0", True),
        ("c/0", False),
    }
    assert engine.sizes == [3, 1, 1, *[1] * ATTEMPTS, 1]


def test_a_job_whose_face_cannot_be_read_fails_its_batches_only() -> None:
    runner = runner_of(Delaying())
    results = runner.run([batch("unknown/0", 0, 1), batch("b/0", 0, 1)])
    assert [d.failure for d in results] == ["ModelError: no such face", ""]


def test_a_dropped_stream_starts_anew() -> None:
    runner = runner_of(Delaying(hold=5))
    assert runner.run([batch("j/0", 0, 2)]) == []
    runner.drop(("j/0", 1))
    again = runner.run([batch("j/0", 0, 2)], ends=[("j/0", 1)])
    assert seqs(again) == [("j/0", 0, [0, 1])]


def test_a_batch_run_alone_needs_no_stream() -> None:
    done = runner_of(Delaying(hold=9)).run_alone(batch("j/0", 7, 3))
    assert [s.seq for s in done.swaps] == [7, 8, 9]
    assert Fraction(*done.batch.record.time_base) == Fraction(1, 30)


class Forgetful(Delaying):
    """Keeps the last frame of a stream for itself."""

    def _one(self, work: Work) -> list[FrameSwap]:
        swaps = super()._one(work)
        return swaps[:-1] if work.last else swaps


def test_frames_that_an_engine_never_decides_fail() -> None:
    runner = runner_of(Forgetful(hold=1))
    results = runner.run([batch("j/0", 0, 2), batch("j/0", 2, 2)])
    results += runner.run([], ends=[("j/0", 1)])
    assert [(d.batch.record.seq, bool(d.failure)) for d in results] == [(0, False), (2, True)]
    assert "decided 1 of 2 frames" in results[1].failure


def test_a_batch_that_is_refused_fails_by_the_policy_of_its_job() -> None:
    engine = Delaying()
    done = runner_of(engine).refuse(batch("j/0", 0, 2), "it kills")
    assert (done.failure, done.policy, engine.calls) == ("it kills", FailurePolicy.FREEZE, 0)
    unknown = runner_of(engine).refuse(batch("unknown/0", 0, 2), "it kills")
    assert (unknown.failure, unknown.policy) == ("it kills; ModelError: no such face", FailurePolicy.FAIL)


def test_refused_content_fails_the_job_whatever_its_policy_and_is_not_tried_again() -> None:
    class Refusing(Delaying):
        def swap(self, work: Sequence[Work]) -> list[list[FrameSwap]]:
            self.calls += 1
            raise ContentRefusedError("no")

    engine = Refusing()
    done = runner_of(engine).run_alone(batch("j/0", 0, 2))
    assert (done.policy, done.failure) == (FailurePolicy.FAIL, "ContentRefusedError: no")
    assert engine.calls == 1


def test_patches_that_make_no_record_are_a_failure_too() -> None:
    plane = np.zeros((2, 2), np.uint8)
    swaps = [FrameSwap(0, (PatchPixels(-2, 0, 2, 2, (plane,)),))]
    done = Done(batch("j/0", 0, 1), "broken", swaps=swaps, policy=FailurePolicy.BLUR)
    value, said = answer(done)
    record = decode(bytes(value)).record
    assert isinstance(record, SwapBatch)
    assert record.failed is not None
    assert record.failed.policy is FailurePolicy.BLUR
    assert "ValidationError" in said.failure
    assert said.stack


def test_reasons_and_stacks_leave_without_secrets_and_bounded() -> None:
    long = Done(batch("j/0", 0, 1), "e", failure="password=hunter2 " + "x" * 5000, stack="y" * 50_000)
    dead = dead_record(long, "frames")
    assert "hunter2" not in dead.reason
    assert len(dead.reason) == 1000
    assert len(dead.stack) == 16_000
