"""`facestream topics`: what lies in Kafka, and which jobs can be replayed from it, until when."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from control.cli.options import bootstrap_options
from control.cli.submit import reach
from control.replayable import Replayable, replayable
from runtime import logs
from runtime.cluster import partitions, topic_configuration
from runtime.kafka import admin, bounds, reader
from runtime.settings import LogSettings, Settings

_PIPE_WIDTH = 400
"""Columns where nobody looks: nothing shall be cut."""


@dataclass(frozen=True, slots=True)
class _Topic:
    topic: str
    partitions: int
    records: int
    """Offsets between first and next: compaction leaves gaps."""
    hours: float | None
    """How long records stay; None: for ever."""
    gib: float | None
    """How large a topic may grow; None: without bound."""


@click.command("topics")
@bootstrap_options
@click.option("--data", type=click.Path(path_type=Path), help="Data folder of `facestream up`.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def command(bootstrap: str | None, data: Path | None, as_json: bool) -> None:
    """List the topics and the jobs that can be replayed."""
    settings = reach(bootstrap, data)
    logs.configure(LogSettings(level="error", format="console"))
    topics, jobs = _topics(settings), list(replayable(settings))
    if as_json:
        rows = [asdict(topic) for topic in topics] + [asdict(job) for job in jobs]
        click.echo("\n".join(json.dumps(row, default=str) for row in rows))
        return
    console = Console()
    width = console.width if console.is_terminal else _PIPE_WIDTH
    console.print(_topic_table(topics), width=width)
    console.print()
    console.print(_job_table(jobs) if jobs else "no job can be replayed", width=width)


def _topics(settings: Settings) -> list[_Topic]:
    names = [topic.name for topic in settings.topic_set.definitions(settings.topic_sizes)]
    present = partitions(admin(settings.kafka), settings.kafka.request_seconds)
    client = reader(settings.kafka, "topics")
    try:
        rows = []
        for name in (n for n in names if n in present):
            ends = [bounds(client, name, number) for number in range(present[name])]
            records = sum(following - first for first, following in ends)
            rows.append(_Topic(name, present[name], records, *_kept(settings, name, present[name])))
        return rows
    finally:
        client.close()


def _kept(settings: Settings, name: str, count: int) -> tuple[float | None, float | None]:
    config = topic_configuration(settings, name)
    if "delete" not in config["cleanup.policy"]:
        return None, None
    ms, size = int(config["retention.ms"]), int(config["retention.bytes"])
    return (ms / 3_600_000 if ms >= 0 else None), (size * count / (1 << 30) if size >= 0 else None)


def _topic_table(topics: list[_Topic]) -> Table:
    table = Table(box=None)
    for name in ("topic", "partitions", "records", "kept for", "at most"):
        table.add_column(name, justify="left" if name == "topic" else "right")
    for row in topics:
        hours = "for ever" if row.hours is None else f"{row.hours:g} h"
        size = "" if row.gib is None else f"{row.gib:.3g} GiB"
        table.add_row(row.topic, str(row.partitions), str(row.records), hours, size)
    return table


def _job_table(jobs: list[Replayable]) -> Table:
    table = Table(box=None)
    table.add_column("job to replay", no_wrap=True)
    for name in ("segments in Kafka", "at least until (UTC)", "output"):
        table.add_column(name, overflow="fold")
    for job in jobs:
        until = "for ever" if job.until is None else job.until.strftime("%Y-%m-%d %H:%M:%S")
        table.add_row(job.job, f"{job.retained} of {job.segments}", until, job.output)
    return table
