"""Animated GIF, WebP and APNG in and out: pictures, times, how often they are shown, transparency."""

from __future__ import annotations

import io
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
from PIL import Image

from ingest.animations import times_shown
from ingest.scan import scan
from runtime.settings import InputSettings
from schemas.errors import InputError
from tests.support.media import picture
from tests.support.through import run_through

pytestmark = pytest.mark.media
LENGTHS = [40, 70, 30, 100, 250, 40]
"""Milliseconds of each picture; GIF counts in hundredths of a second."""


def rgba(number: int) -> np.ndarray:
    """Numbered stripes with a hole that moves."""
    y, x = np.mgrid[:48, :64]
    hole = (x - 20 - number * 4) ** 2 + (y - 24) ** 2 < 150
    return np.dstack([picture(number, 64, 48), np.where(hole, 0, 255).astype(np.uint8)])


def make(path: Path, shown: int, mode: str = "RGBA", lengths: list[int] = LENGTHS) -> Path:
    """An animation made by Pillow; `shown`: how often, 0 for ever."""
    images = [Image.fromarray(rgba(number)).convert(mode) for number in range(len(lengths))]
    more: dict[str, object] = {"lossless": True} if path.suffix == ".webp" else {"disposal": 2}
    if path.suffix != ".gif":
        more["loop"] = shown
    elif shown != 1:
        more["loop"] = max(shown - 1, 0)
    images[0].save(path, save_all=True, append_images=images[1:], duration=lengths, **more)
    return path


def read(path: Path) -> tuple[int, list[int], list[np.ndarray]]:
    """(how often shown, milliseconds, RGBA) by Pillow."""
    lengths, pictures = [], []
    with Image.open(path) as image:
        loop = image.info.get("loop")
        for number in range(image.n_frames):
            image.seek(number)
            image.load()
            lengths.append(image.info["duration"])
            pictures.append(np.asarray(image.convert("RGBA")).astype(int))
    if path.suffix == ".gif":
        loop = 1 if loop is None else loop and loop + 1
    return loop, lengths, pictures


@pytest.mark.parametrize("shown", [0, 1, 3])
@pytest.mark.parametrize("output", ["gif", "webp"])
@pytest.mark.parametrize("source", ["gif", "webp", "png"])
def test_animations_stay_what_they_are(tmp_path: Path, source: str, output: str, shown: int) -> None:
    given = make(tmp_path / f"in.{source}", shown)
    target = tmp_path / f"out.{output}"
    done = run_through(given, target, tmp_path, encode={"quality": 0})
    assert done.warnings == {}
    before, after = read(given), read(target)
    assert after[:2] == (shown, LENGTHS)
    assert len(after[2]) == len(LENGTHS)
    for one, other in zip(before[2], after[2], strict=True):
        assert np.array_equal(one[..., 3], other[..., 3])
        assert np.abs(one - other)[one[..., 3] > 0].mean() < (4 if output == "gif" else 2)


@pytest.mark.parametrize("mode", ["RGB", "RGBA"])
def test_an_animated_webp_becomes_a_video(tmp_path: Path, mode: str) -> None:
    given = make(tmp_path / "in.webp", 2, mode)
    done = run_through(given, tmp_path / "out.mp4", tmp_path)
    assert done.warnings == ({} if mode == "RGB" else {"alpha_flattened": len(LENGTHS)})
    assert (done.plan.time_base, done.plan.duration) == ((1, 1000), LENGTHS)
    with av.open(str(tmp_path / "out.mp4")) as clip:
        times = [frame.pts * frame.time_base for frame in clip.decode(video=0)]
    assert times == [Fraction(at, 1000) for at in (0, 40, 110, 140, 240, 490)]


def test_an_opaque_gif_has_no_alpha_to_keep(tmp_path: Path) -> None:
    """FFmpeg decodes every GIF with alpha."""
    given = make(tmp_path / "in.gif", 0, "RGB")
    done = run_through(given, tmp_path / "out.webm", tmp_path)
    assert done.warnings == {}
    assert done.plan.format.pixel_format == "yuv444p"
    late = [Image.fromarray(rgba(number)) for number in range(3)]
    late[0] = late[0].convert("RGB").convert("RGBA")
    late[0].save(tmp_path / "late.gif", save_all=True, append_images=late[1:], disposal=2)
    assert run_through(tmp_path / "late.gif", tmp_path / "out.gif", tmp_path).plan.format.pixels.alpha


