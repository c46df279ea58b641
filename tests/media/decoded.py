"""Decodes a clip of the case generator: its frames with counters, times and colour patches, and its sound.

Decoding is PyAV's; YUV to RGB is done here in numpy, not by swscale, so that the judge does not share the
mistakes of what it judges.
"""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

PATCHES = np.array(
    [
        [0xC8, 0x28, 0x28], [0x28, 0xB4, 0x3C], [0x28, 0x3C, 0xC8], [0xD2, 0xC8, 0x32],
        [0x32, 0xBE, 0xBE], [0xBE, 0x3C, 0xB4], [0x80, 0x80, 0x80], [0xEB, 0xEB, 0xEB],
    ],
    float,
)  # fmt: skip
"""RGB that the generator paints, from top to bottom."""
KR_KB = {
    1: (0.2126, 0.0722), 4: (0.30, 0.11), 5: (0.299, 0.114), 6: (0.299, 0.114), 7: (0.212, 0.087),
    9: (0.2627, 0.0593), 10: (0.2627, 0.0593),
}  # fmt: skip
"""Weights of red and blue in luma by matrix number, ITU-T H.273 table 4."""
MATRIX_NAMES = {0: "rgb", 1: "bt709", 2: "unspec", 5: "bt470bg", 6: "smpte170m", 9: "bt2020nc"}
ATTACHED = 0x400
"""Disposition of cover pictures."""
READ_ERRORS = 50
"""After so many, the rest of a file is not read."""


@dataclass
class Sound:
    """One sound track, decoded."""

    codec: str
    rate: int
    language: str | None
    blocks: list[tuple[float | None, Array]] = field(default_factory=list)
    """(seconds, channels x samples as float32 in -1..1)."""
    digests: list[str] = field(default_factory=list)
    """Of the packets' payloads."""


@dataclass(frozen=True)
class Tags:
    """How the first frame says its samples are meant."""

    matrix: int
    full: bool
    range: str
    transfer: int
    primaries: int
    interlaced: bool
    pixels: str
    bits: int

    def __str__(self) -> str:
        matrix = MATRIX_NAMES.get(self.matrix, self.matrix)
        return f"{self.pixels} {self.range} {matrix}/trc{self.transfer}/pri{self.primaries}"


@dataclass
class Clip:
    """Everything the judge looks at; frames in the order in which they were decoded."""

    path: Path
    container: str
    metadata: dict[str, str]
    seconds: float | None
    """Duration that the container tells."""
    subtitles: int
    chapters: int
    timecode: str | None
    codec: str = ""
    rate: Fraction = Fraction(25)
    time_base: Fraction = Fraction(1, 90_000)
    sample_aspect: Fraction = Fraction(1)
    rotation: int = 0
    tags: Tags | None = None
    top_first: bool | None = None
    """Whether the upper field of the first picture is shown first; None of one without fields."""
    at: list[Fraction] = field(default_factory=list)
    """Presentation time of each frame, seconds."""
    without_pts: int = 0
    counters: list[int | None] = field(default_factory=list)
    """Burned-in numbers; None where the strip cannot be read."""
    sizes: list[tuple[int, int]] = field(default_factory=list)
    """(width, height), upright."""
    luma: list[Array] = field(default_factory=list)
    """Full-range luma, upright, uint8."""
    patches: list[Array] = field(default_factory=list)
    """RGB 0..255 of the eight patches, on some frames."""
    sounds: list[Sound] = field(default_factory=list)
    errors: int = 0

    @property
    def seconds_at(self) -> Array:
        """Times as floats. Where the container has no pts, decoder order at the nominal rate."""
        times = np.array([float(at) for at in self.at])
        if self.without_pts > 1:
            return np.asarray(times.min() + np.arange(len(times)) / float(self.rate))
        return times


