"""Every model the engine knows, as data: what goes in, what comes out, and how it is read.

A file is `<name>.onnx`; its licence is in `swapper/models/models.toml`. Means and deviations are of samples
0..1 in the order the model takes its channels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType

from swapper.models.manifest import Terms

Triple = tuple[float, float, float]

ZERO: Triple = (0.0, 0.0, 0.0)
HALF: Triple = (0.5, 0.5, 0.5)
ONE: Triple = (1.0, 1.0, 1.0)
IMAGENET_MEAN: Triple = (0.485, 0.456, 0.406)
IMAGENET_DEVIATION: Triple = (0.229, 0.224, 0.225)


@dataclass(frozen=True, slots=True)
class Scale:
    """Samples 0..255 to a model's input: `(x / 255 - mean) / deviation`, channels B G R or R G B."""

    mean: Triple = ZERO
    deviation: Triple = ONE
    rgb: bool = True


class Layout(Enum):
    """How a detector's outputs are read."""

    YOLO = "yolo"
    """One output, rows of centre, size, score and 5 x (x, y, confidence), in canvas pixels."""
    ANCHORS = "anchors"
    """Scores, boxes (left, top, right, bottom from the anchor) and points, each for strides 8, 16, 32;
    two anchors a cell."""
    CENTRES = "centres"
    """Class, object, box (shift, log size) and points, each for strides 8, 16, 32; one anchor a cell."""
    BLAZE = "blaze"
    """BlazeFace's: boxes with six points, and log odds; the mouth is one point."""


@dataclass(frozen=True, slots=True)
class Detector:
    """Finds faces on a square canvas, given as `input`. `sides`: of the canvas; the last is the default."""

    file: str
    layout: Layout
    scale: Scale | None
    """None: bytes as they are, R G B, channels last."""
    sides: tuple[int, ...] = (640,)
    input: str = "input"


@dataclass(frozen=True, slots=True)
class Landmarker:
    """68 points on a grid of 64; `full` is the mean confidence that counts as score 1."""

    file: str
    full: float = 1.0
    heatmaps: bool = False
    """Confidence is read from a second output of heat maps, else from each point's third number."""
    vertices: tuple[int, ...] = ()
    """Of MediaPipe's face mesh, if the model gives that instead: which is each of the 68 points."""


class Blend(Enum):
    """Which embedding of the target face a swapper's `weight` mixes in."""

    NORMED = "normed"
    RAW = "raw"


@dataclass(frozen=True, slots=True)
class VectorSource:
    """The source goes in as 512 numbers made of its raw embedding, in the order of these fields."""

    converter: str = ""
    """Model that maps the raw embedding; none: it is taken as it is."""
    emap: bool = False
    """Multiply by the swapper's own last initializer (512 x 512)."""
    normed: bool = True
    """Divide: by the norm of the raw embedding with an emap, else by its own."""
    blend: Blend = Blend.NORMED


@dataclass(frozen=True, slots=True)
class PictureSource:
    """The source goes in as a crop of its picture, R G B 0..1."""

    template: str
    side: int


@dataclass(frozen=True, slots=True)
class Swapper:
    """Inputs `source` and `target`; the first output is the new crop.

    `restore`: the output is in the scale of the input, else 0..1. `boosts`: sides of the crop that are
    offered; each a multiple of `side`, in tiles of which it goes through the model.
    """

    file: str
    side: int
    template: str
    scale: Scale
    source: VectorSource | PictureSource
    restore: bool
    boosts: tuple[int, ...]
    terms: Terms | None = None
    """Of a custom model; none: what the manifest says."""


@dataclass(frozen=True, slots=True)
class Enhancer:
    """Input `input`; `weighted` models take a `weight` too. `restore`: as for a swapper."""

    file: str
    template: str
    side: int
    weighted: bool = False
    scale: Scale = Scale(HALF, HALF)
    restore: bool = True
    terms: Terms | None = None
    """Of a custom model; none: what the manifest says."""


