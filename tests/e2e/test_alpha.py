"""Alpha of real files: kept sample for sample where the result holds it, else laid on black and counted."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
from PIL import Image

from ingest.decoders import decoder_of
from runtime.alpha import alpha_of, alpha_samples, copy_alpha, rescaled
from tests.support.media import picture
from tests.support.through import run_through

pytestmark = pytest.mark.media
FRAMES, WIDTH, HEIGHT = 50, 64, 48


def ramp(number: int, top: int, hard: bool = False) -> np.ndarray:
    """Alpha that moves with the number: all values from nothing to `top`, or these two alone."""
    values = (np.arange(WIDTH) * 5 + np.arange(HEIGHT)[:, None] * 3 + number * 11) % 256
    return (values >= 128) * top if hard else values * top // 255


def rgba(number: int, hard: bool = False) -> np.ndarray:
    colours = picture(number, WIDTH, HEIGHT)
    return np.dstack([colours, ramp(number, 255, hard).astype(np.uint8)])


def make(path: Path, codec: str, name: str, frames: int = FRAMES, **options: str) -> Path:
    """A clip with alpha, in FFmpeg's pixel format `name`."""
    with av.open(str(path), "w") as output:
        stream = output.add_stream(codec, rate=25, options=options)
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, name
        if codec == "libvpx-vp9":
            stream.metadata["alpha_mode"] = "1"
        for number in range(frames):
            source = av.VideoFrame.from_ndarray(rgba(number), format="rgba")
            frame = source.reformat(format=name)
            copy_alpha(source, frame)
            frame.pts, frame.time_base = number, Fraction(1, 25)
            output.mux(stream.encode(frame))
        output.mux(stream.encode(None))
    return path


def decoded(path: Path) -> Iterator[av.VideoFrame]:
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        decoder = decoder_of(stream)
        for packet in container.demux(stream):
            yield from decoder.decode(packet if packet.size else None)


def alphas(path: Path, depth: int) -> list[np.ndarray]:
    return [rescaled(*alpha_of(frame), depth) for frame in decoded(path)]


def colours(path: Path) -> list[np.ndarray]:
    return [frame.to_ndarray(format="rgb24").astype(float) for frame in decoded(path)]


CLIPS = {
    "prores.mov": ("prores_ks", "yuva444p10le", {"profile": "4444", "alpha_bits": "16"}, 16),
    "png.mov": ("png", "rgba", {}, 8),
    "deep.mov": ("png", "rgba64be", {}, 16),
    "qtrle.mov": ("qtrle", "argb", {}, 8),
    "ffv1.mkv": ("ffv1", "yuva420p", {}, 8),
    "ffv1-10.mkv": ("ffv1", "yuva444p10le", {}, 10),
    "rgb.mkv": ("ffv1", "bgra", {}, 8),
    "vp9.webm": ("libvpx-vp9", "yuva420p", {"crf": "10", "b": "0", "cpu-used": "5"}, 8),
}


@pytest.mark.parametrize("name", CLIPS)
def test_alpha_of_a_clip_is_kept_sample_for_sample_by_ffv1(tmp_path: Path, name: str) -> None:
    codec, form, options, depth = CLIPS[name]
    source = make(tmp_path / name, codec, form, **options)
    output = tmp_path / "out.mkv"
    done = run_through(source, output, tmp_path, encode={"encoder": "ffv1"})
    assert done.plan.format.pixels.alpha
    assert done.warnings == {}
    before, after = alphas(source, 16), alphas(output, 16)
    assert len(after) == FRAMES
    for given, made in zip(before, after, strict=True):
        assert np.abs(given.astype(int) - made).max() <= (16 if codec == "prores_ks" else 0)  # 12 bit of 16
    for given, made in zip(colours(source), colours(output), strict=True):
        assert np.abs(given - made).mean() < 2
    if codec not in ("libvpx-vp9", "prores_ks"):
        top = (1 << depth) - 1
        wanted = [rescaled(ramp(number, 255), 8, depth) for number in range(FRAMES)]
        assert all(np.array_equal(w, a) for w, a in zip(wanted, alphas(output, depth), strict=True))
        assert max(w.max() for w in wanted) == top


