"""The `sides` object: all tracks of an input other than its picture, packet by packet.

A plain log rather than a media container, because none keeps every codec with its exact timestamps,
durations and side data (docs/adr/0005-sides.md). Layout:

    packets, each:  u32 header length | msgpack header | payload
    trailer:        msgpack map
    u64 trailer length, little endian | b"FSSIDES1"

What a muxer must know about a track (codec parameters) travels in the trailer as a *template*: a tiny
file with one packet, in the first container that gives the parameters back unchanged.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from types import TracebackType
from typing import Any, BinaryIO, Self

import av
import msgpack
from av.packet import PacketSideData, packet_sidedata_type_from_literal
from av.stream import AttachmentStream, Stream

from schemas.errors import MalformedRecordError
from schemas.plan import SideTrack

MAGIC = b"FSSIDES1"
_TAIL = struct.Struct("<Q8s")
_LENGTH = struct.Struct("<I")
_TEMPLATE_FORMATS = ("matroska", "mov", "mp4", "mpegts", "nut")
_KEY, _CORRUPT = 1, 2


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file inside the input, such as a subtitle font."""

    name: str
    mimetype: str
    data: bytes


@dataclass(slots=True)
class _Track:
    stream: Stream
    position: int = -1
    """Number in this object: given with the first packet."""
    template: bytes = b""
    packets: int = 0
    played: bool = False
    dropped: bool = False


@dataclass(slots=True)
class SidesSummary:
    """What was stored: tracks for the plan, and counted warnings about what could not be."""

    tracks: list[SideTrack]
    attachments: int
    warnings: dict[str, int] = field(default_factory=dict)


class SidesWriter:
    """Writes packets of `streams` as they come from the demuxer."""

    def __init__(self, file: BinaryIO, streams: Iterable[Stream]) -> None:
        self._file = file
        self._tracks: dict[int, _Track] = {}
        self._kept: list[_Track] = []
        self._attachments: list[Attachment] = []
        self._warnings: dict[str, int] = {}
        for stream in streams:
            if stream.type == "data" and "timecode" in stream.metadata:
                continue  # the plan tells it
            if isinstance(stream, AttachmentStream):
                self._attachments.append(Attachment(stream.name or "", stream.mimetype or "", stream.data))
            else:
                self._tracks[stream.index] = _Track(stream)

    def write(self, packet: av.Packet[Stream]) -> None:
        """Append one packet. Packets that an edit list takes away after the track has begun are left out
        (those before it prime the decoder and stay)."""
        track = self._tracks.get(packet.stream_index)
        if track is None or packet.size == 0 or (track.played and packet.is_discard):
            return
        if not track.template and not track.dropped:
            track.template = _template(track.stream, packet) or b""
            track.dropped = not track.template
            if track.dropped:
                self._count(f"track_dropped_{_codec_name(track.stream) or track.stream.type}")
        if track.dropped:
            return
        if track.position < 0:
            track.position = len(self._kept)
            self._kept.append(track)
        track.played = track.played or not packet.is_discard
        track.packets += 1
        flags = _KEY * packet.is_keyframe | _CORRUPT * packet.is_corrupt
        side = [(part.data_type, bytes(part)) for part in packet.iter_sidedata()]
        header = msgpack.packb(
            [track.position, packet.pts, packet.dts, packet.duration or 0, flags, side, packet.size]
        )
        self._file.write(_LENGTH.pack(len(header)))
        self._file.write(header)
        self._file.write(memoryview(packet))

    def close(self) -> SidesSummary:
        """Write the trailer. Tracks without a single packet are left out of the summary."""
        kept = self._kept
        tracks = [_describe(track) for track in kept]
        trailer = msgpack.packb(
            {
                "v": 1,
                "tracks": [
                    {
                        "plan": described.model_dump(mode="json"),
                        "template": track.template,
                        "metadata": dict(track.stream.metadata),
                    }
                    for track, described in zip(kept, tracks, strict=True)
                ],
                "attachments": [[a.name, a.mimetype, a.data] for a in self._attachments],
            }
        )
        self._file.write(trailer)
        self._file.write(_TAIL.pack(len(trailer), MAGIC))
        tracks.sort(key=lambda track: kept[track.stream].stream.index)  # as the input lists them
        return SidesSummary(tracks, len(self._attachments), self._warnings)

    def _count(self, name: str) -> None:
        self._warnings[name] = self._warnings.get(name, 0) + 1


def _describe(track: _Track) -> SideTrack:
    stream = track.stream
    base = stream.time_base or Fraction(1, 90_000)
    return SideTrack(
        stream=track.position,
        kind=stream.type,
        codec=_codec_name(stream),
        time_base=(base.numerator, base.denominator),
        packets=track.packets,
        language=stream.language or "",
        disposition=int(stream.disposition),
    )