@dataclass(frozen=True, slots=True)
class Masker:
    """Says where a crop shows what is wanted. `side` of its input."""

    file: str
    side: int


def _anchored(file: str) -> Detector:
    scale = Scale(mean=(127.5 / 255,) * 3, deviation=(128 / 255,) * 3, rgb=False)
    return Detector(file, Layout.ANCHORS, scale, (160, 320, 480, 512, 640))


DETECTORS: Mapping[str, Detector] = MappingProxyType(
    {
        "yolo_face": Detector("yoloface_8n", Layout.YOLO, Scale(rgb=False)),
        "scrfd": _anchored("scrfd_2.5g"),
        "retinaface": _anchored("retinaface_10g"),
        "yunet": Detector("yunet_2023_mar", Layout.CENTRES, Scale(deviation=(1 / 255,) * 3, rgb=False)),
        "blazeface": Detector("det_back", Layout.BLAZE, None, (128, 384, 512, 640, 256), "image"),
    }
)
MANY_DETECTORS = ("retinaface", "scrfd", "yolo_face")
"""What `many` stands for, in the order in which their faces are counted."""

IBUG_VERTICES = (
    *(127, 234, 93, 58, 172, 136, 149, 148, 152, 377, 378, 365, 397, 288, 323, 454, 356),
    *(70, 63, 105, 66, 107, 336, 296, 334, 293, 300),
    *(168, 197, 5, 4, 98, 97, 2, 326, 327),
    *(33, 160, 158, 133, 153, 144, 362, 385, 387, 263, 373, 380),
    *(61, 39, 37, 0, 267, 269, 291, 321, 314, 17, 84, 91),
    *(78, 81, 13, 311, 308, 402, 14, 178),
)
"""Vertices of MediaPipe's face mesh for iBUG's 68 points: jaw, brows, nose, eyes, lips outside and inside.

iBUG's scheme (Sagonas et al., 300 Faces in-the-Wild, 2013) names corners, peaks and tips, which the mesh has
(MediaPipe's canonical_face_model and its rings of eyes, brows, lips and face). Points in between, along the
jaw, the ridge of the nose and the lips, are the vertices nearest to equal parts of the line on real faces.
"""
LANDMARKERS: Mapping[str, Landmarker] = MappingProxyType(
    {
        "2dfan4": Landmarker("2dfan4", 0.9, heatmaps=True),
        "peppa_wutz": Landmarker("peppa_wutz", 0.95),
        "facemesh": Landmarker("mesh", vertices=IBUG_VERTICES),
    }
)
MANY_LANDMARKERS = ("2dfan4", "peppa_wutz")
"""What `many` stands for: the first is believed unless the second is surer by far."""
LANDMARK_ESTIMATOR = "fan_68_5"
"""68 points from five; needed but for landmarkers that give a mesh."""

RECOGNISER = "arcface_w600k_r50"
"""Published for non-commercial use only; there is no other."""
CLASSIFIER = "fairface"
"""Needed only for filters by gender, race or age."""

CONVERTERS = ("crossface_ghost", "crossface_simswap", "crossface_hififace")
"""What makes another network's embedding of the recogniser's, for swappers that want that."""

_SMALL = (128, 256, 384, 512, 768, 1024)
_MIDDLE = (256, 512, 768, 1024)


def _inswapper(file: str) -> Swapper:
    source = VectorSource(emap=True)
    return Swapper(file, 128, "arcface_128", Scale(), source, restore=False, boosts=_SMALL)


def _hyperswap(file: str) -> Swapper:
    return Swapper(file, 256, "arcface_128", Scale(HALF, HALF), VectorSource(), True, _MIDDLE)


def _ghost(file: str) -> Swapper:
    source = VectorSource("crossface_ghost", normed=False, blend=Blend.RAW)
    return Swapper(file, 256, "arcface_112_v1", Scale(HALF, HALF), source, True, _MIDDLE)


def _table(*swappers: Swapper) -> Mapping[str, Swapper]:
    return MappingProxyType({swapper.file: swapper for swapper in swappers})


