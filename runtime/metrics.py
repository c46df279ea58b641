"""Prometheus metrics, and the one small HTTP endpoint of a service: `/metrics` and `/healthz`."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from runtime.health import Health
from runtime.settings import HttpSettings
from schemas.errors import SettingsError


def new_registry() -> CollectorRegistry:
    """A registry with the collectors of the process itself. A service hands it to its metrics."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    return registry


REGISTRY = new_registry()
"""The registry of this process: `Counter(..., registry=metrics.REGISTRY)`."""


class Endpoint:
    """Serves `/metrics` and `/healthz` from a thread until closed.

    `/healthz` is 200 `ok`, or 503 with the reason in one line.
    """

    def __init__(
        self, settings: HttpSettings, health: Health, registry: CollectorRegistry = REGISTRY
    ) -> None:
        """Raises SettingsError if the port is taken."""
        try:
            self._server = _Server((settings.host, settings.port or 0), _Handler)
        except OSError as error:
            raise SettingsError(f"http.port: {settings.port}: {error.strerror}") from None
        self._server.health = health
        self._server.registry = registry
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, name="http", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    health: Health
    registry: CollectorRegistry


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = 10

    def do_GET(self) -> None:
        if self.path == "/metrics":
            self._answer(200, generate_latest(self.server.registry), CONTENT_TYPE_LATEST)
        elif self.path == "/healthz":
            trouble = self.server.health.trouble()
            self._answer(503 if trouble else 200, (trouble or "ok").encode() + b"\n", "text/plain")
        else:
            self._answer(404, b"not found\n", "text/plain")

    def log_message(self, format: str, *args: object) -> None:
        """Probes come every few seconds: no line for each."""

    def _answer(self, status: int, body: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
