"""Whatever FaceFusion does to its process, the worker lives, says why, and goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from runtime.settings import FaceFusionSettings
from schemas.errors import EngineError, ModelError, UsageError
from swapper.engines.base import SourceFace, Work
from swapper.engines.facefusion.engine import FaceFusionEngine
from swapper.engines.facefusion.process import Child
from tests.support import checkout
from tests.support.painted import frame
from tests.support.processes import ROOT

pytestmark = pytest.mark.unit

SHOWN = np.full((64, 96, 3), 120, np.uint8)
BLACK = np.zeros((64, 96, 3), np.uint8)


def run(engine: FaceFusionEngine, how: str, picture: Any = SHOWN) -> None:
    """A processor that does something to its process; to none, of a black picture."""
    options = {"processors": "face_debugger", "face_debugger_items": how}
    engine.swap([Work(engine.open(SourceFace("facefusion"), options), [frame(picture)])])


@pytest.mark.parametrize(
    ("how", "ending"), [("exit", r"exit code 1"), ("segv", "SIGSEGV"), ("raise", "KeyError: 'a fault")]
)
def test_an_end_is_an_error_with_its_last_words_and_the_next_batch_runs(
    engine: FaceFusionEngine, how: str, ending: str
) -> None:
    with pytest.raises(EngineError, match=ending) as told:
        run(engine, how)
    if how != "raise":
        assert f"about to {how}" in str(told.value)
    run(engine, how, BLACK)


def test_a_hang_is_ended_after_its_time(make: Any) -> None:
    engine = make(frame_seconds=0.5)
    with pytest.raises(EngineError, match=r"within 0\.5 s.*about to hang"):
        run(engine, "hang")
    run(engine, "hang", BLACK)


def test_a_child_that_ended_between_batches_is_started_again(engine: FaceFusionEngine, home: Path) -> None:
    run(engine, "nothing")
    (_, pid) = checkout.events(home, "import")[0].split()
    os.kill(int(pid), signal.SIGKILL)
    next(iter(engine._children.values()))._process.wait()
    run(engine, "nothing")
    assert len(checkout.events(home, "import")) == 2


def test_a_child_that_cannot_forget_faces_goes(engine: FaceFusionEngine, home: Path) -> None:
    (home / "facefusion" / "face_store.py").write_text("frames = {}\ndef clear_faces():\n    raise OSError\n")
    run(engine, "nothing")
    run(engine, "nothing")
    assert len(checkout.events(home, "import")) == 2


def test_a_provider_that_does_not_start_is_an_error(make: Any) -> None:
    with pytest.raises(EngineError, match="did not start CUDAExecutionProvider"):
        run(make(providers=("cuda", "cpu")), "gpu")


def test_an_unknown_version_is_refused_before_anything_of_it_runs(make: Any, tmp_path: Path) -> None:
    home = checkout.build(tmp_path / "newer", "3.9.0")
    with pytest.raises(UsageError, match=r"3\.9\.0 is not known here, only 3\.8\.1"):
        run(make(home=home), "nothing")
    assert not (home / "events").exists()


@pytest.mark.parametrize(
    ("file", "text", "reason"),
    [
        ("face_store.py", "", r"no facefusion\.face_store\.clear_faces"),
        ("metadata.py", "", "which version"),
        (
            "processors/modules/face_debugger/core.py",
            "import nothing_like_it",
            "has no module nothing_like_it",
        ),
    ],
)
def test_a_checkout_that_lacks_something_is_refused_by_its_name(
    engine: FaceFusionEngine, home: Path, file: str, text: str, reason: str
) -> None:
    (home / "facefusion" / file).write_text(text)
    with pytest.raises(UsageError, match=reason):
        run(engine, "nothing")


def test_a_module_that_is_gone_is_refused_by_its_name(engine: FaceFusionEngine, home: Path) -> None:
    (home / "facefusion" / "content_analyser.py").unlink()
    with pytest.raises(UsageError, match=r"no module facefusion\.content_analyser"):
        run(engine, "nothing")


def test_a_processor_that_is_not_ready_is_a_model_error(engine: FaceFusionEngine, home: Path) -> None:
    core = home / "facefusion" / "processors" / "modules" / "face_debugger" / "core.py"
    core.write_text(core.read_text() + "\ndef pre_check():\n    return False\n")
    with pytest.raises(ModelError, match="face_debugger of FaceFusion is not ready"):
        run(engine, "nothing")


def test_missing_and_damaged_models_are_named_before_facefusion_sees_them(
    engine: FaceFusionEngine, home: Path
) -> None:
    model = home / ".assets" / "models" / "nsfw_2.onnx"
    model.write_bytes(b"damaged")
    with pytest.raises(ModelError, match=r"nsfw_2\.onnx is damaged"):
        run(engine, "nothing")
    model.unlink()
    with pytest.raises(ModelError, match=r"nsfw_2\.onnx is missing"):
        run(engine, "nothing")
    assert not (home / "events").exists()


def test_a_folder_without_facefusion_and_a_python_that_is_none_are_refused(make: Any, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no checkout"):
        run(make(home=tmp_path), "nothing")
    with pytest.raises(UsageError, match=r"facefusion\.python"):
        run(make(python=tmp_path / "python"), "nothing")


def test_a_child_imports_nothing_of_ours(home: Path) -> None:
    core = home / "facefusion" / "processors" / "modules" / "face_debugger" / "core.py"
    core.write_text(core.read_text() + f"\nassert {str(ROOT)!r} not in sys.path\n")
    child = Child(FaceFusionSettings(home=home), ("face_debugger",), {"face_detector_margin": [0, 0, 0, 0]})
    child.end()


def test_a_child_does_not_outlive_its_worker(home: Path) -> None:
    script = """
import sys
from pathlib import Path
import numpy as np
from runtime.settings import FaceFusionSettings
from swapper.engines.facefusion.process import Child, blob
from swapper.engines.facefusion.protocol import Message
items = {"face_detector_margin": [0, 0, 0, 0], "face_debugger_items": "hang"}
child = Child(FaceFusionSettings(home=Path(sys.argv[1])), ("face_debugger",), items)
child.ask(Message("frame", {}, {"picture": blob(np.full((64, 96, 3), 120, np.uint8))}))
"""
    worker = subprocess.Popen([sys.executable, "-c", script, str(home)], cwd=ROOT)
    with worker:
        try:
            _wait(lambda: checkout.events(home, "import"))
            pid = int(checkout.events(home, "import")[0].split()[1])
            assert _lives(pid)
        finally:
            worker.kill()
    _wait(lambda: not _lives(pid))


def _wait(condition: Any) -> None:
    until = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.05)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] != "Z"
