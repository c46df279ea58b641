"""TLS, SASL and ACLs on the real broker, with a listener of each kind."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime import cluster
from runtime.kafka import (
    check_access,
    consumer,
    producer,
    share_consumer,
    transactional_producer,
)
from runtime.outbox import Outbox, TransactionalOutbox
from runtime.settings import Settings, load
from schemas.errors import BrokerError
from schemas.topics import Topic
from tests.support.broker import read_all
from tests.support.secure import PASSWORD, Authority, SecureBroker, secure_broker

pytestmark = pytest.mark.broker


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    with secure_broker(tmp_path_factory.mktemp("secure")) as running:
        yield running


LISTENERS = {
    "tls": ("TLS", "", {}),
    "mutual tls": ("MTLS", "", {}),
    "scram 512": ("SASL", "boss", {}),
    "scram 256": ("SASL", "boss", {"sasl_mechanism": "SCRAM-SHA-256"}),
    "scram over tls": ("SECURE", "boss", {}),
    "plain over tls": ("PLAINTLS", "plain", {}),
}


@pytest.mark.parametrize("kind", LISTENERS)
def test_every_client_is_let_in(secure: SecureBroker, kind: str) -> None:
    listener, user, changes = LISTENERS[kind]
    settings = load({"kafka": secure.kafka(listener, user, **changes)})
    check_access(settings.kafka)
    if listener == "TLS":  # nobody in particular: a super user here
        assert cluster.broker_configuration(settings)
    name = kind.replace(" ", "-")
    cluster.ensure_topics(settings, [Topic(name, 1, {})])
    with Outbox(producer(settings.kafka, "test")) as outbox:
        outbox.send(name, b"1", partition=0)
    outbox = TransactionalOutbox(transactional_producer(settings.kafka, "test", name))
    with outbox.transaction():
        outbox.send(name, b"2", partition=0)
    outbox.close()
    assert read_all(settings, name) == [b"1", b"2"]
    cluster.configure_share_group(settings, f"share-{name}")
    member = consumer(settings.kafka, f"group-{name}", "test")
    share = share_consumer(settings.kafka, f"share-{name}", "test")
    member.subscribe([name])
    share.subscribe([name])
    seen: set[str] = set()
    deadline = time.monotonic() + 60
    while seen != {"member", "share"}:
        assert time.monotonic() < deadline, seen
        if (message := member.poll(0.2)) is not None and message.error() is None:
            seen.add("member")
        for message in share.poll(0.2):
            share.acknowledge(message)
            seen.add("share")
    member.close()
    share.close()


def refused(settings: Settings) -> str:
    started = time.monotonic()
    with pytest.raises(BrokerError) as caught:
        check_access(settings.kafka)
    assert time.monotonic() - started < settings.kafka.request_seconds + 15
    assert PASSWORD not in str(caught.value)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_wrong_password_is_said_at_once(secure: SecureBroker) -> None:
    settings = load({"kafka": secure.kafka("SECURE", "boss", password="wrong", request_seconds=600)})
    assert "authentication" in refused(settings).lower()


def test_unknown_authority_is_said_at_once(secure: SecureBroker, tmp_path: Path) -> None:
    other = Authority(tmp_path, "stranger")
    settings = load({"kafka": secure.kafka("TLS", tls_ca=other.path, request_seconds=600)})
    assert "certificate verify failed" in refused(settings)


def test_client_without_a_certificate_is_refused(secure: SecureBroker) -> None:
    settings = load({"kafka": secure.kafka("MTLS", tls_cert=None, tls_key=None, request_seconds=3)})
    assert "ssl" in refused(settings).lower()


@pytest.mark.parametrize("listener", ["TLS", "SASL"])
def test_wrong_protocol_is_hinted_at(secure: SecureBroker, listener: str) -> None:
    settings = load({"kafka": secure.kafka(listener, "x", security="plaintext", request_seconds=3)})
    assert "kafka.security is plaintext" in refused(settings)


def test_tls_to_an_open_port_is_refused(secure: SecureBroker) -> None:
    values = secure.kafka("TLS", request_seconds=3) | {"bootstrap": secure.plain.kafka.bootstrap}
    assert "SSL" in refused(load({"kafka": values}))
