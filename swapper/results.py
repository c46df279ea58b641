"""What a runner decided, as records. Reasons and stacks leave the worker without secrets, and bounded."""

from __future__ import annotations

import time
import traceback
from dataclasses import replace
from typing import Any

import numpy as np

from runtime.redact import redacted
from schemas.errors import FramesLostError
from schemas.events import Dead, Failed, Role
from schemas.framing import ByteArray
from schemas.record import Record, allocate, encode
from schemas.swaps import Failure, Patch, SwapBatch
from swapper.engines.base import PatchPixels
from swapper.runner import Done

_REASON_LENGTH = 1000
_STACK_LENGTH = 16_000


def answer(done: Done) -> tuple[ByteArray, Done]:
    """The SwapBatch of a finished batch, and what it says: patches that make no record are a failure too."""
    try:
        return encode_done(done), done
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        done = replace(done, swaps=[], failure=reason, stack=traceback.format_exc())
        return encode_done(done), done


def encode_done(done: Done) -> ByteArray:
    """The SwapBatch of a finished batch; patch planes are copied once, into the record itself."""
    if done.failure:
        reason = redacted(done.failure, _REASON_LENGTH)
        return encode(_record(done, failed=Failure(reason=reason, policy=done.policy)))
    patches: list[list[Patch]] = []
    pixels: list[PatchPixels] = []
    size = 0
    for swap in done.swaps:
        row: list[Patch] = []
        for patch in swap.patches:
            row.append(Patch(x=patch.x, y=patch.y, width=patch.width, height=patch.height, offset=size))
            pixels.append(patch)
            size += sum(plane.nbytes for plane in patch.planes)
        patches.append(row)
    flags = [int(swap.flags) for swap in done.swaps]
    whole, body = allocate(_record(done, patches=patches, flags=flags), size)
    at = 0
    for patch in pixels:
        for plane in patch.planes:
            body[at : at + plane.nbytes] = np.ascontiguousarray(plane).reshape(-1).view(np.uint8)
            at += plane.nbytes
    return whole


def dead_record(done: Done, topic: str) -> Dead:
    """What `dead` keeps of a batch that failed for good."""
    batch = done.batch
    return Dead(
        job=batch.record.job,
        stream=batch.record.stream,
        epoch=batch.record.epoch,
        topic=topic,
        partition=batch.partition,
        offset=batch.offset,
        seq=batch.record.seq,
        count=len(batch.record),
        reason=redacted(done.failure, _REASON_LENGTH),
        stack=redacted(done.stack, _STACK_LENGTH),
        policy=done.policy,
    )


def frames_lost(record: Record, what: str) -> Failed:
    """Frames of a stream are gone from Kafka: control has it decoded again."""
    return Failed(
        job=record.job,
        stream=record.stream,
        epoch=record.epoch,
        role=Role.SWAPPER,
        reason=f"{record.stream}: frames are gone from Kafka: {what}",
        exit_code=FramesLostError.exit_code,
        retryable=FramesLostError.retryable,
    )


def _record(done: Done, **content: Any) -> SwapBatch:
    batch = done.batch.record
    return SwapBatch(
        job=batch.job,
        stream=batch.stream,
        epoch=batch.epoch,
        seq=batch.seq,
        count=len(batch),
        engine=done.engine,
        model=done.model,
        timings=done.timings,
        stamps=batch.stamps | {"swapped": time.time_ns()},
        **content,
    )
