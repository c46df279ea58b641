"""Fetching Kafka's jars through a mirror: a real HTTP server with a Maven repository's layout."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from runtime.broker import jars
from runtime.broker.jars import Jar
from runtime.settings import Settings, load
from schemas.errors import ArtefactError

pytestmark = pytest.mark.broker


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


def place(repository: Path, jar: Jar) -> Path:
    """Where a Maven repository has a jar."""
    group, artifact, version = jar.coordinate.split(":")
    return repository.joinpath(*group.split("."), artifact, version, jar.file_name)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A folder laid out as a Maven repository, with the genuine jars."""
    folder = tmp_path / "repository"
    for jar, path in zip(jars.pinned(), jars.ensure(load()), strict=True):
        target = place(folder, jar)
        target.parent.mkdir(parents=True)
        target.symlink_to(path)
    return folder


@pytest.fixture
def mirrored(repository: Path, tmp_path: Path) -> Iterator[Settings]:
    """Settings with an empty cache that fetch from that folder over HTTP."""
    handler = partial(QuietHandler, directory=str(repository))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        url = f"http://127.0.0.1:{server.server_address[1]}/"
        yield load({"cache": tmp_path / "cache", "maven_repo": url, "kafka_jars": None})
        server.shutdown()
        thread.join()


def test_jars_come_from_the_mirror_once(mirrored: Settings, repository: Path) -> None:
    class_path = jars.ensure(mirrored)
    assert [path.name for path in class_path] == [jar.file_name for jar in jars.pinned()]
    assert all(path.is_file() for path in class_path)
    repository.rename(repository.with_name("gone"))
    assert jars.ensure(mirrored) == class_path
    assert {path.name for path in class_path} == {p.name for p in class_path[0].parent.iterdir()}


def test_jar_with_another_hash_is_refused_and_the_others_kept(mirrored: Settings, repository: Path) -> None:
    victim = jars.pinned()[3]
    path = place(repository, victim)
    genuine = path.read_bytes()
    path.unlink()
    path.write_bytes(genuine[:-1] + bytes([genuine[-1] ^ 1]))
    with pytest.raises(ArtefactError, match=rf"{victim.coordinate} .*SHA-256 is .*, not {victim.sha256}"):
        jars.ensure(mirrored)
    folder = mirrored.cache / f"kafka-{jars.KAFKA_VERSION}"
    assert not (folder / victim.file_name).exists()
    path.write_bytes(genuine)
    assert jars.complete(jars.ensure(mirrored)[0].parent)


@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")  # jgo's, on any answer but 200
def test_jar_missing_from_the_mirror_is_named(mirrored: Settings, repository: Path) -> None:
    victim = jars.pinned()[5]
    place(repository, victim).unlink()
    with pytest.raises(ArtefactError, match=victim.coordinate):
        jars.ensure(mirrored)
    gc.collect()  # here, not in a later test


def test_every_jar_is_pinned_by_hash() -> None:
    pinned = jars.pinned()
    assert len({jar.file_name for jar in pinned}) == len(pinned)
    assert {jars.KAFKA, jars.LOG_BINDING} <= {jar.coordinate for jar in pinned}
    assert all(len(jar.sha256) == 64 and jar.size > 0 for jar in pinned)
