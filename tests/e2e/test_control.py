"""The scheduler dies or sleeps: the standby goes on, and what the old one wakes up to write is refused."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from control.local import Local
from control.supervisor import Supervisor
from runtime.cluster import ensure_topics
from runtime.settings import Settings
from schemas.events import Role
from schemas.job import JobRecord, JobState
from schemas.orders import DecodeOrder, FinishOrder, PlanOrder
from schemas.record import Record, decode
from schemas.segments import SegmentRecord, SegmentState
from tests.support.broker import isolated_settings, read_all
from tests.support.cluster import Cluster, times
from tests.support.media import make_clip
from tests.support.processes import eventually

pytestmark = pytest.mark.broker
SLOW = {"options": {"delay_ms": 100}}


@dataclass
class Controls:
    """Two schedulers and one worker of each role."""

    settings: Settings
    supervisor: Supervisor

    def log(self, name: str) -> str:
        return (self.settings.data / "logs" / f"{name}.log").read_text()

    def active(self) -> str:
        """The one that took charge last."""
        lines = {n: [x for x in self.log(n).splitlines() if '"in_charge"' in x] for n in self.names}
        last = {name: found[-1] for name, found in lines.items() if found}
        return max(last, key=lambda name: last[name].split('"timestamp"')[-1], default="")

    def noticed(self, name: str) -> bool:
        """Whether it knows that it is in charge no more."""
        since = self.log(name).rpartition('"in_charge"')[2]
        return "standing_by" in since or "service_failed" in since

    def stands_by(self, name: str) -> bool:
        """Whether it is ready again, if need be after a restart, as `up` does it."""
        self.supervisor.check()
        since = self.log(name).rpartition('"in_charge"')[2]
        return "service_failed" not in since or "service_ready" in since.partition("service_failed")[2]

    @property
    def names(self) -> list[str]:
        return [name for name in self.supervisor.pids() if name.startswith("control")]

    def process(self, name: str) -> psutil.Process:
        return psutil.Process(self.supervisor.pids()[name])

    def history(self, topic: str) -> list[Record]:
        """Every committed record of a topic of any number of partitions, none compacted yet."""
        partitions = self.settings.topics.order_partitions if ".orders." in topic else 1
        values = [v for p in range(partitions) for v in read_all(self.settings, topic, p)]
        return [decode(value).record for value in values if value is not None]


@pytest.fixture
def controls(broker: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Controls]:
    settings = isolated_settings(broker, tmp_path_factory.mktemp("controls"))
    ensure_topics(settings)
    supervisor = Supervisor(settings, settings.data / "logs")
    supervisor.start([(Role.CONTROL, 2), (Role.INGEST, 1), (Role.SWAPPER, 1), (Role.ASSEMBLER, 1)])
    running = Controls(settings, supervisor)
    eventually("one is in charge", lambda: running.active() != "")
    yield running
    supervisor.stop()


def decisions(controls: Controls, job: str) -> None:
    """Each decision about a job was written once, as if one scheduler had made them all."""
    topics = controls.settings.topic_set
    orders = [r for r in controls.history(topics.orders_ingest) if r.job == job]
    assert len([r for r in orders if isinstance(r, PlanOrder)]) == 1
    releases = [r for o in orders if isinstance(o, DecodeOrder) for r in o.releases]
    assert sorted(r.segment for r in releases) == list(range(20))
    states = [r for r in controls.history(topics.segments) if isinstance(r, SegmentRecord) and r.job == job]
    counts = Counter((r.segment, r.state, r.epoch) for r in states)
    assert set(counts.values()) == {1}
    assert sum(r.state is SegmentState.DONE for r in states) == 20
    finishes = [r for r in controls.history(topics.orders_finish) if isinstance(r, FinishOrder)]
    assert [r.job for r in finishes].count(job) == 1
    records = [r for r in controls.history(topics.jobs) if isinstance(r, JobRecord) and r.job == job]
    assert [r.state for r in records] == [
        JobState.QUEUED,
        JobState.PLANNING,
        JobState.RUNNING,
        JobState.FINISHING,
        JobState.DONE,
    ]


def test_the_standby_takes_over_and_every_decision_is_written_once(
    controls: Controls, tmp_path: Path
) -> None:
    """From one that sleeps, and wakes to be refused; then from one that is killed."""
    clip = make_clip(tmp_path / "long.mp4", 500, options={"g": "25"})
    cluster = Cluster(Local(controls.settings, controls.supervisor))
    for number in (signal.SIGSTOP, signal.SIGKILL):
        output = tmp_path / f"{number.name}.mp4"
        spec = cluster.spec(clip, output, swap=SLOW)
        (watcher,) = cluster.submit(spec)
        eventually("the first frames", lambda w=watcher: w.poll(0.05).done[Role.ASSEMBLER] > 0)  # type: ignore[misc]
        old, process = controls.active(), controls.process(controls.active())
        process.send_signal(number)
        eventually("the standby is in charge", lambda o=old: controls.active() != o)  # type: ignore[misc]
        new = controls.active()
        (status,) = cluster.wait(watcher)
        assert status.state is JobState.DONE
        if number is signal.SIGSTOP:
            process.send_signal(signal.SIGCONT)
            eventually("the old one noticed", lambda o=old: controls.noticed(o))  # type: ignore[misc]
            assert controls.active() == new, "who is in charge stays it"
            eventually("it stands by again", lambda o=old: controls.stands_by(o))  # type: ignore[misc]
        decisions(controls, spec.job)
        assert times(output) == times(clip)
