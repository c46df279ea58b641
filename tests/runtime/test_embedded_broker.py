"""The embedded broker: its folder, its lock, its ports, its end, and what it says when it fails."""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path

import psutil
import pytest

from runtime import cluster
from runtime.broker import jars
from runtime.broker.embedded import EmbeddedBroker, Ports, free_ports
from runtime.kafka import admin, producer
from runtime.outbox import Outbox
from runtime.settings import Settings, load
from schemas.errors import ArtefactError, BrokerError, BrokerStartError
from schemas.topics import Topic
from tests.support.broker import read_all
from tests.support.processes import PATIENCE, eventually, module_process

pytestmark = pytest.mark.broker


def java_of(folder: Path) -> psutil.Process:
    return psutil.Process(int((folder / "broker.pid").read_text()))


def test_second_start_finds_the_data_again(tmp_path: Path) -> None:
    settings = load()
    with EmbeddedBroker(tmp_path, settings) as broker:
        ours = settings.with_bootstrap(broker.bootstrap)
        cluster.ensure_topics(ours, [Topic("kept", 1, {})])
        with Outbox(producer(ours.kafka, "test")) as outbox:
            outbox.send("kept", b"value")
        java = java_of(tmp_path)
    assert not java.is_running()
    with EmbeddedBroker(tmp_path, settings) as broker:
        assert read_all(settings.with_bootstrap(broker.bootstrap), "kept") == [b"value"]


def test_folder_in_use_is_refused_with_its_owner(tmp_path: Path) -> None:
    with EmbeddedBroker(tmp_path, load()) as broker:
        with pytest.raises(BrokerStartError, match=rf"{tmp_path} .* process {os.getpid()}"):
            EmbeddedBroker(tmp_path, load()).start()
        assert broker.running


def test_lock_and_broker_of_a_killed_owner_are_taken_over(tmp_path: Path) -> None:
    calls, folder = tmp_path / "calls", tmp_path / "broker"
    with module_process("tests.support.services", calls, "broker", folder) as owner:
        eventually("first step", lambda: calls.exists() and "step" in calls.read_text())
        java = java_of(folder)
        guard = java.parent()
        assert guard is not None
        guard.kill()  # so that nobody ends the broker
        owner.kill()
        owner.communicate()
    assert (folder / "lock").read_text().strip() == str(owner.pid)
    assert java.is_running()
    with EmbeddedBroker(folder, load()) as broker:
        assert broker.running
        assert not java.is_running()


def test_broker_ends_with_an_owner_that_is_killed(tmp_path: Path) -> None:
    calls, folder = tmp_path / "calls", tmp_path / "broker"
    with module_process("tests.support.services", calls, "broker", folder) as owner:
        eventually("first step", lambda: calls.exists() and "step" in calls.read_text())
        java = java_of(folder)
        assert os.getsid(java.pid) != os.getsid(owner.pid)  # Ctrl-C does not reach it
        owner.kill()
        owner.communicate()
    eventually("end of the broker", lambda: not java.is_running())


def test_owner_drains_before_the_broker_ends(tmp_path: Path) -> None:
    calls, folder = tmp_path / "calls", tmp_path / "broker"
    with module_process("tests.support.services", calls, "broker", folder) as owner:
        eventually("first step", lambda: calls.exists() and "step" in calls.read_text())
        owner.send_signal(signal.SIGTERM)
        _, log = owner.communicate(timeout=PATIENCE)
    assert owner.returncode == 0
    assert log.index("service_stopped") < log.index("broker_stopped")
    assert "rdkafka" not in log