def _codec_name(stream: Stream) -> str:
    context = _context(stream)
    return context.name if context else stream.name or ""


def _context(stream: Stream) -> av.CodecContext | None:
    return stream.codec_context  # None for what FFmpeg has no codec for, such as time code tracks


def _template(stream: Stream, packet: av.Packet[Stream]) -> bytes | None:
    """A file of one packet from which `stream`'s parameters can be read back; None if no container does."""
    own = stream.container.format.name.split(",")[0]
    for name in dict.fromkeys((own, *_TEMPLATE_FORMATS)):
        try:
            data = _template_in(name, stream, packet)
            with av.open(io.BytesIO(data), metadata_errors="replace") as copy:
                if len(copy.streams) == 1 and _alike(stream, copy.streams[0]):
                    return data
        except (av.error.FFmpegError, ValueError):
            continue  # not held by this container
    return None


def _template_in(container: str, stream: Stream, packet: av.Packet[Stream]) -> bytes:
    file = io.BytesIO()
    with av.open(file, "w", format=container) as out:
        target = out.add_stream_from_template(stream, opaque=True)
        sample = _packet(bytes(packet), 0, 0, packet.duration or 0, _KEY, ())
        sample.time_base = packet.time_base
        sample.stream = target
        out.mux(sample)
    return file.getvalue()


def _alike(stream: Stream, copy: Stream) -> bool:
    """Same codec, same set-up bytes, same sampling: what a muxer reads from the parameters."""
    old, new = _context(stream), _context(copy)
    if old is None or new is None:
        return old is new and "" != _codec_name(stream) == _codec_name(copy)
    names = ("name", "type", "extradata", "sample_rate", "channels", "width", "height")
    return all(getattr(old, name, None) == getattr(new, name, None) for name in names)


def _packet(
    payload: bytes,
    pts: int | None,
    dts: int | None,
    duration: int,
    flags: int,
    side: Iterable[tuple[str, bytes]],
) -> av.Packet[Stream]:
    packet: av.Packet[Stream] = av.Packet(payload)
    packet.pts, packet.dts, packet.duration = pts, dts, duration
    packet.is_keyframe, packet.is_corrupt = bool(flags & _KEY), bool(flags & _CORRUPT)
    for name, data in side:
        part: Any = PacketSideData(packet_sidedata_type_from_literal(name), len(data))  # type: ignore[call-arg, arg-type]
        memoryview(part)[:] = data
        packet.set_sidedata(part, move=True)
    return packet


class SidesReader:
    """Reads a sides object from a seekable file.

    `tracks` are those of the plan; `template(i)` is a stream for `add_stream_from_template(...,
    opaque=True)` of an output, valid until `close`; `packets` gives (track, packet) in stored order,
    timestamps as they were in the input, in the track's time base. Raises MalformedRecordError.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        size = file.seek(0, io.SEEK_END)
        if size < _TAIL.size:
            raise MalformedRecordError(f"sides object of {size} bytes has no trailer")
        file.seek(size - _TAIL.size)
        length, magic = _TAIL.unpack(file.read(_TAIL.size))
        self._end = size - _TAIL.size - length
        if magic != MAGIC or self._end < 0:
            raise MalformedRecordError("sides object does not end in its trailer")
        file.seek(self._end)
        trailer = msgpack.unpackb(file.read(length))
        self.tracks = [SideTrack.model_validate(track["plan"]) for track in trailer["tracks"]]
        self.metadata: list[dict[str, str]] = [track["metadata"] for track in trailer["tracks"]]
        self.attachments = [Attachment(*attachment) for attachment in trailer["attachments"]]
        self._templates = [
            av.open(io.BytesIO(track["template"]), metadata_errors="replace") for track in trailer["tracks"]
        ]

    def template(self, track: int) -> Stream:
        """A stream with the codec parameters of a track."""
        return self._templates[track].streams[0]

    def packets(self) -> Iterator[tuple[int, av.Packet[Stream]]]:
        """All packets from the beginning; `stream` is not set."""
        self._file.seek(0)
        bases = [Fraction(*track.time_base) for track in self.tracks]
        at = 0
        while at < self._end:
            (length,) = _LENGTH.unpack(self._file.read(_LENGTH.size))
            track, pts, dts, duration, flags, side, size = msgpack.unpackb(self._file.read(length))
            packet = _packet(self._file.read(size), pts, dts, duration, flags, side)
            packet.time_base = bases[track]
            yield track, packet
            at += _LENGTH.size + length + size

    def close(self) -> None:
        for container in self._templates:
            container.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
