"""The topic `dead` as a list: batches that failed for good, and which of them somebody has dealt with.

A letter's number is its offset. A batch may have several (it failed again after a crash): the newest
counts. A tombstone whose key names a batch says that it was dealt with; a letter that comes later is
news again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import av
import numpy as np
import structlog
from confluent_kafka import TopicPartition

from runtime.kafka import bounds, producer, reader, translated
from runtime.outbox import Outbox
from runtime.payload import decode as decode_planes
from runtime.payload import frame_planes
from runtime.settings import Settings
from schemas.errors import BrokerError, FramesLostError, RecordError
from schemas.events import Dead
from schemas.frames import FrameBatch
from schemas.record import Message, decode

_log = structlog.get_logger("dead")
_SECONDS = 30.0


@dataclass(slots=True)
class Letter:
    number: int
    dead: Dead
    dealt_with: bool = False


def read_letters(settings: Settings) -> list[Letter]:
    """All letters, oldest first. Raises BrokerError."""
    letters: dict[str, Letter] = {}
    client = reader(settings.kafka, "dead")
    try:
        topic = settings.topic_set.dead
        first, end = bounds(client, topic, 0)
        with translated(f"reading {topic}"):
            client.assign([TopicPartition(topic, 0, first)])
        while first < end:
            message = client.poll(_SECONDS)
            if message is None:
                raise BrokerError(f"{topic} was not read to its end within {_SECONDS:g} s")
            if message.error() is not None:
                break
            first = cast(int, message.offset()) + 1
            _take(letters, first - 1, message.key(), message.value())
    finally:
        client.close()
    return sorted(letters.values(), key=lambda letter: letter.number)


def deal_with(settings: Settings, letters: Iterable[Letter]) -> None:
    """Mark letters as dealt with, for everybody who lists them."""
    with Outbox(producer(settings.kafka, "dead")) as outbox:
        for letter in letters:
            outbox.send(settings.topic_set.dead, None, key=_key(letter.dead))
        outbox.flush()


def save_frames(settings: Settings, dead: Dead, folder: Path) -> list[Path]:
    """Write the frames of a batch as PNG files. Raises FramesLostError if it has left its topic."""
    message = _batch(settings, dead)
    folder.mkdir(parents=True, exist_ok=True)
    video = message.record.format
    written = []
    for info, planes in zip(message.record.infos(), decode_planes(message), strict=True):
        frame = av.VideoFrame(video.width, video.height, video.pixel_format)
        for target, source in zip(frame_planes(frame, video), planes, strict=True):
            np.copyto(target, source)
        path = folder / f"{dead.stream.replace('/', '-')}-{dead.epoch}-{info.seq:06d}.png"
        frame.to_image().save(path)  # type: ignore[no-untyped-call]
        written.append(path)
    return written


def _batch(settings: Settings, dead: Dead) -> Message[FrameBatch]:
    client = reader(settings.kafka, "dead")
    try:
        first, end = bounds(client, dead.topic, dead.partition)
        raw = None
        if first <= dead.offset < end:
            client.assign([TopicPartition(dead.topic, dead.partition, dead.offset)])
            raw = client.poll(_SECONDS)
    finally:
        client.close()
    value = raw.value() if raw is not None and raw.error() is None and raw.offset() == dead.offset else None
    message = decode(value) if value is not None else None
    if message is None or not isinstance(message.record, FrameBatch):
        raise FramesLostError(f"the frames of {dead.stream} at seq {dead.seq} are no longer in {dead.topic}")
    return cast(Message[FrameBatch], message)


def _take(letters: dict[str, Letter], number: int, key: bytes | str | None, value: bytes | None) -> None:
    if value is None:
        name = key.decode() if isinstance(key, bytes) else str(key)
        if name in letters:
            letters[name].dealt_with = True
        return
    try:
        record = decode(value).record
    except RecordError as error:
        _log.warning("bad_record", offset=number, reason=str(error))
        return
    if isinstance(record, Dead):
        letters[_key(record)] = Letter(number, record)


def _key(dead: Dead) -> str:
    return f"{dead.stream}@{dead.epoch}:{dead.seq}"
