"""A scheduler built from the topics is compared with the one that wrote them; a lost write is seen."""

from __future__ import annotations

import pytest

from control.scheduler import Limits, Scheduler, Write
from schemas.job import JobRecord
from schemas.segments import SegmentRecord
from tests.chaos import rebuilt
from tests.support.schedule import TOPICS, checkpoint, job, plan, start

pytestmark = pytest.mark.unit


def build(log: list[Write], checkpoints: list[int]) -> Scheduler:
    records = [w.record for w in {(w.topic, w.key): w for w in log}.values()]
    scheduler = Scheduler(TOPICS, 4, Limits())
    scheduler.restore(
        [r for r in records if isinstance(r, JobRecord)],
        {"a": plan("a", 6)},
        [r for r in records if isinstance(r, SegmentRecord)],
        [checkpoint("a", i) for i in checkpoints],
    )
    return scheduler


def test_what_is_rebuilt_stands_where_the_one_before_stood_and_a_lost_write_is_seen() -> None:
    old = Scheduler(TOPICS, 4, Limits(segments=3))
    log = start(old, job("a"), plan("a", 6)) + old.release()
    log += old.checkpointed(checkpoint("a", 1))
    assert rebuilt.differing(rebuilt.standing(old), rebuilt.standing(build(log, [1]))) == []
    last = old.release()
    differences = rebuilt.differing(rebuilt.standing(old), rebuilt.standing(build(log, [1])))
    assert any(line.startswith("/runs/a/segments/3/state") for line in differences)
    assert rebuilt.differing(rebuilt.standing(old), rebuilt.standing(build(log + last, [1]))) == []


def test_take_overs_are_timed_where_nothing_else_happened_in_between() -> None:
    found = [{"at": at} for at in (0.0, 16.0, 30.0, 47.0)]
    assert rebuilt.seconds_after([10.0, 20.0, 40.0], found, [25.0]) == [6.0, 7.0]
