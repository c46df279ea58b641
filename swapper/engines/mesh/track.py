"""Which faces a frame shows, decided with a look ahead.

A face is followed from frame to frame by its landmarks. The detector runs at fixed frames of the
input (every 15th while a face is followed, else every 5th) and whenever a face is lost; a face it
finds is followed back through the frames since, which are held until then: so the first frame
that shows a face is known, wherever it lies between two detections. A new face counts once three
frames in a row show it. At most 15 frames are held for the detector, and two more for a new face.
A face that is followed keeps its turn; where no upright one is found, the frame is searched upside
down too.

What is decided depends on the frames and their numbers in the input alone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import count
from typing import Protocol

from swapper.engines.base import Frame
from swapper.engines.mesh.landmarks import Landmarks, Square

Looker = Callable[[Frame, Square], tuple[Landmarks, float]]
"""Landmarks of the face in a square, and the belief that there is one."""

EVERY_FOLLOWING = 15
EVERY_SEARCHING = 5
EVERY_THOROUGHLY = 60
"""While faces are followed; else, and when one is lost, every search is thorough."""
_SURE = 0.9
"""Belief needed of a new face."""
_LOST = 0.5
"""Belief under which a face that is followed is lost (MediaPipe's value)."""
_CERTAIN = 0.995
"""Belief in a new face that is the right way up; seen upside down a face gives up to 0.98."""
_LOOKS = 5
"""Looks at most, after the first, at a newly found face."""
_CONFIRMED = 3
"""Frames in a row that must show a new face."""


class Finder(Protocol):
    """Squares around all faces of a frame, the largest first; `thorough`: also those hard to see;
    `upside_down`: those that stand on their heads instead."""

    def __call__(self, frame: Frame, *, thorough: bool, upside_down: bool = False) -> list[Square]: ...


@dataclass(slots=True)
class Seen:
    """A frame and the faces in it: landmarks by the number of the face in its stream."""

    frame: Frame
    index: int
    faces: dict[int, Landmarks] = field(default_factory=dict)

    def shows(self, square: Square) -> bool:
        return any(square.same_face(Square.of_landmarks(face)) for face in self.faces.values())


@dataclass(slots=True)
class _Track:
    number: int
    square: Square


@dataclass(slots=True)
class _Candidate:
    """A face not believed yet: its landmarks by index of the frame, all in a row."""

    square: Square
    hits: dict[int, Landmarks]


class Tracker:
    """The faces of one stream. Frames go in in order and come out in order, each once."""

    def __init__(self, find: Finder, look: Looker, max_faces: int) -> None:
        self._find, self._look, self._max_faces = find, look, max_faces
        self._indices, self._numbers = count(), count()
        self._held: deque[Seen] = deque()
        self._tracks: list[_Track] = []
        self._candidates: list[_Candidate] = []
        self._searched = -1
        """Index of the last frame that the detector saw."""

    def push(self, frame: Frame) -> list[Seen]:
        """Take the next frame; returns the frames decided by it."""
        seen = Seen(frame, next(self._indices))
        self._held.append(seen)
        lost = self._follow(seen)
        self._confirm(seen)
        if lost or self._due(frame):
            self._search(seen, lost)
        return self._release()

    def finish(self) -> list[Seen]:
        """No frame follows: decide the rest with what there is."""
        if self._held and self._searched < self._held[-1].index and self._room():
            self._search(self._held[-1], [])
        for candidate in self._candidates:
            self._accept(candidate)
        rest = list(self._held)
        self._held.clear()
        self._tracks.clear()
        self._candidates.clear()
        return rest

    def _room(self) -> int:
        return self._max_faces - len(self._tracks) - len(self._candidates)

    def _due(self, frame: Frame) -> bool:
        following = self._tracks or self._candidates
        every = EVERY_FOLLOWING if following else EVERY_SEARCHING
        return self._room() > 0 and frame.ordinal % every == 0

    def _follow(self, seen: Seen) -> list[_Track]:
        """Move the tracks on to a frame; returns those that are lost there."""
        lost = []
        for track in self._tracks:
            marks, belief = self._look(seen.frame, track.square)
            square = Square.of_landmarks(marks)
            if belief < _LOST:
                lost.append(track)
            elif not seen.shows(square):  # else two tracks ran onto one face: the older stays
                seen.faces[track.number], track.square = marks, square
        self._tracks = [track for track in self._tracks if track.number in seen.faces]
        return lost

    def _confirm(self, seen: Seen) -> None:
        """Look for the candidates in the next frame; one that is missing was no face."""
        waiting, self._candidates = self._candidates, []
        for candidate in waiting:
            marks, belief = self._look(seen.frame, candidate.square)
            square = Square.of_landmarks(marks)
            if belief > _SURE and not seen.shows(square):
                candidate.hits[seen.index], candidate.square = marks, square
                self._judge(candidate)

    def _search(self, seen: Seen, lost: list[_Track]) -> None:
        """Run the detector: lost tracks are taken up again, other faces become candidates."""
        self._searched = seen.index
        following = self._tracks or self._candidates
        thorough = bool(lost) or not following or seen.frame.ordinal % EVERY_THOROUGHLY == 0
        self._take(seen, lost, self._find(seen.frame, thorough=thorough))
        if lost or not (self._tracks or self._candidates):
            self._take(seen, lost, self._find(seen.frame, thorough=True, upside_down=True))
        self._tracks.sort(key=lambda track: track.number)

    def _take(self, seen: Seen, lost: list[_Track], found: list[Square]) -> None:
        for square in found:
            if self._room() <= 0:
                break
            if seen.shows(square) or self._waits_for(square):
                continue
            marks, belief = self._settle(seen.frame, square)
            square = Square.of_landmarks(marks)
            if seen.shows(square) or self._waits_for(square):
                continue
            track = next((t for t in lost if t.square.same_face(square)), None)
            if track and belief >= _LOST:
                lost.remove(track)
                seen.faces[track.number], track.square = marks, square
                self._tracks.append(track)
            elif belief > _SURE:
                self._judge(_Candidate(square, self._back(seen, marks)))

    def _settle(self, frame: Frame, square: Square) -> tuple[Landmarks, float]:
        """Landmarks of a newly found face, whichever way up it is."""
        marks, belief = self._settle_at(frame, square)
        if belief < _CERTAIN:
            turned, more = self._settle_at(frame, square.upside_down())
            if more > belief:
                return turned, more
        return marks, belief

    def _settle_at(self, frame: Frame, square: Square) -> tuple[Landmarks, float]:
        """The detector's square is rough, and one that cuts off a chin hides how long the face is: so
        look again from where the last look saw it."""
        marks, belief = self._look(frame, square)
        for _ in range(_LOOKS):
            square = Square.of_landmarks(marks)
            marks, belief = self._look(frame, square)
            if belief < _LOST or Square.of_landmarks(marks) == square:
                break
        return marks, belief

    def _waits_for(self, square: Square) -> bool:
        return any(candidate.square.same_face(square) for candidate in self._candidates)

    def _back(self, seen: Seen, marks: Landmarks) -> dict[int, Landmarks]:
        """Follow a new face back through the frames held, as far as it is sure."""
        hits = {seen.index: marks}
        for earlier in reversed(self._held):
            if earlier.index >= seen.index:
                continue
            marks, belief = self._look(earlier.frame, Square.of_landmarks(marks))
            if belief <= _SURE or earlier.shows(Square.of_landmarks(marks)):
                break
            hits[earlier.index] = marks
        return hits

    def _judge(self, candidate: _Candidate) -> None:
        if len(candidate.hits) >= _CONFIRMED:
            self._accept(candidate)
        else:
            self._candidates.append(candidate)

    def _accept(self, candidate: _Candidate) -> None:
        number = next(self._numbers)
        for seen in self._held:
            if seen.index in candidate.hits:
                seen.faces[number] = candidate.hits[seen.index]
        self._tracks.append(_Track(number, candidate.square))

    def _release(self) -> list[Seen]:
        """Frames to which no face can be added any more."""
        newest = self._held[-1].index
        full = len(self._tracks) >= self._max_faces
        until = newest if full else self._searched
        first_hits: Iterable[int] = (min(c.hits) for c in self._candidates)
        until = min([until, *(first - 1 for first in first_hits)])
        released = []
        while self._held and self._held[0].index <= until:
            released.append(self._held.popleft())
        return released
