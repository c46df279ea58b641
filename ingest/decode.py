"""Frames of a run of segments, each exactly once, whatever the input's index is worth.

"Seek to a key frame and drop what lies outside" loses whole groups of pictures where there is no index,
so the decoded pts are compared with the plan. Where the first frames are missing, the decoder starts
again further back: 1, 2, 4, 8, 16 seconds, then from the beginning of the input.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice
from types import TracebackType
from typing import Self

import av

from ingest.probe import open_input, video_stream
from ingest.scan import decoded_frames
from ingest.travel import Traveller
from schemas.plan import Plan

STEPS_BACK = (0, 1, 2, 4, 8, 16)
"""Seconds before the frame wanted at which decoding starts, one after the other; then the beginning."""


@dataclass(frozen=True, slots=True)
class DecodedFrame:
    """A frame in the travelling format, and its number in the plan."""

    ordinal: int
    frame: av.VideoFrame
    corrupt: bool


class InputDecoder:
    """An open input and its decoder, used for one order after the other of the same job."""

    def __init__(self, path: str, plan: Plan) -> None:
        self.path, self.plan = path, plan
        self._opened = open_input(path)
        self._container = self._opened.__enter__()
        self._stream = video_stream(self._container)
        self._stream.thread_type = "AUTO"
        for other in self._container.streams:
            if other.index != self._stream.index:
                other.discard = av.stream.Discard.all
        self._keys = sorted(plan.keys)

    def close(self) -> None:
        self._opened.__exit__(None, None, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def frames(self, first: int, last: int, warnings: Counter[str]) -> Iterator[DecodedFrame]:
        """Frames [first, last) of the plan in order. What differs from the plan is counted in `warnings`.

        Raises InputError where the input cannot be opened again.
        """
        traveller = Traveller(self.plan.format)
        run = self._by_pts if self.plan.seekable else self._by_count
        try:
            for ordinal, frame in run(first, last, warnings):
                yield DecodedFrame(ordinal, traveller.normalise(frame), frame.is_corrupt)
        finally:
            warnings.update(traveller.warnings)

    def _by_count(self, first: int, last: int, warnings: Counter[str]) -> Iterator[tuple[int, av.VideoFrame]]:
        """Everything from the beginning: the plan was made by decoding, so numbers agree."""
        self._restart()
        count = first
        for ordinal, frame in enumerate(islice(self._decoded(warnings), last)):
            if ordinal >= first:
                yield ordinal, frame
                count = ordinal + 1
        _count(warnings, "frames_missing", last - count)

    def _by_pts(self, first: int, last: int, warnings: Counter[str]) -> Iterator[tuple[int, av.VideoFrame]]:
        wanted = first
        for back in (*STEPS_BACK, None):
            if back is None:
                self._restart()
            elif not self._seek(wanted, back):
                continue
            errors: Counter[str] = Counter()
            attempt = _Attempt(self.plan.pts, wanted, last, patient=back is not None)
            for ordinal, frame in attempt.match(self._decoded(errors), errors):
                yield ordinal, frame
            wanted = attempt.wanted
            if attempt.settled:
                warnings.update(errors)
                break
            warnings["steps_back"] += 1
        _count(warnings, "frames_missing", attempt.missing)
        _count(warnings, "frames_unplanned", attempt.unplanned)

    def _seek(self, ordinal: int, back: int) -> bool:
        """Go to the key frame at or before a frame, or `back` seconds before that; whether it worked."""
        pts = self.plan.pts
        index = bisect_right(self._keys, ordinal) - 1
        tick = pts[self._keys[index]] if index >= 0 else pts[ordinal]
        tick -= int(back / Fraction(*self.plan.time_base))
        try:
            self._container.seek(tick, stream=self._stream)
        except av.error.FFmpegError:
            return False
        return True

    def _restart(self) -> None:
        """From the very beginning: opened anew, since not every input can be rewound."""
        self.close()
        fresh = InputDecoder(self.path, self.plan)
        self._opened, self._container, self._stream = fresh._opened, fresh._container, fresh._stream

    def _decoded(self, errors: Counter[str]) -> Iterator[av.VideoFrame]:
        return decoded_frames(self._container, self._stream, errors)


class _Attempt:
    """Compares what one start of the decoder gives with what the plan wants.

    A patient attempt gives up at the first gap, so that the next one can start further back; unless
    the decoder reported damage after it had begun to agree, since that is then the reason of the gap.
    """

    def __init__(self, pts: list[int], wanted: int, last: int, *, patient: bool) -> None:
        self._pts, self._last, self._patient = pts, last, patient
        self.wanted = wanted
        self.missing = 0
        self.unplanned = 0
        self._agreed = False

    @property
    def settled(self) -> bool:
        """Whether nothing is left to look for."""
        return self.wanted >= self._last

    def match(
        self, frames: Iterator[av.VideoFrame], errors: Counter[str]
    ) -> Iterator[tuple[int, av.VideoFrame]]:
        before = 0
        for frame in frames:
            if frame.pts is None or frame.pts < self._pts[self.wanted]:
                self.unplanned += self._agreed
                continue
            ordinal = bisect_right(self._pts, frame.pts) - 1
            if not self._reach(min(ordinal, self._last), damaged=errors.total() > before):
                return
            if self.settled:
                return
            if self._pts[ordinal] != frame.pts:
                self.unplanned += 1
                continue
            if not self._agreed:
                before = errors.total()
            self._agreed = True
            self.wanted = ordinal + 1
            yield ordinal, frame
            if self.settled:
                return
        self._reach(self._last, damaged=errors.total() > before)

    def _reach(self, ordinal: int, *, damaged: bool) -> bool:
        """Pass over the frames wanted before `ordinal`, if that is allowed."""
        if ordinal > self.wanted:
            if self._patient and not (self._agreed and damaged):
                return False
            self.missing += ordinal - self.wanted
            self.wanted = ordinal
        return True


def _count(warnings: Counter[str], name: str, amount: int) -> None:
    if amount > 0:
        warnings[name] += amount
