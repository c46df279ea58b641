"""`facestream replay`: a finished job again, with another face, engine or encoder, from frames in Kafka."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from assembler.encoders import validate
from control import admission, licences, local
from control.cli.options import (
    bootstrap_options,
    engine_options,
    given,
    licence_option,
    load_settings,
    models_option,
)
from control.cli.progress import Display
from control.cli.swap import follow, give_up_left_over
from control.cli.values import BitRate, Time
from control.replayable import finished
from runtime import logs
from runtime.settings import LogSettings, Settings
from runtime.store import Store
from schemas.containers import ENCODERS
from schemas.job import AUTO, JobSpec
from schemas.swaps import FailurePolicy
from swapper.engines.base import Engine, SourceFace
from swapper.engines.registry import ENGINES

_PREFIX = "replay"


@click.command("replay")
@click.argument("job")
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(path_type=Path),
    metavar="VIDEO",
    help="Result; its suffix names the container.",
)
@click.option(
    "-s",
    "--source",
    "sources",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="PICTURE",
    help="Face to put in; default: the job's.",
)
@click.option(
    "--source-face",
    type=click.IntRange(1),
    metavar="N",
    help="Face of each source picture, from left to right; default: the largest.",
)
@click.option("--from", "trim_start", type=Time(), help="Begin there in the job's result, 12.5 or 0:12.5.")
@click.option("--to", "trim_end", type=Time(), help="End there.")
@click.option("--engine", type=click.Choice(sorted(ENGINES)), help="Default: the job's.")
@click.option("--engine-option", "engine_options", multiple=True, metavar="NAME=VALUE")
@click.option("--encoder", type=click.Choice(ENCODERS), help="Default: by the output and its pixels.")
@click.option("--quality", type=click.IntRange(0, 63), help="Default: the job's.")
@click.option("--preset", help="Default: the job's.")
@click.option("--bitrate", type=BitRate(), metavar="BITS", help="Default: the job's.")
@click.option("--audio", type=click.Choice(["copy", "encode", "none"]), help="Default: the job's.")
@click.option("--on-failure", type=click.Choice([str(p) for p in FailurePolicy]), help="Default: the job's.")
@click.option(
    "--consent",
    metavar="REFERENCE",
    help="Reference to the permission of the person shown; the job's goes with its face.",
)
@licence_option
@bootstrap_options
@models_option
@click.option("--swappers", type=click.IntRange(1, 64), default=1, show_default=True)
@click.option(
    "--group",
    type=click.Choice(["consumer", "share"]),
    default="consumer",
    show_default=True,
    help="How swappers share the work: whole segments, or single batches.",
)
@click.option("--data", type=click.Path(path_type=Path), help="Folder for Kafka's data and work files.")
@click.option("-v", "--verbose", is_flag=True, help="Log lines instead of a progress bar.")
def command(
    job: str,
    bootstrap: str | None,
    models: Path | None,
    swappers: int,
    group: str,
    data: Path | None,
    verbose: bool,
    **options: Any,
) -> int:
    """Make a finished JOB again from the frames that Kafka still holds.

    Nothing is decoded or uploaded again, but for parts that have left the topic and whose input is still
    there. `facestream topics` lists what can be replayed.
    """  # fmt: skip
    warm = [options["engine"]] if options["engine"] else []  # the job's own is opened with its first frames
    swapper = {"group": group, "engines": warm}
    overrides: dict[str, Any] = {"swapper": swapper} | given(data=data, models=models)
    settings = load_settings(bootstrap, **overrides)
    logs.configure(LogSettings(level="info" if verbose else "error", format="console"))
    with Display(verbose) as display:
        display.say("starting")
        with local.attach_or_run(settings, swappers) as here:
            if here.supervisor is not None:
                give_up_left_over(here.settings)
            return follow(here, replay_spec(here.settings, job, options), display)


def replay_spec(settings: Settings, job: str, options: Mapping[str, Any]) -> JobSpec:
    """The spec of a new job that replays `job`. Raises UsageError, NoFaceError, InputError."""
    old = finished(settings, job)
    admission.check_output(options["output"], Path(old.input))
    engine = admission.open_for(settings, options["engine"] or old.swap.engine)
    swap = _swap(settings, old, engine, options)
    encoder = options["encoder"] or AUTO
    chosen = {key: options[key] for key in ("quality", "preset", "bitrate") if options[key] is not None}
    share = settings.swapper.group == "share"
    cut = {key: options[key] for key in ("trim_start", "trim_end")}
    context = {"context_frames": 0 if share else engine.context_frames}
    kept: dict[str, Any] = {"input": old.input, "lane": old.lane, "priority": old.priority}
    spec = admission.make_spec(
        **kept,
        audio=options["audio"] or old.audio,
        job=admission.job_id(_PREFIX),
        replay=job,
        output=str(options["output"].absolute()),
        swap=swap,
        plan=old.plan.model_dump() | {"split": "fixed"} | cut | context,  # its borders stay where they are
        encode=old.encode.model_dump(exclude={"options"}) | {"encoder": encoder} | chosen,
    )
    validate(spec.encode, spec.container)
    return spec


def _swap(settings: Settings, old: JobSpec, engine: Engine, options: Mapping[str, Any]) -> dict[str, Any]:
    """The job's own face goes on only with the engine that it was prepared for."""
    swap = old.swap.model_dump() | {"engine": engine.name}
    if options["on_failure"]:
        swap["on_failure"] = options["on_failure"]
    same = engine.name == old.swap.engine
    if options["engine_options"] or not same:
        swap["options"] = engine_options(options["engine_options"])
    swap["accepted"] = licences.accepted(
        settings, engine, swap["options"], options["accept_licence"], old.swap.accepted
    )
    if options["sources"] or not same:
        face = admission.prepare(
            settings, engine, options["sources"], options["source_face"], swap["options"], Path(old.input)
        )
        swap["face"] = admission.store_face(Store.of(settings), face) if face else ""
        swap["sources"] = [str(path) for path in options["sources"]]
        swap["consent"] = ""
    elif options["engine_options"]:
        kept = swap["face"]
        face = SourceFace.from_bytes(Store.of(settings).get(kept)) if kept else SourceFace(engine.name)
        engine.open(face, swap["options"])  # what the face was not prepared for is said at once
    if options["consent"] is not None:
        swap["consent"] = options["consent"]
    return swap
