from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from assembler.finish import finish, load_plan
from assembler.publish import published
from runtime.store import Store
from schemas.errors import OutputError, StoreError
from schemas.frames import VideoFormat
from schemas.job import EncodeSpec, JobSpec
from schemas.orders import FinishOrder
from schemas.record import encode
from tests.support.segments import encode_parts, make_sound, packets_of, plan_of, store_sides

pytestmark = pytest.mark.media

VIDEO = VideoFormat(width=64, height=48, pixel_format="yuv420p")
PTS = [512 * n for n in range(20)]


def order_of(folder: Path, store: Store, output: Path, *, overwrite: bool = True) -> FinishOrder:
    """An order whose plan, sides and segments are in the store."""
    make_sound(folder / "sound.mp4")
    tracks = store_sides(folder / "sound.mp4", folder / "sides")
    store.put_file(folder / "sides", "jobs/j/sides")
    plan = plan_of(VIDEO, (1, 12800), PTS, 20 * 512, tracks=tracks, sides="jobs/j/sides")
    store.put("jobs/j/plan", bytes(encode(plan)))
    checkpoints = []
    for part in encode_parts(folder, VIDEO, (1, 12800), PTS, [9], EncodeSpec(preset="ultrafast"), 20 * 512):
        name = f"segments/{part.checkpoint.stream}/0/a.mp4"
        store.put_file(part.path, name)
        more = {"object": name, "replaced": 2, "warnings": {"corrupt_frames": 1}}
        checkpoints.append(part.checkpoint.model_copy(update=more))
    spec = JobSpec(job="j", input="in.mp4", output=str(output), overwrite=overwrite)
    return FinishOrder(job="j", spec=spec, plan="jobs/j/plan", segments=checkpoints)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store((tmp_path / "store").as_uri())


def left_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_an_order_gives_the_file_and_says_what_it_holds(tmp_path: Path, store: Store) -> None:
    (tmp_path / "out").mkdir()
    output = tmp_path / "out" / "film.mp4"
    event = finish(order_of(tmp_path, store, output), store)
    assert (event.output, event.frames, event.bytes) == (str(output), 20, output.stat().st_size)
    assert event.warnings == {"corrupt_frames": 2, "frames_replaced": 4}
    assert packets_of(output, "audio") == packets_of(tmp_path / "sound.mp4", "audio")
    assert left_in(output.parent) == ["film.mp4"]


def test_repeating_an_order_gives_the_same_bytes(tmp_path: Path, store: Store) -> None:
    output = tmp_path / "film.mp4"
    order = order_of(tmp_path, store, output, overwrite=False)
    finish(order, store)
    before = output.read_bytes()
    finish(order, store)
    assert output.read_bytes() == before


def test_an_existing_file_is_kept_where_overwriting_is_off(tmp_path: Path, store: Store) -> None:
    (tmp_path / "out").mkdir()
    output = tmp_path / "out" / "film.mp4"
    output.write_bytes(b"mine")
    with pytest.raises(OutputError, match="exists"):
        finish(order_of(tmp_path, store, output, overwrite=False), store)
    assert output.read_bytes() == b"mine"
    assert left_in(output.parent) == ["film.mp4"]


@pytest.mark.parametrize("kind", ["folder missing", "a directory", "folder is a file", "name too long"])
def test_an_output_that_cannot_be_written_is_one_line_and_leaves_nothing(
    tmp_path: Path, store: Store, kind: str
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "film.mp4").mkdir()
    (out / "file").touch()
    target = {
        "folder missing": out / "none" / "film.mp4",
        "a directory": out / "film.mp4",
        "folder is a file": out / "file" / "film.mp4",
        "name too long": out / ("f" * 252 + ".mp4"),
    }[kind]
    before = left_in(out)
    with pytest.raises(OutputError) as caught:
        finish(order_of(tmp_path, store, target), store)
    assert "\n" not in str(caught.value)
    assert str(target.parent if kind.startswith("folder") else target) in str(caught.value)
    assert left_in(out) == before


def test_a_lost_segment_fails_the_order_and_leaves_nothing(tmp_path: Path, store: Store) -> None:
    (tmp_path / "out").mkdir()
    order = order_of(tmp_path, store, tmp_path / "out" / "film.mp4")
    store.delete(order.segments[1].object)
    with pytest.raises(StoreError, match="segments/j/1"):
        finish(order, store)
    assert left_in(tmp_path / "out") == []


def test_the_longest_name_a_file_system_takes_can_be_written(tmp_path: Path) -> None:
    target = tmp_path / ("n" * 251 + ".mp4")
    with published(target, "swap-20261201-000000-01234567") as hidden:
        hidden.write_bytes(b"film")
    assert left_in(tmp_path) == [target.name]


def test_an_error_while_writing_leaves_the_old_file(tmp_path: Path) -> None:
    target = tmp_path / "film.mp4"
    target.write_bytes(b"old")

    def write_half() -> None:
        with published(target, "j") as hidden:
            hidden.write_bytes(b"half")
            raise OSError(28, "disk is full")

    with pytest.raises(OutputError, match="disk is full"):
        write_half()
    assert target.read_bytes() == b"old"
    assert left_in(tmp_path) == ["film.mp4"]


def test_what_a_killed_try_left_is_written_over(tmp_path: Path) -> None:
    target = tmp_path / "film.mp4"
    script = (
        "import os, sys; from pathlib import Path; from assembler.publish import published\n"
        "with published(Path(sys.argv[1]), 'j') as hidden:\n"
        "    hidden.write_bytes(b'half'); os._exit(9)\n"
    )
    root = Path(__file__).parents[2]
    assert subprocess.run([sys.executable, "-c", script, target], cwd=root, env=os.environ).returncode == 9
    assert left_in(tmp_path) == [".film.mp4.j.part"]
    with published(target, "j") as hidden:
        hidden.write_bytes(b"whole")
    assert target.read_bytes() == b"whole"
    assert left_in(tmp_path) == ["film.mp4"]


def test_an_animation_names_what_it_cannot_hold(tmp_path: Path, store: Store) -> None:
    order = order_of(tmp_path, store, tmp_path / "film.mp4")
    spec = JobSpec(
        job="j", input="in.mp4", output=str(tmp_path / "film.gif"), encode=EncodeSpec(encoder="gif")
    )
    more = {
        "chapters": [(0, 1, 1, 1, "Eins")],
        "metadata": {"title": "Film", "encoder": "x", "timecode": "t"},
    }
    plan = load_plan(store, order.plan).model_copy(update=more)
    store.put("jobs/j/plan", bytes(encode(plan)))
    event = finish(order.model_copy(update={"spec": spec}), store)
    named = {
        name: count for name, count in event.warnings.items() if name.split("_")[-1] in ("dropped", "aac")
    }
    assert named == {"track_dropped_aac": 1, "chapters_dropped": 1, "timecode_dropped": 1, "tags_dropped": 1}
