"""The life of a service process: start, step until told to stop, drain, close."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType
from typing import Protocol

import structlog

from runtime.health import Health
from runtime.memory import Allocator
from runtime.metrics import Endpoint
from runtime.settings import Settings

STEP_SECONDS = 0.5
EXIT_ABORTED = 130
_log = structlog.get_logger("service")


class Service(Protocol):
    """What `run` drives, from one thread."""

    def start(self) -> None:
        """Load models, connect, subscribe. Not healthy until it returns."""

    def step(self, timeout: float) -> None:
        """Do the next piece of work, or wait for one at most `timeout` seconds."""

    def drain(self, deadline: float) -> None:
        """Finish what is held; what is not done at `deadline` (time.monotonic) is dropped."""

    def close(self) -> None:
        """Let go of everything. Called once, also after an error."""


class _Aborted(BaseException):
    """A second signal: the operator does not want to wait."""


class _Stop:
    """Set by the first SIGTERM or SIGINT; the second aborts."""

    def __init__(self) -> None:
        self.wanted = False

    def on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.wanted:
            raise _Aborted
        self.wanted = True


def run(service: Service, settings: Settings, health: Health | None = None) -> int:
    """Run a service in the main thread until SIGTERM or SIGINT; returns the exit code.

    0 after a drained stop, 130 after a second signal, 1 after an error, which is logged as one line
    with its kind and message (and its trace, where the level is debug).
    """
    health = health or Health(settings.http.stalled_seconds)
    stop = _Stop()
    try:
        with ExitStack() as stack:
            stack.enter_context(_signals(stop))
            if settings.http.port is not None:
                endpoint = stack.enter_context(Endpoint(settings.http, health))
                _log.info("http_listening", port=endpoint.port)
            stack.callback(service.close)
            _live(service, settings, health, stop)
    except _Aborted:
        _log.warning("service_aborted")
        return EXIT_ABORTED
    except Exception as error:
        trace = settings.log.level == "debug"
        _log.error("service_failed", kind=type(error).__name__, message=str(error), exc_info=trace)
        return 1
    _log.info("service_stopped")
    return 0


def _live(service: Service, settings: Settings, health: Health, stop: _Stop) -> None:
    allocator = Allocator()
    service.start()
    health.ready()
    _log.info("service_ready")
    while not stop.wanted:
        service.step(STEP_SECONDS)
        health.beat()
        allocator.tidy()
    health.not_ready("draining")
    _log.info("service_draining", seconds=settings.drain_seconds)
    service.drain(time.monotonic() + settings.drain_seconds)


@contextmanager
def _signals(stop: _Stop) -> Iterator[None]:
    numbers = (signal.SIGTERM, signal.SIGINT)
    before = [signal.signal(number, stop.on_signal) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