def decode(path: Path) -> Clip:
    """Decode a whole file; damaged packets are counted and passed over."""
    with av.open(str(path), metadata_errors="ignore") as container:
        videos = [s for s in container.streams.video if not int(s.disposition) & ATTACHED]
        marks = [container.metadata, *(s.metadata for s in container.streams)]
        clip = Clip(
            path=path,
            container=container.format.name,
            metadata=dict(container.metadata),
            seconds=container.duration / 1e6 if container.duration else None,
            subtitles=len(container.streams.subtitles),
            chapters=len(container.chapters()),
            timecode=next((m["timecode"] for m in marks if m.get("timecode")), None),
        )
        if not videos:
            return clip
        video = videos[0]
        video.thread_type = "NONE"
        clip.codec = video.codec_context.name
        clip.rate = video.average_rate or video.guessed_rate or video.base_rate or Fraction(25)
        clip.time_base = video.time_base or clip.time_base
        clip.sample_aspect = (
            video.sample_aspect_ratio or video.codec_context.sample_aspect_ratio or Fraction(1)
        )
        tracks = {s.index: _track(s) for s in container.streams.audio}
        clip.sounds = list(tracks.values())
        for packet in _packets(container, [video, *container.streams.audio], clip):
            track = tracks.get(packet.stream_index)
            if track is not None and packet.size:
                track.digests.append(hashlib.md5(bytes(packet)).hexdigest())
            try:
                frames = packet.decode()
            except av.error.FFmpegError:
                clip.errors += 1
                continue
            for frame in frames:
                if isinstance(frame, av.VideoFrame):
                    _take_picture(clip, frame)
                elif isinstance(frame, av.AudioFrame) and track is not None:
                    _take_sound(track, frame)
        if clip.tags is not None and clip.tags.interlaced:
            clip.top_first = _top_first(path)
    return clip


def _top_first(path: Path) -> bool:
    """As the flags of the first picture say, which PyAV does not tell."""
    shown = ["-show_entries", "frame=top_field_first", "-read_intervals", "%+#1", "-of", "csv=p=0"]
    command = ["ffprobe", "-v", "quiet", "-select_streams", "v:0", *shown, str(path)]
    told = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout
    return told.lstrip()[:1] == "1"


def _track(stream: Any) -> Sound:
    return Sound(stream.codec_context.name, stream.rate, stream.metadata.get("language"))


def _packets(container: Any, streams: list[Any], clip: Clip) -> Iterator[Any]:
    packets = container.demux(streams)
    while True:
        try:
            yield next(packets)
        except StopIteration:
            return
        except av.error.FFmpegError:
            clip.errors += 1
            if clip.errors > READ_ERRORS:
                return


def _take_sound(track: Sound, frame: av.AudioFrame) -> None:
    samples = frame.to_ndarray()
    if not frame.format.is_planar:
        samples = samples.reshape(-1, frame.layout.nb_channels).T
    if samples.dtype == np.uint8:
        samples = samples.astype(np.float32) - 128
        scale = 128.0
    else:
        scale = {"int16": 32768.0, "int32": 2147483648.0}.get(samples.dtype.name, 1.0)
    at = None if frame.pts is None or frame.time_base is None else float(frame.pts * frame.time_base)
    track.rate = frame.sample_rate
    track.blocks.append((at, (samples / scale).astype(np.float32)))


def _take_picture(clip: Clip, frame: av.VideoFrame) -> None:
    ticks = frame.dts if frame.pts is None else frame.pts
    clip.without_pts += frame.pts is None
    if ticks is not None:
        clip.at.append(ticks * (frame.time_base or clip.time_base))
    else:
        clip.at.append(clip.at[-1] + 1 / clip.rate if clip.at else Fraction(0))
    samples = _Samples.of(frame)
    if clip.tags is None:
        clip.tags, clip.rotation = _tags(frame), samples.turns * 90
    luma = samples.full_luma()
    clip.sizes.append((luma.shape[1], luma.shape[0]))
    clip.counters.append(counter(luma))
    clip.luma.append((luma * 255).astype(np.uint8))
    if len(clip.at) <= 12 or len(clip.at) % 10 == 0:
        clip.patches.append(samples.patches())


def _tags(frame: av.VideoFrame) -> Tags:
    color_range = int(frame.color_range)
    full = color_range == 2 or frame.format.name.startswith("yuvj")
    return Tags(
        matrix=int(frame.colorspace),
        full=full,
        range="pc" if full else "tv" if color_range == 1 else "unspec",
        transfer=int(frame.color_trc),
        primaries=int(frame.color_primaries),
        interlaced=frame.interlaced_frame,
        pixels=frame.format.name,
        bits=frame.format.components[0].bits,
    )


