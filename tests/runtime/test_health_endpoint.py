"""`/healthz` and `/metrics` over real HTTP."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest
from prometheus_client import Counter

from runtime.health import Health
from runtime.metrics import Endpoint, new_registry
from runtime.settings import HttpSettings
from schemas.errors import SettingsError

pytestmark = pytest.mark.unit


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def health(clock: Clock) -> Health:
    return Health(30, clock)


@pytest.fixture
def endpoint(health: Health) -> Iterator[Endpoint]:
    registry = new_registry()
    Counter("frames_done", "Frames.", registry=registry).inc(7)
    with Endpoint(HttpSettings(port=0, host="127.0.0.1"), health, registry) as endpoint:
        yield endpoint


def get(endpoint: Endpoint, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{endpoint.port}{path}") as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_process_is_unhealthy_until_it_is_ready(endpoint: Endpoint, health: Health) -> None:
    assert get(endpoint, "/healthz") == (503, "starting\n")
    health.not_ready("loading models")
    assert get(endpoint, "/healthz") == (503, "loading models\n")
    health.ready()
    assert get(endpoint, "/healthz") == (200, "ok\n")


def test_silent_main_loop_is_unhealthy_until_it_beats(
    endpoint: Endpoint, health: Health, clock: Clock
) -> None:
    health.ready()
    clock.now += 30
    assert get(endpoint, "/healthz") == (200, "ok\n")
    clock.now += 1
    status, text = get(endpoint, "/healthz")
    assert status == 503
    assert "31 s" in text
    health.beat()
    assert get(endpoint, "/healthz") == (200, "ok\n")


def test_metrics_are_served_in_the_text_format(endpoint: Endpoint) -> None:
    status, text = get(endpoint, "/metrics")
    assert status == 200
    assert "frames_done_total 7.0" in text
    assert "process_cpu_seconds_total" in text
    assert get(endpoint, "/else")[0] == 404


def test_taken_port_names_the_setting(endpoint: Endpoint, health: Health) -> None:
    with pytest.raises(SettingsError, match=r"http\.port"):
        Endpoint(HttpSettings(port=endpoint.port, host="127.0.0.1"), health)
