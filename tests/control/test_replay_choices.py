"""What a replay puts on the frames: the job's own face goes on only where it was prepared for that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from control import admission
from control.cli.replay import _swap
from runtime.settings import Settings
from runtime.store import Store
from schemas.errors import UsageError
from schemas.job import JobSpec
from swapper.engines.base import Engine
from swapper.engines.registry import open_engine
from tests.golden.standins import build
from tests.golden.vectors import HERE

pytestmark = pytest.mark.unit

OPTIONS = {"swapper.model": "inswapper_128"}
NOTHING: dict[str, Any] = dict.fromkeys(["on_failure", "engine_options", "sources", "source_face", "consent"])
NOTHING |= {"accept_licence": ("all",)}


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    return open_engine("onnx", build(tmp_path_factory.mktemp("standins")))


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(data=tmp_path)


@pytest.fixture
def old(settings: Settings, engine: Engine) -> JobSpec:
    face = admission.prepare(settings, engine, [HERE / "sources/s1.png"], None, OPTIONS)
    assert face is not None
    swap: dict[str, Any] = {"engine": "onnx", "options": OPTIONS, "consent": "signed"}
    swap["face"] = admission.store_face(Store.of(settings), face)
    return admission.make_spec(job="old", input="/in.mp4", output="/out.mp4", swap=swap)


def test_the_jobs_face_goes_on_with_other_options(settings: Settings, engine: Engine, old: JobSpec) -> None:
    swap = _swap(settings, old, engine, NOTHING | {"engine_options": ("swapper.model=ghost_1_256",)})
    assert (swap["face"], swap["consent"]) == (old.swap.face, "signed")
    assert swap["options"] == {"swapper.model": "ghost_1_256"}


@pytest.mark.parametrize(
    ("wish", "says"),
    [
        ("selector.mode=reference", "prepare the face with that option"),
        ("selector.gender=auto", "prepare the face with that option"),
        ("swapper.model=magic", "there are: blendswap_256"),
    ],
)
def test_options_that_the_face_was_not_prepared_for_are_refused(
    settings: Settings, engine: Engine, old: JobSpec, wish: str, says: str
) -> None:
    with pytest.raises(UsageError, match=says):
        _swap(settings, old, engine, NOTHING | {"engine_options": (wish,)})


def test_another_face_is_prepared_with_the_options_of_the_replay(
    settings: Settings, engine: Engine, old: JobSpec
) -> None:
    sources = (HERE / "sources/s2.png",)
    swap = _swap(settings, old, engine, NOTHING | {"sources": sources, "source_face": 1})
    assert swap["face"] != old.swap.face
    assert (swap["options"], swap["consent"]) == (OPTIONS, "")
