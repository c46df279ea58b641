"""A batch that takes the process down, on the real broker: it dies, everything else is done."""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime.settings import Settings
from schemas.errors import EngineError
from schemas.events import Dead
from schemas.job import Lane
from schemas.record import Record
from schemas.swaps import FailurePolicy, SwapBatch
from swapper.engines import registry
from swapper.service import SwapperService
from tests.support.grenade import HANG, PATIENCE_ENDS, SEGFAULT, Crew, crew
from tests.support.processes import eventually
from tests.support.streams import BATCH, Feeder, records, wait_for

pytestmark = pytest.mark.broker
Found = list[tuple[int, Record]]


def settings_of(kafka: Settings, **swapper: object) -> Settings:
    return kafka.model_copy(update={"swapper": kafka.swapper.model_copy(update=swapper)})


def answers(found: Found) -> dict[tuple[str, int], bool]:
    """(stream, seq) to whether the batch failed, of the first answer."""
    first: dict[tuple[str, int], bool] = {}
    for _, record in found:
        if isinstance(record, SwapBatch):
            first.setdefault((record.stream, record.seq), record.failed is not None)
    return first


def all_answered(settings: Settings, workers: Crew, want: set[tuple[str, int]]) -> Found:
    def ready(found: Found) -> bool:
        workers.check()
        return want <= set(answers(found))

    return wait_for(settings, settings.topic_set.swaps(Lane.BATCH), ready, 120)


def batches(streams: list[str], count: int) -> set[tuple[str, int]]:
    return {(stream, number * BATCH) for stream in streams for number in range(count)}


@pytest.mark.parametrize(("group", "hold"), [("consumer", 2), ("share", 0)])
def test_a_segfault_costs_one_batch_among_healthy_streams_of_its_partition(
    kafka: Settings, group: str, hold: int
) -> None:
    settings = settings_of(kafka, group=group)
    feeder = Feeder(settings)
    feeder.job("bad", engine="grenade", on_failure="freeze", options={"hold": hold})
    feeder.job("good", engine="grenade", options={"hold": hold})
    streams = ["good/0", "bad/0", "good/1", "good/2"]
    feeder.woven(streams, 5, 1, marks={("bad/0", 2): SEGFAULT})
    want = batches(streams, 5)
    with crew(settings) as workers:
        found = all_answered(settings, workers, want)
    failed = {key for key, bad in answers(found).items() if bad}
    assert failed == {("bad/0", 2 * BATCH)}
    assert 1 <= len(workers.deaths) <= 4
    assert not any(r.failed for _, r in found if isinstance(r, SwapBatch) and r.job == "good")
    letters = [r for _, r in records(settings, settings.topic_set.dead) if isinstance(r, Dead)]
    assert {(d.stream, d.seq, d.policy) for d in letters} == {("bad/0", 2 * BATCH, FailurePolicy.FREEZE)}
    assert "took the worker process down" in letters[0].reason
    assert letters[0].offset == feeder.offsets["bad/0", 2 * BATCH]


def test_five_kills_in_share_mode_lose_no_innocent_record(kafka: Settings) -> None:
    """All records are held by the worker at every kill, which always comes while its engine is at work."""
    settings = settings_of(kafka, group="share")
    feeder = Feeder(settings)
    trace = settings.data / "trace"
    feeder.job("j", engine="grenade", options={"ms": 500, "trace": str(trace)})
    feeder.at_once("j/0", 6, 2)
    with crew(settings) as workers:
        for kills in range(1, 6):
            eventually_busy(trace, workers)
            workers.workers[0].kill()
            workers.workers[0].wait()
            workers.check()
            assert len(workers.deaths) == kills
        found = all_answered(settings, workers, batches(["j/0"], 6))
    assert len(trace.read_text().splitlines()) >= 5 + 6
    assert set(answers(found).values()) == {False}
    assert list(records(settings, settings.topic_set.dead)) == []


def test_an_engine_that_hangs_ends_its_worker(kafka: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """For containment that is a death like others."""
    monkeypatch.setattr(registry, "ENGINES", {"grenade": ("tests.support.grenade", "Grenade")})
    settings = settings_of(kafka, hang_seconds=0.3, engines=("grenade",))
    feeder = Feeder(settings)
    feeder.job("j", engine="grenade")
    feeder.woven(["j/0"], 1, 0, marks={("j/0", 0): HANG})
    service = SwapperService(settings)
    service.start()
    try:
        with pytest.raises(EngineError, match="did not come back for"):
            eventually("the end", lambda: service.step(0.1) is not None)
    finally:
        service.close()
        PATIENCE_ENDS.set()
        service.drain(0)  # a process would be gone: here its consumer is closed


def eventually_busy(trace: Path, workers: Crew) -> None:
    """Wait until the first worker's engine is at work."""
    pid = workers.workers[0].pid
    eventually(
        "an engine at work", lambda: trace.exists() and f"\n{pid} " in "\n" + trace.read_text(), seconds=30
    )
