"""Frames of a run of segments, each exactly once, whatever the input's index is worth.

"Seek to a key frame and drop what lies outside" loses whole groups of pictures where there is no index,
so the decoded pts are compared with the plan. Where the first frames are missing, the decoder starts
again further back: 1, 2, 4, 8, 16 seconds, then from the beginning of the input.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice
from types import TracebackType
from typing import Self, cast

import av
from av.codec.hwaccel import HWAccel
from av.container import InputContainer
from av.video.stream import VideoStream

from ingest.open import open_input
from ingest.packets import decoded_frames, use_one_thread
from ingest.probe import video_stream
from ingest.recast import Recast
from ingest.travel import Traveller
from runtime.settings import InputSettings
from schemas.errors import InputError
from schemas.plan import Plan, Source

STEPS_BACK = (0, 1, 2, 4, 8, 16)
"""Seconds before the frame wanted at which decoding starts, one after the other; then the beginning."""

MOST_LATE = 8
"""Frames among which one that is missing is looked for."""

_Opened = tuple[ExitStack, InputContainer, VideoStream]


@dataclass(frozen=True, slots=True)
class DecodedFrame:
    """A frame in the travelling format, and its number in the plan. One picture may be several frames."""

    ordinal: int
    frame: av.VideoFrame
    corrupt: bool


class InputDecoder:
    """An open input and its decoder, used for one order after the other of the same job."""

    def __init__(
        self, path: str, plan: Plan, *, nvdec: bool = False, limits: InputSettings | None = None
    ) -> None:
        """With `nvdec` on the GPU, if that can be had (`has_gpu` tells). Raises InputError."""
        self.path, self.plan, self._limits = path, plan, limits or InputSettings()
        self._hwaccel, opened = (
            _open_nvdec(path, self._limits) if nvdec else (None, _open(path, self._limits, None))
        )
        self._opened, self._container, self._stream = opened
        self._source = plan.source or _as_it_travels(plan)
        self._tick = Fraction(*self._source.time_base)
        self._keys = sorted(self._source.keys)
        self._second_key = self._keys[1] if len(self._keys) > 1 else len(self._source.pts)
        self._fresh = True
        self.steps_back = 0
        """How often decoding had to start again further back."""

    @property
    def has_gpu(self) -> bool:
        """Whether the GPU could be opened. FFmpeg decides at the first frame whether it takes the codec."""
        return self._hwaccel is not None

    def close(self) -> None:
        self._opened.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def frames(self, first: int, last: int, warnings: Counter[str]) -> Iterator[DecodedFrame]:
        """Frames [first, last) of the plan in order; those that cannot be had are passed over.

        What else differs from the plan is counted in `warnings`. Raises InputError where the input cannot be
        opened again.
        """
        source, picks = self._source, self._source.picks
        traveller = Traveller(source.format, warnings)
        recast = Recast(source.format, self.plan.format, source.mirrored)
        run = self._by_pts if self.plan.seekable else self._by_count
        for number, frame in run(picks[first], picks[last - 1] + 1, warnings):
            shown = range(bisect_left(picks, number, first, last), bisect_right(picks, number, first, last))
            if not shown:
                continue
            picture = recast.apply(traveller.normalise(frame))
            for ordinal in shown:
                yield DecodedFrame(ordinal, picture, frame.is_corrupt)

    def _by_count(self, first: int, last: int, warnings: Counter[str]) -> Iterator[tuple[int, av.VideoFrame]]:
        """Everything from the beginning: the plan was made by decoding, so numbers agree."""
        self._restart()
        with closing(self._decoded(warnings)) as decoded:
            for ordinal, frame in enumerate(islice(decoded, last)):
                if ordinal >= first:
                    yield ordinal, frame

    def _by_pts(self, first: int, last: int, warnings: Counter[str]) -> Iterator[tuple[int, av.VideoFrame]]:
        wanted = first
        steps = STEPS_BACK if wanted >= self._second_key else ()
        for back in (*steps, None):
            if back is None:
                self._restart()
            elif not self._seek(wanted, back):
                continue
            attempt = _Attempt(self._source.pts, wanted, last, patient=back is not None)
            with closing(self._decoded(attempt.errors)) as decoded:
                yield from attempt.match(decoded)
            wanted = attempt.wanted
            if attempt.settled():
                break
            self.steps_back += 1
        warnings.update(attempt.errors)
        if attempt.unplanned:
            warnings["frames_unplanned"] += attempt.unplanned

    def _seek(self, ordinal: int, back: int) -> bool:
        """Go to the key frame at or before a frame, or `back` seconds before that; whether it worked."""
        pts = self._source.pts
        index = bisect_right(self._keys, ordinal) - 1
        tick = pts[self._keys[index]] if index >= 0 else pts[ordinal]
        tick -= int(back / self._tick)
        try:
            self._container.seek(tick, stream=self._stream)
        except av.error.FFmpegError:
            return False
        return True

    def _restart(self) -> None:
        """From the very beginning: opened anew, since not every input can be rewound."""
        if not self._fresh:
            self.close()
            self._opened, self._container, self._stream = _open(self.path, self._limits, self._hwaccel)

    def _decoded(self, errors: Counter[str]) -> Generator[av.VideoFrame]:
        self._fresh = False
        return decoded_frames(self._container, self._stream, errors)


def _as_it_travels(plan: Plan) -> Source:
    return Source(
        format=plan.format,
        time_base=plan.time_base,
        pts=plan.pts,
        keys=plan.keys,
        picks=list(range(len(plan.pts))),
    )


def _open_nvdec(path: str, limits: InputSettings) -> tuple[HWAccel | None, _Opened]:
    """On NVDEC by way of FFmpeg's `cuda` device; on the CPU where there is none.

    The GPU's part has never run yet: the machines this was written on had none.
    """
    hwaccel = HWAccel("cuda", allow_software_fallback=True)
    try:
        return hwaccel, _open(path, limits, hwaccel)
    except InputError:
        return None, _open(path, limits, None)


def probe_nvdec() -> str | None:
    """Why NVDEC cannot be used here; None if its device opens."""
    try:
        HWAccel("cuda", allow_software_fallback=False).create(av.Codec("h264", "r"))
    except (av.FFmpegError, NotImplementedError) as error:
        return f"no CUDA device opens: {error}"
    return None


def _open(path: str, limits: InputSettings, hwaccel: HWAccel | None) -> _Opened:
    stack = ExitStack()
    with stack:
        container = stack.enter_context(open_input(path, limits, hwaccel))
        stream = video_stream(container)
        use_one_thread(stream)
        for other in container.streams:
            if other.index != stream.index:
                other.discard = av.stream.Discard.all
        return stack.pop_all(), container, stream


def _pts(frame: av.VideoFrame) -> int:
    return cast(int, frame.pts)


class _Attempt:
    """Compares what one start of the decoder gives with what the plan wants.

    A patient attempt gives up at the first gap, so that the next one can start further back; unless
    the decoder reported damage after it had begun to agree, since that is then the reason of the gap.
    """

    def __init__(self, pts: list[int], wanted: int, last: int, *, patient: bool) -> None:
        self._pts, self._last, self._patient = pts, last, patient
        self.wanted = wanted
        self.unplanned = 0
        self.errors: Counter[str] = Counter()
        """Counted by the decoder while this attempt runs."""
        self._clean = not patient  # else frames count from the first key frame on: those before lean on
        # pictures that the decoder has not seen, and it does not always say so
        self._agreed = False
        self._errors_before = 0

    def settled(self) -> bool:
        """Whether nothing is left to look for."""
        return self.wanted >= self._last

    def match(self, frames: Iterator[av.VideoFrame]) -> Iterator[tuple[int, av.VideoFrame]]:
        """(ordinal, frame) of the frames wanted, as long as they come without a gap."""
        held: list[av.VideoFrame] = []
        """Frames after a gap, sorted: what is missing may come late, where the decoder was led astray."""
        while (frame := held.pop(0) if held else next(frames, None)) is not None:
            self._clean = self._clean or frame.key_frame
            if not self._clean:
                continue
            if frame.pts is None or frame.pts < self._pts[self.wanted]:
                self.unplanned += self._agreed
                continue
            if frame.pts > self._pts[self.wanted]:
                more = islice(frames, MOST_LATE - len(held))
                held = sorted([frame, *held, *(f for f in more if f.pts is not None)], key=_pts)
                frame = held.pop(0)
            if not (yield from self._take(frame)):
                return
        self._pass_over(self._last)

    def _take(self, frame: av.VideoFrame) -> Generator[tuple[int, av.VideoFrame], None, bool]:
        """Give out a frame, none of which is missing before; whether to go on."""
        pts = _pts(frame)
        ordinal = bisect_right(self._pts, pts) - 1
        if not self._pass_over(min(ordinal, self._last)) or self.settled():
            return False
        if self._pts[ordinal] != pts:
            self.unplanned += 1
            return True
        if not self._agreed:
            self._errors_before = self.errors.total()
        self._agreed = True
        self.wanted = ordinal + 1
        yield ordinal, frame
        return not self.settled()

    def _pass_over(self, ordinal: int) -> bool:
        """Give up the frames wanted before `ordinal`; whether that was allowed."""
        damaged = self._agreed and self.errors.total() > self._errors_before
        if ordinal > self.wanted and self._patient and not damaged:
            return False
        self.wanted = max(self.wanted, ordinal)
        return True
