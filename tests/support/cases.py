"""The media of the case log: made once by tests/media/make_cases.sh, kept in the cache by its hash."""

from __future__ import annotations

import csv
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
        """Made with all others on first use."""
        return cases_folder() / self.file


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
def cases_folder() -> Path:
    """The folder of all cases, made unless one of the same generator is in the cache."""
    script = SCRIPT.read_bytes() + MORE.read_bytes()
    folder = kept("cases") / hashlib.sha256(script).hexdigest()[:16]
    if folder.is_dir():
        return folder
    if shutil.which("ffmpeg") is None or shutil.which("ffprobe") is None:
        raise RuntimeError("the media tests need ffmpeg and ffprobe. On Debian: apt-get install -y ffmpeg")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".making-") as part:
        command = ["bash", str(SCRIPT), part, str(carphone()), str(astronaut())]
        ran = subprocess.run(command, capture_output=True, text=True)
        if ran.returncode:
            raise RuntimeError(f"make_cases.sh: {ran.stdout[-2000:]}{ran.stderr[-2000:]}")
        try:
            os.rename(part, folder)
        except OSError:
            if not folder.is_dir():  # else another run was first
                raise
            return folder
        Path(part).mkdir()  # for the context manager to remove
    return folder
