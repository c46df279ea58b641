"""`facestream models`, as a user types it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from control.cli.main import main
from tests.golden.standins import build
from tests.support.faces import models

pytestmark = pytest.mark.unit

CUSTOM = (
    'kind = "enhancer"\ntemplate = "ffhq_512"\nsize = 512\noutput = "0..1"\n'
    'licence = "[bold]ours[/bold]"\ncommercial_use = false\n'
)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("files"))


@pytest.fixture(scope="module")
def built() -> Path:
    return models()


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FACESTREAM_MODELS", str(tmp_path / "store"))
    return tmp_path / "store"


def run(*words: str | Path) -> int:
    with pytest.raises(SystemExit) as end:
        main(["models", *map(str, words)])
    assert isinstance(end.value.code, int)
    return end.value.code


def row(out: str, name: str) -> str:
    return next(line for line in out.splitlines() if line.split()[:1] == [name])


def test_add_says_what_a_file_is_and_the_list_shows_it(
    files: Path, store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("add", files / "inswapper_128.onnx") == 2
    assert "non-commercial; if your use is allowed, add: --accept-licence" in capsys.readouterr().err
    assert run("add", files / "inswapper_128.onnx", "--accept-licence") == 0
    told = capsys.readouterr().out.splitlines()
    assert told[:4] == [
        "inswapper_128: swapper",
        "  in  target float (any, 3, 128, 128)",
        "  in  source float (any, 512)",
        "  out output float (any, 3, 128, 128)",
    ]
    assert told[4] == "  licence non-commercial (no commercial use, accepted)"
    assert str(store / "inswapper_128.onnx") in told[5]
    assert run("list") == 0
    out = capsys.readouterr().out
    assert all(word in row(out, "inswapper_128") for word in (" present ", " no ", " non-commercial "))
    assert all(word in row(out, "xseg_1") for word in (" missing ", " yes ", " GPL-3.0 "))


def test_the_list_shows_described_models_and_what_is_wrong_with_others(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store.mkdir()
    (store / "mine.toml").write_text(CUSTOM)
    (store / "torn.toml").write_text("kind =")
    assert run("list") == 0
    said = capsys.readouterr()
    assert all(word in row(said.out, "mine") for word in (" missing ", " no ", "[bold]ours[/bold]"))
    assert f"not a model: {store / 'torn.toml'} is no TOML" in said.err


def test_verify_fails_for_what_is_wrong_and_not_for_own_files_that_are_missing(
    files: Path, built: Path, store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store.mkdir()
    for name in ("det_back", "mesh"):
        shutil.copy(built / f"{name}.onnx", store)
    assert run("add", files / "xseg_1.onnx") == run("verify") == 0
    with (store / "xseg_1.onnx").open("r+b") as file:
        file.write(b"\0")
    capsys.readouterr()
    assert run("verify") == 1
    said = capsys.readouterr()
    assert "wrong hash" in row(said.out, "xseg_1")
    assert "not right: xseg_1; run: facestream models add FILE" in said.err
