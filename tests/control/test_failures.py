"""The list of failed jobs: each failure once, whoever writes it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from control.failures import FILE, FailedList
from schemas.events import Role
from schemas.job import JobRecord, JobState
from tests.support.schedule import job

pytestmark = pytest.mark.unit


def failed(name: str, second: int) -> JobRecord:
    return job(name).model_copy(
        update={
            "state": JobState.FAILED, "reason": "no face", "failed_by": Role.INGEST, "exit_code": 3,
            "ended_ns": second * 10**9,
        }
    )  # fmt: skip


def lines(folder: Path) -> list[dict[str, object]]:
    return [json.loads(text) for text in (folder / FILE).read_text().splitlines()]


def test_a_line_says_what_failed_why_and_when(tmp_path: Path) -> None:
    FailedList(tmp_path / "data").add([job("runs"), failed("b", 1_700_000_060)])
    assert lines(tmp_path / "data") == [
        {
            "job": "b",
            "time": "2023-11-14T22:14:20Z",
            "role": "ingest",
            "exit_code": 3,
            "reason": "no face",
            "input": "in.mp4",
            "output": "out.mp4",
        }
    ]


def test_each_failure_stands_there_once_in_the_order_of_time(tmp_path: Path) -> None:
    FailedList(tmp_path).add([failed("b", 20), failed("a", 10)])
    FailedList(tmp_path).add([failed("a", 10), failed("b", 20), failed("a", 30)])
    assert [(entry["job"], entry["time"]) for entry in lines(tmp_path)] == [
        ("a", "1970-01-01T00:00:10Z"),
        ("b", "1970-01-01T00:00:20Z"),
        ("a", "1970-01-01T00:00:30Z"),
    ]


def test_half_a_line_of_a_full_disk_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text('{"job": "a", "ti\n')
    FailedList(tmp_path).add([failed("a", 10)])
    assert len((tmp_path / FILE).read_text().splitlines()) == 2


def test_a_folder_that_cannot_be_written_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    FailedList(tmp_path / "file").add([failed("a", 10)])
