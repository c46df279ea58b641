from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assembler.paste import blur, paste
from schemas.errors import MalformedRecordError
from schemas.frames import VideoFormat
from schemas.pixels import PIXEL_FORMATS
from schemas.swaps import Patch

pytestmark = pytest.mark.unit


def picture(video: VideoFormat, value: int) -> list[np.ndarray]:
    dtype = np.uint8 if video.pixels.sample_bytes == 1 else np.uint16
    sizes = [video.pixels.plane_size(p, video.width, video.height) for p in range(video.pixels.planes)]
    return [np.full((h, w), value, dtype) for w, h in sizes]


def body_of(video: VideoFormat, patch: Patch, value: int) -> bytes:
    dtype = np.uint8 if video.pixels.sample_bytes == 1 else np.dtype("<u2")
    samples = video.pixels.patch_bytes(patch.width, patch.height) // video.pixels.sample_bytes
    return bytes(patch.offset) + np.full(samples, value, dtype).tobytes()


@st.composite
def cases(draw: st.DrawFn) -> tuple[VideoFormat, Patch]:
    """A format, a size (odd ones too) and a rectangle on its chroma grid or at the frame's edge."""
    video = VideoFormat(
        width=draw(st.integers(1, 40)),
        height=draw(st.integers(1, 40)),
        pixel_format=draw(st.sampled_from(sorted(PIXEL_FORMATS))),
    )

    def span(size: int, shift: int) -> tuple[int, int]:
        first = draw(st.integers(0, (size - 1) >> shift)) << shift
        ends = [e for e in range(first + 1, size + 1) if e % (1 << shift) == 0 or e == size]
        return first, draw(st.sampled_from(ends)) - first

    x, width = span(video.width, video.pixels.chroma_x)
    y, height = span(video.height, video.pixels.chroma_y)
    return video, Patch(x=x, y=y, width=width, height=height, offset=draw(st.integers(0, 9)))


@given(cases())
def test_exactly_the_rectangle_changes_on_every_plane(case: tuple[VideoFormat, Patch]) -> None:
    video, patch = case
    planes = picture(video, 7)
    paste(planes, video, [patch], body_of(video, patch, 99))
    for index, plane in enumerate(planes):
        shift_x, shift_y = (video.pixels.chroma_x, video.pixels.chroma_y) if index else (0, 0)
        expected = np.full_like(plane, 7)
        last_x, last_y = (patch.x + patch.width - 1) >> shift_x, (patch.y + patch.height - 1) >> shift_y
        expected[patch.y >> shift_y : last_y + 1, patch.x >> shift_x : last_x + 1] = 99
        if index == 3:
            expected[:] = 7  # alpha
        np.testing.assert_array_equal(plane, expected)


def test_planes_of_a_patch_follow_one_another() -> None:
    video = VideoFormat(width=8, height=8, pixel_format="yuv420p")
    planes = picture(video, 0)
    patch = Patch(x=2, y=4, width=4, height=2, offset=3)
    paste(planes, video, [patch], bytes(3) + bytes(range(1, 13)))
    assert planes[0][4:6, 2:6].tolist() == [[1, 2, 3, 4], [5, 6, 7, 8]]
    assert planes[1][2, 1:3].tolist() == [9, 10]
    assert planes[2][2, 1:3].tolist() == [11, 12]


def test_later_patches_lie_over_earlier_ones() -> None:
    video = VideoFormat(width=4, height=4, pixel_format="gray")
    planes = picture(video, 0)
    below = Patch(x=0, y=0, width=3, height=3, offset=0)
    above = Patch(x=1, y=1, width=2, height=2, offset=9)
    paste(planes, video, [below, above], bytes([1] * 9 + [2] * 4))
    assert planes[0].tolist() == [[1, 1, 1, 0], [1, 2, 2, 0], [1, 2, 2, 0], [0, 0, 0, 0]]


@pytest.mark.parametrize(
    ("patch", "reason"),
    [
        (Patch(x=8, y=0, width=4, height=2, offset=0), "leaves the frame"),
        (Patch(x=0, y=6, width=2, height=4, offset=0), "leaves the frame"),
        (Patch(x=1, y=0, width=2, height=2, offset=0), "chroma grid"),
        (Patch(x=0, y=3, width=2, height=2, offset=0), "chroma grid"),
        (Patch(x=0, y=0, width=3, height=2, offset=0), "chroma grid"),
        (Patch(x=0, y=0, width=4, height=4, offset=1), "needs 24 bytes from 1"),
    ],
)
def test_a_bad_rectangle_is_refused_before_anything_is_written(patch: Patch, reason: str) -> None:
    video = VideoFormat(width=10, height=9, pixel_format="yuv420p")
    planes = picture(video, 5)
    good = Patch(x=0, y=0, width=2, height=2, offset=0)
    with pytest.raises(MalformedRecordError, match=reason):
        paste(planes, video, [good, patch], bytes(24))
    assert all((plane == 5).all() for plane in planes)


@pytest.mark.parametrize(("size", "name"), [((320, 180), "yuv420p"), ((5, 3), "yuv420p10le")])
def test_blur_removes_detail_and_keeps_the_mean(size: tuple[int, int], name: str) -> None:
    video = VideoFormat(width=size[0], height=size[1], pixel_format=name)
    top = (1 << video.pixels.depth) - 1
    rng = np.random.default_rng(1)
    planes = [rng.integers(0, top + 1, p.shape).astype(p.dtype) for p in picture(video, 0)]
    before = [p.astype(float) for p in planes]
    blur(planes)
    for old, new in zip(before, planes, strict=True):
        assert new.std() < old.std()
    if size[0] > 100:
        assert planes[0].std() < before[0].std() / 10
        assert abs(planes[0].mean() - before[0].mean()) < 0.01 * top


def test_blur_leaves_a_flat_picture_as_it_is() -> None:
    video = VideoFormat(width=33, height=21, pixel_format="yuv422p")
    planes = picture(video, 77)
    blur(planes)
    assert all((plane == 77).all() for plane in planes)
