"""Marked secrets through failing and working paths at debug level: none in logs, events or output."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from control import admission, local
from control.watch import Watcher
from runtime.settings import Settings, environment, load
from tests.support.broker import read_all
from tests.support.media import make_clip
from tests.support.processes import PATIENCE, ROOT, eventually

pytestmark = pytest.mark.broker

MARKS = ("marked-password", "marked-store-key", "marked-url-word", "marked-signature", "marked-property")


def marked(kafka: Settings) -> Settings:
    """The test's settings with secrets in every place that takes one."""
    return load(
        {
            "topic_prefix": kafka.topic_prefix,
            "data": kafka.data,
            "kafka": {
                "bootstrap": kafka.kafka.bootstrap,
                "session_timeout_ms": 6000,
                "user": "somebody",
                "password": "marked-password",
                "client": {"sasl.password": "marked-password"},
            },
            "store": (kafka.data / "store").as_uri(),
            "store_options": {"aws_secret_access_key": "marked-store-key"},
            "broker": {"properties": {"ssl.keystore.password": "marked-property"}},
            "topics": {"frame_partitions": 2, "order_partitions": 2},
            "input": {"network": True},
            "swapper": {"engines": ["none"]},
            "log": {"level": "debug"},
        }
    )


def command(settings: Settings, *args: str) -> str:
    """Everything that a command says."""
    ran = subprocess.run(
        [sys.executable, "-m", "control.cli.main", *args],
        cwd=ROOT,
        env=environment(settings, os.environ),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    return ran.stdout + ran.stderr


def test_no_secret_is_told(kafka: Settings, tmp_path: Path) -> None:
    settings = marked(kafka)
    clip = tmp_path / "clip.mp4"
    make_clip(clip, 20)
    inputs = [
        str(clip),
        "http://user:marked-url-word@127.0.0.1:1/clip.mp4?X-Amz-Signature=marked-signature",
    ]
    with local.run(settings, 1) as here:
        watchers = []
        for number, path in enumerate(inputs):
            job = admission.job_id("test")
            watchers.append(Watcher(here.settings, job))
            output = str(tmp_path / f"{number}.mp4")
            spec = admission.make_spec(job=job, input=path, output=output, swap={"engine": "none"})
            admission.submit(here.settings, spec)
        for watcher in watchers:
            eventually("the job's end", lambda w=watcher: w.poll(0.1).state.ended)  # type: ignore[misc]
        states = [str(watcher.status.state) for watcher in watchers]
        reason = watchers[1].status.record.reason if watchers[1].status.record else ""
        for watcher in watchers:
            watcher.close()
        told = {"status": command(here.settings, "status", "--json") + command(here.settings, "status")}
        told["failed"] = command(here.settings, "status", "--failed")
        events = read_all(here.settings, here.settings.topic_set.events)
    assert states == ["done", "failed"]
    assert "127.0.0.1:1/clip.mp4" in reason
    told["events"] = b"".join(value or b"" for value in events).decode(errors="replace")
    for file in (*settings.data.glob("logs/*.log"), settings.data / "failed.jsonl"):
        told[file.name] = file.read_text()
    assert len(told) == 8
    wrong = settings.with_bootstrap("127.0.0.1:1")
    wrong = wrong.model_copy(update={"kafka": wrong.kafka.model_copy(update={"request_seconds": 2.0})})
    told["unreachable"] = command(wrong, "worker", "ingest")
    for place, text in told.items():
        assert text
        for mark in MARKS:
            assert mark not in text, place


def test_settings_that_librdkafka_refuses_are_not_quoted(kafka: Settings) -> None:
    settings = marked(kafka)
    client = {"sasl.password": "marked-password", "linger.ms": "marked-property"}
    broken = settings.model_copy(update={"kafka": settings.kafka.model_copy(update={"client": client})})
    said = command(broken, "worker", "ingest")
    assert "kafka.client" in said
    assert "marked-password" not in said
