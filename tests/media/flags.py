"""What the manifest asks of an output: the flags of the judge."""

from __future__ import annotations

import argparse
import shlex
from dataclasses import dataclass


@dataclass(frozen=True)
class Flags:
    """Flags of one case. The shape of the timeline must hold; a shift of everything is allowed."""

    monotonic: bool = False
    """The input's clock is broken: expected times are rebuilt from the nominal frame time across steps < 0 or
    > 2 s, to one frame; the output must rise strictly."""
    no_shift: bool = False
    """Any shift above 1 ms fails."""
    damaged: bool = False
    """The input is damaged: frames are matched by their counters, and those that the reference decoder cannot
    show may be missing."""
    min_frames: int = 0
    pad_ok: bool = False
    """Odd sizes may be padded or cropped to even ones."""
    audio_corr: float = 0.9
    hdr: bool = False
    color_tol: float = 4.0
    psnr: float = 32.0
    av_tol: float = 5.0
    """Milliseconds between sound and picture."""
    face_box: tuple[float, float, float, float] = (0.14, 0, 0.76, 0.88)
    """Left, top, right, bottom as parts of the picture: there faces may change."""
    face_off: tuple[int, int] | None = None
    """Counters of frames without a face."""
    need: frozenset[str] = frozenset()
    """Of color, chapters, subs, title, timecode, lang."""


def parser() -> argparse.ArgumentParser:
    """Flags as the manifest spells them."""
    flags = argparse.ArgumentParser(prog="check", description=__doc__)
    flags.add_argument("--pts-policy", choices=["exact", "monotonic"], default="exact")
    for name in ("no-shift", "lossy-ref", "start-cut", "pad-ok", "aac-ok", "hdr"):
        flags.add_argument(f"--{name}", action="store_true")
    flags.add_argument("--reschange", action="store_true", help="says so; one size out is always asked for")
    flags.add_argument("--no-shortest", action="store_true", help="says so; length is always judged")
    flags.add_argument("--min-frames", type=int, default=0)
    flags.add_argument("--audio-corr", type=float)
    flags.add_argument("--color-tol", type=float, default=4.0)
    flags.add_argument("--psnr", type=float, default=32.0)
    flags.add_argument("--av-tol", type=float, default=5.0)
    flags.add_argument("--face-box", default="0.14,0,0.76,0.88")
    flags.add_argument("--face-off", default="")
    flags.add_argument("--need", default="")
    return flags


def flags_of(given: argparse.Namespace) -> Flags:
    monotonic = given.pts_policy == "monotonic"
    damaged = given.lossy_ref or given.start_cut
    usual = 0.8 if given.aac_ok or damaged or monotonic else 0.9
    left, top, right, bottom = map(float, given.face_box.split(","))
    first, _, last = given.face_off.partition("-")
    return Flags(
        monotonic=monotonic,
        no_shift=given.no_shift,
        damaged=damaged,
        min_frames=given.min_frames,
        pad_ok=given.pad_ok,
        audio_corr=usual if given.audio_corr is None else given.audio_corr,
        hdr=given.hdr,
        color_tol=given.color_tol,
        psnr=given.psnr,
        av_tol=given.av_tol,
        face_box=(left, top, right, bottom),
        face_off=(int(first), int(last)) if last else None,
        need=frozenset(filter(None, given.need.split(","))),
    )


def read_flags(text: str) -> Flags:
    """Flags of a line of the manifest."""
    return flags_of(parser().parse_args(shlex.split(text)))
