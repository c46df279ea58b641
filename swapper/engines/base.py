"""What an engine is: prepared source faces in, patches out."""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from schemas.errors import UsageError
from schemas.frames import FrameInfo, VideoFormat
from schemas.swaps import SwapFlag
from swapper.models.manifest import Terms

Plane = npt.NDArray[Any]
"""One plane of samples, (rows, columns), uint8 for 8-bit formats and uint16 above."""


_NO_FLAGS = SwapFlag(0)


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame as an engine sees it. `planes` share memory with the Kafka message: read only."""

    info: FrameInfo
    ordinal: int
    """Number in the presentation order of the whole input."""
    format: VideoFormat
    tick: Fraction
    """Seconds of one tick of `info.pts`."""
    planes: tuple[Plane, ...]


@dataclass(frozen=True, slots=True)
class PatchPixels:
    """New pixels for a rectangle, in luma samples, aligned as `schemas.swaps.Patch` says."""

    x: int
    y: int
    width: int
    height: int
    planes: tuple[Plane, ...]


@dataclass(frozen=True, slots=True)
class FrameSwap:
    """An engine's decision on one frame."""

    seq: int
    patches: tuple[PatchPixels, ...] = ()
    flags: SwapFlag = _NO_FLAGS


@dataclass(frozen=True, slots=True)
class SourceFace:
    """A face made ready for one engine. Plain arrays, so that it is stored once and loaded anywhere."""

    engine: str
    arrays: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)

    def to_bytes(self) -> bytes:
        out = io.BytesIO()
        np.savez_compressed(out, _engine=np.array(self.engine), **dict(self.arrays))  # type: ignore[arg-type]
        return out.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes) -> SourceFace:
        with np.load(io.BytesIO(data), allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
        return cls(str(arrays.pop("_engine")), arrays)


@dataclass(frozen=True, slots=True)
class Wants:
    """What `Engine.prepare` has to be given for a job."""

    pictures: bool = True
    """Pictures of the face that is put in."""
    frame: int | None = None
    """A frame of the target, by its number in presentation order."""

    def __bool__(self) -> bool:
        return self.pictures or self.frame is not None


@dataclass(frozen=True, slots=True)
class Identity:
    """A person in the target, and the face to put on that one alone."""

    looks: Sequence[bytes | int]
    """Encoded pictures of the person, whose largest face counts; or numbers of faces of the target's
    reference frame, from left to right, counted from 1."""
    sources: Sequence[bytes]
    """Encoded pictures of the face that is put in."""


@dataclass(slots=True)
class Work:
    """Frames of one stream to run, in order. `last` says that no frame of the stream follows, so
    whatever the engine still holds back must come out."""

    state: Any
    frames: Sequence[Frame]
    last: bool = False


class Engine(ABC):
    """Turns frames into patches. One instance a process; `swap` is called from one thread."""

    name: ClassVar[str]
    stateful: ClassVar[bool]
    """Whether frames of a stream must come in order to one worker to get the best picture."""
    context_frames: ClassVar[int]
    """How many frames before a segment the engine's state needs, if a job says no more about it."""

    @property
    @abstractmethod
    def model_id(self) -> str:
        """Models and version that make the patches, for traceability."""

    @abstractmethod
    def warm(self) -> None:
        """Load models and compile kernels; afterwards `swap` runs at full speed."""

    def wants(self, options: Mapping[str, Any]) -> Wants:
        """What `prepare` has to be given for a job of these options. Raises UsageError for wrong ones."""
        return Wants()

    def licences(self, options: Mapping[str, Any]) -> Mapping[str, Terms]:
        """Of each model that a job of these options needs and that is not ours to give. Raises UsageError
        for wrong ones."""
        return {}

    @abstractmethod
    def prepare(
        self,
        pictures: Sequence[bytes],
        face: int | None = None,
        options: Mapping[str, Any] | None = None,
        frame: npt.NDArray[np.uint8] | None = None,
    ) -> SourceFace:
        """Make one face of one or more encoded pictures of the same person.

        Of each picture the largest face is taken, or the `face`-th from the left, counted from 1.
        `options` are those of the job, `frame` (height, width, 3) B G R upright is the frame of the target
        that `wants` asked for. Raises NoFaceError, naming the picture by its number and how many faces it
        shows, InputError for bytes that are no picture, or too large a one, and UsageError for wrong options.
        """

    def prepare_map(
        self,
        people: Sequence[Identity],
        face: int | None,
        options: Mapping[str, Any],
        frame_of: Callable[[int], npt.NDArray[np.uint8]],
    ) -> SourceFace:
        """Make one source face of several people's: each of them in the target gets a face of its own.

        `face`, `options`: as in `prepare`. `frame_of`: a frame of the target by its number, (height, width,
        3) B G R upright; called where a person is named by a number. Raises as `prepare` does, with pictures
        numbered through: of each person the looks, then the sources; UsageError if the engine cannot do it.
        """
        raise UsageError(f"engine {self.name} puts one face on all faces (-s); --map is for engine onnx")

    def context(self, options: Mapping[str, Any], *, mapped: bool) -> int:
        """How many frames before a segment the state of a job needs; `mapped`: its face was made by
        `prepare_map`. Raises UsageError for wrong options."""
        return self.context_frames

    @abstractmethod
    def open(self, face: SourceFace, options: Mapping[str, Any]) -> Any:
        """State of a new stream. Raises UsageError for an unknown option."""

    @abstractmethod
    def swap(self, work: Sequence[Work]) -> list[list[FrameSwap]]:
        """Run frames of several streams at once.

        Returns for each work the frames decided by now, in order and each exactly once; an engine
        that looks ahead holds the newest ones back until it knows, at most until `last`.
        """
