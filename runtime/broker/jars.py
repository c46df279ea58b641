"""The jars of Kafka: fetched once, checked against pinned hashes, then used without a network.

`jars.toml` pins every file of the class path by SHA-256; `python -m runtime.broker.pin` writes it
from the dependency tree. jgo fetches them from Maven Central, from the repositories in jgo's own
configuration, or from the one mirror that the setting `maven_repo` names.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
import tomllib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from runtime.settings import Settings
from schemas.errors import ArtefactError, BrokerError

if TYPE_CHECKING:
    from jgo.maven import MavenContext

KAFKA_VERSION = "4.3.1"
KAFKA = f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION}"
LOG_BINDING = "org.apache.logging.log4j:log4j-slf4j-impl:2.25.4"
"""Kafka's POM leaves it out, and without it its log goes nowhere. Version: that of its log4j-core."""
MIRROR_SETTING = "FACESTREAM_MAVEN_REPO"
JARS_SETTING = "FACESTREAM_KAFKA_JARS"

_DOWNLOADS = 6
_TIMEOUT_SECONDS = 30
_log = structlog.get_logger("broker")


@dataclass(frozen=True, slots=True)
class Jar:
    """One pinned file: its Maven coordinate, size in bytes and SHA-256."""

    coordinate: str
    size: int
    sha256: str

    @property
    def file_name(self) -> str:
        _, artifact, version = self.coordinate.split(":")
        return f"{artifact}-{version}.jar"


def pinned() -> list[Jar]:
    """What `jars.toml` lists."""
    text = resources.files("runtime.broker").joinpath("jars.toml").read_text()
    return [Jar(**entry) for entry in tomllib.loads(text)["jar"]]


def ensure(settings: Settings) -> list[Path]:
    """The jars of the class path, fetching them first where needed.

    Raises BrokerError for a folder given by hand that is none, ArtefactError for a failed download.
    """
    if settings.kafka_jars is not None:
        return _given(settings.kafka_jars)
    folder = settings.cache / f"kafka-{KAFKA_VERSION}"
    if not complete(folder):
        _fetch_all(folder, settings.maven_repo)
    return [folder / jar.file_name for jar in pinned()]


def complete(folder: Path) -> bool:
    """Whether all pinned jars lie there in full. Hashes were checked before they were moved in."""
    return all(_size(folder / jar.file_name) == jar.size for jar in pinned())


def maven(mirror: str, repository: Path) -> MavenContext:
    """jgo's view of Maven, with a local repository of our own so that none of its files is half ours."""
    from jgo.config import GlobalSettings
    from jgo.constants import MAVEN_CENTRAL_URL
    from jgo.maven import MavenContext

    if mirror:
        remotes = {"mirror": mirror.rstrip("/")}
    else:
        remotes = {"central": MAVEN_CENTRAL_URL, **GlobalSettings.load().repositories}
    return MavenContext(repo_cache=repository, remote_repos=remotes, timeout=_TIMEOUT_SECONDS)


def _given(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise BrokerError(f"{JARS_SETTING}: no folder {folder}")
    if not any(folder.glob("kafka_2.13-*.jar")):
        raise BrokerError(f"{JARS_SETTING}: no kafka_2.13-*.jar in {folder}")
    return sorted(folder.glob("*.jar"))


def _fetch_all(folder: Path, mirror: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    missing = [jar for jar in pinned() if _size(folder / jar.file_name) != jar.size]
    _log.info("fetching_kafka", version=KAFKA_VERSION, jars=len(missing))
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder) as scratch:
        context = maven(mirror, Path(scratch))
        with ThreadPoolExecutor(_DOWNLOADS) as pool:
            jobs = [pool.submit(_fetch, context, jar, folder) for jar in missing]
            try:
                for job in jobs:
                    job.result()
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise


def _fetch(context: MavenContext, jar: Jar, folder: Path) -> None:
    """Download one jar beside its place, check it, move it in: a half-fetched jar is never seen."""
    try:
        path = context.create_dependency(jar.coordinate).artifact.resolve()
    except Exception as error:  # jgo raises requests' kinds, RuntimeError and OSError
        raise _failed(context, jar, _reason(error)) from None
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != jar.sha256:
        raise _failed(context, jar, f"SHA-256 is {digest}, not {jar.sha256}")
    shutil.move(path, folder / jar.file_name)


def _failed(context: MavenContext, jar: Jar, reason: str) -> ArtefactError:
    where = ", ".join(context.remote_repos.values())
    return ArtefactError(
        f"cannot fetch {jar.coordinate} from {where}: {reason}; "
        f"set {MIRROR_SETTING} to a Maven mirror, or {JARS_SETTING} to a folder with Kafka's jars"
    )


def _reason(error: BaseException) -> str:
    """The innermost cause in one line; what urllib3 wraps around it says nothing more."""
    while error.__cause__ or error.__context__:
        error = error.__cause__ or error.__context__ or error
    return (str(error).splitlines() or [type(error).__name__])[0]


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else -1