def test_taken_port_makes_it_choose_another(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        offers: list[Ports] = [(taken.getsockname()[1], free_ports()[1]), free_ports()]
        expected = f"127.0.0.1:{offers[1][0]}"
        with EmbeddedBroker(tmp_path, load(), choose_ports=lambda _: offers.pop(0)) as broker:
            assert broker.bootstrap == expected


def test_taken_port_that_was_asked_for_is_an_error_with_the_last_words(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        broker = EmbeddedBroker(tmp_path, load({"broker": {"port": port}}))
        with pytest.raises(BrokerStartError, match=rf"{port}: Address already in use"):
            broker.start()
    assert not broker.running
    assert broker.start() == f"127.0.0.1:{port}"  # the folder was let go
    broker.stop()


def test_failed_download_names_artefact_and_mirror_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host, port = "127.0.0.1", free_ports()[0]
    monkeypatch.setenv("FACESTREAM_MAVEN_REPO", f"http://{host}:{port}/maven2")
    monkeypatch.setenv("FACESTREAM_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("FACESTREAM_KAFKA_JARS", raising=False)
    with pytest.raises(ArtefactError) as caught:
        EmbeddedBroker(tmp_path / "broker", load()).start()
    text = str(caught.value)
    assert any(jar.coordinate in text for jar in jars.pinned())
    assert f"{host}:{port}/maven2" in text
    assert "FACESTREAM_MAVEN_REPO" in text
    assert "\n" not in text


def test_folder_of_jars_is_used_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ready = tmp_path / "jars"
    ready.mkdir()
    for path in jars.ensure(load()):
        (ready / path.name).symlink_to(path)
    monkeypatch.setenv("FACESTREAM_KAFKA_JARS", str(ready))
    monkeypatch.setenv("FACESTREAM_CACHE", str(tmp_path / "empty"))
    with EmbeddedBroker(tmp_path / "broker", load()) as broker:
        assert broker.running
    assert not (tmp_path / "empty").exists()


@pytest.mark.parametrize("content", [None, "other.jar"])
def test_folder_without_the_jars_of_kafka_is_named(tmp_path: Path, content: str | None) -> None:
    folder = tmp_path / "jars"
    if content:
        folder.mkdir()
        (folder / content).touch()
    with pytest.raises(BrokerError, match=rf"FACESTREAM_KAFKA_JARS.*{folder}"):
        EmbeddedBroker(tmp_path / "broker", load({"kafka_jars": folder})).start()


def test_half_a_jar_is_fetched_again(tmp_path: Path) -> None:
    whole = jars.ensure(load())
    folder = tmp_path / f"kafka-{jars.KAFKA_VERSION}"
    folder.mkdir()
    for path in whole:
        (folder / path.name).write_bytes(path.read_bytes())
    assert jars.complete(folder)
    victim = folder / whole[0].name
    victim.write_bytes(victim.read_bytes()[:-1])
    assert not jars.complete(folder)
    mirror = f"http://127.0.0.1:{free_ports()[0]}"
    with pytest.raises(ArtefactError, match=whole[0].name.rsplit("-", 1)[0]):
        jars.ensure(load({"cache": tmp_path, "maven_repo": mirror, "kafka_jars": None}))


def test_java_that_cannot_start_gives_its_reason(tmp_path: Path) -> None:
    folder = tmp_path / "jars"
    folder.mkdir()
    (folder / "kafka_2.13-0.jar").touch()
    with pytest.raises(BrokerStartError, match="StorageTool"):
        EmbeddedBroker(tmp_path / "broker", load({"kafka_jars": folder})).start()


def test_topics_are_created_with_their_configuration(kafka: Settings) -> None:
    cluster.ensure_topics(kafka)
    cluster.ensure_topics(kafka)
    present = cluster.partitions(admin(kafka.kafka))
    for topic in kafka.topic_set.definitions(kafka.topic_sizes):
        assert present[topic.name] == topic.partitions
        effective = cluster.topic_configuration(kafka, topic.name)
        assert {name: effective[name] for name in topic.config} == topic.config


def test_unequal_partitions_of_frames_and_swaps_are_refused(kafka: Settings) -> None:
    frames = next(
        topic
        for topic in kafka.topic_set.definitions(kafka.topic_sizes)
        if topic.name.endswith("frames.batch")
    )
    cluster.ensure_topics(kafka, [Topic(frames.name, 3, frames.config)])
    with pytest.raises(BrokerError, match=r"frames\.batch has 3 partitions and .*swaps\.batch has 4"):
        cluster.ensure_topics(kafka)


def test_unreachable_cluster_is_an_error() -> None:
    bootstrap = f"127.0.0.1:{free_ports()[0]}"
    settings = load({"kafka": {"bootstrap": bootstrap, "request_seconds": 1}})
    with pytest.raises(BrokerError, match="reading the cluster's topics"):
        cluster.ensure_topics(settings)


def test_session_floor_is_lowered(kafka: Settings) -> None:
    broker = cluster.broker_configuration(kafka)
    assert broker["group.consumer.min.session.timeout.ms"] == "6000"
    assert broker["group.share.min.session.timeout.ms"] == "6000"
    assert broker["group.consumer.min.heartbeat.interval.ms"] == "1000"
