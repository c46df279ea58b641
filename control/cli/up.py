"""`facestream up`: everything on this machine, until it is told to stop."""

from __future__ import annotations

import signal
import threading
from pathlib import Path

import click

from control import local
from control.cli.options import bootstrap_options, load_settings
from runtime import logs
from runtime.settings import LogSettings


@click.command("up")
@bootstrap_options
@click.option("--swappers", type=click.IntRange(1, 64), default=1, show_default=True)
@click.option("--group", type=click.Choice(["consumer", "share"]), default="consumer", show_default=True,
              help="How swappers share the work: whole segments, or single batches.")  # fmt: skip
@click.option("--data", type=click.Path(path_type=Path), help="Folder for Kafka's data and work files.")
def command(bootstrap: str | None, swappers: int, group: str, data: Path | None) -> None:
    """Keep broker and services running; `submit`, `swap` and `status` find them."""
    overrides = {"swapper": {"group": group}} | ({"data": data} if data else {})
    settings = load_settings(bootstrap, **overrides)
    logs.configure(LogSettings(format="console"))
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    with local.run(settings, swappers) as here, local.announced(here):
        click.echo(f"facestream is up; Kafka listens on {here.settings.kafka.bootstrap}", err=True)
        while not stop.wait(0.5):
            here.check()
