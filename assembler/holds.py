"""What each output container holds of an input's other tracks: the one table behind copying, converting,
dropping and documentation."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Literal

from av.stream import Disposition

AudioMode = Literal["copy", "encode", "none"]

_TEXT = frozenset({"subrip", "ass", "mov_text", "webvtt", "text"})
"""Subtitles that are text, and so can be converted into one another."""
_BITMAP = frozenset({"dvd_subtitle", "hdmv_pgs_subtitle", "dvb_subtitle"})
_PCM = frozenset(
    {f"pcm_{kind}" for kind in ("s16le", "s24le", "s32le", "f32le", "f64le", "s16be", "s24be", "s32be")}
)
_PHONE = frozenset({"pcm_u8", "pcm_mulaw", "pcm_alaw"})
_ITUNES_TAGS = frozenset(
    {"title", "artist", "album_artist", "composer", "album", "date", "comment", "genre", "copyright",
     "grouping", "lyrics", "description", "synopsis", "show", "episode_id", "network", "keywords", "track",
     "disc", "creation_time", "season_number", "episode_sort", "media_type", "hd_video", "compilation"}
)  # fmt: skip
_QUICKTIME_TAGS = frozenset(
    {"title", "artist", "album", "date", "comment", "genre", "copyright", "creation_time", "make", "model",
     "location"}
)  # fmt: skip
_NAMES = frozenset({"title", "language"})
_RIFF_TAGS = frozenset(
    {"title", "artist", "copyright", "comment", "date", "genre", "track", "language", "encoded_by"}
)


_ANY = Disposition.default | Disposition.forced
_MOST = (
    _ANY | Disposition.dub | Disposition.comment | Disposition.descriptions
    | Disposition.hearing_impaired | Disposition.visual_impaired
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Holds:
    """One container: FFmpeg's muxer, what it copies, and what it converts the rest to."""

    muxer: str
    sound: frozenset[str]
    sound_encoder: str
    subtitles: frozenset[str]
    text_encoder: str = ""
    """Encoder for text subtitles that are not copied; empty: none fits."""
    data: frozenset[str] = frozenset()
    """Tracks of data that are copied; `gpmd` is what GoPro's cameras measure."""
    chapters: bool = True
    tags: frozenset[str] | None = None
    """Names of the tags that are kept; None: all."""
    plain_tags: frozenset[str] | None = None
    """Tags that every reader knows; with any other, all are written as pairs of key and value instead."""
    track_tags: frozenset[str] | None = None
    """Names of the tags that a track beside the picture keeps; None: all."""
    cover: Literal["stream", "attachment", "none"] = "none"
    """How a cover picture is kept: as a picture track of one packet, or as an attached file."""
    attachments: bool = False
    edit_lists: bool = False
    """Hides the part of a track before time zero, so that sound can be cut to the sample."""
    codec_delay: bool = False
    """Hides a stated number of samples at the beginning of a track."""
    timecode: Literal["track", "tag", "none"] = "none"
    tick: Fraction | None = None
    """Times are rounded to multiples of this; None: they are exact."""
    dispositions: Disposition = Disposition.default
    """What a track may be for."""
    gaps: bool = True
    """Packets have times; else sound is one run of samples, and silence fills its gaps."""


