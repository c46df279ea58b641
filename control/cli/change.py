"""`facestream cancel|pause|resume JOB`: the wishes of a user about a job that runs."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import click

from control import admission
from control.cli.options import bootstrap_options
from control.cli.submit import reach
from runtime import logs
from runtime.jobs import JobBoard
from runtime.settings import LogSettings, Settings
from schemas.errors import JobFailedError, UsageError
from schemas.events import Cancel, Pause, Resume
from schemas.job import JobRecord, JobState

_POLL_SECONDS = 0.1
Wish = type[Cancel] | type[Pause] | type[Resume]


def _command(name: str, wish: Wish, done: Callable[[JobRecord], str], doc: str) -> click.Command:
    """`done` says what a job already is, in words, once the wish came true; else nothing."""

    @click.command(name, help=doc)
    @click.argument("job")
    @click.option("--wait", is_flag=True, help="Return when it has come true.")
    @bootstrap_options
    @click.option("--data", type=click.Path(path_type=Path), help="Data folder of `facestream up`.")
    def command(job: str, wait: bool, bootstrap: str | None, data: Path | None) -> None:
        settings = reach(bootstrap, data)
        logs.configure(LogSettings(level="error", format="console"))
        click.echo(_carry_out(settings, job, wish, done, wait))

    return command


def _carry_out(settings: Settings, job: str, wish: Wish, done: Callable[[JobRecord], str], wait: bool) -> str:
    """Tell control, and wait for it if asked to; returns what to say.

    Raises UsageError for an unknown job, JobFailedError for one that has ended otherwise.
    """
    with JobBoard(settings, "change") as board:
        record = board.record(job)
        if record is None:
            raise UsageError(f"there is no job {job}")
        if said := done(record):
            return f"{job} {said} already"
        _check_runs(record)
        admission.tell(settings, wish(job=job))
        if not wait:
            return f"{job}: asked to {wish.KIND.removeprefix('event.')}"
        while not (said := done(record)):
            _check_runs(record)
            time.sleep(_POLL_SECONDS)
            record = board.record(job) or record
        return f"{job} {said}"


def _check_runs(record: JobRecord) -> None:
    if record.state.ended:
        reason = f": {record.reason}" if record.reason else ""
        raise JobFailedError(f"job {record.job} has ended: {record.state}{reason}")


def _cancelled(record: JobRecord) -> str:
    return "is cancelled" if record.state is JobState.CANCELLED else ""


def _paused(record: JobRecord) -> str:
    return "is paused" if record.paused else ""


def _running(record: JobRecord) -> str:
    return "" if record.paused or record.state.ended else "is not paused"


cancel = _command(
    "cancel", Cancel, _cancelled,
    "Give a job up: what is in flight is dropped, no output appears. One that is just being put in place may "
    "be done before.",
)  # fmt: skip
pause = _command(
    "pause", Pause, _paused, "Release nothing more of a job; what is in flight is finished and kept."
)
resume = _command("resume", Resume, _running, "Go on with a paused job.")
