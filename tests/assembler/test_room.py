"""How many encoders are open at once."""

from __future__ import annotations

import pytest

from assembler.room import Room, encoder_bytes
from runtime.settings import MIB, LimitSettings
from schemas.frames import VideoFormat

pytestmark = pytest.mark.unit
LIMITS = LimitSettings()


def test_streams_that_still_wait_for_patches_get_half_of_the_room() -> None:
    room = Room(100)
    assert room.has(25, False, [])
    assert room.has(25, False, [(25, False)])
    assert not room.has(25, False, [(25, False), (25, False)])
    assert not room.has(51, False, [])


def test_those_that_wait_never_hold_up_one_of_which_all_is_here() -> None:
    room = Room(100)
    assert room.has(50, True, [(50, False)])
    assert room.has(60, True, [(50, False)]), "one always runs"
    assert room.has(1000, True, [])
    assert not room.has(60, True, [(60, True)])


def test_an_encoder_is_taken_for_no_smaller_than_it_was_measured() -> None:
    """Extra resident MiB of 100 frames with preset medium and four threads (docs/performance.md)."""
    measured = {
        ("libx264", 640, 360): 56, ("libx264", 1920, 1080): 371, ("libx265", 640, 360): 107,
        ("libx265", 1280, 720): 254, ("libsvtav1", 640, 360): 225, ("libsvtav1", 1280, 720): 659,
        ("libvpx-vp9", 640, 360): 72, ("libvpx-vp9", 1280, 720): 173, ("ffv1", 1920, 1080): 100,
    }  # fmt: skip
    for (name, width, height), mib in measured.items():
        video = VideoFormat(width=width, height=height, pixel_format="yuv420p")
        assert encoder_bytes(video, name, LIMITS) >= mib * MIB, name
    large = VideoFormat(width=1920, height=1080, pixel_format="yuv420p")
    assert encoder_bytes(large, "unknown", LIMITS) >= encoder_bytes(large, "libsvtav1", LIMITS)
