"""Whether the scheduler that a new control builds from the topics is the one that died.

There is no database: what the scheduler decided is what the topics say. Each control keeps a note of where
its scheduler stands beside every transaction: as it will be, and as it is when that is committed. The next
one compares what it rebuilt with the note of the one before: it must be either of the two, since nobody can
know whether the last transaction came through.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from control.scheduler import Limits, Scheduler
from control.service import ControlService
from schemas.checkpoint import Checkpoint
from schemas.job import JobRecord, JobState
from schemas.plan import Plan
from schemas.segments import SegmentRecord, SegmentState

LOG, CHARGE = "rebuilt.jsonl", "in-charge"
"""Files in the crew's folder: each take-over; who was the last to take over."""


def standing(scheduler: Scheduler) -> dict[str, Any]:
    """All that the scheduler knows, in a form that can be written down and compared."""
    runs = {
        job: {
            "record": run.record.model_dump(mode="json", exclude={"spec"}),
            "segments": {str(i): s.model_dump(mode="json") for i, s in sorted(run.segments.items())},
            "done": {str(i): [c.epoch, c.object] for i, c in sorted(run.done.items())},
            "waiting": sorted(run.waiting),
            "planned": run.plan is not None,
        }
        for job, run in sorted(scheduler._runs.items())
    }
    load = {str(partition): size for partition, size in sorted(scheduler._load.items())}
    return {"runs": runs, "ended": sorted(scheduler.ended), "load": load}


def differing(one: Any, other: Any, at: str = "") -> list[str]:
    """Where two notes differ."""
    if isinstance(one, dict) and isinstance(other, dict):
        keys = sorted(one.keys() | other.keys())
        return [d for k in keys for d in differing(one.get(k), other.get(k), f"{at}/{k}")]
    return [] if one == other else [f"{at}: {str(one)[:80]} / {str(other)[:80]}"]


def watch(folder: Path) -> None:
    """Have this process, a control, keep its notes in `folder`, and compare when it takes over."""
    _keep_notes(folder)
    restore = Scheduler.restore

    def compared(
        self: Scheduler,
        jobs: Iterable[JobRecord],
        plans: Mapping[str, Plan],
        segments: Iterable[SegmentRecord],
        checkpoints: Iterable[Checkpoint],
    ) -> Any:
        jobs, segments, checkpoints = list(jobs), list(segments), list(checkpoints)
        done = {(s.stream, s.epoch) for s in segments if s.state is SegmentState.DONE}
        shadow = Scheduler(self._topics, len(self._load), Limits())
        # without what the one before had not read yet: new jobs, and checkpoints
        known = [j for j in jobs if j.state is not JobState.QUEUED]
        restore(shadow, known, plans, segments, [c for c in checkpoints if (c.stream, c.epoch) in done])
        _compare(folder, standing(shadow))
        return restore(self, jobs, plans, segments, checkpoints)

    Scheduler.restore = compared  # type: ignore[method-assign]


def _keep_notes(folder: Path) -> None:
    commit = ControlService._commit

    def noted(self: ControlService, writes: Any) -> None:
        if writes:
            before = _read(folder, os.getpid())["committed"]
            now = standing(self._scheduler)
            _write(folder, {"committed": before, "pending": now})
        commit(self, writes)
        if writes:
            _write(folder, {"committed": now, "pending": now})

    ControlService._commit = noted  # type: ignore[method-assign]


def _compare(folder: Path, rebuilt: dict[str, Any]) -> None:
    charge = folder / CHARGE
    before = int(charge.read_text()) if charge.exists() else 0
    entry: dict[str, Any] = {"at": time.monotonic(), "pid": os.getpid(), "before": before}
    if before:
        note = _read(folder, before)
        found = {name: differing(note[name], rebuilt) for name in ("committed", "pending")}
        entry["as"] = next((name for name, differences in found.items() if not differences), "")
        entry["running"] = len(rebuilt["runs"])
        entry["differs"] = [] if entry["as"] else found["pending"][:8]
    with (folder / LOG).open("a") as log:
        log.write(json.dumps(entry) + "\n")
    _write(folder, {"committed": rebuilt, "pending": rebuilt})
    _put(charge, str(os.getpid()))


def _read(folder: Path, pid: int) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / f"standing-{pid}.json").read_text())
    return found


def _write(folder: Path, note: dict[str, Any]) -> None:
    _put(folder / f"standing-{os.getpid()}.json", json.dumps(note))


def _put(path: Path, text: str) -> None:
    fresh = path.with_suffix(f".{os.getpid()}")
    fresh.write_text(text)
    os.replace(fresh, path)


def take_overs(folder: Path) -> list[dict[str, Any]]:
    """Every take-over so far: `at` (monotonic seconds), `as` which of the notes, how many jobs ran."""
    return [json.loads(line) for line in (folder / LOG).read_text().splitlines()]


def wrong_with(found: Iterable[Mapping[str, Any]]) -> list[str]:
    """Complaints about those that built something else than what had been."""
    return [
        f"control rebuilt something else: {entry['differs']}"
        for entry in found
        if entry["before"] and not entry["as"]
    ]


def seconds_after(
    deaths: Iterable[float], found: Iterable[Mapping[str, Any]], others: Iterable[float]
) -> list[float]:
    """How long after each death of the one in charge another one was, both in monotonic seconds. Deaths
    after which something of `others` happened before that, another death or the broker's, are left out."""
    marks = sorted(
        [(at, "death") for at in deaths] + [(e["at"], "over") for e in found] + [(at, "") for at in others]
    )
    return [b - a for (a, what), (b, then) in pairwise(marks) if (what, then) == ("death", "over")]
