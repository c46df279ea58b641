"""Options have FaceFusion's names and are checked before anything is started."""

from __future__ import annotations

from typing import Any

import pytest

from schemas.errors import UsageError
from swapper.engines.facefusion.options import Options

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"swapper": 1}, "no option 'swapper'"),
        ({"processors": "lip_syncer"}, "lip_syncer needs sound"),
        ({"processors": "magic"}, "there are: face_swapper"),
        ({"processors": ""}, "at least one processor"),
        ({"processors": "face_swapper,face_swapper"}, "each once"),
        ({"face_swapper_weight": 2}, "face_swapper_weight"),
        ({"face_swapper_pixel_boost": "much"}, "face_swapper_pixel_boost"),
        ({"face_swapper_model": "../../secret"}, "face_swapper_model"),
        ({"face_mask_types": "box,beard"}, "face_mask_types"),
        ({"face_selector_age_start": 3}, "together"),
        ({"face_tracker_score": 0.5}, "no tracker"),
        ({"age_modifier_direction": 3}, "no option 'age_modifier_direction'"),
        ({"download_providers": "all"}, "no option 'download_providers'"),
        ({"processors": "age_modifier", "age_modifier_direction": True}, "number, a word or a list"),
    ],
)
def test_wrong_options_are_refused_with_the_reason(given: dict[str, Any], reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        Options.of(given)


def test_options_become_state_items() -> None:
    items = Options.of(
        {
            "processors": "face_swapper,face_editor",
            "face_swapper_pixel_boost": 512,
            "face_mask_padding": "1,2,3,4",
            "face_detector_angles": "0,90",
            "face_editor_eyebrow_direction": 0.5,
            "face_editor_areas": "a,",
        }
    ).items
    assert items["face_swapper_pixel_boost"] == "512x512"
    assert items["face_mask_padding"] == [1, 2, 3, 4]
    assert items["face_detector_angles"] == [0, 90]
    assert items["face_editor_eyebrow_direction"] == 0.5
    assert items["face_editor_areas"] == ["a"]
    assert not {"processors", "mask_colour"} & set(items)