_SIMSWAP = VectorSource("crossface_simswap")

SWAPPERS: Mapping[str, Swapper] = _table(
    Swapper(
        "blendswap_256",
        256,
        "ffhq_512",
        Scale(),
        PictureSource("arcface_112_v2", 112),
        restore=False,
        boosts=_MIDDLE,
    ),
    _ghost("ghost_1_256"),
    _ghost("ghost_2_256"),
    _ghost("ghost_3_256"),
    Swapper(
        "hififace_unofficial_256",
        256,
        "mtcnn_512",
        Scale(HALF, HALF),
        VectorSource("crossface_hififace"),
        restore=True,
        boosts=_MIDDLE,
    ),
    _hyperswap("hyperswap_1a_256"),
    _hyperswap("hyperswap_1b_256"),
    _hyperswap("hyperswap_1c_256"),
    _inswapper("inswapper_128"),
    _inswapper("inswapper_128_fp16"),
    Swapper(
        "simswap_256",
        256,
        "arcface_112_v1",
        Scale(IMAGENET_MEAN, IMAGENET_DEVIATION),
        _SIMSWAP,
        restore=False,
        boosts=_MIDDLE,
    ),
    Swapper(
        "simswap_unofficial_512",
        512,
        "arcface_112_v1",
        Scale(),
        _SIMSWAP,
        restore=False,
        boosts=(512, 1024),
    ),
    Swapper(
        "uniface_256",
        256,
        "ffhq_512",
        Scale(HALF, HALF),
        PictureSource("ffhq_512", 256),
        restore=True,
        boosts=_MIDDLE,
    ),
)

ENHANCERS: Mapping[str, Enhancer] = MappingProxyType(
    {
        one.file: one
        for one in (
            Enhancer("codeformer", "ffhq_512", 512, weighted=True),
            Enhancer("gfpgan_1.2", "ffhq_512", 512),
            Enhancer("gfpgan_1.3", "ffhq_512", 512),
            Enhancer("gfpgan_1.4", "ffhq_512", 512),
            Enhancer("gpen_bfr_256", "arcface_128", 256),
            Enhancer("gpen_bfr_512", "ffhq_512", 512),
            Enhancer("gpen_bfr_1024", "ffhq_512", 1024),
            Enhancer("gpen_bfr_2048", "ffhq_512", 2048),
            Enhancer("restoreformer_plus_plus", "ffhq_512", 512),
        )
    }
)

OCCLUDERS: Mapping[str, Masker] = MappingProxyType(
    {name: Masker(name, 256) for name in ("xseg_1", "xseg_2", "xseg_3")}
)
"""B G R 0..1, channels last; 1 where nothing lies before the face."""

PARSERS: Mapping[str, Masker] = MappingProxyType(
    {name: Masker(name, 512) for name in ("bisenet_resnet_18", "bisenet_resnet_34")}
)
"""19 classes of what a pixel belongs to."""

REGIONS: Mapping[str, int] = MappingProxyType(
    {
        "skin": 1,
        "left-eyebrow": 2,
        "right-eyebrow": 3,
        "left-eye": 4,
        "right-eye": 5,
        "glasses": 6,
        "nose": 10,
        "mouth": 11,
        "upper-lip": 12,
        "lower-lip": 13,
    }
)
"""Class of each region in a parser's output."""

AREAS: Mapping[str, tuple[int, ...]] = MappingProxyType(
    {
        "upper-face": (0, 1, 2, *range(31, 36), 14, 15, 16, *range(26, 16, -1)),
        "lower-face": (*range(3, 14), *range(35, 30, -1)),
        "mouth": tuple(range(48, 68)),
    }
)
"""Points of the 68 around each area."""

GENDERS = ("male", "female")
RACES = ("white", "black", "latino", "asian", "asian", "indian", "arabic")
AGES = ((0, 2), (3, 9), (10, 19), (20, 29), (30, 39), (40, 49), (50, 59), (60, 69), (70, 100))
"""By the classifier's numbers; ages are half-open, so that a decade lacks its last year."""
