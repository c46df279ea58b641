"""Which faces a frame shows is decided in order, with a look ahead, and the same however it is cut."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import pytest

from schemas.frames import FrameFlag, FrameInfo, VideoFormat
from swapper.engines.base import Frame
from swapper.engines.mesh.landmarks import Landmarks, Square
from swapper.engines.mesh.topology import UV
from swapper.engines.mesh.track import EVERY_FOLLOWING, EVERY_SEARCHING, Seen, Tracker

pytestmark = pytest.mark.unit

_FORMAT = VideoFormat(width=1000, height=1000, pixel_format="gray")
_FACE = np.column_stack([UV - 0.5, np.zeros(len(UV))]).astype(np.float32)


def frame(number: int) -> Frame:
    info = FrameInfo(number, number, 1, FrameFlag(0))
    return Frame(info, number, _FORMAT, Fraction(1, 25), ())


@dataclass
class Person:
    """A face that is there from frame `first` to `last`, moving `speed` samples a frame."""

    first: int
    last: int
    x: float = 200
    speed: float = 2
    size: float = 100
    upside_down: bool = False
    blinks: tuple[int, ...] = ()
    """Frames in which only the detector can tell where the face is."""

    def marks(self, number: int) -> Landmarks | None:
        if not self.first <= number <= self.last:
            return None
        turn = np.float32([-1, -1, 1] if self.upside_down else [1, 1, 1])
        return _FACE * turn * np.float32(self.size) + np.float32([self.x + self.speed * number, 300, 0])


@dataclass
class World:
    """Answers for the detector and the mesh model from what is truly there."""

    people: list[Person]
    ghosts: dict[int, Square] = field(default_factory=dict)
    """Frames in which the detector also sees a face where none is."""
    searched: list[int] = field(default_factory=list)
    searched_upside_down: list[int] = field(default_factory=list)

    def find(self, one: Frame, *, thorough: bool, upside_down: bool = False) -> list[Square]:
        (self.searched_upside_down if upside_down else self.searched).append(one.ordinal)
        found = [p.marks(one.ordinal) for p in self.people if p.upside_down == upside_down]
        squares = [Square.of_landmarks(marks) for marks in found if marks is not None]
        ghost = None if upside_down else self.ghosts.get(one.ordinal)
        return squares + ([ghost] if ghost else [])

    def look(self, one: Frame, square: Square) -> tuple[Landmarks, float]:
        for person in self.people:
            marks = person.marks(one.ordinal)
            if marks is not None and square.same_face(there := Square.of_landmarks(marks)):
                blinks = one.ordinal in person.blinks and square != there
                return marks, 0.2 if blinks else 1.0
        return _FACE * np.float32(square.side / 1.5) + np.float32([square.x, square.y, 0]), 0.0


def run(world: World, first: int, count: int, max_faces: int = 8) -> list[Seen]:
    tracker = Tracker(world.find, world.look, max_faces)
    seen = [s for n in range(first, first + count) for s in tracker.push(frame(n))]
    return seen + tracker.finish()


def shown(seen: list[Seen]) -> dict[int, list[int]]:
    """Face numbers by frame."""
    return {s.frame.ordinal: sorted(s.faces) for s in seen}


@pytest.mark.parametrize("first", [0, 1, 17, 31, 44, 45])
def test_face_that_comes_between_detections_is_seen_from_its_first_frame(first: int) -> None:
    seen = shown(run(World([Person(first, 99)]), 0, 60))
    assert seen == {n: [0] if n >= first else [] for n in range(60)}


def test_second_face_is_seen_from_its_first_frame_too() -> None:
    world = World([Person(0, 99), Person(21, 99, x=600)])
    assert shown(run(world, 0, 60)) == {n: [0, 1] if n >= 21 else [0] for n in range(60)}


@pytest.mark.parametrize("people", [[], [Person(0, 99)], [Person(8, 30), Person(28, 99, x=600)]])
def test_every_frame_comes_out_once_in_order_and_few_are_held(people: list[Person]) -> None:
    world = World(people)
    tracker = Tracker(world.find, world.look, 8)
    out: list[int] = []
    for n in range(90):
        out += [s.frame.ordinal for s in tracker.push(frame(n))]
        assert out == list(range(len(out)))
        assert n + 1 - len(out) <= EVERY_FOLLOWING + 2
    out += [s.frame.ordinal for s in tracker.finish()]
    assert out == list(range(90))


def test_nothing_is_held_while_as_many_faces_as_allowed_are_followed() -> None:
    world = World([Person(0, 99)])
    tracker = Tracker(world.find, world.look, 1)
    counts = [len(tracker.push(frame(n))) for n in range(40)]
    assert counts[6:] == [1] * 34
    assert max(world.searched) <= EVERY_SEARCHING


def test_detector_runs_at_the_same_frames_of_the_input_wherever_a_stream_starts() -> None:
    person = Person(0, 99)
    whole, part = World([person]), World([person])
    run(whole, 0, 90)
    run(part, 37, 53)
    assert set(part.searched) <= set(whole.searched) | {40}
    assert all(n % EVERY_SEARCHING == 0 for n in part.searched[:-1])


def test_what_only_one_frame_shows_is_no_face() -> None:
    flash = World([Person(20, 21)])
    assert all(not faces for faces in shown(run(flash, 0, 40)).values())


def test_what_the_mesh_does_not_believe_is_no_face() -> None:
    ghosts = {n: Square(500, 500, 150, 0) for n in range(60)}
    assert all(not faces for faces in shown(run(World([], ghosts), 0, 40)).values())


def test_one_frame_alone_is_decided_by_itself() -> None:
    assert shown(run(World([Person(0, 99)]), 33, 1)) == {33: [0]}


def test_face_in_the_last_frames_before_the_end_is_seen() -> None:
    seen = shown(run(World([Person(38, 99)]), 0, 40))
    assert [n for n, faces in seen.items() if faces] == [38, 39]


def test_face_lost_in_a_blurred_frame_is_taken_up_again_at_once() -> None:
    world = World([Person(0, 99, speed=8, blinks=(23,))])
    seen = shown(run(world, 0, 40))
    assert 23 in world.searched
    assert seen == {n: [0] for n in range(40)}


def test_face_that_leaves_is_followed_to_its_last_frame_and_not_beyond() -> None:
    seen = shown(run(World([Person(0, 26)]), 0, 50))
    assert seen == {n: [0] if n <= 26 else [] for n in range(50)}


def test_two_tracks_never_sit_on_one_face() -> None:
    left, right = Person(0, 99, x=200, speed=4), Person(0, 30, x=440, speed=-4)
    for seen in run(World([left, right]), 0, 60):
        squares = [Square.of_landmarks(marks) for marks in seen.faces.values()]
        assert not any(a.same_face(b) for i, a in enumerate(squares) for b in squares[i + 1 :])
        assert seen.faces


@pytest.mark.parametrize("first", [0, 1, 17, 44])
def test_face_upside_down_is_seen_from_its_first_frame(first: int) -> None:
    seen = shown(run(World([Person(first, 99, upside_down=True)]), 0, 60))
    assert seen == {n: [0] if n >= first else [] for n in range(60)}


def test_frames_are_searched_upside_down_only_while_no_face_is_followed() -> None:
    world = World([Person(20, 59)])
    run(world, 0, 80)
    assert world.searched_upside_down == [0, 5, 10, 15, 60, 65, 70, 75, 79]
    assert set(world.searched_upside_down) <= set(world.searched)


def test_of_more_faces_than_allowed_the_largest_are_taken() -> None:
    crowd = [Person(0, 99, x=150 + 250 * i, speed=0, size=60 + 20 * i) for i in range(3)]
    crowd.sort(key=lambda person: -person.size)
    for seen in run(World(crowd), 0, 40, max_faces=2):
        sizes = sorted(round(float(np.ptp(m[:, 0]))) for m in seen.faces.values())
        assert sizes == [79, 98]
