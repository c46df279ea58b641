"""Settings of all services: defaults, then a TOML file, then the environment, then the caller.

The file is the one that `FACESTREAM_CONFIG` names, else `./facestream.toml` where it exists:

    topic_prefix = "facestream."
    store = "s3://bucket/facestream"

    [kafka]
    bootstrap = "kafka-1:9093,kafka-2:9093"

    security = "sasl_tls"
    user = "swapper"
    password_file = "/run/secrets/kafka"

    [kafka.client]                       # any librdkafka setting; it wins over ours
    "linger.ms" = 20

    [limits]
    segments_in_flight = 200

In the environment the prefix is FACESTREAM_ and two underscores step into a section:
FACESTREAM_LIMITS__SEGMENTS_IN_FLIGHT=200, FACESTREAM_KAFKA__CLIENT='{"security.protocol": "SSL"}'.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import pydantic_settings
from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from runtime import redact
from schemas.errors import SettingsError
from schemas.topics import RECORD_LIMIT, TopicSet, TopicSizes

MIB = 1 << 20
GIB = 1 << 30

CONFIG_VARIABLE = "FACESTREAM_CONFIG"
CONFIG_FILE = "facestream.toml"

Bytes = Annotated[int, Field(ge=1)]
Count = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(gt=0)]
Port = Annotated[int, Field(ge=0, le=65535)]
ClientValue = str | int | float | bool


def _home(variable: str, fallback: str) -> Path:
    """A folder of the XDG base directory specification, for us."""
    base = os.environ.get(variable)
    return (Path(base) if base else Path.home() / fallback) / "facestream"


class Section(BaseModel):
    """Base of the sections; an unknown name in one is refused, so that no typing error goes unseen."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class KafkaSettings(Section):
    """How to reach and use the cluster."""

    bootstrap: str = ""
    """host:port, comma separated; empty: nobody has named a cluster (the embedded broker is used)."""
    client: dict[str, ClientValue] = Field(default={}, repr=False)
    """librdkafka settings passed to every client. They win over ours. Not shown: may hold secrets."""
    security: Literal["plaintext", "tls", "sasl_plaintext", "sasl_tls"] = "plaintext"
    """How clients talk to the brokers; what it means for librdkafka is in `runtime.security`."""
    tls_ca: Path | None = None
    """PEM file of the authority that signed the brokers' certificates; none: those of the system."""
    tls_cert: Path | None = None
    """PEM file of our own certificate, where brokers ask for one (mTLS)."""
    tls_key: Path | None = None
    """PEM file of its private key."""
    tls_key_password: SecretStr | None = None
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"] = "SCRAM-SHA-512"
    user: str = ""
    """Name for SASL; with OAUTHBEARER the client id."""
    password: SecretStr | None = None
    """Password for SASL; with OAUTHBEARER the client secret."""
    password_file: Path | None = None
    """File with the password instead, so that it stands in no environment; line ends are cut off."""
    oauth_url: str = ""
    """Token endpoint of the identity provider, for OAUTHBEARER."""
    configure_groups: bool = True
    """Whether services set the session settings of their groups themselves. Off: they need no right to
    alter them, and an operator sets them (`facestream acls` prints how)."""
    statistics_seconds: Annotated[float, Field(ge=0)] = 15.0
    """How often clients report lag, queues and round trips to /metrics; 0: never."""
    record_limit: Bytes = RECORD_LIMIT
    """Largest record, bytes; the topics' `max.message.bytes`."""
    group_protocol: Literal["consumer", "classic"] = "consumer"
    """`consumer` is KIP-848; `classic` for brokers before 4.0 and where its session floor is too high."""
    session_timeout_ms: Annotated[int, Field(ge=1000)] = 10_000
    """A member that has not been heard for so long loses its partitions. Brokers have a floor (45 s
    for KIP-848 by default, 6 s on the embedded broker)."""
    max_poll_ms: Annotated[int, Field(ge=10_000)] = 300_000
    """A member that has not polled for so long leaves its group."""
    request_seconds: Seconds = 30.0
    """How long one request to the cluster may take before it is an error."""
    producer_queue_bytes: Bytes = 128 * MIB
    """Bound of what one producer holds unsent; above it, sending waits. Less where `memory` says so."""
    prefetch_bytes: Bytes = 64 * MIB
    """Bound of what one consumer fetches ahead, from one broker. Less where `memory` says so."""

    @property
    def poll_ms(self) -> int:
        """`max_poll_ms`, or what `client` says instead."""
        return int(self.client.get("max.poll.interval.ms", self.max_poll_ms))

    @model_validator(mode="after")
    def _check_security(self) -> Self:
        if self.password is not None and self.password_file is not None:
            raise ValueError("password and password_file exclude each other")
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ValueError("tls_cert and tls_key belong together")
        if self.security.startswith("sasl") and not self.user and not self.client:
            raise ValueError(f"user is needed with security = {self.security}")
        return self