@dataclass(frozen=True)
class _Samples:
    """A frame's samples as float32 on the scale of 8-bit codes, 0..1, upright.

    `planes` is one RGB picture, or luma with or without chroma.
    """

    planes: list[Array]
    rgb: bool
    full: bool
    matrix: int
    turns: int

    @classmethod
    def of(cls, frame: av.VideoFrame) -> _Samples:
        tags = _tags(frame)
        turns = round(frame.rotation / 90) % 4
        # Untagged video is read as players do: BT.601 below 720 lines, BT.709 from there up.
        matrix = tags.matrix if tags.matrix in KR_KB else 1 if frame.height >= 720 else 6
        if frame.format.name.startswith("nv"):
            frame = frame.reformat(format="yuv420p")
        elif frame.format.name.startswith("p01"):
            frame = frame.reformat(format="yuv420p10le")
        rgb = frame.format.is_rgb or frame.format.name.startswith(("pal", "gbr", "bgr", "rgb"))
        if rgb:
            planes = [frame.to_ndarray(format="rgb24").astype(np.float32) / 255]
        else:
            components = [c for c in frame.format.components if not c.is_alpha]
            planes = [_plane(frame.planes[c.plane], c.bits) for c in components]
        return cls([np.rot90(plane, turns) for plane in planes], rgb, tags.full, matrix, turns)

    def full_luma(self) -> Array:
        """Luma of full range, 0..1."""
        if self.rgb:
            luma = self.planes[0] @ np.array([0.299, 0.587, 0.114], np.float32)
        else:
            luma = self.planes[0] if self.full else (self.planes[0] * 255 - 16) / 219
        return np.asarray(np.clip(luma, 0, 1))

    def patches(self) -> Array:
        """RGB 0..255 of the middles of the eight patches in the left eighth."""
        height, width = self.planes[0].shape[:2]
        floor = height * 14 // 15
        x = int(width / 8 * 0.3), int(width / 8 * 0.7) + 1
        colours = []
        for number in range(8):
            top, bottom = floor * number / 8, floor * (number + 1) / 8
            inset = (bottom - top) * 0.3
            means = self._means((int(top + inset), int(bottom - inset) + 1), x)
            colours.append(means if self.rgb else self._to_rgb(*means))
        return np.array(colours)

    def _means(self, rows: tuple[int, int], columns: tuple[int, int]) -> Array:
        height, width = self.planes[0].shape[:2]
        found: list[Any] = []
        for plane in self.planes:
            y, x = plane.shape[0] / height, plane.shape[1] / width
            top, left = int(rows[0] * y), int(columns[0] * x)
            part = plane[top : max(int(rows[1] * y), top + 1), left : max(int(columns[1] * x), left + 1)]
            found.append(part.reshape(-1, 3).mean(0) * 255 if self.rgb else float(part.mean()) * 255)
        return found[0] if self.rgb else np.array([*found, *[128.0] * (3 - len(found))])

    def _to_rgb(self, y: float, cb: float, cr: float) -> Array:
        red, blue = KR_KB[self.matrix]
        y = y / 255 if self.full else (y - 16) / 219
        cb, cr = ((c - 128) / (255 if self.full else 224) for c in (cb, cr))
        r, b = y + 2 * (1 - red) * cr, y + 2 * (1 - blue) * cb
        g = (y - red * r - blue * b) / (1 - red - blue)
        return np.clip([r, g, b], 0, 1) * 255


def _plane(plane: Any, bits: int) -> Array:
    kind = np.dtype(np.uint16 if bits > 8 else np.uint8)
    row = plane.line_size // kind.itemsize
    samples = np.frombuffer(plane, kind)[: row * plane.height].reshape(plane.height, row)[:, : plane.width]
    return samples.astype(np.float32) / (2.0 ** (bits - 8) * 255)


def counter(luma: Array) -> int | None:
    """The burned-in number: 16 cells of sync 1, 0, 1, then 12 bits, most significant first, even parity."""
    height, width = luma.shape
    top = int(height * 14.35 / 15)
    row = luma[top : max(int(height * 14.75 / 15), top + 1)].mean(0)
    starts = [int(width * (i + 0.3) / 16) for i in range(16)]
    ends = [max(int(width * (i + 0.7) / 16), starts[i] + 1) for i in range(16)]
    cells = np.array([row[a:b].mean() for a, b in zip(starts, ends, strict=True)])
    high, low = (cells[0] + cells[2]) / 2, cells[1]
    middle = (high + low) / 2
    if high - low <= 0.25 or min(cells[0], cells[2]) - low <= 0.2:
        return None
    bits = (cells > middle).astype(int)
    if bits[3:15].sum() % 2 != bits[15] or np.abs(cells - middle).min() <= 0.12 * (high - low):
        return None
    return int("".join(map(str, bits[3:15])), 2)
