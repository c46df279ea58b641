"""The job spec: what one input becomes, and everything that decides the bytes of the result."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from schemas.containers import CONTAINERS, suffix_of
from schemas.events import Role
from schemas.frames import PayloadCodec, Rational
from schemas.record import Model, Record, register
from schemas.swaps import FailurePolicy

JobId = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,79}$")]


class Lane(StrEnum):
    """Separate topics and consumers, so that a backlog never delays a live feed."""

    LIVE = "live"
    BATCH = "batch"


AUTO = "auto"


class EncodeSpec(Model):
    """How the picture is encoded. Part of the job, never of the machine: the same spec gives the same
    bytes (with CPU encoders of one version on one class of CPU)."""

    encoder: str = "libx264"
    """One of `schemas.containers.ENCODERS`; `auto`: the first of the container that holds the input's pixels,
    chosen when it is planned."""
    quality: Annotated[int, Field(ge=0, le=63)] = 18
    """Constant rate factor of x264, x265, AV1 and VP9, constant QP of NVENC; 0 with libx264 is lossless. Not
    for ffv1."""
    bitrate: Annotated[int, Field(ge=0)] = 0
    """Bits a second that a segment shall not pass by more than a tenth; 0: constant quality alone."""
    like_source: bool = False
    """Cap each segment at the bit rate that the input's picture has on average."""
    preset: str = "medium"
    threads: Annotated[int, Field(ge=1, le=64)] = 4
    """x264's bytes change with the number of threads."""
    cpu_independent: bool = True
    """x264 without instructions whose rounding differs between CPU classes."""
    options: dict[str, str] = {}
    """More options of the encoder, as FFmpeg names them; they win."""

    def by(self, encoder: str) -> EncodeSpec:
        """With the encoder that was chosen, where the choice was left open."""
        return self.model_copy(update={"encoder": encoder}) if self.encoder == AUTO else self


class SwapSpec(Model):
    """What is put on the frames."""

    engine: str = "mesh"
    face: str = ""
    """Object name of the prepared source face; empty for engines without one."""
    sources: list[str] = []
    """The pictures it was made from, as given: for the record only."""
    consent: str = ""
    """Reference to the permission of the person shown."""
    accepted: dict[str, str] = {}
    """By model: its licence, which forbids commercial use or is not known and was accepted for this job."""
    options: dict[str, Any] = {}
    on_failure: FailurePolicy = FailurePolicy.FAIL


class PlanSpec(Model):
    """How the input is cut."""

    segment_seconds: Annotated[float, Field(gt=0, le=60)] = 4.0
    """Target length; a key frame within half of it is preferred as a border."""
    split: Literal["fixed", "scenes"] = "fixed"
    """Where no key frame offers a border: at the wished length, or at a scene cut up to half of it sooner."""
    context_frames: Annotated[int, Field(ge=0, le=250)] = 0
    """Frames before a segment that travel with it for the engine's state."""
    payload: PayloadCodec = PayloadCodec.RAW
    jpeg_quality: Annotated[int, Field(ge=1, le=100)] = 92
    decoder: Literal["cpu", "nvdec"] = "cpu"
    fps: Rational | None = None
    """Frame rate to resample to, by timestamps; frames that are left out are neither sent nor swapped."""
    scale: tuple[int, int] | None = None
    """(width, height) in which frames travel; 0 for one of them keeps the shape."""
    trim_start: Rational | None = None
    """Seconds of presentation time, from the input's first picture, before which all is left out."""
    trim_end: Rational | None = None
    upright: bool = False
    """Turn rotated pictures upright before they travel, for containers without a display matrix."""
    hdr: Literal["keep", "tonemap"] = "keep"
    """Keep PQ and HLG as they are, or map them to BT.709 in 8 bit before they travel."""


@register
class JobSpec(Record):
    """One input with one set of faces and options. A change raises `revision`."""

    KIND = "job"

    job: JobId
    revision: Annotated[int, Field(ge=1)] = 1
    lane: Lane = Lane.BATCH
    priority: int = 0
    input: str
    """Path or URL of the input, readable by every ingest worker."""
    output: str
    """Path of the result, writable by every assembler."""
    plan: PlanSpec = PlanSpec()
    swap: SwapSpec = SwapSpec()
    encode: EncodeSpec = EncodeSpec()
    audio: Literal["copy", "encode", "none"] = "copy"
    """Copy sound where the container can hold it, else convert; convert always; leave it out."""
    overwrite: bool = True
    replay: str = ""
    """Job whose frames are used again where Kafka still holds them."""

    @property
    def container(self) -> str:
        """Output container by the suffix of `output`."""
        return suffix_of(self.output)

    @model_validator(mode="after")
    def _check(self) -> Self:
        container = CONTAINERS.get(self.container)
        if container is None:
            raise ValueError(
                f"output {self.output!r} ends in none of {', '.join('.' + c for c in CONTAINERS)}"
            )
        if self.encode.encoder not in (*container.encoders, AUTO):
            homes = [f".{name}" for name, c in CONTAINERS.items() if self.encode.encoder in c.encoders]
            also = f"; {self.encode.encoder} goes into {', '.join(homes)}" if homes else ""
            raise ValueError(
                f"encoder {self.encode.encoder!r} does not go into .{self.container}, which takes "
                f"{', '.join(container.encoders)}{also}"
            )
        return self


class JobState(StrEnum):
    """queued → planning → running → finishing → done, or failed / cancelled from any of them."""

    QUEUED = "queued"
    PLANNING = "planning"
    RUNNING = "running"
    FINISHING = "finishing"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def ended(self) -> bool:
        return self in (JobState.DONE, JobState.FAILED, JobState.CANCELLED)


@register
class JobRecord(Record):
    """Topic `jobs`, compacted by job: the spec and where it stands."""

    KIND = "jobstate"

    spec: JobSpec
    state: JobState = JobState.QUEUED
    reason: str = ""
    """Why it failed, in one line."""
    plan: str = ""
    """Object name of its plan, once planned."""
    warnings: dict[str, int] = {}
    paused: bool = False
    """Nothing more of it is released until it is resumed."""
    cancelling: bool = False
    """The user wants no more of it, but its finish is under way: who carries that out has the last word."""
    failed_by: Role | None = None
    """Who could not do its part."""
    exit_code: int = 0
    """Of a failed job, as the command line ends with it."""
    ended_ns: int = 0
    """Wall-clock time at which it ended; 0 before that."""
    created_ns: int = 0
    """Wall-clock time of submission, for display."""


_STREAM = re.compile(r"^(?P<job>.+)/(?P<segment>\d+)$")


def stream_id(job: str, segment: int) -> str:
    """Name of the stream of a recorded segment; also its Kafka key."""
    return f"{job}/{segment}"


def split_stream(stream: str) -> tuple[str, int]:
    """(job, segment) of a stream of a recorded input. Raises ValueError for any other name."""
    match = _STREAM.match(stream)
    if match is None:
        raise ValueError(f"{stream!r} names no segment")
    return match["job"], int(match["segment"])
