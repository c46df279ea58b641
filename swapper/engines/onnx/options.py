"""What a job may ask of the engine: FaceFusion's options, grouped.

Given as a mapping of groups, or with names such as `swapper.model`; lists as `box,occlusion` or `0,90`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    ValidationError,
    ValidationInfo,
    model_validator,
)

from schemas.errors import UsageError
from swapper.engines.onnx.catalog import (
    AREAS,
    DETECTORS,
    LANDMARKERS,
    MANY_DETECTORS,
    OCCLUDERS,
    PARSERS,
    RACES,
    REGIONS,
    Enhancer,
    Swapper,
)
from swapper.engines.onnx.custom import Catalogue

Processor = Literal["face_swapper", "face_enhancer"]
SWAP: Processor = "face_swapper"
ENHANCE: Processor = "face_enhancer"


def _listed(value: Any) -> Any:
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return value if isinstance(value, Iterable) else (value,)


def _side(value: Any) -> Any:
    """Also `512x512`."""
    if isinstance(value, str) and (parts := value.split("x"))[0] and len(set(parts)) == 1:
        return parts[0]
    return value


_Many = BeforeValidator(_listed)
_Percent = Annotated[int, Field(ge=0, le=100)]
_Share = Annotated[float, Field(ge=0, le=1)]
_Margins = Annotated[tuple[_Percent, _Percent, _Percent, _Percent], _Many]
"""Top, right, bottom, left."""


class _Group(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    def _one_of(self, field: str, names: Iterable[str]) -> None:
        _known(getattr(self, field), names, field)


def _catalogue(info: ValidationInfo) -> Catalogue:
    """What `Options.of` was given."""
    return info.context if isinstance(info.context, Catalogue) else Catalogue()


def _known(value: Any, names: Iterable[Any], field: str) -> None:
    if value not in names:
        raise ValueError(f"{field} {value!r}; there are: {', '.join(map(str, names))}")


class DetectorOptions(_Group):
    """`size`: side of the canvas; none: the model's own. `score`: above which a face counts. `angles`: turns
    that are tried. `margin`: black added around the picture, in half percents of its sides."""

    model: str = "yolo_face"
    size: Annotated[int | None, BeforeValidator(_side)] = None
    score: _Share = 0.5
    angles: Annotated[tuple[int, ...], _Many] = (0,)
    margin: _Margins = (0, 0, 0, 0)

    @model_validator(mode="after")
    def _check(self) -> Self:
        self._one_of("model", (*DETECTORS, "many"))
        models = MANY_DETECTORS if self.model == "many" else (self.model,)
        sides = sorted({side for name in models for side in DETECTORS[name].sides})
        if self.size is not None:
            _known(self.size, sides, f"size of {self.model}")
        for angle in self.angles:
            _known(angle, (0, 90, 180, 270), "angle")
        if not self.angles or len(set(self.angles)) != len(self.angles):
            raise ValueError("angles are one to four of 0, 90, 180, 270, each once")
        return self


class LandmarkerOptions(_Group):
    """`score`: above which the landmarks decide how a face is aligned; 0: no landmarker is run."""

    model: str = "2dfan4"
    score: _Share = 0.5

    @model_validator(mode="after")
    def _check(self) -> Self:
        self._one_of("model", (*LANDMARKERS, "many"))
        return self

    @property
    def by_mesh(self) -> bool:
        """Whether the points come of a mesh, without 68 being guessed from five before."""
        return self.score > 0 and self.model in LANDMARKERS and bool(LANDMARKERS[self.model].vertices)


class SwapperOptions(_Group):
    """`pixel_boost`: side of the crop, swapped in tiles of the model's own; none: that side.
    `weight`: 0.5 the source as it is, 1 exaggerated, 0 mixed with the target."""

    model: str = "ghost_1_256"
    pixel_boost: Annotated[int | None, BeforeValidator(_side)] = None
    weight: _Share = 0.5
    _kind: Swapper = PrivateAttr()

    @model_validator(mode="after")
    def _check(self, info: ValidationInfo) -> Self:
        self._kind = _catalogue(info).swapper(self.model)
        if self.pixel_boost is not None:
            _known(self.pixel_boost, self.kind.boosts, f"pixel_boost of {self.model}")
        return self

    @property
    def kind(self) -> Swapper:
        """What `model` names."""
        return self._kind

    @property
    def side(self) -> int:
        """Of the crop."""
        return self.pixel_boost or self.kind.side


class MaskOptions(_Group):
    """`types`: of the masks, the least of which counts. `blur` and `padding` (percent) shape the box."""

    types: Annotated[tuple[str, ...], _Many] = ("box",)
    blur: _Share = 0.3
    padding: _Margins = (0, 0, 0, 0)
    areas: Annotated[tuple[str, ...], _Many] = tuple(AREAS)
    regions: Annotated[tuple[str, ...], _Many] = tuple(REGIONS)
    occluder_model: str = "xseg_1"
    parser_model: str = "bisenet_resnet_34"

    @model_validator(mode="after")
    def _check(self) -> Self:
        lists = {"types": ("box", "occlusion", "area", "region"), "areas": AREAS, "regions": REGIONS}
        for field, names in lists.items():
            chosen = getattr(self, field)
            if not chosen:
                raise ValueError(f"{field} names none of: {', '.join(names)}")
            for name in chosen:
                _known(name, names, field)
        self._one_of("occluder_model", (*OCCLUDERS, "many"))
        self._one_of("parser_model", PARSERS)
        return self


class SelectorOptions(_Group):
    """Which faces of a frame are changed.

    `many`: all; `one`: the first; `reference`: those whose distance to a face of the reference frame,
    0..1, is below `reference_face_distance`. Order and filters come first; in mode `reference` they apply to
    the reference frame, of which the face at `reference_face_position` is taken. `auto`: as the source face.
    """

    mode: Literal["many", "one", "reference"] = "many"
    order: Literal[
        "left-right",
        "right-left",
        "top-bottom",
        "bottom-top",
        "small-large",
        "large-small",
        "best-worst",
        "worst-best",
    ] = "large-small"
    gender: Literal["female", "male", "auto"] | None = None
    race: str | None = None
    age_start: Annotated[int, Field(ge=0, le=100)] | None = None
    age_end: Annotated[int, Field(ge=0, le=100)] | None = None
    reference_face_position: Annotated[int, Field(ge=0)] = 0
    reference_face_distance: _Share = 0.3
    reference_frame_number: Annotated[int, Field(ge=0)] = 0

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.race is not None:
            self._one_of("race", ("auto", *dict.fromkeys(RACES)))
        if (self.age_start is None) != (self.age_end is None):
            raise ValueError("age_start and age_end are given together or not at all")
        if self.age_start is not None and self.age_end is not None and self.age_start >= self.age_end:
            raise ValueError(f"age_start {self.age_start} is not below age_end {self.age_end}")
        return self

    @property
    def filters(self) -> bool:
        """Whether gender, race or age of faces must be known."""
        return any(one is not None for one in (self.gender, self.race, self.age_start))


class TrackerOptions(_Group):
    """Whether a person keeps the face put on by following it from frame to frame: `lock`; if it is not said,
    with a map of several people only.

    `margin`: how much further from a person than `selector.reference_face_distance` a followed face may be.
    `change_frames`: for how many in a row somebody else must be nearer. `keep_frames`: for how many a face
    that is lost, or too unlike, is remembered.
    """

    lock: bool | None = None
    margin: _Share = 0.1
    change_frames: Annotated[int, Field(ge=1, le=250)] = 3
    keep_frames: Annotated[int, Field(ge=0, le=250)] = 12


class EnhancerOptions(_Group):
    """`blend`: percent of the enhanced face over the other. `weight`: for models that take one."""

    model: str = "gfpgan_1.4"
    blend: _Percent = 80
    weight: _Share = 0.5
    _kind: Enhancer = PrivateAttr()

    @model_validator(mode="after")
    def _check(self, info: ValidationInfo) -> Self:
        self._kind = _catalogue(info).enhancer(self.model)
        return self

    @property
    def kind(self) -> Enhancer:
        """What `model` names."""
        return self._kind


class Options(_Group):
    """All options of a job. `processors` run in the order given; `content_check`: whether pictures that the
    classifiers object to end the job."""

    processors: Annotated[tuple[Processor, ...], _Many] = (SWAP,)
    detector: DetectorOptions = DetectorOptions()
    landmarker: LandmarkerOptions = LandmarkerOptions()
    selector: SelectorOptions = SelectorOptions()
    tracker: TrackerOptions = TrackerOptions()
    swapper: SwapperOptions = SwapperOptions()
    mask: MaskOptions = MaskOptions()
    enhancer: EnhancerOptions = EnhancerOptions()
    content_check: bool = False

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.processors or len(set(self.processors)) != len(self.processors):
            raise ValueError(f"processors are {SWAP} and {ENHANCE}, each at most once, at least one of them")
        return self

    @classmethod
    def of(cls, given: Mapping[str, Any], catalogue: Catalogue | None = None) -> Options:
        """`catalogue`: the models there are; none: those that are built in.

        Raises UsageError for an unknown option or a value that cannot be, naming what can, and ModelError
        for a custom model whose description is wrong.
        """
        try:
            return cls.model_validate(_grouped(given), context=catalogue)
        except ValidationError as error:
            raise UsageError(_reason(cls, error)) from None


def _grouped(given: Mapping[str, Any]) -> dict[str, Any]:
    """`a.b` names as mappings in mappings."""
    result: dict[str, Any] = {}
    for name, value in given.items():
        group, dot, rest = name.partition(".")
        if dot:
            value = {rest: value}
        if isinstance(value, Mapping) and isinstance(result.get(group), dict):
            result[group].update(value)
        else:
            result[group] = dict(value) if isinstance(value, Mapping) else value
    return result


def _reason(model: type[BaseModel], error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    place = [part for part in first["loc"] if isinstance(part, str)]
    name = ".".join(place)
    if first["type"] == "extra_forbidden":
        for part in place[:-1]:
            inner = model.model_fields[part].annotation
            assert isinstance(inner, type)
            model = inner
        within = f"; {'.'.join(place[:-1])} has" if place[1:] else "; it has"
        return f"engine onnx has no option {name!r}{within}: {', '.join(model.model_fields)}"
    message = first["msg"].removeprefix("Value error, ")
    return f"option {name} of engine onnx: {message}" if name else f"engine onnx: {message}"
