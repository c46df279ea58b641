"""Carries out one order: scan and plan an input, or decode a run of its segments."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TypeVar

import structlog

from ingest.decode import InputDecoder
from ingest.open import open_input
from ingest.picks import pick
from ingest.plan import plan_orders, plan_segments
from ingest.recast import formats, lost, with_encoder
from ingest.replay import DECODED_AGAIN, gone, replay_plan
from ingest.scan import Scan, scan
from ingest.scenes import windows
from ingest.streams import Delivery, FrameRun, StreamSender
from runtime.memory import share
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


KEPT_INPUTS = 4
"""Inputs that a worker keeps open at most: their jobs' orders come in turn."""
_DECODER_FRAMES = 40
"""What a decoder holds at most, with what was made of its frames: 16 pictures to lean on, as many to be put
in order, a batch."""
_PLAN_FRAME_BYTES = 128
"""What a plan takes for each frame of its input."""


@dataclass(slots=True)
class _Pass:
    """A decoding on its way through an order; control may release the order in parts."""

    run: FrameRun
    warnings: Counter[str]
    segment: int
    """The one that comes next."""
    last: int


@dataclass(slots=True)
class _Input:
    """An open input, and where its decoding stands."""

    decoder: InputDecoder
    going: _Pass | None = None

    @property
    def size(self) -> int:
        """Bytes that it takes at most."""
        return _input_bytes(self.decoder.plan)

    def close(self) -> None:
        if self.going is not None:
            self.going.run.close()
        self.decoder.close()


class Worker:
    """Owned by one thread, as its outbox is. Keeps the inputs of the last decode orders open, since the next
    one is often of the same job; the next part of an order is decoded on from where the one before ended."""

    def __init__(self, settings: Settings, store: Store, outbox: Outbox) -> None:
        self._settings, self._store, self._outbox = settings, store, outbox
        self._room = share(settings, Role.INGEST).work
        self._inputs: OrderedDict[tuple[str, str], _Input] = OrderedDict()
        """By path and plan, the latest last."""
        self.gone_on = 0
        """Orders that were decoded on from where another ended."""
        self._scratch = open_scratch(settings.scratch_dir, "ingest")

    def close(self) -> None:
        for key in list(self._inputs):
            self._forget(key)
        shutil.rmtree(self._scratch, ignore_errors=True)

    def _forget(self, key: tuple[str, str]) -> None:
        if (known := self._inputs.pop(key, None)) is not None:
            known.close()

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
        spec = with_encoder(spec, plan.format)
        plan = plan.model_copy(update={"encoder": spec.encode.encoder})
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
        source = self._open(order)
        sender = StreamSender(self._settings, self._outbox, order, source.decoder.plan, alive, delivery)
        releases = sorted(order.releases, key=lambda release: release.segment)
        try:
            count = self.gone_on
            going = self._going(order, source, releases[0].segment, releases[-1].segment)
            before = Counter(going.warnings)
            for release in releases:
                sender.send(release, going.run, going.warnings)
                delivery.whole.add(release.segment)
                going.segment = release.segment + 1
        except BaseException:
            self._forget((order.spec.input, order.plan))  # the decoder may stand anywhere
            raise
        warnings = going.warnings - before
        _log.info(
            "order_decoded",
            job=order.job,
            epoch=order.epoch,
            segments=[release.segment for release in releases],
            missing=sender.missing,
            gone_on=self.gone_on > count,
            **warnings,
        )

    def _going(self, order: DecodeOrder, source: _Input, segment: int, to: int) -> _Pass:
        """A decoding that gives this segment next, and goes on to the end of the order that `to` is of."""
        going, plan = source.going, source.decoder.plan
        if going is not None and going.segment <= segment and to <= going.last:
            self.gone_on += 1
            return going
        if going is not None:
            going.run.close()
        last = next(indices[-1] for indices in plan.orders if to in indices)
        segments = plan.segments[segment : last + 1]
        moves = windows(plan) if order.spec.plan.split == "scenes" else {}
        first = _decode_from(segments[0], moves.get(segment))
        warnings: Counter[str] = Counter()
        frames = source.decoder.frames(first, segments[-1].first + segments[-1].frames, warnings)
        run = FrameRun(frames, max(s.context for s in segments), moves)
        source.going = _Pass(run, warnings, segment, last)
        return source.going

    def _open(self, order: DecodeOrder) -> _Input:
        key = order.spec.input, order.plan
        known = self._inputs.pop(key, None)
        if known is None:
            plan = self._read(order.plan, Plan)
            self._make_room(_input_bytes(plan))
            known = _Input(self._decoder(order, plan))
        self._inputs[key] = known
        return known

    def _make_room(self, size: int) -> None:
        """Close inputs, the one used longest ago first, until one of `size` bytes more fits."""
        while self._inputs and (
            len(self._inputs) >= KEPT_INPUTS
            or sum(known.size for known in self._inputs.values()) + size > self._room
        ):
            self._forget(next(iter(self._inputs)))

    def _decoder(self, order: DecodeOrder, plan: Plan) -> InputDecoder:
        nvdec = order.spec.plan.decoder == "nvdec"
        decoder = InputDecoder(order.spec.input, plan, nvdec=nvdec, limits=self._settings.input)
        if nvdec and not decoder.has_gpu:
            event = Warned(job=order.job, role=Role.INGEST, name="nvdec_unavailable")
            self._outbox.send(self._settings.topic_set.events, encode(event), key=order.job)
        return decoder

    def _read(self, name: str, kind: type[R]) -> R:
        record = decode(self._store.get(name)).record
        if not isinstance(record, kind):
            raise MalformedRecordError(f"object {name} holds a {record.KIND} record, not a {kind.KIND}")
        return record


def _input_bytes(plan: Plan) -> int:
    given = plan.source.format if plan.source is not None else plan.format
    return (
        max(given.frame_bytes, plan.format.frame_bytes) * _DECODER_FRAMES + len(plan.pts) * _PLAN_FRAME_BYTES
    )


def _decode_from(segment: Segment, window: range | None) -> int:
    """First frame that the first segment of an order needs; a cut shows against the frame before."""
    context = segment.first - segment.context
    return max(min(context, window.start - 1), 0) if window else context


def build_plan(found: Scan, spec: JobSpec, sides: str, most: int = 10_000_000) -> Plan:
    """The plan of a scanned input; `sides` names the object with its other tracks, `most` is the limit of
    frames. Raises InputError where trimming leaves none, or the result cannot hold such a picture."""
    picks = pick(found.timeline, found.time_base, spec.plan, most)
    spec = with_encoder(spec, found.format, found.mirrored)
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
        encoder=spec.encode.encoder,
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
        warnings=dict(found.warnings) | lost(given, video, len(timeline.pts)),
    )
