"""Damaged files through everything that ingest does with one, each in a child of its own with limits.

    python -m tests.media.fuzz COUNT [FIRST_SEED]

prints what became of them and ends with status 1 if one hung, crashed, ate memory, or raised anything but an
error of `schemas.errors`. The file of a seed is the same for ever: `python -m tests.media.fuzz 1 SEED`.
"""

from __future__ import annotations

import faulthandler
import io
import os
import random
import resource
import select
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import av

from ingest.decode import InputDecoder
from ingest.scan import scan
from ingest.worker import build_plan
from runtime.payload import check_record_size
from schemas.errors import FacestreamError
from schemas.job import JobSpec
from tests.media.bases import make_bases
from tests.support.cases import cases

BASES = ("M09", "M16", "M17", "M19", "M28", "M31", "M33", "M40", "M42", "M46", "M60", "M63", "M68", "M69")
"""Cases that are mutated, besides `tests.media.bases`: each container and codec once, the small ones."""
SECONDS = 20
"""Of wall clock for one file; a good one takes about one."""
MEMORY = 1 << 30
"""Bytes that a child may add to its address space."""
FRAMES = 40
"""Decoded of each file at most."""
HEADER = 2048
"""Bytes at either end of a file where most of its structure lies."""


@dataclass(frozen=True)
class Result:
    """What became of a mutated file: `decoded`, `refused`, or what is wrong."""

    seed: int
    base: str
    fate: str
    detail: str = ""

    @property
    def good(self) -> bool:
        return self.fate in ("decoded", "refused")

    def __str__(self) -> str:
        return f"seed {self.seed} of {self.base}: {self.fate} {self.detail}"


def mutate(data: bytes, rng: random.Random) -> bytes:
    """Flip bits, cut off the tail, write over headers, cut out or repeat a piece."""
    out = bytearray(data)
    kind = rng.choice(("bits", "bits", "tail", "header", "header", "size", "cut", "repeat"))
    if kind == "bits":
        for _ in range(rng.choice((1, 10, 100, 1000))):
            out[rng.randrange(len(out))] ^= 1 << rng.randrange(8)
    elif kind == "tail":
        del out[rng.randrange(len(out)) :]
    elif kind in ("header", "size"):
        at = rng.randrange(min(HEADER, len(out)))
        at = len(out) - 1 - at if rng.random() < 0.3 else at
        odd = rng.choice((b"\0" * 4, b"\xff" * 4, b"\x7f\xff\xff\xff", b"\x80\0\0\0", rng.randbytes(4)))
        out[at : at + 4] = odd if kind == "size" else rng.randbytes(rng.choice((1, 2, 4)))
    else:
        at, size = rng.randrange(len(out)), rng.randrange(1, 4096)
        piece = bytes(out[at : at + size])
        out[at : at + size] = b"" if kind == "cut" else piece * 2
    return bytes(out)


def ingest(path: Path) -> int:
    """Probe, scan, plan and decode a file as a worker does; how many frames there were."""
    spec = JobSpec(job="fuzz", input=str(path), output="out.mkv")
    found = scan(str(path), io.BytesIO())
    check_record_size(found.format)
    plan = build_plan(found, spec, "")
    with InputDecoder(str(path), plan) as decoder:
        frames = decoder.frames(0, len(plan.pts), Counter())
        return sum(1 for _ in islice(frames, FRAMES))


def try_file(path: Path) -> tuple[str, str]:
    """(fate, detail) of a file, tried in a forked child."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        _child(path, writer)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        ended, _, _ = select.select([pipe], [], [], SECONDS)
        if not ended:
            os.kill(pid, signal.SIGKILL)
        told = pipe.read().decode(errors="replace") if ended else ""
    _, status = os.waitpid(pid, 0)
    if not ended:
        return "hung", f"for {SECONDS} s"
    if os.WIFSIGNALED(status):
        return "crashed", signal.Signals(os.WTERMSIG(status)).name
    fate, _, detail = told.partition(" ")
    return (fate, detail) if fate else ("crashed", f"status {status}")


def _child(path: Path, writer: int) -> None:
    """Never returns."""
    faulthandler.disable()
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
    try:
        told = f"decoded {ingest(path)}"
    except FacestreamError as error:
        told = f"refused {type(error).__name__}: {error}"
    except MemoryError:
        told = "memory over the limit"
    except BaseException as error:
        told = f"raised {type(error).__name__}: {error}"
    os.write(writer, told.encode()[:4000])
    os._exit(0)


def fuzz(seeds: Iterable[int]) -> Iterator[Result]:
    """Try one mutated file for each seed."""
    av.logging.set_level(av.logging.PANIC)
    with tempfile.TemporaryDirectory() as folder:
        bases = [*((name, cases()[name].path) for name in BASES), *make_bases(Path(folder)).items()]
        for seed in seeds:
            name, base = bases[seed % len(bases)]
            path = Path(folder) / f"fuzz{base.suffix}"
            path.write_bytes(mutate(base.read_bytes(), random.Random(seed)))
            yield Result(seed, name, *try_file(path))


def main(count: str, first: str = "0") -> int:
    fates: Counter[str] = Counter()
    start = time.monotonic()
    for result in fuzz(range(int(first), int(first) + int(count))):
        fates[result.fate] += 1
        if not result.good:
            print(result, flush=True)
    print(dict(fates), f"in {time.monotonic() - start:.0f} s")
    return 0 if set(fates) <= {"decoded", "refused"} else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
