"""Source pictures of all kinds: which face is taken, whom it shows, and what is refused before decoding."""

from __future__ import annotations

import struct
import zlib

import cv2
import numpy as np
import numpy.typing as npt
import pytest

from schemas.errors import InputError, NoFaceError
from schemas.frames import VideoFormat
from swapper.decode import decode
from swapper.engines.base import Work
from swapper.engines.mesh.engine import MeshEngine
from swapper.headers import size_of
from tests.support.assets import astronaut
from tests.support.faces import Bgr, bgr, clip, cosine, finder, identity, landmarks, models, pasted, read
from tests.support.pictures import assert_alike, encoded, png_with_orientation, texture, with_orientation

pytestmark = pytest.mark.media

_CAR = VideoFormat(width=320, height=262, pixel_format="yuv420p")


@pytest.fixture(scope="module")
def engine() -> MeshEngine:
    return MeshEngine(models())


@pytest.fixture(scope="module")
def picture() -> Bgr:
    return read(astronaut())


@pytest.fixture(scope="module")
def expected(engine: MeshEngine) -> npt.NDArray[np.float32]:
    return texture(engine.prepare([astronaut().read_bytes()]))


@pytest.fixture(scope="module")
def people(picture: Bgr) -> Bgr:
    """Three faces in a row: a man in a car, who is the largest, a woman, the same woman smaller."""
    man = cv2.resize(bgr(clip(_CAR, 1)[0].planes, _CAR), None, fx=1.5, fy=1.5)
    scene = np.full((512, 1300, 3), 90, np.uint8)
    scene[50 : 50 + man.shape[0], 20 : 20 + man.shape[1]] = man
    scene[:, 500:1012] = picture
    scene[100:350, 1030:1280] = cv2.resize(picture, (250, 250), interpolation=cv2.INTER_AREA)
    return scene


def test_faces_are_numbered_from_left_to_right(people: Bgr) -> None:
    centres = [float(finder()(people, 1, face)[:, 0].mean()) for face in (1, 2, 3)]
    assert 20 < centres[0] < 450
    assert 500 < centres[1] < 1012
    assert 1030 < centres[2] < 1280
    np.testing.assert_array_equal(finder()(people, 1), finder()(people, 1, 1))


def test_face_by_number_becomes_the_source(
    engine: MeshEngine, people: Bgr, expected: npt.NDArray[np.float32]
) -> None:
    assert_alike(texture(engine.prepare([encoded(people)], face=3)), expected, limit=10)
    man = texture(engine.prepare([encoded(people)], face=1))
    both = (man[..., 3] > 128) & (expected[..., 3] > 128)
    assert np.abs(man - expected)[both][:, :3].mean() > 25


def test_too_few_faces_are_told_with_their_number(engine: MeshEngine, picture: Bgr, people: Bgr) -> None:
    with pytest.raises(NoFaceError, match="picture 1 shows 3 faces: there is no face 4"):
        engine.prepare([encoded(people)], face=4)
    with pytest.raises(NoFaceError, match="picture 2 shows 1 face: there is no face 2"):
        engine.prepare([encoded(people), encoded(picture)], face=2)


def identity_of(data: bytes) -> npt.NDArray[np.float64]:
    picture = decode(data, 1)
    return identity(picture, landmarks(picture))


def swapped_with(engine: MeshEngine, data: bytes) -> npt.NDArray[np.float64]:
    """Identity of the man in the car with this source."""
    (one,) = clip(_CAR, 1)
    ((swap,),) = engine.swap([Work(engine.open(engine.prepare([data]), {}), [one], last=True)])
    result = bgr(pasted(one, swap), _CAR)
    return identity(result, landmarks(result))


@pytest.mark.parametrize(
    ("kind", "least"),
    [("orientation", 0.95), ("gray", 0.9), ("gray alpha", 0.9), ("16 bit", 0.95), ("alpha", 0.95)]
    + [(kind, 0.95) for kind in ("webp", "avif", "gif", "bmp", "tiff")],
)
def test_kinds_of_pictures_show_the_same_person(
    engine: MeshEngine, picture: Bgr, kind: str, least: float
) -> None:
    """S01 to S07 of the case log, judged by what dlib sees in the picture and in the result."""
    portrait = picture[:320, 110:370]
    data = variant(portrait, kind)
    plain = encoded(portrait)
    assert cosine(identity_of(data), identity_of(plain)) > least
    assert cosine(swapped_with(engine, data), swapped_with(engine, plain)) > least


def variant(picture: Bgr, kind: str) -> bytes:
    gray = cv2.cvtColor(picture, cv2.COLOR_BGR2GRAY)
    opaque = np.full(gray.shape, 255, np.uint8)
    match kind:
        case "orientation":
            lying = np.ascontiguousarray(np.rot90(picture))
            return with_orientation(encoded(lying, ".jpg"), 6)
        case "gray":
            return encoded(gray)
        case "gray alpha":
            return encoded(np.dstack([gray, gray, gray, opaque]))
        case "16 bit":
            return encoded(picture.astype(np.uint16) * 257)
        case "alpha":
            return encoded(np.dstack([picture, _vignette(gray.shape)]))
        case _:
            return encoded(picture, f".{kind}")


