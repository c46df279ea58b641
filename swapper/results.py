"""What a runner decided, as records."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from schemas.events import Dead
from schemas.framing import ByteArray
from schemas.record import allocate, encode
from schemas.swaps import Failure, Patch, SwapBatch
from swapper.engines.base import PatchPixels
from swapper.runner import Done


def encode_done(done: Done) -> ByteArray:
    """The SwapBatch of a finished batch; patch planes are copied once, into the record itself."""
    if done.failure:
        return encode(_record(done, failed=Failure(reason=done.failure, policy=done.policy)))
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
        reason=done.failure,
        stack=done.stack,
        policy=done.policy,
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
