"""Decoded frames that wait in a worker are bounded in bytes."""

from __future__ import annotations

import threading

import pytest

from swapper.pipeline import _Room

pytestmark = pytest.mark.unit


def test_who_finds_no_room_waits_until_there_is_some() -> None:
    room = _Room(10)
    assert room.enter(6, 0)
    assert not room.enter(5, 0)
    inside = threading.Event()
    waiting = threading.Thread(target=lambda: room.enter(5, 60) and inside.set())
    waiting.start()
    room.leave(6)
    waiting.join()
    assert inside.is_set()
    assert room.enter(5, 0)


def test_one_that_is_larger_than_all_of_it_goes_alone() -> None:
    room = _Room(10)
    assert room.enter(100, 0)
    assert not room.enter(1, 0)
    room.leave(100)
    assert room.enter(1, 0)
