"""`facestream worker ROLE`: one service of a cluster."""

from __future__ import annotations

import os
import signal
import sys
import threading

import click

from runtime import logs
from runtime.cluster import await_topics
from runtime.health import Health
from runtime.heartbeat import Heartbeat
from runtime.kafka import check_access
from runtime.service import Service, run
from runtime.settings import Settings, load
from schemas.events import Role


@click.command("worker")
@click.argument("role", type=click.Choice([str(role) for role in Role]))
@click.option("--bootstrap", metavar="HOST:PORT", help="The Kafka cluster; else from the settings.")
@click.option("--until-eof", is_flag=True, help="Stop when standard input ends, as SIGTERM does.")
def command(role: str, bootstrap: str | None, until_eof: bool) -> int:
    """Run one service until SIGTERM. Settings come from FACESTREAM_* and facestream.toml."""
    settings = load()
    if bootstrap:
        settings = settings.with_bootstrap(bootstrap)
    logs.configure(settings.log)
    if until_eof:
        threading.Thread(target=_stop_at_eof, name="eof", daemon=True).start()
    check_access(settings.kafka)
    health = Health(settings.http.stalled_seconds)
    if role != Role.CONTROL:
        await_topics(settings)
    heartbeat = Heartbeat(settings, Role(role), lambda: health.trouble() is None)
    heartbeat.start()
    try:
        return run(make(Role(role), settings), settings, health)
    finally:
        heartbeat.stop()


def _stop_at_eof() -> None:
    """Whoever started us holds the other end of a pipe; it closes however that process ends."""
    while os.read(sys.stdin.fileno(), 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def make(role: Role, settings: Settings) -> Service:
    """The service of a role; its libraries are imported only here."""
    match role:
        case Role.CONTROL:
            from control.service import ControlService

            return ControlService(settings)
        case Role.INGEST:
            from ingest.service import IngestService

            return IngestService(settings)
        case Role.SWAPPER:
            from swapper.service import SwapperService

            return SwapperService(settings)
        case Role.ASSEMBLER:
            from assembler.service import AssemblerService

            return AssemblerService(settings)
