"""Models whose licence forbids commercial use take part only where that was accepted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from control.cli.swap import command as swap
from control.licences import accepted
from runtime.settings import OnnxSettings, Settings, load
from schemas.errors import UsageError
from swapper.engines.registry import open_engine

pytestmark = pytest.mark.unit

NC = "non-commercial"
PLAIN: dict[str, Any] = {"swapper.model": "inswapper_128"}
BOTH = {"arcface_w600k_r50": NC, "inswapper_128": NC}


def told(
    folder: Path,
    options: dict[str, Any],
    given: tuple[str, ...] = (),
    before: dict[str, str] | None = None,
    standing: tuple[str, ...] = (),
    engine: str = "onnx",
) -> dict[str, str]:
    settings = Settings(onnx=OnnxSettings(accept_licences=standing))
    return accepted(settings, open_engine(engine, folder), options, given, before)


def test_each_model_that_lacks_it_is_named_with_what_to_say(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as error:
        told(tmp_path, PLAIN)
    assert "arcface_w600k_r50 (non-commercial), inswapper_128 (non-commercial);" in str(error.value)
    advice = str(error.value).partition("--accept-licence ")[2]
    assert told(tmp_path, PLAIN, (advice,)) == BOTH
    with pytest.raises(UsageError, match=r"known: inswapper_128 \(.*add: --accept-licence inswapper_128$"):
        told(tmp_path, PLAIN, ("arcface_w600k_r50",))


@pytest.mark.parametrize(
    "how",
    [
        {"given": ("all",)},
        {"given": ("inswapper_128", "arcface_w600k_r50")},
        {"given": ("codeformer, inswapper_128",), "standing": ("arcface_w600k_r50",)},
        {"standing": ("all",)},
        {"before": BOTH},
    ],
)
def test_only_what_the_job_needs_is_kept_however_it_was_accepted(tmp_path: Path, how: dict[str, Any]) -> None:
    assert told(tmp_path, PLAIN, **how) == BOTH


def test_what_an_earlier_job_accepted_counts_only_under_the_same_licence(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"known: inswapper_128 \(non-commercial\);"):
        told(tmp_path, PLAIN, before=BOTH | {"inswapper_128": "another"})


def test_enhancing_alone_and_the_default_swapper_need_least(tmp_path: Path) -> None:
    assert told(tmp_path, {"processors": "face_enhancer"}) == {}
    assert told(tmp_path, {}, ("all",)) == {"arcface_w600k_r50": NC}


def test_licences_that_nobody_knows_are_accepted_too(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"uniface_256 \(unknown\)"):
        told(tmp_path, {"swapper.model": "uniface_256"})


def test_a_custom_model_is_held_to_what_its_description_says(tmp_path: Path) -> None:
    text = (
        'kind = "enhancer"\ntemplate = "ffhq_512"\nsize = 512\noutput = "0..1"\n'
        'licence = "house only"\ncommercial_use = false\n'
    )
    (tmp_path / "mine.toml").write_text(text)
    wish = {"processors": "face_enhancer", "enhancer.model": "mine"}
    with pytest.raises(UsageError, match=r"mine \(house only\)"):
        told(tmp_path, wish)
    (tmp_path / "mine.toml").write_text(text.replace("false", "true"))
    assert told(tmp_path, wish) == {}


def test_a_checkout_of_facefusion_is_held_to_the_same(tmp_path: Path) -> None:
    options = {"processors": "face_swapper,frame_enhancer", "frame_enhancer_model": "some_upscaler"}
    with pytest.raises(UsageError, match=r"arcface_w600k_r50 \(non-commercial\).*some_upscaler \(unknown\)"):
        told(tmp_path, options, engine="facefusion")


def test_our_own_engines_need_nothing(tmp_path: Path) -> None:
    assert told(tmp_path, {}, engine="mesh") == told(tmp_path, {}, engine="none") == {}


@pytest.mark.parametrize(
    ("words", "means"),
    [
        ((), ()),
        (("--accept-licence",), ("all",)),
        (("--accept-licence", "--quality", "3"), ("all",)),
        (("--accept-licence", "a,b", "--accept-licence", "c"), ("a,b", "c")),
    ],
)
def test_the_option_alone_stands_for_all(words: tuple[str, ...], means: tuple[str, ...]) -> None:
    context = swap.make_context("swap", ["-t", "in.mp4", "-o", "out.mp4", *words])
    assert context.params["accept_licence"] == means


def test_the_environment_can_accept_for_all_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FACESTREAM_ONNX__ACCEPT_LICENCES", '["arcface_w600k_r50"]')
    assert load().onnx.accept_licences == ("arcface_w600k_r50",)
