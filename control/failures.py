"""`failed.jsonl`: one line for each job that failed, for operators and their scripts."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from pathlib import Path

import structlog

from runtime.redact import cleaned
from schemas.job import JobRecord, JobState

_log = structlog.get_logger("control")
FILE = "failed.jsonl"


def line(record: JobRecord) -> dict[str, object]:
    """What is told of a failed job."""
    return {
        "job": record.job,
        "time": stamp(record.ended_ns),
        "role": record.failed_by,
        "exit_code": record.exit_code or 1,
        "reason": cleaned(record.reason),
        "input": cleaned(record.spec.input),
        "output": record.spec.output,
    }


def stamp(ns: int) -> str:
    """Wall-clock nanoseconds as UTC, to the second; empty if unknown."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(ns // 1_000_000_000)) if ns else ""


class FailedList:
    """The file. Lines are only added; a job that was run again and failed again has two. Which are there
    already is read from the file, so that whoever takes over adds what the one before could not."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE

    def add(self, records: Iterable[JobRecord]) -> None:
        """Add those of the records that failed and are not in the file yet. A file that cannot be written is
        no reason to stop work: the topic has it all."""
        failed = sorted((r for r in records if r.state is JobState.FAILED), key=lambda r: r.ended_ns)
        if not failed:
            return
        try:
            known = self._known()
            lines = [json.dumps(entry) + "\n" for r in failed if _key(entry := line(r)) not in known]
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a") as file:
                file.write("".join(lines))
        except OSError as error:
            _log.warning("failed_list_not_written", path=str(self._path), reason=str(error))

    def _known(self) -> set[tuple[object, object]]:
        if not self._path.exists():
            return set()
        known: set[tuple[object, object]] = set()
        for text in self._path.read_text().splitlines():
            try:
                known.add(_key(json.loads(text)))
            except (ValueError, AttributeError):  # half a line, of a full disk
                continue
        return known


def _key(entry: dict[str, object]) -> tuple[object, object]:
    return entry.get("job"), entry.get("time")