def _vignette(shape: tuple[int, ...]) -> npt.NDArray[np.uint8]:
    """Opaque within an ellipse."""
    alpha = np.zeros(shape, np.uint8)
    centre, axes = (shape[1] // 2, shape[0] // 2), (shape[1] // 2, shape[0] // 2)
    return cv2.ellipse(alpha, centre, axes, 0, 0, 360, 255, -1).astype(np.uint8)


@pytest.mark.parametrize("depth", [8, 16])
@pytest.mark.parametrize("orientation", [1, 3, 5, 6])
def test_what_is_transparent_becomes_grey(picture: Bgr, orientation: int, depth: int) -> None:
    """Whatever colours hide there, and however the picture lies."""
    unit = 1 if depth == 8 else 257
    alpha = np.full((512, 512, 1), 255, np.uint8)
    alpha[:256] = 0
    kind = np.uint8 if depth == 8 else np.uint16
    data = encoded(np.dstack([picture, alpha]).astype(kind) * kind(unit))
    made = decode(png_with_orientation(data, orientation), 1)
    turns = {1: lambda p: p, 3: lambda p: np.rot90(p, 2), 5: lambda p: p.transpose(1, 0, 2)}
    back = turns.get(orientation, lambda p: np.rot90(p))(made)
    assert (back[:256] == 128).all()
    np.testing.assert_array_equal(back[256:], picture[256:])


@pytest.mark.parametrize("kind", [".gif", ".webp"])
def test_of_an_animation_the_first_picture_is_taken(picture: Bgr, kind: str) -> None:
    animation = cv2.Animation()
    animation.frames = [picture, np.zeros_like(picture)]
    animation.durations = np.array([100, 100])
    done, data = cv2.imencodeanimation(kind, animation)
    assert done
    made = decode(data.tobytes(), 1)
    assert made.shape == picture.shape
    assert np.abs(made.astype(int) - picture).mean() < 16


def test_picture_that_claims_to_be_huge_is_refused_unread() -> None:
    for size in ((1 << 16, 1 << 16), (1 << 30, 1)):
        header = struct.pack(">II5B", *size, 8, 2, 0, 0, 0)
        chunk = b"IHDR" + header
        bomb = b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + chunk + struct.pack(">I", zlib.crc32(chunk))
        with pytest.raises(InputError, match="picture 7 is too large: "):
            decode(bomb, 7)


@pytest.mark.parametrize("kind", ["jpg", "png", "webp", "gif", "bmp", "tiff", "avif"])
def test_size_is_read_from_the_header(kind: str) -> None:
    picture = np.random.default_rng(1).integers(0, 255, (37, 61, 3), np.uint8)
    data = encoded(picture, f".{kind}")
    assert size_of(data) == (61, 37)
    for length in range(0, min(len(data), 400), 7):
        assert size_of(data[:length]) in (None, (61, 37))


@pytest.mark.parametrize("lossy", [True, False])
@pytest.mark.parametrize("alpha", [True, False])
def test_size_is_read_from_each_kind_of_webp(alpha: bool, lossy: bool) -> None:
    picture = np.random.default_rng(1).integers(0, 255, (37, 61, 4 if alpha else 3), np.uint8)
    done, data = cv2.imencode(".webp", picture, [cv2.IMWRITE_WEBP_QUALITY, 80 if lossy else 101])
    assert done
    assert size_of(data.tobytes()) == (61, 37)


def test_broad_tones_of_several_pictures_are_their_mean(engine: MeshEngine, picture: Bgr) -> None:
    """Light from the left in one and from the right in the other is light from the front."""
    slope = np.linspace(0.4, 1.0, 512)[None, :, None]
    lit = [(picture * side).astype(np.uint8) for side in (slope, slope[:, ::-1])]
    left, right, both = (
        texture(engine.prepare([encoded(one) for one in pictures])) for pictures in ([lit[0]], [lit[1]], lit)
    )
    inner = np.s_[200:380, 180:332]

    def lean(made: npt.NDArray[np.float32]) -> float:
        part = made[inner][..., :3].mean((0, 2))
        return float(np.polyfit(np.arange(len(part)), part, 1)[0])

    middle = (lean(left) + lean(right)) / 2
    assert abs(lean(both) - middle) < 0.5 * abs(lean(left) - lean(right)) / 2


def test_several_pictures_give_the_person_of_each(engine: MeshEngine, picture: Bgr) -> None:
    portrait = encoded(picture)
    turned = encoded(cv2.warpAffine(picture, cv2.getRotationMatrix2D((256, 200), 12, 0.9), (512, 512)))
    dim = encoded((picture * 0.6).astype(np.uint8))
    (one,) = clip(_CAR, 1)
    face = engine.prepare([portrait, turned, dim])
    ((swap,),) = engine.swap([Work(engine.open(face, {}), [one], last=True)])
    result = bgr(pasted(one, swap), _CAR)
    made = identity(result, landmarks(result))
    assert cosine(made, swapped_with(engine, portrait)) > 0.95
