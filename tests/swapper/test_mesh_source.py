"""Source pictures become one texture, however the face lies in them; without a face they are refused."""

from __future__ import annotations

import cv2
import numpy as np
import numpy.typing as npt
import pytest

from schemas.errors import InputError, NoFaceError, UsageError
from swapper.decode import decode
from swapper.engines.base import SourceFace
from swapper.engines.mesh.engine import MeshEngine
from tests.support.assets import astronaut, skimage_picture
from tests.support.faces import Bgr, finder, models, read
from tests.support.pictures import assert_alike, encoded, texture, with_orientation

pytestmark = pytest.mark.unit


@pytest.fixture(scope="module")
def engine() -> MeshEngine:
    return MeshEngine(models())


@pytest.fixture(scope="module")
def picture() -> Bgr:
    return read(astronaut())


@pytest.fixture(scope="module")
def expected(engine: MeshEngine) -> npt.NDArray[np.float32]:
    return texture(engine.prepare([astronaut().read_bytes()]))


def test_texture_shows_the_face_and_nothing_of_hair_collar_or_background(
    expected: npt.NDArray[np.float32],
) -> None:
    alpha = expected[..., 3]
    assert alpha[190:390, 170:340].min() > 200
    assert alpha[:60].max() == 0
    assert alpha[:, :40].max() == alpha[:, -40:].max() == 0
    blue, green, red = expected[alpha > 200][:, :3].mean(0)
    assert red > green > blue


def test_face_survives_storage_to_the_bit(engine: MeshEngine) -> None:
    face = engine.prepare([astronaut().read_bytes()])
    stored = SourceFace.from_bytes(face.to_bytes())
    assert stored.engine == "mesh"
    np.testing.assert_array_equal(stored.arrays["texture"], face.arrays["texture"])


@pytest.mark.parametrize("quarters", [1, 2, 3])
def test_turned_pictures_give_the_same_face(
    engine: MeshEngine,
    picture: Bgr,
    expected: npt.NDArray[np.float32],
    quarters: int,
) -> None:
    turned = np.ascontiguousarray(np.rot90(picture, quarters))
    assert_alike(texture(engine.prepare([encoded(turned)])), expected)


def test_exif_orientation_is_honoured(picture: Bgr) -> None:
    jpeg = encoded(np.ascontiguousarray(np.rot90(picture, 1)), ".jpg")
    upright = decode(with_orientation(jpeg, 6), 1)
    assert np.abs(upright.astype(int) - picture).mean() < 5


@pytest.mark.parametrize("kind", ["16 bit", "alpha", "jpeg"])
def test_other_kinds_of_pictures_give_the_same_face(
    engine: MeshEngine, picture: Bgr, expected: npt.NDArray[np.float32], kind: str
) -> None:
    data = {
        "16 bit": lambda: encoded(picture.astype(np.uint16) * 257),
        "alpha": lambda: encoded(cv2.cvtColor(picture, cv2.COLOR_BGR2BGRA)),
        "jpeg": lambda: encoded(picture, ".jpg"),
    }[kind]()
    assert_alike(texture(engine.prepare([data])), expected)


def test_grey_picture_gives_a_grey_face(engine: MeshEngine, picture: Bgr) -> None:
    made = texture(engine.prepare([encoded(cv2.cvtColor(picture, cv2.COLOR_BGR2GRAY))]))
    shown = made[made[..., 3] > 0][:, :3]
    assert np.ptp(shown, axis=1).max() <= 1


def test_face_that_fills_the_picture_is_found(
    engine: MeshEngine, picture: Bgr, expected: npt.NDArray[np.float32]
) -> None:
    marks = finder()(picture, 1)[:, :2]
    (x, y), (right, bottom) = marks.min(0).astype(int), marks.max(0).astype(int) + 1
    close = cv2.resize(picture[y:bottom, x:right], None, fx=4, fy=4, interpolation=cv2.INTER_CUBIC)
    assert_alike(texture(engine.prepare([encoded(close)])), expected, limit=8)


def test_small_face_in_a_large_picture_is_found(engine: MeshEngine, picture: Bgr) -> None:
    scene = np.full((2000, 3000, 3), 90, np.uint8)
    scene[1700:1900, 2600:2800] = cv2.resize(picture, (200, 200), interpolation=cv2.INTER_AREA)
    marks = finder()(scene, 1)
    true = finder()(picture, 1)[:, :2] * (200 / 512) + [2600, 1700]
    assert np.linalg.norm(marks[:, :2] - true, axis=1).mean() < 3


def test_large_picture_is_shrunk(picture: Bgr) -> None:
    large = cv2.resize(picture, (3500, 3500), interpolation=cv2.INTER_NEAREST)
    assert decode(encoded(large, ".jpg"), 1).shape == (3072, 3072, 3)
    assert decode(encoded(picture), 1).shape == picture.shape


def test_of_several_faces_the_largest_is_taken(picture: Bgr) -> None:
    scene = np.full((512, 1024, 3), 90, np.uint8)
    scene[:, 512:] = picture
    scene[100:400, 50:350] = cv2.resize(picture, (300, 300), interpolation=cv2.INTER_AREA)
    assert finder()(scene, 1)[:, 0].min() > 512


def test_further_picture_fills_what_the_first_does_not_see(
    engine: MeshEngine, picture: Bgr, expected: npt.NDArray[np.float32]
) -> None:
    both = engine.prepare([encoded(picture), encoded(np.ascontiguousarray(picture[:, ::-1]))])
    # The tones are the mean of both pictures, and the light falls from the side: measured 12.8.
    assert_alike(texture(both), expected, limit=14)
    assert (texture(both)[..., 3] > 128).mean() >= (expected[..., 3] > 128).mean() * 0.95


@pytest.mark.parametrize("name", ["coffee.png", "chelsea.png", "motorcycle_left.png"])
def test_picture_without_a_face_is_named_by_its_number(engine: MeshEngine, name: str) -> None:
    pictures = [astronaut().read_bytes(), skimage_picture(name).read_bytes()]
    with pytest.raises(NoFaceError, match="picture 2"):
        engine.prepare(pictures)


@pytest.mark.parametrize("data", [b"", b"no picture", b"\x89PNG\r\n\x1a\n"])
def test_bytes_that_are_no_picture_are_refused_by_number(engine: MeshEngine, data: bytes) -> None:
    with pytest.raises(InputError, match="picture 1"):
        engine.prepare([data])


def test_no_picture_at_all_is_refused(engine: MeshEngine) -> None:
    with pytest.raises(UsageError, match="no source picture"):
        engine.prepare([])
