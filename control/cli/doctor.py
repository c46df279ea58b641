"""`facestream doctor`: what this machine and its cluster can do, by trying it."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from assembler.encoders import probe_encoder
from control import local
from control.cli.options import bootstrap_options, load_settings
from ingest.decode import probe_nvdec
from runtime import logs
from runtime.cluster import broker_configuration
from runtime.kafka import check_access
from runtime.settings import LogSettings, Settings
from schemas.containers import ENCODERS
from schemas.errors import BrokerError, FacestreamError
from swapper.engines.facefusion.process import Child, home_of
from swapper.engines.registry import ENGINES, open_engine
from swapper.models import store
from swapper.models.store import State

_DECODERS = ("h264", "hevc", "av1", "vp9", "mpeg2video", "prores")
_SESSION_FLOORS = {
    "group.consumer.min.session.timeout.ms": "consumer groups",
    "group.share.min.session.timeout.ms": "share groups",
}


@dataclass(frozen=True, slots=True)
class Finding:
    what: str
    good: bool
    detail: str
    needed: bool = False
    """Whether nothing works without it."""


@click.command("doctor")
@bootstrap_options
@click.option("--data", type=click.Path(path_type=Path), help="Data folder of `facestream up`.")
def command(bootstrap: str | None, data: Path | None) -> int:
    """Show what works here. Exit code 1 if something that every job needs does not."""
    logs.configure(LogSettings(level="error", format="console"))
    settings = load_settings(bootstrap, **({"data": data} if data else {}))
    findings = list(examine(settings))
    table = Table("", "what", "finding", box=None)
    for finding in findings:
        mark = "ok" if finding.good else ("FAIL" if finding.needed else "-")
        table.add_row(mark, finding.what, finding.detail)
    console = Console()
    if not console.is_terminal:
        console.width = 400  # a finding a line, for whoever reads it by program
    console.print(table)
    return int(any(f.needed and not f.good for f in findings))


def examine(settings: Settings) -> Iterator[Finding]:
    """All findings, from the machine outwards."""
    yield Finding(
        "machine", True, f"{platform.platform()}, {os.cpu_count()} CPUs, Python {platform.python_version()}"
    )
    yield from _gpu()
    yield from _codecs()
    yield from _models(settings)
    yield from _engines(settings)
    yield from _broker(settings)


def _gpu() -> Iterator[Finding]:
    reason = probe_nvdec()
    yield Finding("decoder NVDEC", reason is None, reason or "a CUDA device opens")
    import onnxruntime

    providers = onnxruntime.get_available_providers()
    gpu = [p for p in providers if p not in ("CPUExecutionProvider", "AzureExecutionProvider")]
    yield Finding("inference", True, f"providers: {', '.join(providers)}" + ("" if gpu else "; no GPU"))


def _codecs() -> Iterator[Finding]:
    import av

    yield Finding("FFmpeg", True, f"{av.ffmpeg_version_info} in PyAV {av.__version__}")
    for name in _DECODERS:
        try:
            decoder = av.CodecContext.create(name, "r")
            yield Finding(f"decoder {name}", True, decoder.codec.long_name)
        except (ValueError, av.FFmpegError) as error:
            yield Finding(f"decoder {name}", False, str(error))
    for name in ENCODERS:
        reason = probe_encoder(name)
        yield Finding(
            f"encoder {name}", reason is None, reason or "opened and encoded a frame", name == "libx264"
        )


def _models(settings: Settings) -> Iterator[Finding]:
    for status in store.verify(settings.models_dir):
        built = status.model.build is not None
        if built or status.state is not State.MISSING:  # of users' own files those that are there
            helps = "facestream models pull" if built else "facestream models add FILE"
            detail = f"{status.state}; run: {helps}" if status.wrong else str(status.path)
            yield Finding(f"model {status.model.name}", not status.wrong, detail, needed=built)


def _engines(settings: Settings) -> Iterator[Finding]:
    for name in ENGINES:
        try:
            open_engine(name, settings.models_dir)
            yield _facefusion(settings) if name == "facefusion" else Finding(f"engine {name}", True, "opens")
        except (ImportError, FacestreamError) as error:
            yield Finding(f"engine {name}", False, str(error))


def _facefusion(settings: Settings) -> Finding:
    """Starts the checkout without processors, which shows whether its names are those that are known."""
    what, word = "engine facefusion", "contract only, never run here"
    try:
        home = home_of(settings.facefusion)
        child = Child(settings.facefusion, (), {})
    except FacestreamError as error:
        return Finding(what, False, f"{word}; {error}")
    child.end()
    return Finding(what, True, f"{word}; {child.version} at {home} starts")


def _broker(settings: Settings) -> Iterator[Finding]:
    bootstrap = settings.kafka.bootstrap or local.running_bootstrap(settings.data)
    if bootstrap is None:
        yield Finding("broker", True, "none is running; `swap` and `up` start the embedded one")
        return
    try:
        check_access(settings.with_bootstrap(bootstrap).kafka)
        values = broker_configuration(settings.with_bootstrap(bootstrap))
    except BrokerError as error:
        yield Finding("broker", False, str(error), needed=True)
        return
    yield Finding("broker", True, f"{bootstrap} answers")
    for name, groups in _SESSION_FLOORS.items():
        floor = values.get(name)
        if floor is None:
            yield Finding(name, False, f"not known to this broker: no {groups} of this kind")
            continue
        seconds = int(floor) / 1000
        follows = f"work of a dead member of {groups} is taken over after {seconds:g} s at the earliest"
        yield Finding("session floor", int(floor) <= settings.kafka.session_timeout_ms, follows)
