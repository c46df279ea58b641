"""Carries out one order: scan and plan an input, or decode a run of its segments."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import TypeVar

import structlog

from ingest.decode import InputDecoder
from ingest.open import open_input
from ingest.picks import pick
from ingest.plan import plan_orders, plan_segments
from ingest.recast import coarsened, formats
from ingest.replay import DECODED_AGAIN, gone, replay_plan
from ingest.scan import Scan, scan
from ingest.scenes import windows
from ingest.streams import Delivery, FrameRun, StreamSender
from runtime.outbox import Outbox
from runtime.payload import PayloadEncoder, check_record_size
from runtime.ranges import Retained
from runtime.scratch import open_scratch
from runtime.settings import Settings
from runtime.store import Store
from schemas.containers import CONTAINERS, check_picture
from schemas.errors import InputError, MalformedRecordError
from schemas.events import Planned, Role, Warned
from schemas.job import JobSpec
from schemas.objects import finish_object, plan_object, sides_object
from schemas.orders import DecodeOrder, FinishOrder, PlanOrder
from schemas.plan import Plan, Segment, Source
from schemas.record import Record, decode, encode

_log = structlog.get_logger("ingest")
R = TypeVar("R", bound=Record)


class Worker:
    """Owned by one thread, as its outbox is. Keeps the input of the last decode order open, since the
    next one is often of the same job."""

    def __init__(self, settings: Settings, store: Store, outbox: Outbox) -> None:
        self._settings, self._store, self._outbox = settings, store, outbox
        self._input: tuple[str, str, InputDecoder] | None = None
        self._scratch = open_scratch(settings.scratch_dir, "ingest")

    def close(self) -> None:
        self._forget_input()
        shutil.rmtree(self._scratch, ignore_errors=True)

    def _forget_input(self) -> None:
        if self._input is not None:
            self._input[2].close()
            self._input = None

    def plan(self, order: PlanOrder, alive: Callable[[], None]) -> None:
        """Scan the input, store sides and plan, tell control. Raises InputError, UsageError,
        RecordTooLargeError, StoreError."""
        plan = self._replay(order.spec) if order.spec.replay else self._scan(order.spec, alive)
        self._check(plan, order.spec)
        name = plan_object(order.job)
        self._store.put(name, encode(plan).tobytes())
        event = Planned(job=order.job, plan=name, frames=len(plan.pts), segments=len(plan.segments))
        self._outbox.send(self._settings.topic_set.events, encode(event), key=order.job)
        self._outbox.flush()

    def _scan(self, spec: JobSpec, alive: Callable[[], None]) -> Plan:
        with tempfile.TemporaryDirectory(prefix="sides-", dir=self._scratch) as folder:
            path = Path(folder) / "sides"
            with path.open("wb") as file:
                found = scan(spec.input, file, alive, self._settings.input)
            sides = ""
            if found.sides.tracks or found.sides.attachments:
                sides = sides_object(spec.job)
                self._store.put_file(path, sides)
        return build_plan(found, spec, sides, self._settings.input.frames)

    def _replay(self, spec: JobSpec) -> Plan:
        """Raises InputError if the job to replay has no frames left, or some that cannot be decoded again."""
        finish = self._read(finish_object(spec.replay), FinishOrder)
        old = self._read(finish.plan, Plan)
        sides = ""
        if old.sides:
            sides = sides_object(spec.job)
            self._store.copy(old.sides, sides)
        with Retained(self._settings.kafka, "ingest") as retained:
            plan = replay_plan(old, finish, spec, sides, retained)
        if plan.format.rotation and not CONTAINERS[spec.container].rotation:
            fit = ", ".join(f".{name}" for name, c in CONTAINERS.items() if c.rotation)
            raise InputError(
                f"the frames of job {spec.replay} lie turned by {plan.format.rotation} degrees, and "
                f".{spec.container} cannot say so: use {fit}"
            )
        check_picture(spec, plan.format, len(plan.pts))
        if plan.warnings.get(DECODED_AGAIN):
            self._check_input(spec, plan)
        return plan

    def _check_input(self, spec: JobSpec, plan: Plan) -> None:
        """What has to be decoded again is refused now, not half-way."""
        try:
            with open_input(spec.input, self._settings.input):
                pass
        except InputError as error:
            raise InputError(f"{gone(plan)} have left Kafka, and {error}") from error

    def _check(self, plan: Plan, spec: JobSpec) -> None:
        check_record_size(plan.format, self._settings.kafka.record_limit)
        PayloadEncoder(plan.format, spec.plan.payload, spec.plan.jpeg_quality)

    def decode(self, order: DecodeOrder, alive: Callable[[], None], delivery: Delivery) -> None:
        """Send the streams of an order; `delivery` tells when the brokers have all of it."""
        decoder = self._open(order)
        plan = decoder.plan
        sender = StreamSender(self._settings, self._outbox, order, plan, alive, delivery)
        releases = sorted(order.releases, key=lambda release: release.segment)
        segments = [plan.segments[release.segment] for release in releases]
        warnings: Counter[str] = Counter()
        moves = windows(plan) if order.spec.plan.split == "scenes" else {}
        first = _decode_from(segments[0], moves.get(segments[0].index))
        last = segments[-1].first + segments[-1].frames
        run = FrameRun(decoder.frames(first, last, warnings), max(s.context for s in segments), moves)
        try:
            for release in releases:
                sender.send(release, run, warnings)
                delivery.whole.add(release.segment)
        except BaseException:
            self._forget_input()  # the decoder may stand anywhere
            raise
        _log.info(
            "order_decoded",
            job=order.job,
            epoch=order.epoch,
            segments=[release.segment for release in releases],
            missing=sender.missing,
            **warnings,
        )

    def _open(self, order: DecodeOrder) -> InputDecoder:
        path = order.spec.input
        if self._input is not None and self._input[:2] == (path, order.plan):
            return self._input[2]
        self._forget_input()
        nvdec = order.spec.plan.decoder == "nvdec"
        decoder = InputDecoder(path, self._read(order.plan, Plan), nvdec=nvdec, limits=self._settings.input)
        if nvdec and not decoder.has_gpu:
            event = Warned(job=order.job, role=Role.INGEST, name="nvdec_unavailable")
            self._outbox.send(self._settings.topic_set.events, encode(event), key=order.job)
        self._input = (path, order.plan, decoder)
        return decoder

    def _read(self, name: str, kind: type[R]) -> R:
        record = decode(self._store.get(name)).record
        if not isinstance(record, kind):
            raise MalformedRecordError(f"object {name} holds a {record.KIND} record, not a {kind.KIND}")
        return record


def _decode_from(segment: Segment, window: range | None) -> int:
    """First frame that the first segment of an order needs; a cut shows against the frame before."""
    context = segment.first - segment.context
    return max(min(context, window.start - 1), 0) if window else context


def build_plan(found: Scan, spec: JobSpec, sides: str, most: int = 10_000_000) -> Plan:
    """The plan of a scanned input; `sides` names the object with its other tracks, `most` is the limit of
    frames. Raises InputError where trimming leaves none, or the result cannot hold such a picture."""
    picks = pick(found.timeline, found.time_base, spec.plan, most)
    given, video = formats(found.format, spec, found.mirrored)
    source = None
    if picks is not None or video != given or found.mirrored:
        source = Source(
            format=given,
            time_base=(found.time_base.numerator, found.time_base.denominator),
            pts=found.timeline.pts,
            keys=found.timeline.keys,
            picks=picks.numbers if picks else list(range(len(found.timeline.pts))),
            mirrored=found.mirrored,
        )
    timeline, base, origin = found.timeline, found.time_base, Fraction(0)
    if picks is not None:
        timeline, base, origin = picks.timeline, picks.base, picks.origin
    check_picture(spec, video, len(timeline.pts))
    segments = plan_segments(timeline, base, video, spec.plan)
    return Plan(
        job=spec.job,
        revision=spec.revision,
        format=video,
        time_base=(base.numerator, base.denominator),
        rate=spec.plan.fps or found.rate,
        bitrate=found.bitrate,
        origin=(origin.numerator, origin.denominator),
        span=picks.span if picks else (None, None),
        source=source,
        seekable=found.seekable,
        pts=timeline.pts,
        duration=timeline.duration,
        keys=timeline.keys,
        segments=segments,
        orders=plan_orders(segments, timeline, found.seekable),
        sides=sides,
        tracks=found.sides.tracks,
        metadata=found.metadata,
        picture=found.picture,
        chapters=found.chapters,
        warnings=dict(found.warnings) | coarsened(given, video, len(timeline.pts)),
    )
