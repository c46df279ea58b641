"""librdkafka's statistics as Prometheus metrics: lag, queues, round trips.

Labels are bounded: roles of this process, and topics with their partitions. Two clients of one role write
the same series, as two share consumers do; the later report is shown.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

from prometheus_client import CollectorRegistry, Gauge

from runtime.metrics import REGISTRY

_INTERNAL = "__"


class _Gauges:
    """The series of one registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(f"facestream_kafka_{name}", text, ["role", *labels], registry=registry)

        self.lag = gauge("consumer_lag", "Records not committed yet", "topic", "partition")
        self.fetched = gauge("fetch_queue_bytes", "Bytes fetched and not polled", "topic")
        self.round_trip = gauge("round_trip_seconds", "Slowest broker's mean time to an answer")
        self.unsent = gauge("unsent_bytes", "Bytes that a producer holds")
        self.unsent_records = gauge("unsent_records", "Records that a producer holds")


_GAUGES = _Gauges(REGISTRY)


class ClientMetrics:
    """A client's `stats_cb`. Partitions that it gave away lose their series."""

    def __init__(self, role: str, gauges: _Gauges = _GAUGES) -> None:
        self._role = role
        self._gauges = gauges
        self._lags: set[tuple[str, str]] = set()

    def __call__(self, text: str) -> None:
        stats: dict[str, Any] = json.loads(text)
        trips = [b["rtt"]["avg"] for b in stats["brokers"].values() if b.get("rtt", {}).get("cnt")]
        if trips:
            self._gauges.round_trip.labels(self._role).set(max(trips) / 1e6)
        if stats["type"] == "producer":
            self._gauges.unsent.labels(self._role).set(stats["msg_size"])
            self._gauges.unsent_records.labels(self._role).set(stats["msg_cnt"])
        else:
            self._consumed(stats)

    def _consumed(self, stats: dict[str, Any]) -> None:
        lags: dict[tuple[str, str], int] = {}
        for name, topic in stats["topics"].items():
            if name.startswith(_INTERNAL):
                continue
            shares = topic["partitions"].items()
            held = {n: p for n, p in shares if n != "-1" and p["fetch_state"] == "active"}
            lags |= {(name, n): p["consumer_lag"] for n, p in held.items() if p["consumer_lag"] >= 0}
            self._gauges.fetched.labels(self._role, name).set(sum(p["fetchq_size"] for p in held.values()))
        for place, lag in lags.items():
            self._gauges.lag.labels(self._role, *place).set(lag)
        for gone in self._lags - set(lags):
            with suppress(KeyError):  # another client of this role was first
                self._gauges.lag.remove(self._role, *gone)
        self._lags = set(lags)
