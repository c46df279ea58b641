"""Options that several commands share, and the job spec they make."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from assembler.encoders import validate
from control import admission, licences
from control.cli.values import BitRate, Exact, Size, Time
from runtime.settings import Settings, load
from schemas.containers import CONTAINERS, ENCODERS, suffix_of
from schemas.errors import UsageError
from schemas.frames import PayloadCodec
from schemas.job import AUTO, JobSpec
from schemas.swaps import FailurePolicy
from swapper.engines.base import Engine, SourceFace
from swapper.engines.registry import ENGINES

F = TypeVar("F", bound=Callable[..., Any])


licence_option = click.option(
    "--accept-licence", "accept_licence", multiple=True, is_flag=False, flag_value="all", metavar="[MODEL,…]",
    help="Use these models (none named: all that the job needs) though their licence forbids commercial use "
    "or is not known. Kept with the job.")  # fmt: skip


def job_options(function: F) -> F:
    """Everything that decides what a job becomes."""
    path = click.Path(path_type=Path)
    for option in reversed(
        [
            click.option("-s", "--source", "sources", multiple=True, type=path, metavar="PICTURE",
                         help="Face to put in; several pictures of one person give a better one."),
            click.option("--source-face", type=click.IntRange(1), metavar="N",
                         help="Face of each source picture, from left to right; default: the largest."),
            click.option("-t", "--target", required=True, type=path, metavar="VIDEO",
                         help="Video to change."),
            click.option("-o", "--output", required=True, type=path, metavar="VIDEO",
                         help="Result; its suffix names the container."),
            click.option("--engine", type=click.Choice(sorted(ENGINES)), default="mesh",
                         show_default=True, help="What makes the patches."),
            click.option("--engine-option", "engine_options", multiple=True, metavar="NAME=VALUE",
                         help="An option of the engine."),
            click.option("--encoder", type=click.Choice(ENCODERS),
                         help="Default: the container's first that holds the input's pixels."),
            click.option("--quality", type=click.IntRange(0, 63), default=18, show_default=True,
                         help="Constant rate factor; lower is better, 0 is lossless with libx264."),
            click.option("--preset", default="medium", show_default=True, help="Preset of the encoder."),
            click.option("--threads", type=click.IntRange(1, 64), default=4, show_default=True,
                         help="Threads of the encoder; part of the job, since the bytes depend on it."),
            click.option("--bitrate", type=BitRate(), metavar="BITS",
                         help="Cap of each segment's bit rate, such as 4M, on top of the quality."),
            click.option("--like-source", is_flag=True, help="Cap at the input's own bit rate."),
            click.option("--audio", type=click.Choice(["copy", "encode", "none"]), default="copy",
                         show_default=True, help="Sound: as it is where it fits; converted; left out."),
            click.option("--fps", type=Exact(), help="Resample to this frame rate, by timestamps."),
            click.option("--scale", type=Size(), help="Size of the result, 1280x720; 0 keeps the shape."),
            click.option("--trim-start", type=Time(), help="Leave out what comes before, 12.5 or 0:12.5."),
            click.option("--trim-end", type=Time(), help="Leave out what comes after."),
            click.option("--hdr", type=click.Choice(["keep", "tonemap"]), default="keep",
                         show_default=True, help="HDR stays, or becomes BT.709 in 8 bit."),
            click.option("--payload", type=click.Choice([str(c) for c in PayloadCodec]),
                         help="How frames travel; default raw here, lossless with --bootstrap."),
            click.option("--segment-seconds", type=click.FloatRange(0.2, 60), default=4.0,
                         show_default=True, help="Length of the parts that are worked on at once."),
            click.option("--split", type=click.Choice(["fixed", "scenes"]), default="fixed",
                         show_default=True, help="Parts end at their length, or at a scene cut before."),
            click.option("--on-failure", type=click.Choice([str(p) for p in FailurePolicy]),
                         default="fail", show_default=True,
                         help="What becomes of frames that cannot be swapped."),
            click.option("--consent", default="", metavar="REFERENCE",
                         help="Reference to the permission of the person shown; kept with the job."),
            licence_option,
        ]
    ):  # fmt: skip
        function = option(function)
    return function


def bootstrap_options(function: F) -> F:
    """Which cluster."""
    return click.option(
        "--bootstrap", metavar="HOST:PORT", help="A Kafka cluster; default: the embedded broker."
    )(function)


def models_option(function: F) -> F:
    """Where models are."""
    return click.option(
        "--models",
        type=click.Path(path_type=Path, exists=True, file_okay=False),
        metavar="FOLDER",
        help="Models of the engine; default: FACESTREAM_MODELS, else the store of this machine.",
    )(function)


def given(**settings: Any) -> dict[str, Any]:
    """Those that the command line names."""
    return {name: value for name, value in settings.items() if value is not None}


def load_settings(bootstrap: str | None, **overrides: Any) -> Settings:
    """Settings with what the command line says on top."""
    settings = load(overrides)
    return settings.with_bootstrap(bootstrap) if bootstrap else settings


def make_job(settings: Settings, engine: Engine, job: str, face: str, options: Mapping[str, Any]) -> JobSpec:
    """The spec that the options describe. Raises UsageError."""
    share = settings.swapper.group == "share"
    container = CONTAINERS.get(suffix_of(options["output"].name))
    wishes = engine_options(options["engine_options"])
    payload = options["payload"] or ("lossless" if settings.kafka.bootstrap else "raw")
    spec = admission.make_spec(
        job=job,
        input=str(options["target"].absolute()),
        output=str(options["output"].absolute()),
        plan={
            "segment_seconds": options["segment_seconds"],
            "context_frames": 0 if share else engine.context_frames,
            "payload": payload,
            "upright": not (container and container.rotation),
        }
        | {key: options[key] for key in ("fps", "scale", "trim_start", "trim_end", "hdr", "split")},
        swap={
            "engine": engine.name,
            "face": face,
            "sources": [str(path) for path in options["sources"]],
            "consent": options["consent"],
            "accepted": licences.accepted(settings, engine, wishes, options["accept_licence"]),
            "options": wishes,
            "on_failure": options["on_failure"],
        },
        encode={"encoder": options["encoder"] or AUTO}
        | {"bitrate": options["bitrate"] or 0}
        | {key: options[key] for key in ("quality", "like_source", "preset", "threads")},
        audio=options["audio"],
    )
    validate(spec.encode, spec.container)
    return spec


def prepared(settings: Settings, engine: Engine, options: Mapping[str, Any]) -> SourceFace | None:
    """The face that the options describe. Raises UsageError, NoFaceError, InputError."""
    return admission.prepare(
        settings,
        engine,
        options["sources"],
        options["source_face"],
        engine_options(options["engine_options"]),
        options["target"],
    )


def engine_options(pairs: tuple[str, ...]) -> dict[str, int | float | str]:
    """NAME=VALUE pairs; numbers become numbers."""
    result: dict[str, int | float | str] = {}
    for pair in pairs:
        name, sign, text = pair.partition("=")
        if not sign or not name:
            raise UsageError(f"--engine-option {pair!r} is not NAME=VALUE")
        result[name] = _number(text)
    return result


def _number(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