class TopicSettings(Section):
    """Shape of the topics that we create. Existing topics are left as they are."""

    frame_partitions: Count = 8
    order_partitions: Count = 8
    replication: Annotated[int, Field(ge=-1, le=100)] = -1
    """Copies of each partition; -1: the broker's own default."""
    retention_hours: Count = 24
    retention_bytes: Bytes = 64 * GIB
    """Of the frames of one lane."""
    segment_bytes: Annotated[int, Field(ge=14)] = 256 * MIB


class LimitSettings(Section):
    """Bounds on work in flight and on memory."""

    batch_bytes: Bytes = 4 * MIB
    """Byte budget of a frame batch; a batch holds at least one frame."""
    segments_in_flight: Count = 32
    """Segments released and not done, over all jobs."""
    segments_per_swapper: Count = 3
    """Segments in flight for each live swapper, below the bound above: enough that none waits, few
    enough that the first result comes early."""
    bytes_in_flight: Bytes = 8 * GIB
    """Estimated bytes of frames released and not done."""
    queue_batches: Count = 4
    """Length of each queue between the stages of a worker, in batches."""
    assembler_bytes: Bytes = 512 * MIB
    """Frames that wait in an assembler's memory; above it they are read again later. Less where
    `memory.assembler` says so."""
    releases: Count = 3
    """How often a segment is released at most where a failure may pass; then its job fails."""
    stuck_seconds: Seconds = 900.0
    """A stream whose next patches do not come for so long, though workers live, is released again."""


class MemorySettings(Section):
    """How large one process of a service becomes, resident; give its container a fifth more. From it follow
    the bounds of its queues and how many inputs or encoders it has open at once (`runtime.memory`). One
    decoder, encoder or engine may always run, however large its frames are."""

    ingest: Bytes = 1 * GIB
    swapper: Bytes = 2 * GIB
    assembler: Bytes = 3 * GIB


class KeepSettings(Section):
    """How long the leavings of ended jobs stay."""

    failed_hours: Annotated[float, Field(ge=0)] = 24.0
    """Encoded segments of a failed job, so that `dead redrive` goes on where it ended."""
    replay_hours: Annotated[float, Field(ge=0)] | None = None
    """Plan, other tracks, checkpoints and prepared faces: what a replay needs beside the frames. None: as
    long as the frames stay (topics.retention_hours)."""
    jobs_hours: Annotated[float, Field(ge=0)] = 168.0
    """The record of a job that ended: its state and why."""
    sweep_seconds: Seconds = 600.0
    """How often control looks for what can go."""


class InputSettings(Section):
    """Bounds on what is taken as an input; beyond them it is refused with the reason."""

    width: Count = 16_384
    height: Count = 16_384
    pixels: Count = 1 << 26
    """Of one picture, as the file stores it: 67 million."""
    seconds: Seconds = 86_400.0
    frames: Count = 10_000_000
    streams: Count = 100
    bytes: Bytes = 1 << 40
    """Size of the file."""
    network: bool = False
    """Whether inputs may be URLs. What a URL leads to is then read from inside this network."""


class SwapperSettings(Section):
    engines: tuple[str, ...] = ("mesh",)
    """Engines that are loaded and warm before a worker takes work; others are opened when first asked for."""
    group: Literal["consumer", "share"] = "consumer"
    """Ordinary consumer group (streams stay with a worker), or share group (batches spread)."""
    share_consumers: Count = 2
    """Share consumers in one process."""
    share_lock_ms: Annotated[int, Field(ge=15_000, le=60_000)] = 30_000
    """Time in which a record must be acknowledged before another worker gets it."""
    hang_seconds: Seconds = 600.0
    """An engine that does not come back for so long ends its worker: the batch is treated as one that
    takes the process down."""


