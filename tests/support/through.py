"""A file through scan, plan, decoder, encoder and join, as the services do it, without Kafka and swap."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from assembler import holds
from assembler.animate import encode_pictures
from assembler.encode import SegmentEncoder
from assembler.encoders import Target, cap_of
from assembler.mux import Part, mux
from control.admission import make_spec
from ingest.decode import InputDecoder
from ingest.scan import scan
from ingest.worker import build_plan
from runtime.payload import frame_planes
from runtime.sides import SidesReader
from schemas.checkpoint import Checkpoint
from schemas.containers import CONTAINERS, suffix_of
from schemas.job import JobSpec
from schemas.plan import Plan, Segment


@dataclass(frozen=True, slots=True)
class Through:
    """What was planned, and the warnings of all stages."""

    plan: Plan
    warnings: dict[str, int]


def run_through(source: Path, output: Path, folder: Path, **fields: Any) -> Through:
    """Make `output` of `source`; `fields` are those of a job spec. Segments of a second, kept in `folder`."""
    plan_fields = {"segment_seconds": 1.0} | fields.pop("plan", {})
    encode = {"encoder": CONTAINERS[suffix_of(str(output))].encoders[0]} | fields.pop("encode", {})
    named = {"job": "j", "input": str(source), "output": str(output)}
    spec = make_spec(**named, plan=plan_fields, encode=encode, swap={"engine": "none"}, **fields)
    with (folder / "sides").open("wb") as file:
        found = scan(str(source), file)
    plan = build_plan(found, spec, "sides" if found.sides.tracks or found.sides.attachments else "")
    spec = spec.model_copy(update={"encode": spec.encode.by(plan.encoder)})
    warnings = Counter(plan.warnings)
    parts = []
    with InputDecoder(str(source), plan) as decoder:
        for segment in plan.segments:
            parts.append(_segment(decoder, plan, segment, spec, folder / f"part-{segment.index}", warnings))
    if spec.container not in holds.CONTAINERS:
        result = encode_pictures(output, spec, plan, parts)
    elif plan.sides:
        with (folder / "sides").open("rb") as file, SidesReader(file) as sides:
            result = mux(output, spec.container, plan, parts, sides, spec.audio)
    else:
        result = mux(output, spec.container, plan, parts, None, spec.audio)
    warnings.update(result.warnings)
    return Through(plan, dict(+warnings))


def _segment(
    decoder: InputDecoder, plan: Plan, segment: Segment, spec: JobSpec, path: Path, warnings: Counter[str]
) -> Part:
    target = Target(spec.container, cap_of(spec.encode, plan.bitrate), Fraction(spec.plan.segment_seconds))
    with SegmentEncoder(path, plan.format, plan.time_base, plan.rate, spec.encode, target) as encoder:
        for decoded in decoder.frames(segment.first, segment.first + segment.frames, warnings):
            picture = encoder.picture()
            planes = frame_planes(decoded.frame, plan.format)
            for out, samples in zip(picture.planes, planes, strict=True):
                np.copyto(out, samples)
            encoder.encode(picture, plan.pts[decoded.ordinal])
        done = encoder.finish(segment.end)
    warnings.update(done.warnings)
    checkpoint = Checkpoint(
        job="j", stream=f"j/{segment.index}", segment=segment.index, object="", time_base=plan.time_base,
        pts=done.pts, end=segment.end, reorder=done.reorder, bytes=done.bytes, encoder=done.encoder,
    )  # fmt: skip
    return Part(checkpoint, path)
