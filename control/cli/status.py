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
from runtime import logs
from runtime.jobs import JobBoard
from runtime.settings import LogSettings
from schemas.errors import UsageError
from schemas.job import JobRecord

_PIPE_WIDTH = 400
"""Columns where nobody looks: nothing shall be cut."""


@click.command("status")
@click.argument("job", required=False)
@bootstrap_options
@click.option("--data", type=click.Path(path_type=Path), help="Data folder of `facestream up`.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def command(job: str | None, bootstrap: str | None, data: Path | None, as_json: bool) -> None:
    """List jobs, or show one."""
    settings = reach(bootstrap, data)
    logs.configure(LogSettings(level="error", format="console"))
    with JobBoard(settings, "status") as board:
        records = [r for r in board.records() if job in (None, r.job)]
    if job is not None and not records:
        raise UsageError(f"there is no job {job}")
    if as_json:
        for record in records:
            click.echo(json.dumps(record.model_dump(mode="json")))
    else:
        console = Console()
        width = console.width if console.is_terminal else _PIPE_WIDTH
        console.print(_table(records), width=width)


def _table(records: list[JobRecord]) -> Table:
    table = Table(box=None)
    table.add_column("job", no_wrap=True, min_width=29)
    for name in ("state", "submitted", "engine", "output", "note"):
        table.add_column(name, overflow="fold")
    for record in records:
        when = datetime.fromtimestamp(record.created_ns / 1e9, UTC).strftime("%Y-%m-%d %H:%M:%S")
        warnings = ", ".join(f"{name} ({n})" for name, n in sorted(record.warnings.items()))
        note = record.reason or warnings
        spec = record.spec
        table.add_row(record.job, record.state, when, spec.swap.engine, spec.output, note)
    return table
