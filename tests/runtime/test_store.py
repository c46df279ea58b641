"""The object store, on a real folder and on obstore's memory store as one that is no folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from runtime.store import Store
from schemas.errors import StoreError

pytestmark = pytest.mark.unit


@pytest.fixture(params=["folder", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    url = (tmp_path / "store").as_uri() if request.param == "folder" else "memory:///"
    return Store(url)


@pytest.fixture
def folder_store(tmp_path: Path) -> Store:
    return Store((tmp_path / "store").as_uri())


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Paths that were forced to the disk, in order."""
    paths: list[str] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        paths.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    return paths


def test_objects_are_written_read_listed_and_deleted(store: Store) -> None:
    store.put("job/1/b.bin", b"bb")
    store.put("job/1/a.bin", b"a")
    store.put("other/c.bin", b"c")
    store.put("job/1/a.bin", b"again")
    assert store.get("job/1/a.bin") == b"again"
    assert store.list("job") == ["job/1/a.bin", "job/1/b.bin"]
    assert store.list() == ["job/1/a.bin", "job/1/b.bin", "other/c.bin"]
    assert store.exists("other/c.bin")
    store.delete("other/c.bin")
    store.delete("other/c.bin")
    assert not store.exists("other/c.bin")
    assert store.list("nothing") == []


def test_file_is_handed_over_and_read_back_as_a_file(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "segment.mp4"
    path.write_bytes(b"video")
    store.put_file(path, "job/segment.mp4")
    assert not path.exists()
    with store.local("job/segment.mp4") as local:
        assert local.suffix == ".mp4"
        assert local.read_bytes() == b"video"
    assert store.get("job/segment.mp4") == b"video"


def test_missing_object_is_named(store: Store, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"read job/none\.bin"):
        store.get("job/none.bin")
    with pytest.raises(StoreError, match=r"read job/none\.bin"), store.local("job/none.bin"):
        pass
    with pytest.raises(StoreError, match=r"write job/none\.bin"):
        store.put_file(tmp_path / "none", "job/none.bin")


@pytest.mark.parametrize("name", ["", "/a", "a/", "../a", "a/../b", "a//b", "./a", "a\0", "a b", "a\n"])
def test_name_that_leaves_the_store_is_refused(store: Store, name: str) -> None:
    with pytest.raises(StoreError, match="cannot be the name"):
        store.put(name, b"")


@pytest.mark.parametrize("url", ["nope://bucket", "s3://", "a/b"])
def test_url_that_names_no_store_is_refused(url: str) -> None:
    with pytest.raises(StoreError, match=url):
        Store(url)


def test_write_to_a_folder_is_synced_up_to_the_root(
    folder_store: Store, tmp_path: Path, synced: list[str]
) -> None:
    folder_store.put("job/1/a.bin", b"a")
    root = tmp_path / "store"
    assert synced == [str(p) for p in (root / "job/1/a.bin", root / "job/1", root / "job", root)]


def test_file_is_synced_before_it_gets_its_name(
    folder_store: Store, tmp_path: Path, synced: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.replace

    def replace(source: Path, target: Path) -> None:
        synced.append("replace")
        real(source, target)

    monkeypatch.setattr(os, "replace", replace)
    path = tmp_path / "part"
    path.write_bytes(b"x")
    folder_store.put_file(path, "job/a.bin")
    root = tmp_path / "store"
    assert synced == [str(path), "replace", str(root / "job"), str(root)]


def test_file_from_another_file_system_is_copied(folder_store: Store, tmp_path: Path) -> None:
    other = Path("/dev/shm")
    assert other.stat().st_dev != tmp_path.stat().st_dev
    path = other / f"facestream-test-{os.getpid()}"
    path.write_bytes(b"far")
    folder_store.put_file(path, "job/far.bin")
    assert not path.exists()
    assert folder_store.get("job/far.bin") == b"far"
    assert folder_store.list() == ["job/far.bin"]


def test_failed_write_leaves_the_old_object(folder_store: Store, tmp_path: Path) -> None:
    folder_store.put("a", b"old")
    with pytest.raises(StoreError, match="write a/b"):
        folder_store.put("a/b", b"below a file")
    assert folder_store.get("a") == b"old"
