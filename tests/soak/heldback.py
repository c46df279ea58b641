"""Ten streams in one partition, of which one waits for its patches while the others go on."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence

from control.supervisor import Supervisor
from runtime.settings import Settings
from schemas.events import Role
from schemas.frames import StreamStart, VideoFormat
from schemas.job import EncodeSpec, JobSpec, stream_id
from schemas.record import Record
from tests.soak.resident import Resident
from tests.support.feed import Feed, Log, await_records, make_stream, records_on

OTHERS = 9
FRAMES = 48
PARTITION = 1
PATIENCE_SECONDS = 200.0
FIRST_SWAPS = 3
"""Records of swaps that the stream has before they stop: its start and two batches."""


def run(settings: Settings, video: VideoFormat, seconds: float) -> Resident:
    """Run an assembler as a process of its own for so long, and until each of the others has been through
    once; then let the last patches come. Every segment that was written must come out. Returns the memory
    that it took."""
    feed = Feed(settings)
    stage = _Stage(settings, feed, make_stream("model", 0, count=FRAMES, batch=12, video=video))
    supervisor = Supervisor(settings, settings.data / "logs")
    supervisor.start([(Role.ASSEMBLER, 1)])
    try:
        with Resident(supervisor.pids) as resident:
            held = stage.begin()
            begin = time.monotonic()
            while time.monotonic() - begin < seconds or len(stage.done()) < OTHERS:
                assert time.monotonic() - begin < seconds + PATIENCE_SECONDS, "the others do not go on"
                supervisor.check()
                stage.go_on()
                time.sleep(0.5)
            during = stage.done()
            assert stream_id("held", 0) not in during
            feed.write(Log(swaps=held), PARTITION, "s")
            made = await_records(
                settings, settings.topic_set.checkpoints, "checkpoint", stage.written, seconds=300
            )
    finally:
        supervisor.stop()
        feed.close()
    counts = Counter(checkpoint.stream for checkpoint in made)
    assert len(counts) == stage.written
    assert {len(checkpoint.pts) for checkpoint in made} == {FRAMES}
    print(f"{len(during)} segments of {FRAMES} frames while one was held back for {seconds:g} s")
    return resident


class _Stage:
    """Writes streams of which each is the same log under another name."""

    def __init__(self, settings: Settings, feed: Feed, model: Log) -> None:
        self._settings, self._feed, self._model = settings, feed, model
        self._segments: Counter[str] = Counter()

    @property
    def written(self) -> int:
        """Streams so far."""
        return sum(self._segments.values())

    def begin(self) -> list[tuple[Record, bytes]]:
        """Write the first stream of each; returns the swaps that are held back."""
        names = ["held", *(f"job{number}" for number in range(OTHERS))]
        for name in names:
            self._feed.job(JobSpec(job=name, input="in.mp4", output=f"{name}.mp4"))
        logs = [self._next(name) for name in names]
        held = logs[0].swaps[FIRST_SWAPS:]
        del logs[0].swaps[FIRST_SWAPS:]
        self._write(logs)
        return held

    def go_on(self) -> None:
        """Each of the others gets its next stream when the one before is done."""
        done = self.done()
        due = [name for name, count in self._segments.items() if stream_id(name, count - 1) in done]
        self._write([self._next(name) for name in due])

    def done(self) -> set[str]:
        return {record.stream for record in records_on(self._settings, self._settings.topic_set.checkpoints)}

    def _next(self, job: str) -> Log:
        segment = self._segments[job]
        self._segments[job] += 1
        name = {"job": job, "stream": stream_id(job, segment)}

        def named(records: Iterable[tuple[Record, bytes]]) -> list[tuple[Record, bytes]]:
            return [(_renamed(record, name), body) for record, body in records]

        return Log(named(self._model.frames), named(self._model.swaps))

    def _write(self, logs: Sequence[Log]) -> None:
        """Record by record in turn, so that the streams lie woven in their partition."""
        for number in range(max((len(log.frames) for log in logs), default=0)):
            for log in logs:
                part = Log(log.frames[number : number + 1], log.swaps[number : number + 1])
                self._feed.write(part, PARTITION)


def _renamed(record: Record, name: dict[str, str]) -> Record:
    encoder = {"encoder": EncodeSpec().encoder}
    return record.model_copy(update=name | (encoder if isinstance(record, StreamStart) else {}))
