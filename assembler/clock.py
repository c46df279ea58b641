"""When the packets of a side track happen in the result, and which of them belong to it."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from av.packet import Packet
from av.stream import Stream

from schemas.plan import Plan, SideTrack


@dataclass(frozen=True, slots=True)
class ResultClock:
    """Seconds of the result from ticks of a track; `start` and `end` bound it where the job was trimmed."""

    tick: Fraction
    shift: int
    origin: Fraction
    start: Fraction | None
    end: Fraction | None

    @classmethod
    def of(cls, plan: Plan, track: SideTrack) -> ResultClock:
        origin = Fraction(*plan.origin)
        first, last = plan.span
        return cls(
            Fraction(*track.time_base),
            track.shift,
            origin,
            None if first is None else Fraction(*first) - origin,
            None if last is None else Fraction(*last) - origin,
        )

    def at(self, tick: int) -> Fraction:
        """Seconds of the result at a stored tick."""
        return (tick - self.shift) * self.tick - self.origin

    def clip(self, start: Fraction, end: Fraction) -> tuple[Fraction, Fraction] | None:
        """What of [start, end) lies in the result; None if nothing does."""
        first = start if self.start is None else max(start, self.start)
        last = end if self.end is None else min(end, self.end)
        return (first, last) if first < last else None


def stamped(packet: Packet[Stream]) -> int | None:
    """The packet's pts; its dts where it has none."""
    return packet.pts if packet.pts is not None else packet.dts