def test_a_video_becomes_an_animation_that_is_shown_for_ever(tmp_path: Path) -> None:
    given = make(tmp_path / "in.webp", 2, "RGB")
    run_through(given, tmp_path / "clip.mkv", tmp_path)
    for output in ("gif", "webp"):
        run_through(tmp_path / "clip.mkv", tmp_path / f"out.{output}", tmp_path)
        assert read(tmp_path / f"out.{output}")[0] == 0


def test_a_webp_is_trimmed_and_scaled_as_any_input(tmp_path: Path) -> None:
    given = make(tmp_path / "in.webp", 0)
    plan = {"trim_start": (1, 10), "trim_end": (2, 5), "scale": (32, 0)}
    run_through(given, tmp_path / "out.webp", tmp_path, plan=plan, encode={"quality": 0})
    _, lengths, pictures = read(tmp_path / "out.webp")
    assert lengths == [30, 100, 160]
    assert {one.shape for one in pictures} == {(24, 32, 4)}


@pytest.mark.parametrize(
    ("limit", "value"), [("width", 63), ("height", 47), ("pixels", 3000), ("frames", 5), ("bytes", 200),
                         ("seconds", 0.5)]
)  # fmt: skip
def test_a_webp_that_passes_a_limit_is_refused(tmp_path: Path, limit: str, value: float) -> None:
    given = make(tmp_path / "in.webp", 0)
    with pytest.raises(InputError, match=f"input.{limit}"):
        scan(str(given), io.BytesIO(), limits=InputSettings.model_validate({limit: value}))


def test_a_canvas_of_any_size_is_refused_before_it_is_decoded(tmp_path: Path) -> None:
    data = bytearray(make(tmp_path / "in.webp", 0).read_bytes())
    data[24:30] = b"\xff\x3f\x00\xff\x3f\x00"  # 16384 x 16384
    (tmp_path / "huge.webp").write_bytes(data)
    with pytest.raises(InputError, match="its picture is 16384x16384"):
        scan(str(tmp_path / "huge.webp"), io.BytesIO())


def test_a_damaged_webp_is_used_as_far_as_it_goes(tmp_path: Path) -> None:
    data = bytearray(make(tmp_path / "in.webp", 0, lengths=[40] * 20).read_bytes())
    at = [i for i in range(len(data)) if data[i : i + 4] == b"ANMF"][12]
    size = int.from_bytes(data[at + 4 : at + 8], "little")
    data[at + 40 : at + 8 + size] = b"\xff" * (size - 32)
    (tmp_path / "bad.webp").write_bytes(data)
    found = scan(str(tmp_path / "bad.webp"), io.BytesIO())
    assert 11 <= len(found.timeline.pts) <= 12
    assert found.warnings["degraded"] > 0


def test_a_truncated_webp_is_used_as_far_as_it_goes(tmp_path: Path) -> None:
    data = make(tmp_path / "in.webp", 0, lengths=[40] * 20).read_bytes()
    (tmp_path / "cut.webp").write_bytes(data[: len(data) * 2 // 3])
    found = scan(str(tmp_path / "cut.webp"), io.BytesIO())
    assert 10 <= len(found.timeline.pts) <= 15
    assert found.warnings["degraded"] > 0
    done = run_through(tmp_path / "cut.webp", tmp_path / "out.webp", tmp_path)
    assert len(read(tmp_path / "out.webp")[1]) == len(done.plan.pts)


def test_what_is_no_whole_webp_is_refused(tmp_path: Path) -> None:
    data = make(tmp_path / "in.webp", 0).read_bytes()
    for name, part in (("a", data[:40]), ("b", data[:60] + bytes(2000))):
        (tmp_path / f"{name}.webp").write_bytes(part)
        with pytest.raises(InputError, match=name):
            scan(str(tmp_path / f"{name}.webp"), io.BytesIO())


def test_other_files_say_nothing_about_how_often_they_are_shown(tmp_path: Path) -> None:
    Image.fromarray(rgba(0)).save(tmp_path / "still.png")
    Image.fromarray(rgba(0)).save(tmp_path / "still.webp")
    for name in ("still.png", "still.webp"):
        assert times_shown((tmp_path / name).read_bytes()) is None
