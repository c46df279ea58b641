"""A whole job over SASL and TLS, each service with the rights of `runtime.acls` and no others."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicCollection
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from control.watch import Watcher
from runtime import cluster
from runtime.acls import Actor, grants
from runtime.kafka import admin, producer, reader
from runtime.outbox import Outbox
from runtime.settings import Settings, environment, load
from schemas.errors import BrokerError
from schemas.job import Lane
from tests.support.cluster import times
from tests.support.media import make_clip
from tests.support.processes import PATIENCE, ROOT, eventually
from tests.support.secure import PASSWORD, SecureBroker, secure_broker

pytestmark = pytest.mark.broker

_TYPES = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "transactional-id": ResourceType.TRANSACTIONAL_ID,
    "cluster": ResourceType.BROKER,
}
_OPERATIONS = {operation.name.replace("_", ""): operation for operation in AclOperation}


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    with secure_broker(tmp_path_factory.mktemp("secure")) as running:
        yield running


def settings_of(secure: SecureBroker, actor: str, prefix: str, data: Path, **changes: Any) -> Settings:
    return load(
        {
            "topic_prefix": prefix,
            "data": data,
            "store": (data / "store").as_uri(),
            "kafka": secure.kafka("SECURE", f"{prefix}{actor}"),
            "topics": {"frame_partitions": 2, "order_partitions": 2},
            "log": {"level": "debug"},
            "swapper": {"engines": ["none"], **changes},
        }
    )


def grant_all(secure: SecureBroker, everybody: dict[Actor, Settings]) -> None:
    """Make a user of each actor and give it its rights."""
    bindings = []
    for actor, settings in everybody.items():
        secure.add_user(settings.kafka.user)
        for grant in grants(settings, actor):
            pattern = ResourcePatternType.PREFIXED if grant.prefixed else ResourcePatternType.LITERAL
            for operation in grant.operations:
                bindings.append(
                    AclBinding(
                        _TYPES[grant.kind],
                        grant.name,
                        pattern,
                        f"User:{settings.kafka.user}",
                        "*",
                        _OPERATIONS[operation.upper()],
                        AclPermissionType.ALLOW,
                    )
                )
    client = admin(secure.plain.kafka)  # a name: it must outlive its futures
    for future in client.create_acls(bindings).values():
        future.result(20)


@contextmanager
def workers(everybody: dict[Actor, Settings], logs: Path) -> Iterator[None]:
    """A process of each service, with its own principal."""
    logs.mkdir()
    with ExitStack() as stack:
        running = []
        for actor, settings in everybody.items():
            if actor is Actor.USER:
                continue
            out = stack.enter_context((logs / f"{actor}.log").open("wb"))
            command = [sys.executable, "-m", "control.cli.main", "worker", str(actor), "--until-eof"]
            process = subprocess.Popen(
                command,
                cwd=ROOT,
                env=environment(settings, os.environ),
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=out,
            )
            stack.callback(_end, process)
            running.append(process)
        yield
        assert [process.poll() for process in running] == [None] * len(running)


def _end(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    process.stdin.close()
    try:
        process.wait(40)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def command(settings: Settings, *args: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "control.cli.main", *map(str, args)],
        cwd=ROOT,
        env=environment(settings, os.environ),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )


@pytest.mark.parametrize("group", ["consumer", "share"])
def test_services_do_their_work_with_these_rights(secure: SecureBroker, tmp_path: Path, group: str) -> None:
    prefix = f"{group}."
    everybody = {a: settings_of(secure, a, prefix, tmp_path / "data", group=group) for a in Actor}
    grant_all(secure, everybody)
    user = everybody[Actor.USER]
    cluster.ensure_topics(everybody[Actor.CONTROL])
    clip, output = tmp_path / "clip.mp4", tmp_path / "out.mp4"
    make_clip(clip, 40)
    logs = tmp_path / "logs"
    with workers(everybody, logs):
        submitted = command(user, "submit", "--engine", "none", "-t", clip, "-o", output)
        assert submitted.returncode == 0, submitted.stderr
        watcher = Watcher(user, submitted.stdout.strip())
        eventually("the job's end", lambda: watcher.poll(0.1).state.ended)
        record = watcher.status.record
        watcher.close()
        assert record is not None
        assert (record.state, record.reason) == ("done", "")
        assert times(output) == times(clip)
        assert command(user, "status").returncode == 0
        assert command(user, "topics").returncode == 0
    for log in logs.iterdir():
        text = log.read_text()
        assert "AUTHORIZATION_FAILED" not in text, log
        assert PASSWORD not in text, log
    if group == "consumer":
        nothing_else(secure, everybody)


def nothing_else(secure: SecureBroker, everybody: dict[Actor, Settings]) -> None:
    """What the broker itself says that each may do with each topic is the table, and it means it."""
    names = [t.name for t in secure_topics(everybody[Actor.CONTROL])]
    for actor, settings in everybody.items():
        client = admin(settings.kafka)
        described = client.describe_topics(
            TopicCollection(names), include_authorized_operations=True, request_timeout=20
        )
        for name, future in described.items():
            found = {_tool_name(op.name) for op in future.result(20).authorized_operations}
            assert found == allowed(settings, actor, name), (actor, name)
    topics = everybody[Actor.CONTROL].topic_set
    assert_no_write(everybody[Actor.SWAPPER], topics.frames(Lane.BATCH))
    assert_no_write(everybody[Actor.INGEST], topics.checkpoints)
    assert_no_write(everybody[Actor.USER], topics.orders_finish)
    assert_no_read(everybody[Actor.SWAPPER], topics.orders_ingest)
    assert_no_read(everybody[Actor.INGEST], topics.frames(Lane.BATCH))


def secure_topics(settings: Settings) -> list[Any]:
    return settings.topic_set.definitions(settings.topic_sizes)


def allowed(settings: Settings, actor: Actor, topic: str) -> set[str]:
    """By the table; reading and writing imply to describe."""
    found = {
        operation
        for grant in grants(settings, actor)
        if grant.kind == "topic" and (topic.startswith(grant.name) if grant.prefixed else topic == grant.name)
        for operation in grant.operations
    }
    return found | {"Describe"}


def _tool_name(operation: str) -> str:
    return "".join(part.capitalize() for part in operation.split("_"))


def assert_no_write(settings: Settings, topic: str) -> None:
    outbox = Outbox(producer(settings.kafka, "test", {"delivery.timeout.ms": 20_000}))
    outbox.send(topic, b"x", partition=0)
    with pytest.raises(BrokerError, match="AUTHORIZATION_FAILED"):
        outbox.flush(30)
    outbox.close()


def assert_no_read(settings: Settings, topic: str) -> None:
    from confluent_kafka import TopicPartition

    client = reader(settings.kafka, "test")
    client.assign([TopicPartition(topic, 0, 0)])
    message = client.poll(20)
    assert message is not None
    error = message.error()
    assert error is not None
    assert error.name() == "TOPIC_AUTHORIZATION_FAILED"
    client.close()