def _checkout() -> Path | None:
    named = os.environ.get("FACEFUSION_HOME")
    return Path(named) if named else None


class OnnxSettings(Section):
    """The engine `onnx`."""

    device: Literal["cpu", "cuda"] = "cpu"
    """What runs the models; where ONNX Runtime lacks it, work is refused and not done elsewhere."""
    threads: Count = 1
    """Of one worker, for a model on the CPU."""
    accept_licences: tuple[str, ...] = ()
    """Models that jobs may use though their licence forbids commercial use, or is not known; `all`: any."""


class FaceFusionSettings(Section):
    """The engine `facefusion`: a checkout of FaceFusion in child processes."""

    home: Path | None = Field(default_factory=_checkout)
    """The checkout; FACEFUSION_HOME names it too."""
    python: Path | None = None
    """Python of its environment; none: our own."""
    providers: Annotated[tuple[str, ...], Field(min_length=1)] = ("cpu",)
    """FaceFusion's names of what runs models: cuda, tensorrt, cpu ... One that does not start is an error."""
    device_ids: Annotated[tuple[int, ...], Field(min_length=1)] = (0,)
    children: Count = 2
    """Configurations that are kept running, each in a process with models of its own."""
    start_seconds: Seconds = 300.0
    """How long loading may take; then the child is killed."""
    frame_seconds: Seconds = 120.0
    """How long one frame may take; then the child is killed. Less than swapper.hang_seconds."""
    environment: dict[str, str] = Field(default={}, repr=False)
    """Further variables for the child, which gets nothing of ours but paths and devices. Not shown."""


class LogSettings(Section):
    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["json", "console"] = "json"


class HttpSettings(Section):
    """/metrics and /healthz of a service."""

    port: Port | None = None
    """None: no endpoint; 0: any free port."""
    host: str = "0.0.0.0"  # noqa: S104 (a pod is probed and scraped from outside)
    stalled_seconds: Seconds = 30.0
    """A main loop that has not gone round for so long is unhealthy."""


class BrokerSettings(Section):
    """The embedded broker."""

    port: Port = 0
    """Port of clients on 127.0.0.1; 0: any free one."""
    heap_mb: Annotated[int, Field(ge=256)] = 512
    start_seconds: Seconds = 90.0
    stop_seconds: Seconds = 30.0
    properties: dict[str, ClientValue] = Field(default={}, repr=False)
    """Further lines of its server.properties; they win over ours, but for the lists of listeners, to which
    they are added. Not shown: may hold passwords."""


