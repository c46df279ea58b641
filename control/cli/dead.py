"""`facestream dead list|show|redrive|drop`: batches that failed for good."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from control import admission
from control.cli.options import bootstrap_options
from control.cli.submit import reach
from control.letters import Letter, deal_with, read_letters, save_frames
from runtime import logs
from runtime.jobs import JobBoard
from runtime.settings import LogSettings, Settings
from schemas.errors import UsageError
from schemas.events import Redrive
from schemas.swaps import FailurePolicy

_DID = {
    FailurePolicy.FAIL: "the job failed",
    FailurePolicy.FREEZE: "the last good picture was repeated",
    FailurePolicy.BLUR: "the picture was blurred",
    FailurePolicy.PASS: "the original picture was shown",
}


@click.group("dead")
def command() -> None:
    """Batches that failed for good. NUMBER is that of `dead list`."""


def _where(function: Any) -> Any:
    data = click.option("--data", type=click.Path(path_type=Path), help="Data folder of `facestream up`.")
    return bootstrap_options(data(function))


@command.command("list")
@click.option("--job", help="Only those of this job.")
@click.option("--all", "everything", is_flag=True, help="Also those that were dealt with.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
@_where
def list_(job: str | None, everything: bool, as_json: bool, bootstrap: str | None, data: Path | None) -> None:
    """List them, oldest first."""
    for letter in read_letters(_settings(bootstrap, data)):
        if (job is None or letter.dead.job == job) and (everything or not letter.dealt_with):
            click.echo(json.dumps(_fields(letter)) if as_json else _line(letter))


@command.command("show")
@click.argument("number", type=int)
@click.option("--frames", type=click.Path(path_type=Path), metavar="FOLDER",
              help="Save its frames there as PNG, while they are in the topic.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True)
@_where
def show(number: int, frames: Path | None, as_json: bool, bootstrap: str | None, data: Path | None) -> None:
    """Everything that is known of one."""
    settings = _settings(bootstrap, data)
    (letter,) = _chosen(settings, (number,), None)
    if as_json:
        click.echo(json.dumps(_fields(letter)))
    else:
        for name, value in _fields(letter).items():
            click.echo(f"{name:10} {value}")
    for path in save_frames(settings, letter.dead, frames) if frames else []:
        click.echo(str(path))


@command.command("redrive")
@click.argument("numbers", type=int, nargs=-1)
@click.option("--job", help="All of this job.")
@_where
def redrive(numbers: tuple[int, ...], job: str | None, bootstrap: str | None, data: Path | None) -> None:
    """Run their streams again; a job that has ended goes on."""
    settings = _settings(bootstrap, data)
    letters = _chosen(settings, numbers, job)
    with JobBoard(settings, "dead") as board:
        for letter in letters:
            if board.record(letter.dead.job) is None:
                raise UsageError(f"job {letter.dead.job} is not known any more: submit it again")
    for stream in dict.fromkeys(letter.dead.stream for letter in letters):
        admission.tell(settings, Redrive(job=stream.rpartition("/")[0], stream=stream))
        click.echo(f"{stream}: asked to run again")
    deal_with(settings, letters)


@command.command("drop")
@click.argument("numbers", type=int, nargs=-1)
@click.option("--job", help="All of this job.")
@_where
def drop(numbers: tuple[int, ...], job: str | None, bootstrap: str | None, data: Path | None) -> None:
    """Mark them as dealt with: they are listed no more."""
    settings = _settings(bootstrap, data)
    letters = _chosen(settings, numbers, job)
    deal_with(settings, letters)
    click.echo(f"{len(letters)} dropped")


def _settings(bootstrap: str | None, data: Path | None) -> Settings:
    settings = reach(bootstrap, data)
    logs.configure(LogSettings(level="error", format="console"))
    return settings


def _chosen(settings: Settings, numbers: Sequence[int], job: str | None) -> list[Letter]:
    """Raises UsageError for a number that is not there, and for none at all."""
    letters = read_letters(settings)
    known = {letter.number: letter for letter in letters}
    for number in numbers:
        if number not in known:
            raise UsageError(f"there is no dead letter {number}")
    chosen = [known[number] for number in numbers]
    chosen += [x for x in letters if x.dead.job == job and not x.dealt_with and x not in chosen]
    if not chosen:
        raise UsageError(f"job {job} has no dead letters" if job else "name a number, or --job")
    return chosen


def _fields(letter: Letter) -> dict[str, Any]:
    found = letter.dead.model_dump(mode="json")
    did = {"number": letter.number, "did": _DID[letter.dead.policy], "dealt_with": letter.dealt_with}
    return did | {name: value for name, value in found.items() if name != "stack"} | {"stack": found["stack"]}


def _line(letter: Letter) -> str:
    dead = letter.dead
    frames = f"frames {dead.seq} to {dead.seq + dead.count - 1}"
    note = " (dealt with)" if letter.dealt_with else ""
    return f"{letter.number:5} {dead.stream} {frames}: {dead.reason}; {_DID[dead.policy]}{note}"
