"""Judges an output against its input: frames and order, time, geometry, colour, picture, what was carried.

Rotation may be baked or kept as a matrix, sample aspect kept or squared: only the displayed picture counts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise

import numpy as np

from tests.media.decoded import PATCHES, Array, Clip, Tags
from tests.media.flags import Flags
from tests.media.judge_sound import judge_sounds
from tests.media.report import Report

TICK_MS = 1.05e-3
"""A millisecond, and what rounding adds to it."""
SDR_TRANSFERS, SDR_MATRICES = {1, 6, 13}, {1, 6}


@dataclass
class Match:
    """Which frame of the output shows which of the input."""

    pairs: list[tuple[int, int]] = field(default_factory=list)

    @property
    def ins(self) -> Array:
        return np.array([one for one, _ in self.pairs])

    @property
    def outs(self) -> Array:
        return np.array([other for _, other in self.pairs])


def judge(a: Clip, b: Clip, flags: Flags) -> Report:
    """Compare an output `b` with its input `a`, both decoded."""
    report = Report()
    if not b.at:
        report.add("output decodes", False, "no video frame")
        return report
    what = f"{len(b.at)} frames, {b.errors} decode errors, {b.codec}/{b.container}"
    report.add("output decodes", b.errors == 0, what)
    match = match_frames(report, a, b, flags)
    if not match.pairs:
        report.add("frames matched", False, "none")
        return report
    shift = judge_times(report, a, b, match, flags)
    judge_sounds(report, a, b, shift, flags)
    judge_geometry(report, a, b, flags)
    tonemapped = judge_colour(report, a, b, flags)
    judge_picture(report, a, b, match, flags, tonemapped)
    judge_extras(report, a, b, flags)
    return report


def match_frames(report: Report, a: Clip, b: Clip, flags: Flags) -> Match:
    """Judge count and order of frames, and pair them."""
    if flags.damaged:
        return _match_damaged(report, a, b, flags)
    missing, extra = _few(_read(a) - _read(b)), _few(_read(b) - _read(a))
    what = f"in {len(a.at)} out {len(b.at)} (missing counters {missing} extra {extra})"
    report.add("frame count", len(a.at) == len(b.at), what)
    if len(a.at) == len(b.at):
        wrong = sum(x is not None and x != y for x, y in zip(a.counters, b.counters, strict=True))
        unreadable = f"unreadable in/out {a.counters.count(None)}/{b.counters.count(None)}"
        report.add("frame order", not wrong, f"{wrong} of {len(a.at)} carry another counter; {unreadable}")
        return Match([(i, i) for i in range(len(a.at))])
    report.add("frame order", _steps_back(b) == 0, f"{_steps_back(b)} steps back")
    match, start = Match(), 0
    for i, counter in enumerate(a.counters):
        ahead = range(start, min(start + 60, len(b.at)))
        found = next((j for j in ahead if counter is not None and b.counters[j] == counter), None)
        if found is not None:
            match.pairs.append((i, found))
            start = found + 1
    return match


def _match_damaged(report: Report, a: Clip, b: Clip, flags: Flags) -> Match:
    need = flags.min_frames or int(0.9 * len(_read(a)))
    report.add("frame count", len(b.at) >= need, f"in {len(a.at)} decodable, out {len(b.at)}, need >= {need}")
    # Concealment can show an old strip, in the reference too.
    back, allowed = _steps_back(b), _steps_back(a)
    report.add("frame order", back <= allowed, f"{back} steps back (reference decode {allowed})")
    first_of: dict[int, int] = {}
    for j, counter in enumerate(b.counters):
        if counter is not None:
            first_of.setdefault(counter, j)
    match = Match()
    for i, counter in enumerate(a.counters):
        if counter is not None and counter in first_of:
            match.pairs.append((i, first_of.pop(counter)))
    return match


def _read(clip: Clip) -> set[int]:
    return {counter for counter in clip.counters if counter is not None}


def _steps_back(clip: Clip) -> int:
    read = [counter for counter in clip.counters if counter is not None]
    return sum(y < x and x - y < 2048 for x, y in pairwise(read))


def _few(numbers: set[int]) -> str:
    listed = sorted(numbers)
    return ", ".join(map(str, listed[:8])) + (", .." if len(listed) > 8 else "") if listed else "none"


def judge_times(report: Report, a: Clip, b: Clip, match: Match, flags: Flags) -> float:
    """Judge the shape of the timeline; returns the shift of the whole, seconds."""
    before, after = _expected(report, a, flags), b.seconds_at
    steps = int((np.diff(after) <= 0).sum())
    report.add("out pts rise strictly", steps == 0, f"{steps} violations")
    ins, outs = match.ins, match.outs
    moved = after[outs] - before[ins]
    shift = float(np.median(moved))
    worst = float(np.abs(moved - shift).max())
    allowed = 1.01 / float(a.rate) if flags.monotonic else TICK_MS
    long = len(moved) > 2 and np.ptp(before[ins]) > 0
    drift = float(np.polyfit(before[ins], moved, 1)[0] * 1e6) if long else 0.0
    what = f"max dev {worst * 1e3:.3f} ms (tol {allowed * 1e3:.2f}), drift {drift:+.1f} ppm"
    report.add("pts shape", worst <= allowed, what)
    if flags.no_shift:
        report.add("shift", abs(shift) <= TICK_MS, f"{shift * 1e3:+.3f} ms")
    else:
        report.info("shift", f"{shift * 1e3:+.3f} ms (uniform, allowed)")
    span = float((after[outs[-1]] - after[outs[0]]) - (before[ins[-1]] - before[ins[0]]))
    lasts = f"container in {a.seconds} out {b.seconds}"
    report.add("duration drift", abs(span) <= allowed * 2, f"{span * 1e3:+.3f} ms; {lasts}")
    _judge_ticks(report, a, b, match, flags)
    return shift


def _expected(report: Report, clip: Clip, flags: Flags) -> Array:
    times = clip.seconds_at
    steps = np.diff(times)
    if flags.monotonic and len(steps):
        broken = (steps <= 0) | (steps > 2)
        fixed = np.where(broken, np.median(steps), steps)
        return np.asarray(times[0] + np.concatenate([[0], np.cumsum(fixed)])) if broken.any() else times
    if not flags.damaged and (steps <= 0).any():
        report.info("input timeline", "input pts do not rise; expecting frame n at n/rate")
        return np.asarray(times.min() + np.arange(len(times)) / float(clip.rate))
    return times


def _judge_ticks(report: Report, a: Clip, b: Clip, match: Match, flags: Flags) -> None:
    """Times as fractions: moved by one and the same, but for the rounding to ticks of the output."""
    told = not (a.without_pts or b.without_pts) and all(x < y for x, y in pairwise(a.at))
    if flags.monotonic or not told:
        report.info("ticks", "one of the containers holds no usable pts")
        return
    moved = [b.at[j] - a.at[i] for i, j in match.pairs]
    spread = max(moved) - min(moved)
    held = (a.time_base / b.time_base).denominator == 1
    allowed = Fraction(0) if held else b.time_base
    what = f"spread {spread} s (at most {allowed}), time base {a.time_base} -> {b.time_base}"
    report.add("ticks", spread <= allowed, what)


def judge_geometry(report: Report, a: Clip, b: Clip, flags: Flags) -> None:
    height_in, height_out = a.sizes[0][1], b.sizes[0][1]
    before, after = _shape(a), _shape(b)
    report.add("one picture size", len(set(b.sizes)) == 1, f"{sorted(set(b.sizes))}")
    what = f"in {_geometry(a)} -> out {_geometry(b)}; DAR {before:.4f} -> {after:.4f}"
    report.add("display shape", abs(after / before - 1) <= (0.015 if flags.pad_ok else 0.01), what)
    apart = abs(height_out - height_in)
    report.add("display height", apart <= (2 if flags.pad_ok else 0), f"{height_in} -> {height_out}")
    if a.top_first is not None and b.top_first is not None:
        names = {True: "top", False: "bottom"}
        what = f"{names[a.top_first]} -> {names[b.top_first]}"
        report.add("field shown first", a.top_first == b.top_first, what)


def _shape(clip: Clip) -> float:
    width, height = clip.sizes[0]
    aspect = clip.sample_aspect if clip.rotation % 180 == 0 else 1 / clip.sample_aspect
    return width * float(aspect) / height


def _geometry(clip: Clip) -> str:
    width, height = clip.sizes[0]
    return f"{width}x{height} sar {clip.sample_aspect} rot {clip.rotation}"


def judge_colour(report: Report, a: Clip, b: Clip, flags: Flags) -> bool:
    """Judge patches and tags; returns whether HDR was mapped to SDR."""
    before, after = a.tags, b.tags
    assert before is not None
    assert after is not None
    mean_in, mean_out = np.mean(a.patches, 0), np.mean(b.patches, 0)
    tonemapped = flags.hdr and after.transfer != before.transfer
    if tonemapped:
        report.add("hdr policy", _tagged_sdr(after), f"tone-mapped: {after} must be tagged SDR")
        off = np.abs(mean_out - PATCHES)
        what = f"mean {off.mean():.1f} max {off.max():.1f} of 255 (tol 30)"
        report.add("colour (vs SDR master)", off.mean() <= 30, what)
    else:
        if flags.hdr:
            kept = (after.primaries, after.matrix) == (before.primaries, before.matrix)
            report.add("hdr policy", kept and after.bits >= 10, f"preserved: {after}, {after.bits} bit")
        off = np.abs(mean_out - mean_in)
        good = off.max() <= flags.color_tol * 2 and off.mean() <= flags.color_tol
        limits = f"tol {flags.color_tol}/{flags.color_tol * 2}"
        report.add("colour patches", good, f"mean {off.mean():.2f} max {off.max():.2f} of 255 ({limits})")
    report.info("tags", f"{before} -> {after}")
    if "color" in flags.need:
        told = after.range != "unspec" and 2 not in (after.matrix, after.transfer, after.primaries)
        report.add("colour tags", told, "output must say matrix, range, transfer, primaries")
    return tonemapped


def _tagged_sdr(tags: Tags) -> bool:
    return tags.transfer in SDR_TRANSFERS and {tags.matrix, tags.primaries} <= SDR_MATRICES


def judge_picture(report: Report, a: Clip, b: Clip, match: Match, flags: Flags, tonemapped: bool) -> None:
    """PSNR outside the face box, and frames without a face block by block."""
    shrink = not _comparable(a, b, flags)
    total, count, worst, blocks = 0.0, 0, 99.0, []
    for i, j in match.pairs[:: max(1, len(match.pairs) // 120)]:
        one, other = a.luma[i], b.luma[j]
        off = small(one, 160, 90) - small(other, 160, 90) if shrink else _difference(one, other)
        outside = off[_outside(off, flags)]
        error = float((outside**2).sum())
        total, count = total + error, count + outside.size
        worst = min(worst, _psnr(error / max(outside.size, 1)))
        counter = a.counters[i]
        if flags.face_off and counter is not None and flags.face_off[0] <= counter <= flags.face_off[1]:
            blocks.append(float(small(np.abs(_difference(one, other)), 40, 22).max()))
    ratio = _psnr(total / count)
    if tonemapped:
        report.info("psnr outside face", f"{ratio:.1f} dB (tone-mapped, not judged)")
    else:
        good = ratio >= flags.psnr and (flags.damaged or worst >= flags.psnr - 6)
        report.add("psnr outside face", good, f"{ratio:.1f} dB, worst {worst:.1f} (>= {flags.psnr})")
    if flags.face_off:
        largest = max(blocks, default=255.0)
        what = f"worst block differs by {largest:.1f}/255 on {len(blocks)} frames of {flags.face_off} (<= 12)"
        report.add("face-free frames untouched", largest <= 12, what)


def _comparable(a: Clip, b: Clip, flags: Flags) -> bool:
    """Whether pictures lie on one another sample by sample."""
    (w0, h0), (w1, h1) = a.sizes[0], b.sizes[0]
    if (w0, h0) == (w1, h1) and len({*a.sizes, *b.sizes}) == 1:
        return True
    return flags.pad_ok and abs(w0 - w1) <= 2 and abs(h0 - h1) <= 2


def _outside(difference: Array, flags: Flags) -> Array:
    height, width = difference.shape
    left, top, right, bottom = flags.face_box
    outside = np.ones((height, width), bool)
    outside[int(top * height) : int(bottom * height), int(left * width) : int(right * width)] = False
    return outside


def _difference(one: Array, other: Array) -> Array:
    height, width = min(one.shape[0], other.shape[0]), min(one.shape[1], other.shape[1])
    return np.asarray(one[:height, :width].astype(np.float32) - other[:height, :width])


def _psnr(square: float) -> float:
    return float(10 * np.log10(255**2 / max(square, 1e-9)))


def small(picture: Array, width: int, height: int) -> Array:
    """Means of blocks, width x height of them."""
    rows = np.arange(height + 1) * picture.shape[0] // height
    columns = np.arange(width + 1) * picture.shape[1] // width
    sums = np.add.reduceat(picture.astype(np.float32), rows[:-1], 0)
    sums = np.add.reduceat(sums, columns[:-1], 1)
    return np.asarray(sums / np.outer(np.diff(rows), np.diff(columns)))


def judge_extras(report: Report, a: Clip, b: Clip, flags: Flags) -> None:
    """What the manifest wants carried over."""
    held = {
        "chapters": (a.chapters, b.chapters),
        "subs": (a.subtitles, b.subtitles),
        "title": (a.metadata.get("title"), b.metadata.get("title")),
        "timecode": (a.timecode, b.timecode),
        "lang": (_languages(a), _languages(b)),
    }
    for name, (before, after) in held.items():
        if name in flags.need:
            report.add(name, before == after, f"{before} -> {after}")


def _languages(clip: Clip) -> list[str | None]:
    """ISO 639-2 has two codes for German."""
    return ["ger" if sound.language == "deu" else sound.language for sound in clip.sounds]
