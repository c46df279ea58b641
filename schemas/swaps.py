"""Records of the swaps topics: what changed in a batch of frames."""

from __future__ import annotations

from enum import IntFlag, StrEnum
from typing import Annotated, Self

from pydantic import Field, model_validator

from schemas.record import Model, Record, register


class SwapFlag(IntFlag):
    """Bits of `SwapBatch.flags`."""

    NO_FACE = 1
    """No face was found: the frame stays as it is."""
    LATE = 2
    """Live only: the patches missed their deadline."""


class FailurePolicy(StrEnum):
    """What becomes of frames whose batch failed for good."""

    FAIL = "fail"
    FREEZE = "freeze"
    BLUR = "blur"
    PASS = "pass"  # noqa: S105 (a policy, no password)


class Patch(Model):
    """A rectangle of new pixels, in luma samples of the frame's own format.

    x, y lie on the chroma grid; width and height do too, or end at the frame's edge. The planes of
    the rectangle follow one another in the body from `offset`, each without row padding.
    """

    x: Annotated[int, Field(ge=0)]
    y: Annotated[int, Field(ge=0)]
    width: Annotated[int, Field(gt=0)]
    height: Annotated[int, Field(gt=0)]
    offset: Annotated[int, Field(ge=0)]


class Failure(Model):
    """Why a batch has no patches, and what to do with its frames."""

    reason: str
    policy: FailurePolicy = FailurePolicy.FAIL


@register
class SwapBatch(Record):
    """The result for exactly one FrameBatch: patches for each of its frames, or a failure."""

    KIND = "swaps"

    seq: Annotated[int, Field(ge=0)]
    count: Annotated[int, Field(gt=0)]
    patches: list[list[Patch]] = []
    flags: list[int] = []
    failed: Failure | None = None
    engine: str
    model: str = ""
    """Which models and version made it, for traceability."""
    timings: dict[str, float] = {}
    """Milliseconds of work by stage, summed over the batch."""
    stamps: dict[str, int] = {}

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.failed is None and not len(self.patches) == len(self.flags) == self.count:
            raise ValueError(
                f"{self.count} frames, {len(self.patches)} lists of patches, {len(self.flags)} flags"
            )
        return self
