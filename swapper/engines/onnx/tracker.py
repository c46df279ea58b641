"""Faces followed from picture to picture, so that a person keeps the face that was put on.

Once a person is known on a track, the track stays that person's while its face is not too unlike: a looser
limit than the one a person is recognised by. It becomes another's only after that one was nearer for some
pictures in a row. A face that no track leads to is decided at once, by its likeness alone; so are all of them
after a cut.

What is decided depends on the pictures of the stream alone, in their order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from math import sqrt

import cv2
import numpy as np
import numpy.typing as npt

from swapper.engines.base import Plane
from swapper.engines.onnx.faces import Face
from swapper.engines.onnx.identities import Distances, assigned
from swapper.engines.onnx.options import TrackerOptions
from swapper.engines.onnx.recognise import distance

_REACH = 0.6
"""How far landmarks may move from one picture to the next, on average, in sides of the face."""
_REACH_LOST = 1.0
"""The same since a face that was lost was last seen."""
_CUT = 20.0
"""Mean step of a frame's luma, of 255, that is a cut. Areas are compared: motion in a shot counts less."""
_GLANCE = (32, 18)
"""Areas across and down."""

Glance = npt.NDArray[np.float32]
"""(18, 32): mean luma of parts of a frame, 0..255."""


@dataclass(frozen=True, slots=True)
class _Track:
    """A face as it was last seen, and who that is: the number of a person, or None."""

    face: Face
    who: int | None = None
    missed: int = 0
    """Pictures since."""
    doubted: int = 0
    """Pictures in a row in which the face was too unlike the person."""
    rival: int | None = None
    """Who else the face has been nearer to, and for how many pictures in a row."""
    won: int = 0


class Tracker:
    """The faces of one stream. Pictures go in in order."""

    def __init__(self, options: TrackerOptions, limit: float) -> None:
        """`limit`: below which distance a face is taken for a person's."""
        self._options, self._limit = options, limit
        self._loose = limit + options.margin
        self._tracks: list[_Track] = []
        self._glance: Glance | None = None

    def copy(self) -> Tracker:
        """One that goes on from here by itself."""
        return copy(self)  # nothing that it holds is ever changed in place

    def is_cut(self, luma: Plane, depth: int) -> bool:
        """Whether the next frame, by its luma of `depth` bits, begins another shot."""
        before, self._glance = self._glance, _glance(luma, depth)
        return before is not None and float(np.abs(self._glance - before).mean()) > _CUT

    def step(self, faces: Sequence[Face], distances: Distances, *, cut: bool = False) -> list[int | None]:
        """Who each face of the next picture is: the number of a person, each at most once, or None.

        `distances`: of each face to each person. `cut`: what was before has nothing to do with it.
        """
        if cut:
            self._tracks = []
        led = self._led(faces)
        taken = {id(track) for track in led if track is not None}
        lost = [
            replace(track, missed=track.missed + 1, rival=None, won=0)
            for track in self._tracks
            if id(track) not in taken and track.missed < self._options.keep_frames
        ]
        seen = [_Track(face) if track is None else track for face, track in zip(faces, led, strict=True)]
        who = self._kept(seen, distances)
        rivals = [self._rival(i, who, distances) for i in range(len(faces))]
        seen = [_contested(track, rival) for track, rival in zip(seen, rivals, strict=True)]
        who = self._changed(seen, who, distances)
        new = [i for i, track in enumerate(led) if track is None and who[i] is None]
        who = self._decided(new, who, distances)
        followed = [self._followed(*one) for one in zip(seen, faces, who, strict=True)]
        held = {one for one in who if one is not None}
        self._tracks = [*_without(followed, held, who), *_without(lost, held)]
        return who

    def _led(self, faces: Sequence[Face]) -> list[_Track | None]:
        """The track that leads to each face. Those just seen come first; then those that were lost, but not
        to a face at which somebody else's has just been."""
        led: list[_Track | None] = [None] * len(faces)
        live = [track for track in self._tracks if not track.missed]
        lost = [track for track in self._tracks if track.missed]
        nearest = [_nearest(face, live, _REACH) for face in faces]
        self._lead(led, faces, nearest)
        again = [
            None if led[i] else _nearest(face, _possible(lost, nearest[i]), _REACH_LOST)
            for i, face in enumerate(faces)
        ]
        self._lead(led, faces, again)
        return led

    def _lead(
        self, led: list[_Track | None], faces: Sequence[Face], nearest: Sequence[_Track | None]
    ) -> None:
        """Each track leads to the nearest face of those that lie nearest to it and look like it."""
        for track in {id(one): one for one in nearest if one is not None}.values():
            own = [
                i
                for i, one in enumerate(nearest)
                if one is track and distance(faces[i].identity, track.face.identity) < self._loose
            ]
            if own:
                led[min(own, key=lambda i: apart(faces[i], track.face))] = track

    def _kept(self, seen: Sequence[_Track], distances: Distances) -> list[int | None]:
        """Who stays who it was."""
        return [
            track.who if track.who is not None and row[track.who] < self._loose else None
            for track, row in zip(seen, distances, strict=True)
        ]

    def _rival(self, i: int, who: Sequence[int | None], distances: Distances) -> int | None:
        """Who else the face might be: whom it is nearest to, and nearer than the face which is that one."""
        row = distances[i]
        best = min(range(len(row)), key=row.__getitem__)
        if row[best] >= self._limit or who[i] == best:
            return None
        return best if best not in who or row[best] < distances[who.index(best)][best] else None

    def _changed(
        self, seen: Sequence[_Track], who: Sequence[int | None], distances: Distances
    ) -> list[int | None]:
        """With the rivals that have been nearer for long enough; the nearest, if there are several."""
        result = list(who)
        won = [i for i, track in enumerate(seen) if track.won >= self._options.change_frames]
        for i in sorted(won, key=lambda i: distances[i][_sure(seen[i].rival)]):
            rival = _sure(seen[i].rival)
            before = result.index(rival) if rival in result else None
            if before is None or before not in won:
                if before is not None:
                    result[before] = None
                result[i] = rival
        return result

    def _decided(
        self, new: Sequence[int], who: Sequence[int | None], distances: Distances
    ) -> list[int | None]:
        """With faces that no track led to, as anyone who is nobody's yet."""
        result = list(who)
        free = [[1.0 if person in who else one for person, one in enumerate(distances[i])] for i in new]
        for i, one in zip(new, assigned(free, self._limit), strict=True):
            result[i] = one
        return result

    def _followed(self, track: _Track, face: Face, who: int | None) -> _Track:
        """A track with its newest face. One that is in doubt remembers for a while who it was."""
        doubted = track.doubted + 1 if who is None and track.who is not None else 0
        remembered = track.who if who is None and doubted <= self._options.keep_frames else who
        changed = who is not None and who == track.rival
        return replace(
            track,
            face=face,
            who=remembered,
            missed=0,
            doubted=doubted,
            rival=None if changed else track.rival,
            won=0 if changed else track.won,
        )


