"""What a job may ask of FaceFusion: its own option names, as it keeps them in its state.

Those that the contract tells of are checked. Processors that it only names (age_modifier, face_editor, ...)
take `PROCESSOR_ANYTHING`: numbers, words, or lists as `a,b` (`a,` has one entry), handed on as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from schemas.errors import UsageError

SWAP = "face_swapper"
_TOLD = (SWAP, "face_enhancer")
"""Processors whose options the contract lists."""
_NAMED = (
    "age_modifier",
    "background_remover",
    "deep_swapper",
    "expression_restorer",
    "face_debugger",
    "face_editor",
    "frame_colorizer",
    "frame_enhancer",
)
WHOLE = ("background_remover", "frame_colorizer", "frame_enhancer")
"""Processors that change whole pictures."""


def _listed(value: Any) -> Any:
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return value if isinstance(value, Iterable) else (value,)


def _sides(value: Any) -> Any:
    """`512` is a square."""
    return f"{value}x{value}" if str(value).isdecimal() else value


_Many = BeforeValidator(_listed)
_Percent = Annotated[int, Field(ge=0, le=100)]
_Share = Annotated[float, Field(ge=0, le=1)]
_Margins = Annotated[tuple[_Percent, _Percent, _Percent, _Percent], _Many]
"""Top, right, bottom, left."""
_Size = Annotated[str, BeforeValidator(_sides), Field(pattern=r"^[1-9]\d*x[1-9]\d*$")]
_Age = Annotated[int, Field(ge=0, le=100)]
_Angle = Annotated[int, Field(ge=0, le=270, multiple_of=90)]
_Channel = Annotated[int, Field(ge=0, le=255)]
_Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][\w./+-]*$")]

Order = Literal[
    "left-right",
    "right-left",
    "top-bottom",
    "bottom-top",
    "small-large",
    "large-small",
    "best-worst",
    "worst-best",
]
Region = Literal[
    "skin",
    "left-eyebrow",
    "right-eyebrow",
    "left-eye",
    "right-eye",
    "glasses",
    "nose",
    "mouth",
    "upper-lip",
    "lower-lip",
]


class Options(BaseModel):
    """All options of a job. `processors` run in the order given; `mask_colour` (R, G, B) is ours: what shows
    where a processor made the picture transparent, as patches hold no transparency."""

    model_config = ConfigDict(frozen=True, extra="allow", allow_inf_nan=False)

    processors: Annotated[tuple[str, ...], _Many] = (SWAP,)
    mask_colour: Annotated[tuple[_Channel, _Channel, _Channel], _Many] = (0, 0, 0)

    face_detector_model: _Name = "yolo_face"
    face_detector_size: _Size = "640x640"
    face_detector_margin: _Margins = (0, 0, 0, 0)
    face_detector_angles: Annotated[tuple[_Angle, ...], _Many, Field(min_length=1)] = (0,)
    face_detector_score: _Share = 0.5
    face_landmarker_model: _Name = "2dfan4"
    face_landmarker_score: _Share = 0.5
    face_selector_mode: Literal["many", "one", "reference"] = "many"
    face_selector_order: Order = "large-small"
    face_selector_gender: Literal["female", "male", "auto"] | None = None
    face_selector_race: Literal["auto", "white", "black", "latino", "asian", "indian", "arabic"] | None = None
    face_selector_age_start: _Age | None = None
    face_selector_age_end: _Age | None = None
    reference_face_position: Annotated[int, Field(ge=0)] = 0
    reference_face_distance: _Share = 0.3
    reference_frame_number: Annotated[int, Field(ge=0)] = 0
    face_occluder_model: _Name = "xseg_1"
    face_parser_model: _Name = "bisenet_resnet_34"
    face_mask_types: Annotated[
        tuple[Literal["box", "occlusion", "area", "region"], ...], _Many, Field(min_length=1)
    ] = ("box",)
    face_mask_areas: Annotated[tuple[Literal["upper-face", "lower-face", "mouth"], ...], _Many] = (
        "upper-face",
        "lower-face",
        "mouth",
    )
    face_mask_regions: Annotated[tuple[Region, ...], _Many] = get_args(Region)
    face_mask_blur: _Share = 0.3
    face_mask_padding: _Margins = (0, 0, 0, 0)
    face_swapper_model: _Name = "hyperswap_1a_256"
    face_swapper_pixel_boost: _Size = "256x256"
    face_swapper_weight: _Share = 0.5
    face_enhancer_model: _Name = "gfpgan_1.4"
    face_enhancer_blend: _Percent = 80
    face_enhancer_weight: _Share = 0.5

    @model_validator(mode="after")
    def _check(self) -> Self:
        _check_processors(self.processors)
        if (self.face_selector_age_start is None) != (self.face_selector_age_end is None):
            raise ValueError("face_selector_age_start and face_selector_age_end are given together or not")
        return self

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Options:
        """Raises UsageError for an unknown option or a value that cannot be."""
        try:
            options = cls.model_validate(dict(given))
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            name = str(first["loc"][0]) if first["loc"] else ""
            reason = first["msg"].removeprefix("Value error, ")
            where = f"option {name} of engine facefusion" if name else "engine facefusion"
            raise UsageError(f"{where}: {reason}") from None
        for name, value in (options.model_extra or {}).items():
            _check_untold(options.processors, name, value)
        return options

    @property
    def items(self) -> dict[str, Any]:
        """State items of FaceFusion, with the lists of JSON."""
        own = {"processors", "mask_colour"}
        said = self.model_dump(exclude=own | set(self.model_extra or ()), mode="json")
        return said | {name: _untold(value) for name, value in (self.model_extra or {}).items()}

    @property
    def models(self) -> list[str]:
        """Models that processors are told to use."""
        items = self.items
        return [str(items[f"{name}_model"]) for name in self.processors if f"{name}_model" in items]


def _check_processors(names: tuple[str, ...]) -> None:
    if not names or len(set(names)) != len(names):
        raise ValueError("name at least one processor, each once")
    for name in names:
        if name == "lip_syncer":
            raise ValueError("lip_syncer needs sound, which frames come without")
        if name not in (*_TOLD, *_NAMED):
            raise ValueError(f"no processor {name!r}; there are: {', '.join((*_TOLD, *_NAMED))}")


def _check_untold(processors: tuple[str, ...], name: str, value: Any) -> None:
    """Raises UsageError unless a processor whose options nobody told may know the option."""
    if name == "face_tracker_score":
        raise UsageError("engine facefusion has no tracker: it is given frames one by one")
    if not any(name.startswith(f"{one}_") for one in processors if one not in _TOLD):
        known = ", ".join(Options.model_fields)
        chosen = ",".join(processors)
        raise UsageError(
            f"engine facefusion has no option {name!r} with processors {chosen}; it has: {known}"
        )
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise UsageError(f"option {name} of engine facefusion is a number, a word or a list as a,b")


def _untold(value: Any) -> Any:
    if isinstance(value, str) and "," in value:
        return [_number(part.strip()) for part in value.split(",") if part.strip()]
    return value


def _number(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