CONTAINERS: dict[str, Holds] = {
    "mp4": Holds(
        "mp4",
        frozenset({"aac", "mp3", "mp2", "ac3", "eac3", "opus", "flac", "alac", "dts"}), "aac",
        frozenset({"mov_text", "dvd_subtitle"}), "mov_text",
        cover="stream", edit_lists=True, tags=_ITUNES_TAGS, track_tags=_NAMES, timecode="track",
        data=frozenset({"gpmd"}), dispositions=_MOST | Disposition.captions,
    ),
    "mov": Holds(
        "mov",
        frozenset({"aac", "mp3", "ac3", "eac3", "alac", "pcm_s8", "adpcm_ima_qt"}) | _PCM | _PHONE, "aac",
        frozenset({"mov_text"}), "mov_text",
        edit_lists=True, plain_tags=_QUICKTIME_TAGS, track_tags=_NAMES, timecode="track",
        data=frozenset({"gpmd"}),
    ),
    "mkv": Holds(
        "matroska",
        frozenset({"aac", "mp3", "mp2", "ac3", "eac3", "opus", "vorbis", "flac", "alac", "dts", "truehd",
                   "wavpack"})
        | _PCM - {"pcm_s32be"} | {"pcm_u8"}, "flac",
        frozenset({"subrip", "ass", "webvtt", "text"}) | _BITMAP, "subrip",
        cover="attachment", attachments=True, codec_delay=True, timecode="tag", tick=Fraction(1, 1000),
        dispositions=_MOST | Disposition.original,
    ),
    "webm": Holds(
        "webm",
        frozenset({"opus", "vorbis"}), "libopus",
        frozenset({"webvtt"}), "webvtt",
        codec_delay=True, timecode="tag", tick=Fraction(1, 1000),
        dispositions=_ANY | Disposition.captions | Disposition.descriptions | Disposition.metadata,
    ),
    "ts": Holds(
        "mpegts",
        frozenset({"aac", "mp3", "mp2", "ac3", "eac3", "opus", "dts"}), "aac",
        frozenset({"dvb_subtitle"}),
        data=frozenset({"klv", "timed_id3"}),
        chapters=False, tags=frozenset(), track_tags=frozenset({"language"}), tick=Fraction(1, 90_000),
    ),
    "avi": Holds(
        "avi",
        frozenset(), "pcm_s16le",
        frozenset(),
        chapters=False, tags=_RIFF_TAGS, track_tags=frozenset({"title"}), timecode="tag", gaps=False,
    ),
}  # fmt: skip
"""By output suffix; containers without sound (gif, webp, jpg, png) are not here."""


class Fate(StrEnum):
    """What becomes of a track."""

    COPY = "copied"
    CONVERT = "converted"
    DROP = "dropped"


def fate_of(container: str, kind: str, codec: str, audio: AudioMode = "copy") -> tuple[Fate, str]:
    """What becomes of a track of a codec (FFmpeg's name of it, not of its decoder), and the encoder it is
    converted with."""
    holds = CONTAINERS[container]
    if kind == "audio":
        if audio == "none":
            return Fate.DROP, ""
        copied = audio == "copy" and codec in holds.sound
        return (Fate.COPY, "") if copied else (Fate.CONVERT, holds.sound_encoder)
    if kind == "subtitle":
        if codec in holds.subtitles:
            return Fate.COPY, ""
        if codec in _TEXT and holds.text_encoder:
            return Fate.CONVERT, holds.text_encoder
    if kind == "data" and codec in holds.data:
        return Fate.COPY, ""
    return Fate.DROP, ""


def disposition_in(container: str, kind: str, asked: int) -> tuple[Disposition, bool]:
    """What a track is for, as the container tells it, and whether that is all that was asked for. Captions
    are subtitles for the hard of hearing: some containers know the one name, some the other."""
    held, wanted = CONTAINERS[container].dispositions, Disposition(asked)
    alike = Disposition.hearing_impaired | Disposition.captions
    if kind == "subtitle" and wanted & alike and held & alike:
        wanted = wanted & ~alike | held & alike
    return wanted, not wanted & ~held & ~Disposition.default


def table() -> str:
    """The table of docs/media.md: container x codec, as Markdown."""
    kinds = {
        "audio": ["aac", "mp3", "ac3", "eac3", "opus", "vorbis", "flac", "alac", "pcm_s16le", "pcm_s24le"],
        "subtitle": ["subrip", "ass", "mov_text", "webvtt", "dvd_subtitle", "hdmv_pgs_subtitle"],
    }
    lines = []
    for kind, codecs in kinds.items():
        lines += [f"| {kind} | {' | '.join(codecs)} |", "|---" * (len(codecs) + 1) + "|"]
        for container in CONTAINERS:
            fates = (fate_of(container, kind, codec) for codec in codecs)
            cells = [f"→ {encoder}" if encoder else str(fate) for fate, encoder in fates]
            lines.append(f"| {container} | {' | '.join(cells)} |")
        lines.append("")
    return "\n".join(lines)
