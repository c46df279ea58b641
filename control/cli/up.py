"""`facestream up`: everything on this machine, until it is told to stop."""

from __future__ import annotations

import signal
import threading
from pathlib import Path

import click

from control import local
from control.cli.options import bootstrap_options, given, load_settings, models_option
from runtime import logs
from runtime.settings import LogSettings
from swapper.engines.registry import ENGINES


@click.command("up")
@bootstrap_options
@models_option
@click.option("--swappers", type=click.IntRange(1, 64), default=1, show_default=True)
@click.option("--group", type=click.Choice(["consumer", "share"]), default="consumer", show_default=True,
              help="How swappers share the work: whole segments, or single batches.")  # fmt: skip
@click.option(
    "--engine",
    "engines",
    multiple=True,
    type=click.Choice(sorted(ENGINES)),
    help="Kept warm; others are opened when first asked for. Default: swapper.engines of the settings.",
)
@click.option("--data", type=click.Path(path_type=Path), help="Folder for Kafka's data and work files.")
def command(
    bootstrap: str | None,
    models: Path | None,
    swappers: int,
    group: str,
    engines: tuple[str, ...],
    data: Path | None,
) -> None:
    """Keep broker and services running; `submit`, `swap` and `status` find them."""
    swapper = {"group": group} | given(engines=engines or None)
    overrides = {"swapper": swapper} | given(data=data, models=models)
    settings = load_settings(bootstrap, **overrides)
    logs.configure(LogSettings(format="console"))
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    with local.run(settings, swappers) as here, local.announced(here):
        click.echo(f"facestream is up; Kafka listens on {here.settings.kafka.bootstrap}", err=True)
        while not stop.wait(0.5):
            here.check()
