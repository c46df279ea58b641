"""`facestream submit`: hand a job to services that run elsewhere."""

from __future__ import annotations

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
from runtime import logs
from runtime.kafka import check_access
from runtime.settings import LogSettings, Settings
from runtime.store import Store
from schemas.errors import UsageError


@click.command("submit")
@job_options
@bootstrap_options
@models_option
@click.option("--data", type=click.Path(path_type=Path), help="Data folder of `facestream up`.")
def command(bootstrap: str | None, models: Path | None, data: Path | None, **options: Any) -> None:
    """Submit a job and print its name. Paths must mean the same to the services."""
    settings = reach(bootstrap, data, models)
    logs.configure(LogSettings(level="error", format="console"))
    engine = admission.open_for(settings, options["engine"])
    job = admission.job_id()
    make_job(settings, engine, job, "", options)
    face = prepared(settings, engine, options)
    name = admission.store_face(Store.of(settings), face) if face else ""
    admission.submit(settings, make_job(settings, engine, job, name, options))
    click.echo(job)


def reach(bootstrap: str | None, data: Path | None, models: Path | None = None) -> Settings:
    """Settings for the cluster that is named, or that `facestream up` runs here."""
    settings = load_settings(bootstrap, **given(data=data, models=models))
    if settings.kafka.bootstrap:
        check_access(settings.kafka)
        return settings
    running = local.running_bootstrap(settings.data)
    if running is None:
        raise UsageError("nothing is running here: start `facestream up`, or name a cluster (--bootstrap)")
    return settings.with_bootstrap(running)
