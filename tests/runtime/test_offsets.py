"""What may be committed never passes the start of a stream that is not finished."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.offsets import StreamOffsets

pytestmark = pytest.mark.unit


def test_a_partition_without_open_streams_is_done_up_to_the_next_offset() -> None:
    offsets = StreamOffsets()
    offsets.seen(3, 41)
    assert offsets.pending() == {3: 42}


def test_the_oldest_unfinished_stream_holds_the_position() -> None:
    offsets = StreamOffsets()
    for at, stream in ((10, "a"), (12, "b")):
        offsets.begin(0, (stream, 1), at)
        offsets.seen(0, at)
    offsets.seen(0, 20)
    assert offsets.position(0) == 10
    offsets.finish(0, ("a", 1))
    assert offsets.position(0) == 12
    offsets.finish(0, ("b", 1))
    assert offsets.position(0) == 21


def test_only_moved_positions_are_pending() -> None:
    offsets = StreamOffsets()
    offsets.seen(0, 5)
    offsets.committed(offsets.pending())
    assert offsets.pending() == {}
    offsets.seen(0, 6)
    assert offsets.pending() == {0: 7}


def test_a_lost_partition_is_forgotten() -> None:
    offsets = StreamOffsets()
    offsets.begin(0, ("a", 1), 1)
    offsets.seen(0, 1)
    offsets.forget(0)
    assert offsets.position(0) is None


@given(st.lists(st.tuples(st.sampled_from("bf"), st.integers(0, 4)), max_size=40))
def test_the_position_never_passes_an_open_stream(steps: list[tuple[str, int]]) -> None:
    offsets, open_at = StreamOffsets(), dict[int, int]()
    for at, (what, stream) in enumerate(steps):
        if what == "b":
            offsets.begin(0, (str(stream), 1), at)
            open_at.setdefault(stream, at)
        else:
            offsets.finish(0, (str(stream), 1))
            open_at.pop(stream, None)
        offsets.seen(0, at)
        assert offsets.position(0) == min(open_at.values(), default=at + 1)
