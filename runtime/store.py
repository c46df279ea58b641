"""The object store: a folder, or anything that obstore reaches by URL (S3, GCS, Azure ...)."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Any

import obstore
from obstore.exceptions import BaseError
from obstore.store import LocalStore, from_url

from runtime import durable
from runtime.settings import Settings
from schemas.errors import StoreError

_NAME = re.compile(r"[A-Za-z0-9._=+@,-]+(/[A-Za-z0-9._=+@,-]+)*")


class Store:
    """Objects under names like `job/0003/1/0/segment.mp4`.

    A write is complete and durable when the call returns; a reader never sees half an object. All
    methods raise StoreError naming the object. Threads may share a store.
    """

    def __init__(self, url: str, options: Mapping[str, str] | None = None) -> None:
        self.url = url
        extra: Any = {"mkdir": True} if url.startswith("file:") else {"config": options or None}
        try:
            self._store = from_url(url, **extra)
        except (BaseError, OSError, ValueError) as error:
            raise StoreError(f"object store {url}: {_line(error)}") from None
        prefix = self._store.prefix if isinstance(self._store, LocalStore) else None
        self._root = Path(prefix) if prefix else None

    @classmethod
    def of(cls, settings: Settings) -> Store:
        """The store that the settings name."""
        return cls(settings.store_url, settings.store_options)

    def put(self, name: str, data: bytes) -> None:
        """Write a whole object, replacing one of that name."""
        with self._named("write", name):
            obstore.put(self._store, name, data)
            if self._root is not None:
                durable.sync_file(self._root / name)
                durable.sync_folders(self._root / name, self._root)

    def put_file(self, path: Path, name: str) -> None:
        """Hand a finished file over: it is moved into the store and gone from `path`."""
        with self._named("write", name):
            if self._root is not None:
                durable.move(path, self._root / name, self._root)
            else:
                obstore.put(self._store, name, path)
                path.unlink()

    def copy(self, name: str, to: str) -> None:
        """Copy an object under another name, inside the store."""
        with self._named("copy", name), self._named("write", to):
            obstore.copy(self._store, name, to)

    def get(self, name: str) -> bytes:
        """Read a whole object."""
        with self._named("read", name):
            return bytes(obstore.get(self._store, name).bytes())

    @contextmanager
    def local(self, name: str) -> Iterator[Path]:
        """The object as a file for reading: itself in a local store, else a temporary copy."""
        if self._root is not None:
            with self._named("read", name):
                path = self._root / name
                if not path.is_file():
                    raise FileNotFoundError(f"no object at {path}")
            yield path
            return
        with tempfile.TemporaryDirectory(prefix="facestream-") as folder:
            path = Path(folder) / PurePosixPath(name).name
            with self._named("read", name), path.open("wb") as file:
                for chunk in obstore.get(self._store, name).stream():
                    file.write(chunk)
            yield path

    def exists(self, name: str) -> bool:
        with self._named("look up", name):
            try:
                obstore.head(self._store, name)
            except FileNotFoundError:
                return False
            return True

    def delete(self, name: str) -> None:
        """Remove an object; nothing happens if there is none."""
        with self._named("delete", name):
            try:
                obstore.delete(self._store, name)
            except FileNotFoundError:
                return

    def list(self, prefix: str = "") -> list[str]:
        """Names of all objects below a folder, sorted."""
        with self._named("list", prefix or "."):
            batches = obstore.list(self._store, prefix or None)
            return sorted(str(entry["path"]) for batch in batches for entry in batch)

    def modified(self, prefix: str) -> dict[str, float]:
        """When each object below a folder was written: seconds since 1970."""
        with self._named("list", prefix):
            batches = obstore.list(self._store, prefix)
            return {str(e["path"]): e["last_modified"].timestamp() for batch in batches for e in batch}

    def remove(self, name: str) -> None:
        """Remove an object, or a folder with everything below it; nothing happens if there is none."""
        if self._root is None:
            for below in [name, *self.list(name)]:
                self.delete(below)
            return
        with self._named("remove", name):
            path = self._root / name
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
            for folder in path.parents:
                if self._root in (folder, folder.parent) or any(folder.iterdir()):
                    break
                with suppress(OSError):  # somebody may just write there
                    folder.rmdir()

    @contextmanager
    def _named(self, doing: str, name: str) -> Iterator[None]:
        if name != "." and (not _NAME.fullmatch(name) or {".", ".."} & set(name.split("/"))):
            raise StoreError(f"{name!r} cannot be the name of an object")
        try:
            yield
        except (BaseError, OSError) as error:
            raise StoreError(f"cannot {doing} {name} in {self.url}: {_line(error)}") from error


def _line(error: Exception) -> str:
    """obstore's messages go on with a dump of its internals."""
    return (str(error).splitlines() or [type(error).__name__])[0]
