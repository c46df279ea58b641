"""A control that dies while it takes over: what it had read by then is decided by the next one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from control.service import ControlService
from runtime.settings import Settings
from schemas.events import Role, Warned
from schemas.job import JobRecord, JobSpec
from tests.support.feed import Feed, records_on
from tests.support.processes import eventually

pytestmark = pytest.mark.broker


class Died(Exception):
    """Stands for SIGKILL."""


@contextmanager
def control(settings: Settings) -> Iterator[ControlService]:
    service = ControlService(settings)
    service.start()
    try:
        yield service
    finally:
        service.close()


def turns(service: ControlService) -> None:
    """It joins and reads in one turn."""
    for _ in range(10):
        service.step(4.0)


def test_nothing_is_lost_that_was_read_while_taking_over(kafka: Settings, tmp_path: Path) -> None:
    feed = Feed(kafka)
    feed.job(JobSpec(job="j", input=str(tmp_path / "in.mp4"), output=str(tmp_path / "out.mp4")))
    feed.send(kafka.topic_set.events, Warned(job="j", role=Role.INGEST, name="seen"), "j")
    feed.close()
    with control(kafka) as first:
        commit = first._commit

        def dying(writes: Any) -> None:
            commit(writes)
            raise Died

        first._commit = dying  # type: ignore[method-assign]
        with pytest.raises(Died):
            turns(first)
    with control(kafka) as second:

        def told() -> bool:
            second.step(0.5)
            jobs = [r for r in records_on(kafka, kafka.topic_set.jobs) if isinstance(r, JobRecord)]
            return bool(jobs) and jobs[-1].warnings == {"seen": 1}

        eventually("the event is taken in", told)
