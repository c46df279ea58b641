"""`facestream status`: where jobs stand."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from control.cli.options import bootstrap_options
from control.cli.submit import reach
from control.failures import line
from runtime import logs
from runtime.jobs import JobBoard
from runtime.redact import cleaned
from runtime.settings import LogSettings
from schemas.errors import UsageError
from schemas.job import JobRecord, JobState

_PIPE_WIDTH = 400
"""Columns where nobody looks: nothing shall be cut."""


@click.command("status")
@click.argument("job", required=False)
@bootstrap_options
@click.option("--data", type=click.Path(path_type=Path), help="Data folder of `facestream up`.")
@click.option("--failed", is_flag=True, help="Only jobs that failed, with the reasons; the latest last.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def command(job: str | None, bootstrap: str | None, data: Path | None, failed: bool, as_json: bool) -> None:
    """List jobs, or show one."""
    settings = reach(bootstrap, data)
    logs.configure(LogSettings(level="error", format="console"))
    with JobBoard(settings, "status") as board:
        records = [r for r in board.records() if job in (None, r.job)]
    if job is not None and not records:
        raise UsageError(f"there is no job {job}")
    if failed:
        ended = [r for r in records if r.state is JobState.FAILED]
        records = sorted(ended, key=lambda r: r.ended_ns)
    if as_json:
        for record in records:
            click.echo(cleaned(json.dumps(line(record) if failed else record.model_dump(mode="json"))))
    else:
        console = Console()
        if not console.is_terminal:
            console = Console(width=_PIPE_WIDTH)
        console.print(_failures(records) if failed else _table(records, job is not None))


def _failures(records: list[JobRecord]) -> Table:
    table = Table(box=None)
    table.add_column("job", no_wrap=True, min_width=29)
    for name in ("failed at", "by", "exit", "reason", "input", "output"):
        table.add_column(name, overflow="fold")
    for record in records:
        said = line(record)
        cells = (said[k] for k in ("job", "time", "role", "exit_code", "reason", "input", "output"))
        table.add_row(*(cleaned(str(cell or "")) for cell in cells))
    return table


def _state(record: JobRecord) -> str:
    if record.cancelling:
        return f"{record.state} (cancelling)"
    return f"{record.state} (paused)" if record.paused else str(record.state)


def _table(records: list[JobRecord], whole: bool) -> Table:
    """`whole`: with the licences that were accepted."""
    table = Table(box=None)
    table.add_column("job", no_wrap=True, min_width=29)
    for name in ("state", "submitted", "engine", "output", "note"):
        table.add_column(name, overflow="fold")
    for record in records:
        when = datetime.fromtimestamp(record.created_ns / 1e9, UTC).strftime("%Y-%m-%d %H:%M:%S")
        warnings = ", ".join(f"{name} ({n})" for name, n in sorted(record.warnings.items()))
        spec = record.spec
        accepted = ", ".join(f"{name} ({licence})" for name, licence in spec.swap.accepted.items())
        notes = [record.reason or warnings, f"accepted: {accepted}" if whole and accepted else ""]
        note = "; ".join(filter(None, notes))
        table.add_row(record.job, _state(record), when, spec.swap.engine, spec.output, note)
    return table
