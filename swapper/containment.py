"""What takes the process down is found and left out: the evidence lives in the metadata of offset commits.

A partition's commit carries a `Mark`. Entering a partition counts an attempt; progress clears it. From
CAREFUL_FROM attempts on, batches up to where the partition ended at that time are run one by one, each
named in the mark *before* it is run. A batch found named has taken a worker down:

    attempt  crash
    1        1      nobody is named
    2        2      named once
    3        3      named twice; perhaps together with batches that an engine looking ahead holds back
    4        4      named alone: each of those is run without its stream's state and named by itself
    5               dead: it is not run

A worker that leaves in order takes its attempt back, so only deaths count. Somebody else may have killed
the process: so it takes three deaths with the same batch in the engine, and by itself the third time.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import Any

Suspect = tuple[str, int, int]
"""(stream, epoch, seq) of a batch."""

CLEAN = "facestream-stream-start"
"""Commit metadata begins with it: every stream that is not finished starts at or after the offset."""
_UNCLEAN = "facestream-offset"
_MOST_BYTES = 4000
"""Brokers keep 4096 bytes of metadata."""

CAREFUL_FROM = 2
ALONE_AFTER = 2
"""Deaths of workers after which a batch that was named is run alone."""
DEATHS = 3
"""Deaths after which it is dead."""
DEAD_STREAM = 3
"""With so many dead batches, the rest of a stream is left out too: each costs three more deaths."""


class Verdict(Enum):
    RUN = auto()
    ALONE = auto()
    """Without the stream's state, so that nothing else can be the reason."""
    DEAD = auto()


@dataclass(frozen=True, slots=True)
class Mark:
    """The metadata of a partition's commit."""

    clean: bool = False
    attempts: int = 0
    """Assignments since there was progress, the present one included."""
    named: tuple[Suspect, ...] = ()
    """In the engine just now."""
    deaths: Mapping[Suspect, int] = field(default_factory=dict)
    """How often each was named when a worker died."""
    dead: tuple[Suspect, ...] = ()

    @classmethod
    def read(cls, text: str | None) -> Mark:
        """The mark of some metadata; an empty one for what is not ours, or damaged."""
        head, _, rest = (text or "").partition(" ")
        if head not in (CLEAN, _UNCLEAN):
            return cls()
        try:
            found = json.loads(rest or "{}")
            return cls(
                head == CLEAN,
                int(found.get("attempts", 0)),
                tuple(_suspect(s) for s in found.get("named", ())),
                {_suspect(s): int(s[3]) for s in found.get("deaths", ())},
                tuple(_suspect(s) for s in found.get("dead", ())),
            )
        except (ValueError, TypeError, IndexError, AttributeError):
            return cls(head == CLEAN)

    def text(self) -> str:
        """As metadata. What does not fit is left out, oldest first: those batches are tried again."""
        deaths = [(*suspect, n) for suspect, n in self.deaths.items()]
        dead, named = list(self.dead), list(self.named)
        head = CLEAN if self.clean else _UNCLEAN
        while True:
            found = {"attempts": self.attempts, "named": named, "deaths": deaths, "dead": dead}
            filled = {name: value for name, value in found.items() if value}
            text = f"{head} {json.dumps(filled, separators=(',', ':'))}" if filled else head
            if len(text) <= _MOST_BYTES:
                return text
            longest: list[Any] = max(deaths, dead, named, key=len)
            del longest[0]

    def entered(self) -> Mark:
        """The mark of the worker that comes next: one attempt more, and those named had a death."""
        deaths = dict(self.deaths)
        for suspect in self.named:
            deaths[suspect] = deaths.get(suspect, 0) + 1
        dead = self.dead
        if len(self.named) == 1 and deaths[self.named[0]] >= DEATHS:
            dead = (*dead, self.named[0])
            del deaths[self.named[0]]
        return Mark(self.clean, self.attempts + 1, (), deaths, dead)


class Containment:
    """The marks of the partitions that a worker reads. No I/O: `text` is what to commit."""

    def __init__(self) -> None:
        self._marks: dict[int, Mark] = {}
        self._until: dict[int, int] = {}

    def entered(self, partition: int) -> bool:
        return partition in self._marks

    def enter(self, partition: int, metadata: str | None, until: int) -> None:
        """A partition was taken over with this commit metadata. It ends at offset `until` now: what took a
        worker down lies before."""
        self._marks[partition] = Mark.read(metadata).entered()
        self._until[partition] = until

    def leave(self, partition: int, position: int | None) -> str:
        """The partition goes in order: the attempt does not count. Returns what to commit."""
        self.text(partition, position or 0)
        mark = self._marks.pop(partition, Mark())
        self._until.pop(partition, None)
        return replace(mark, attempts=max(mark.attempts - 1, 0), named=()).text()

    def text(self, partition: int, position: int) -> str:
        """What to commit with this position. Past everything that was there at first, all is forgiven."""
        mark = self._marks.get(partition, Mark())
        if position >= self._until.get(partition, 0):
            mark = Mark(clean=True, attempts=1, named=mark.named)
            self._marks[partition] = mark
        return mark.text()

    def is_clean(self, partition: int) -> bool:
        return self._marks[partition].clean

    def careful(self, partition: int, position: int | None) -> bool:
        """Whether batches are to be run one by one."""
        mark = self._marks.get(partition, Mark())
        return mark.attempts >= CAREFUL_FROM and (position or 0) < self._until.get(partition, 0)

    def verdict(self, partition: int, suspect: Suspect) -> Verdict:
        mark = self._marks[partition]
        same_stream = sum(dead[:2] == suspect[:2] for dead in mark.dead)
        if suspect in mark.dead or same_stream >= DEAD_STREAM:
            return Verdict.DEAD
        return Verdict.ALONE if mark.deaths.get(suspect, 0) >= ALONE_AFTER else Verdict.RUN

    def named(self, partition: int) -> bool:
        mark = self._marks.get(partition)
        return mark is not None and bool(mark.named)

    def name(self, partition: int, suspects: Iterable[Suspect]) -> None:
        """These are in the engine from now on. Who was, and is not any more, has passed."""
        mark, named = self._marks[partition], tuple(suspects)
        passed = set(mark.named) - set(named)
        deaths = {s: n for s, n in mark.deaths.items() if s not in passed or n >= ALONE_AFTER}
        self._marks[partition] = replace(mark, named=named, deaths=deaths)


def _suspect(parts: Any) -> Suspect:
    return str(parts[0]), int(parts[1]), int(parts[2])
