"""An embedded broker with a listener of each kind, certificates and users made for the test."""

from __future__ import annotations

import datetime
import ipaddress
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from runtime.broker.embedded import EmbeddedBroker
from runtime.kafka import admin
from runtime.settings import Settings, load

PASSWORD = "marked-pass-5d1f"
"""Of every SCRAM user."""
_PLAIN = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    f'user_plain="{PASSWORD}" username="plain" password="{PASSWORD}";'
)
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required;"


class Authority:
    """Signs certificates for this machine's loopback; writes everything as PEM."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self.folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.path = folder / f"{name}.pem"
        self._certificate = self._sign(self._name, self._key, authority=True)
        self.path.write_bytes(self._certificate.public_bytes(serialization.Encoding.PEM))

    def issue(self, name: str) -> tuple[Path, Path]:
        """(certificate, key) files of a new pair."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        certificate = self._sign(subject, key)
        paths = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        paths[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        paths[1].write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return paths

    def _sign(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, authority: bool = False
    ) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        day = datetime.timedelta(days=1)
        names = x509.SubjectAlternativeName(
            [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        )
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - day)
            .not_valid_after(now + day)
            .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
            .add_extension(names, critical=False)
            .sign(self._key, hashes.SHA256())
        )


@dataclass(frozen=True, slots=True)
class SecureBroker:
    """A running broker; `ports` of its listeners by name."""

    authority: Authority
    ports: dict[str, int]
    plain: Settings
    """Settings of the super user: the listener without protection."""

    def kafka(self, listener: str, user: str = "", **changes: Any) -> dict[str, Any]:
        """The section `kafka` for one of the listeners TLS, MTLS, SASL, SECURE (SCRAM over TLS), PLAINTLS."""
        values: dict[str, Any] = {"bootstrap": f"127.0.0.1:{self.ports[listener]}", "request_seconds": 20}
        values["session_timeout_ms"] = 6000
        values["security"] = {"SASL": "sasl_plaintext", "SECURE": "sasl_tls", "PLAINTLS": "sasl_tls"}.get(
            listener, "tls"
        )
        if listener != "SASL":
            values["tls_ca"] = self.authority.path
        if listener in ("SASL", "SECURE", "PLAINTLS"):
            values |= {"user": user, "password": PASSWORD}
        if listener == "PLAINTLS":
            values["sasl_mechanism"] = "PLAIN"
        if listener == "MTLS":
            values["tls_cert"], values["tls_key"] = self.authority.issue("client")
        return values | changes

    def add_user(self, name: str) -> None:
        """A SCRAM user with PASSWORD in both mechanisms."""
        client: AdminClient = admin(self.plain.kafka)
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            how = ScramCredentialInfo(mechanism, 4096)
            wanted = [UserScramCredentialUpsertion(name, how, PASSWORD.encode())]
            for future in client.alter_user_scram_credentials(wanted).values():
                future.result(20)


@contextmanager
def secure_broker(folder: Path) -> Iterator[SecureBroker]:
    """Listeners TLS, MTLS, SASL, SECURE and PLAINTLS beside the open one; ACLs rule, and whoever has none
    may nothing, but for the open listener's."""
    folder.mkdir(parents=True, exist_ok=True)
    authority = Authority(folder)
    certificate, key = authority.issue("broker")
    kinds = {
        "TLS": "SSL", "MTLS": "SSL", "SASL": "SASL_PLAINTEXT", "SECURE": "SASL_SSL", "PLAINTLS": "SASL_SSL",
    }  # fmt: skip
    ports = _free_ports(list(kinds))
    chain = certificate.read_text() + authority.path.read_text()
    properties: dict[str, Any] = {
        "listeners": ",".join(f"{n}://127.0.0.1:{p}" for n, p in ports.items()),
        "advertised.listeners": ",".join(f"{n}://127.0.0.1:{p}" for n, p in ports.items()),
        "listener.security.protocol.map": ",".join(f"{n}:{kind}" for n, kind in kinds.items()),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": _one_line(chain),
        "ssl.keystore.key": _one_line(key.read_text()),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": _one_line(authority.path.read_text()),
        "listener.name.mtls.ssl.client.auth": "required",
        "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512,PLAIN",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": False,
        "super.users": "User:ANONYMOUS;User:boss;User:plain;User:CN=client",
    }
    for listener in ("sasl", "secure", "plaintls"):
        name = f"listener.name.{listener}"
        mechanisms = ("plain",) if listener == "plaintls" else ("scram-sha-256", "scram-sha-512")
        properties[f"{name}.sasl.enabled.mechanisms"] = ",".join(mechanisms).upper()
        for mechanism in mechanisms:
            jaas = _PLAIN if mechanism == "plain" else _SCRAM
            properties[f"{name}.{mechanism}.sasl.jaas.config"] = jaas
    with ExitStack() as stack:
        settings = load({"broker": {"properties": properties}})
        broker = stack.enter_context(EmbeddedBroker(folder / "broker", settings))
        secure = SecureBroker(authority, ports, load({"kafka": {"bootstrap": broker.bootstrap}}))
        secure.add_user("boss")
        yield secure


def _one_line(pem: str) -> str:
    return pem.strip().replace("\n", "\\n")


def _free_ports(names: list[str]) -> dict[str, int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in names]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return {name: one.getsockname()[1] for name, one in zip(names, sockets, strict=True)}