class Settings(BaseSettings):
    """All settings. Made by `load`, which turns what is wrong into a SettingsError."""

    model_config = SettingsConfigDict(
        env_prefix="FACESTREAM_", env_nested_delimiter="__", extra="forbid", frozen=True
    )

    topic_prefix: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]*$")] = "facestream."
    data: Path = Field(default_factory=lambda: _home("XDG_DATA_HOME", ".local/share"))
    """Where state lives that must be kept: the embedded broker's log, the local store."""
    cache: Path = Field(default_factory=lambda: _home("XDG_CACHE_HOME", ".cache"))
    """What can be fetched or built again: jars, models."""
    store: str = ""
    """URL of the object store (file://, s3://, ...); empty: a folder under `data`."""
    store_options: dict[str, str] = Field(default={}, repr=False)
    """obstore's settings of that store (endpoint, region, keys ...), beside those it reads from the
    environment itself, as AWS_ACCESS_KEY_ID. Not shown."""
    models: Path | None = None
    """Model store; none: a folder under `cache`."""
    scratch: Path | None = None
    """Files that live as long as a process; none: a folder under `data`."""
    kafka_jars: Path | None = None
    """A ready folder with the jars of Kafka, instead of fetching them."""
    maven_repo: str = ""
    """URL of a Maven repository to fetch the jars from, instead of jgo's repositories."""
    drain_seconds: Seconds = 25.0
    """How long a service may take to finish what it holds after SIGTERM."""

    kafka: KafkaSettings = KafkaSettings()
    topics: TopicSettings = TopicSettings()
    limits: LimitSettings = LimitSettings()
    memory: MemorySettings = MemorySettings()
    keep: KeepSettings = KeepSettings()
    input: InputSettings = InputSettings()
    swapper: SwapperSettings = SwapperSettings()
    onnx: OnnxSettings = OnnxSettings()
    facefusion: FaceFusionSettings = Field(default_factory=FaceFusionSettings)
    log: LogSettings = LogSettings()
    http: HttpSettings = HttpSettings()
    broker: BrokerSettings = BrokerSettings()

    @property
    def store_url(self) -> str:
        return self.store or (self.data / "store").absolute().as_uri()

    @property
    def models_dir(self) -> Path:
        return self.models or self.cache / "models"

    @property
    def scratch_dir(self) -> Path:
        return self.scratch or self.data / "scratch"

    @property
    def broker_dir(self) -> Path:
        """Where the embedded broker keeps its data."""
        return self.data / "broker"

    @property
    def topic_set(self) -> TopicSet:
        return TopicSet(self.topic_prefix)

    @property
    def topic_sizes(self) -> TopicSizes:
        return TopicSizes(
            frame_partitions=self.topics.frame_partitions,
            order_partitions=self.topics.order_partitions,
            record_limit=self.kafka.record_limit,
            retention_hours=self.topics.retention_hours,
            retention_bytes=self.topics.retention_bytes,
            segment_bytes=self.topics.segment_bytes,
        )

    def with_bootstrap(self, bootstrap: str) -> Settings:
        """A copy that talks to another cluster."""
        return self.model_copy(update={"kafka": self.kafka.model_copy(update={"bootstrap": bootstrap})})

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.limits.batch_bytes > self.kafka.record_limit:
            raise ValueError(
                f"limits.batch_bytes ({self.limits.batch_bytes}) is above "
                f"kafka.record_limit ({self.kafka.record_limit})"
            )
        return self

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        file = pydantic_settings.TomlConfigSettingsSource(settings_cls, config_file())
        return init_settings, env_settings, file


def config_file() -> Path | None:
    """The TOML file in use. Raises SettingsError if FACESTREAM_CONFIG names none that exists."""
    named = os.environ.get(CONFIG_VARIABLE)
    if named:
        path = Path(named)
        if not path.is_file():
            raise SettingsError(f"{CONFIG_VARIABLE}: no file {named}")
        return path
    default = Path(CONFIG_FILE)
    return default if default.is_file() else None


def load(overrides: Mapping[str, Any] | None = None) -> Settings:
    """Read the settings; `overrides` (nested as in the file) win over everything.

    Raises SettingsError naming the first setting that is wrong. Values are not quoted: they may be
    secrets.
    """
    try:
        settings = Settings(**(overrides or {}))
        _hide_secrets(settings)
        return settings
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        name = ".".join(str(part) for part in first["loc"]) or "settings"
        raise SettingsError(f"{name}: {first['msg']}") from None
    except pydantic_settings.SettingsError as error:
        raise SettingsError(str(error)) from None
    except ValueError as error:  # TOML that does not parse
        raise SettingsError(f"{config_file()}: {error}") from None


def _hide_secrets(settings: Settings) -> None:
    """No log line of this process shows them."""
    kafka = settings.kafka
    for secret in (kafka.password, kafka.tls_key_password):
        if secret is not None:
            redact.hide(secret.get_secret_value())
    for values in (
        kafka.client,
        settings.store_options,
        settings.broker.properties,
        settings.facefusion.environment,
    ):
        for name, value in values.items():
            if redact.SECRET.search(name):
                redact.hide(str(value))


def environment(settings: Settings, base: Mapping[str, str]) -> dict[str, str]:
    """The environment for a child process that shall `load` the same settings, secrets among them:
    whoever may read a process's environment may do so with its parent's too."""
    prefix = str(Settings.model_config.get("env_prefix"))
    env = {name: value for name, value in base.items() if not name.startswith(prefix)}
    for name, value in settings.model_dump(exclude_none=True).items():
        plain = value if isinstance(value, dict | list | tuple | int | float) else _plain(value)
        env[prefix + name.upper()] = plain if isinstance(plain, str) else json.dumps(plain, default=_plain)
    return env


def _plain(value: object) -> str:
    return value.get_secret_value() if isinstance(value, SecretStr) else str(value)