@pytest.mark.parametrize("container", ["mov", "mkv"])
@pytest.mark.parametrize("name", ["prores.mov", "qtrle.mov"])
def test_prores_4444_keeps_alpha(tmp_path: Path, name: str, container: str) -> None:
    codec, form, options, _ = CLIPS[name]
    source, output = make(tmp_path / name, codec, form, **options), tmp_path / f"out.{container}"
    done = run_through(source, output, tmp_path, encode={"encoder": "prores_ks", "quality": 10})
    assert done.warnings == ({"depth_reduced": FRAMES} if codec == "prores_ks" else {})
    frames = list(decoded(output))
    assert [frame.format.name for frame in frames] == ["yuva444p12le"] * FRAMES
    for given, made in zip(alphas(source, 10), alphas(output, 10), strict=True):
        assert np.abs(given.astype(int) - made).max() <= 2
        assert (made[given == 1023] == 1023).all()


@pytest.mark.parametrize("name", ["vp9.webm", "png.mov"])
def test_vp9_keeps_alpha_beside_420(tmp_path: Path, name: str) -> None:
    codec, form, options, _ = CLIPS[name]
    source, output = make(tmp_path / name, codec, form, **options), tmp_path / "out.webm"
    spec = {"encoder": "libvpx-vp9", "quality": 8, "preset": "ultrafast"}
    done = run_through(source, output, tmp_path, encode=spec)
    assert done.warnings == ({} if name == "vp9.webm" else {"chroma_reduced": FRAMES})
    assert len(done.plan.segments) == 2
    frames = list(decoded(output))
    assert [frame.format.name for frame in frames] == ["yuva420p"] * FRAMES
    for given, made in zip(alphas(source, 8), alphas(output, 8), strict=True):
        assert np.abs(given.astype(int) - made).mean() < 4


@pytest.mark.parametrize(
    ("output", "encoder"),
    [("out.mp4", "libx264"), ("out.mkv", "libx265"), ("out.mp4", "libvpx-vp9"), ("out.webm", "libsvtav1")],
)
def test_where_there_is_no_place_for_alpha_pictures_are_laid_on_black(
    tmp_path: Path, output: str, encoder: str
) -> None:
    source = make(tmp_path / "in.mkv", "ffv1", "yuva420p", frames=10)
    preset = {"libsvtav1": "10"}.get(encoder, "ultrafast")
    done = run_through(source, tmp_path / output, tmp_path, encode={"encoder": encoder, "preset": preset})
    assert done.warnings == {"alpha_flattened": 10}
    for number, made in enumerate(colours(tmp_path / output)):
        flat = picture(number, WIDTH, HEIGHT) * (ramp(number, 255)[..., None] / 255)
        assert abs(made.mean() - flat.mean()) < 6


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P"])
@pytest.mark.parametrize("suffix", ["png", "webp"])
def test_alpha_of_a_still_comes_out_as_it_was(tmp_path: Path, suffix: str, mode: str) -> None:
    source, output = tmp_path / "in.png", tmp_path / f"out.{suffix}"
    image = Image.fromarray(rgba(3))
    if mode == "P":
        image = image.quantize(64)
    image.convert(mode).save(source)
    done = run_through(source, output, tmp_path, encode={"quality": 0})
    assert done.warnings == {}
    before, after = (np.asarray(Image.open(path).convert("RGBA")).astype(int) for path in (source, output))
    assert np.array_equal(before[..., 3], after[..., 3])
    shows = before[..., 3] > 0
    assert np.abs(before - after)[shows].max() <= 3


def test_a_still_of_16_bit_keeps_them(tmp_path: Path) -> None:
    source, output = make(tmp_path / "in.png", "png", "rgba64be", frames=1), tmp_path / "out.png"
    frame = next(decoded(source))
    assert frame.format.name == "rgba64be"
    run_through(source, output, tmp_path)
    made = next(decoded(output))
    assert made.format.name == "rgba64be"
    assert np.array_equal(alpha_samples(frame), alpha_samples(made))
    assert np.abs(frame.to_ndarray().astype(int) - made.to_ndarray())[..., :3].max() < 64


def test_a_jpeg_is_laid_on_black(tmp_path: Path) -> None:
    Image.fromarray(rgba(0)).save(tmp_path / "in.png")
    done = run_through(tmp_path / "in.png", tmp_path / "out.jpg", tmp_path)
    assert done.warnings == {"alpha_flattened": 1}