def apart(one: Face, other: Face) -> float:
    """How far the landmarks of two faces lie apart on average, in sides of the larger face."""
    side = sqrt(max(one.hit.area, other.hit.area, 1.0))
    return float(np.linalg.norm(one.points - other.points, axis=1).mean()) / side


def _nearest(face: Face, tracks: Iterable[_Track], reach: float) -> _Track | None:
    near = [(apart(face, track.face), track) for track in tracks]
    gap, track = min(near, key=lambda one: one[0], default=(reach, None))
    return track if gap < reach else None


def _possible(lost: Iterable[_Track], live: _Track | None) -> list[_Track]:
    """Lost tracks that may lead to a face which lies nearest to one just seen: not those of other people."""
    return [track for track in lost if live is None or live.who in (None, track.who)]


def _contested(track: _Track, rival: int | None) -> _Track:
    won = track.won + 1 if rival is not None and rival == track.rival else int(rival is not None)
    return replace(track, rival=rival, won=won)


def _without(
    tracks: Sequence[_Track], held: set[int], who: Sequence[int | None] | None = None
) -> list[_Track]:
    """Tracks that remember nobody who is another's by now; `who`: whose they are themselves."""
    own = who if who is not None else [None] * len(tracks)
    return [
        replace(track, who=None, doubted=0) if track.who in held and track.who != mine else track
        for track, mine in zip(tracks, own, strict=True)
    ]


def _sure(rival: int | None) -> int:
    assert rival is not None
    return rival


def _glance(luma: Plane, depth: int) -> Glance:
    small = cv2.resize(luma, _GLANCE, interpolation=cv2.INTER_AREA)
    return np.asarray(small, np.float32) * np.float32(255 / ((1 << depth) - 1))
