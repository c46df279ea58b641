"""`facestream swap`: one video, start to end, on this machine."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from control import admission, local
from control.cli.options import (
    bootstrap_options,
    given,
    job_options,
    load_settings,
    make_job,
    models_option,
    prepared,
)
from control.cli.progress import Display
from control.watch import Status, Watcher
from runtime import logs
from runtime.jobs import JobBoard
from runtime.settings import LogSettings, Settings
from runtime.store import Store
from schemas.errors import JobFailedError
from schemas.job import JobSpec, JobState

_PREFIX = "swap"
_CANCEL_SECONDS = 5.0


@click.command("swap")
@job_options
@bootstrap_options
@models_option
@click.option("--swappers", type=click.IntRange(1, 64), default=1, show_default=True)
@click.option("--group", type=click.Choice(["consumer", "share"]), default="consumer", show_default=True,
              help="How swappers share the work: whole segments, or single batches.")  # fmt: skip
@click.option("--data", type=click.Path(path_type=Path), help="Folder for Kafka's data and work files.")
@click.option("-v", "--verbose", is_flag=True, help="Log lines instead of a progress bar.")
def command(
    bootstrap: str | None,
    models: Path | None,
    swappers: int,
    group: str,
    data: Path | None,
    verbose: bool,
    **options: Any,
) -> int:
    """Put the face of the source pictures into a video.

    Runs ingest, swapper and assembler as processes of their own, on the embedded Kafka broker or on
    the cluster of --bootstrap.
    """
    admission.check_paths(options["target"], options["output"])
    swapper = {"group": group, "engines": [options["engine"]]}
    overrides: dict[str, Any] = {"swapper": swapper} | given(data=data, models=models)
    settings = load_settings(bootstrap, **overrides)
    logs.configure(LogSettings(level="info" if verbose else "error", format="console"))
    engine = admission.open_for(settings, options["engine"])
    job = admission.job_id(_PREFIX)
    make_job(settings, engine, job, "", options)  # what is wrong with the options is said at once
    face = prepared(settings, engine, options)
    with Display(verbose) as display:
        display.say("starting")
        with local.attach_or_run(settings, swappers) as here:
            if here.supervisor is not None:
                give_up_left_over(here.settings)
            name = admission.store_face(Store.of(here.settings), face) if face else ""
            spec = make_job(settings, engine, job, name, options)
            return follow(here, spec, display)


def follow(here: local.Local, spec: JobSpec, display: Display) -> int:
    """Submit a job and show it to its end; a job that nobody waits for any more is cancelled.

    Raises JobFailedError.
    """
    watcher = Watcher(here.settings, spec.job)
    started = time.monotonic()
    try:
        admission.submit(here.settings, spec)
        while not (status := watcher.poll(0.1)).state.ended:
            here.check()
            display.show(status)
        display.show(status)
    except BaseException:
        _cancel(here, spec.job, watcher)
        raise
    finally:
        watcher.close()
    return _result(status, spec, display, time.monotonic() - started)


def _result(status: Status, spec: JobSpec, display: Display, seconds: float) -> int:
    record = status.record
    assert record is not None
    for name, count in sorted(record.warnings.items()):
        display.note(f"warning: {name} ({count})")
    if status.state is not JobState.DONE:
        raise JobFailedError(f"job {spec.job} {status.state}: {record.reason}")
    frames = status.finished.frames if status.finished else status.frames
    display.note(f"{spec.output}: {frames} frames in {seconds:.1f} s ({frames / seconds:.0f} frames/s)")
    return 0


def _cancel(here: local.Local, job: str, watcher: Watcher) -> None:
    """Nobody waits for the job any more: have it given up, so that a later start does not go on."""
    admission.cancel(here.settings, job)
    deadline = time.monotonic() + _CANCEL_SECONDS
    while not watcher.poll(0.1).state.ended and time.monotonic() < deadline:
        pass


def give_up_left_over(settings: Settings) -> None:
    """Jobs of earlier calls of `swap` and `replay` that were killed."""
    with JobBoard(settings, "swap") as board:
        for record in board.records():
            if not record.state.ended and record.job.startswith(("swap-", "replay-")):
                admission.cancel(settings, record.job)
