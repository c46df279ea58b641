"""The media of the case log: made once by tests/media/make_cases.sh, kept in the cache by its hash."""

from __future__ import annotations

import csv
import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.media.flags import Flags, read_flags
from tests.support.assets import astronaut, carphone, kept
from tests.support.processes import ROOT

SCRIPT = ROOT / "tests" / "media" / "make_cases.sh"
MORE = SCRIPT.with_name("more_cases.sh")
"""Read by it."""
USUAL = (
    "M00", "M01", "M07", "M09", "M14", "M16", "M17", "M19", "M21", "M25", "M28", "M31", "M33", "M40",
    "M42", "M43", "M44", "M46", "M53", "M60", "M62", "M63", "M64", "M68", "M69", "M70", "M80",
    "S01", "S02", "S03", "S05", "S07", "X01", "X14", "X21", "X27", "X43", "X50",
)  # fmt: skip
"""What `make test` looks at: made first and alone, for all of them take minutes."""


@dataclass(frozen=True)
class Case:
    """A line of the manifest: a file that shows a quirk, and what shall become of it."""

    name: str
    file: str
    kind: str
    """media, image, or source (a picture of a face)."""
    expect: str
    """process, degrade (keep what decodes), or reject."""
    flags: Flags
    title: str

    @property
    def path(self) -> Path:
        """Made on first use, with the usual ones if it is one of them, else with all."""
        return cases_folder(USUAL if self.name in USUAL else ()) / self.file


@cache
def cases() -> dict[str, Case]:
    """All cases by name, without making their media."""
    listed = subprocess.run(["bash", str(SCRIPT), "--list"], capture_output=True, text=True, check=True)
    rows = csv.DictReader(listed.stdout.splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE)
    return {row["id"]: _case(row) for row in rows}


def _case(row: dict[str, str]) -> Case:
    flags = read_flags(row["check_args"])
    return Case(row["id"], row["file"], row["kind"], row["expect"], flags, row["title"])


@cache
def cases_folder(names: tuple[str, ...]) -> Path:
    """The folder of these cases, or of all, made unless one of the same generator is in the cache."""
    script = SCRIPT.read_bytes() + MORE.read_bytes() + ",".join(names).encode()
    folder = kept("cases") / hashlib.sha256(script).hexdigest()[:16]
    if folder.is_dir():
        return folder
    if shutil.which("ffmpeg") is None or shutil.which("ffprobe") is None:
        raise RuntimeError("the media tests need ffmpeg and ffprobe. On Debian: apt-get install -y ffmpeg")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # of several test processes one makes them
        if not folder.is_dir():
            _make(folder, names)
    return folder


def _make(folder: Path, names: tuple[str, ...]) -> None:
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".making-") as part:
        command = ["bash", str(SCRIPT), part, str(carphone()), str(astronaut()), ",".join(names)]
        ran = subprocess.run(command, capture_output=True, text=True)
        if ran.returncode:
            raise RuntimeError(f"make_cases.sh: {ran.stdout[-2000:]}{ran.stderr[-2000:]}")
        os.rename(part, folder)
        Path(part).mkdir()  # for the context manager to remove
