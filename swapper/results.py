"""An engine's decisions as SwapBatch records."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from schemas.frames import FrameBatch
from schemas.framing import ByteArray
from schemas.record import allocate, encode
from schemas.swaps import Failure, Patch, SwapBatch
from swapper.engines.base import Engine, FrameSwap, PatchPixels


def encode_swaps(
    batch: FrameBatch, swaps: Sequence[FrameSwap], engine: Engine, timings: dict[str, float]
) -> ByteArray:
    """The record for one frame batch; patch planes are copied once, into the record itself."""
    patches: list[list[Patch]] = []
    pixels: list[PatchPixels] = []
    at = 0
    for swap in swaps:
        row: list[Patch] = []
        for patch in swap.patches:
            row.append(Patch(x=patch.x, y=patch.y, width=patch.width, height=patch.height, offset=at))
            pixels.append(patch)
            at += sum(plane.nbytes for plane in patch.planes)
        patches.append(row)
    record = SwapBatch(
        job=batch.job,
        stream=batch.stream,
        epoch=batch.epoch,
        seq=batch.seq,
        count=len(batch),
        patches=patches,
        flags=[int(swap.flags) for swap in swaps],
        engine=engine.name,
        model=engine.model_id,
        timings=timings,
        stamps=batch.stamps | {"swapped": time.time_ns()},
    )
    whole, body = allocate(record, at)
    at = 0
    for patch in pixels:
        for plane in patch.planes:
            body[at : at + plane.nbytes] = np.ascontiguousarray(plane).reshape(-1).view(np.uint8)
            at += plane.nbytes
    return whole


def encode_failure(batch: FrameBatch, failure: Failure, engine: str) -> ByteArray:
    """The record for a frame batch that failed for good."""
    return encode(
        SwapBatch(
            job=batch.job,
            stream=batch.stream,
            epoch=batch.epoch,
            seq=batch.seq,
            count=len(batch),
            failed=failure,
            engine=engine,
            stamps=batch.stamps | {"swapped": time.time_ns()},
        )
    )
