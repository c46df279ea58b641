"""A user's model is told by its name, or by what it takes and gives, and never taken for another."""

from __future__ import annotations

import json
import shutil
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from schemas.errors import FacestreamError, ModelError, UsageError
from swapper.engines.onnx.custom import found
from swapper.engines.onnx.session import Models
from swapper.engines.onnx.signatures import signatures
from swapper.models import index, inspection, store
from swapper.models.add import add
from swapper.models.inspection import inspect
from swapper.models.manifest import manifest
from swapper.models.store import State, built
from tests.golden.standins import build

pytestmark = pytest.mark.unit

FLOAT = TensorProto.FLOAT
CUSTOM = (
    'kind = "swapper"\ntemplate = "arcface_128"\nsize = 128\noutput = "0..1"\n'
    'licence = "mine"\ncommercial_use = true\n[source]\nkind = "emap"\n'
)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Stand-ins for what users have, which leave the batch axis open."""
    return build(tmp_path_factory.mktemp("files"))


@pytest.fixture
def there(tmp_path: Path) -> Path:
    """A store that does not exist yet."""
    return tmp_path / "new" / "store"


def state(folder: Path, name: str) -> State:
    return next(one.state for one in store.verify(folder, found(folder)[0]) if one.model.name == name)


def test_every_known_file_has_a_signature() -> None:
    assert set(signatures()) == set(manifest()) - {model.name for model in built()}


@pytest.mark.parametrize("fixed", [False, True], ids=["open batch axis", "fixed"])
def test_every_model_fits_its_own_name(tmp_path: Path, there: Path, fixed: bool) -> None:
    for file in sorted(build(tmp_path / "files", fixed_batch=fixed).glob("*.onnx")):
        added = add(there, file, accept=True)
        assert added.name == file.stem
        assert added.file.read_bytes() == file.read_bytes()
        Models(there)[added.name]
    assert not any(one.state in (State.WRONG, State.UNRECORDED) for one in store.verify(there))


def test_a_file_that_does_not_fit_its_name_is_refused_with_the_reason(
    files: Path, there: Path, tmp_path: Path
) -> None:
    wrong = tmp_path / "gfpgan_1.4.onnx"
    shutil.copy(files / "gpen_bfr_256.onnx", wrong)
    with pytest.raises(
        ModelError, match=r"gfpgan_1\.4\.onnx does not fit gfpgan_1\.4: input input float .*512, 512"
    ):
        add(there, wrong)
    cases = {
        "inswapper_128_fp16": ("plain", r"its last initializer is .*, not \(512, 512\)"),
        "inswapper_128": ("ghost_1_256", r"target float \(any, 3, 256, 256\), not target float"),
        "ghost_1_256": ("blendswap_256", r"source float \(any, 3, 112, 112\), not source float \(any, 512\)"),
        "codeformer": ("gfpgan_1.4", "there is no input weight"),
        "arcface_w600k_r50": ("fan_68_5", r"input input float \(any, 5, 2\)"),
        "2dfan4": ("peppa_wutz", "it has 1 outputs, not 2"),
        "bisenet_resnet_18": ("gfpgan_1.4", "19, 512, 512"),
        "yoloface_8n": ("inswapper_128", "its inputs are .*source.*, not input"),
    }
    plain = onnx.load(str(files / "inswapper_128.onnx"))
    plain.graph.initializer.append(numpy_helper.from_array(np.zeros(3, np.float32), "more"))
    onnx.save(plain, str(tmp_path / "plain.onnx"))
    for name, (other, says) in cases.items():
        with pytest.raises(ModelError, match=f"does not fit {name}: .*{says}"):
            add(there, (tmp_path if other == "plain" else files) / f"{other}.onnx", name, accept=True)
    assert [one.name for one in there.iterdir()] == []


@pytest.mark.parametrize("name", ["arcface_w600k_r50", "fan_68_5", "fairface", "codeformer", "blendswap_256"])
def test_a_file_without_a_name_is_told_by_what_it_takes_and_gives(
    files: Path, there: Path, tmp_path: Path, name: str
) -> None:
    unnamed = tmp_path / "download (1).onnx"
    shutil.copy(files / f"{name}.onnx", unnamed)
    assert add(there, unnamed, accept=True).name == name
    assert (there / f"{name}.onnx").is_file()


def test_a_file_that_could_be_several_is_refused_with_their_names(
    files: Path, there: Path, tmp_path: Path
) -> None:
    unnamed = tmp_path / "model.onnx"
    shutil.copy(files / "gfpgan_1.4.onnx", unnamed)
    with pytest.raises(ModelError, match=r"could be gfpgan_1\.2, gfpgan_1\.3, gfpgan_1\.4, .*say which with"):
        add(there, unnamed)
    assert add(there, unnamed, "gfpgan_1.3").file == there / "gfpgan_1.3.onnx"


def test_what_is_no_known_model_is_refused_with_what_it_takes(there: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"no model that is known: input float \(any, 7\).*needs a desc"):
        add(there, _saved(tmp_path / "other.onnx", ["n", 7]))


def test_names_that_mean_nothing_and_files_that_are_not_there_are_refused(files: Path, there: Path) -> None:
    with pytest.raises(UsageError, match=r"no model 'magic'; there are: .*magic\.toml"):
        add(there, files / "fan_68_5.onnx", "magic")
    with pytest.raises(UsageError, match=r"no model '\.\./magic'"):
        add(there, files / "fan_68_5.onnx", "../magic")
    with pytest.raises(UsageError, match="facestream models pull"):
        add(there, files / "fan_68_5.onnx", "mesh")
    with pytest.raises(UsageError, match="does not exist"):
        add(there, files / "nothing.onnx")
    with pytest.raises(UsageError, match="is not a file"):
        add(there, files)


def test_what_was_added_is_recorded_and_checked_ever_after(files: Path, there: Path) -> None:
    added = add(there, files / "inswapper_128.onnx", accept=True)
    add(there, files / "fan_68_5.onnx")
    told = index.read(there)
    assert told["inswapper_128"] == added.entry
    assert (told["inswapper_128"].licence, told["inswapper_128"].accepted) == ("non-commercial", True)
    assert (told["fan_68_5"].licence, told["fan_68_5"].accepted) == ("OpenRAIL-M", False)
    assert state(there, "inswapper_128") is State.PRESENT
    data = bytearray(added.file.read_bytes())
    data[-1] ^= 1
    added.file.write_bytes(data)
    assert state(there, "inswapper_128") is State.WRONG
    with pytest.raises(ModelError, match="CRC-32"):
        Models(there)["inswapper_128"]
    add(there, files / "inswapper_128.onnx", accept=True)
    assert state(there, "inswapper_128") is State.PRESENT
    shutil.copy(files / "xseg_1.onnx", there)
    assert state(there, "xseg_1") is State.UNRECORDED
    assert state(there, "xseg_2") is State.MISSING
    assert not next(one for one in store.verify(there) if one.model.name == "xseg_2").wrong


def test_a_licence_that_forbids_commercial_use_has_to_be_accepted(files: Path, there: Path) -> None:
    with pytest.raises(UsageError, match=r"inswapper_128 .*: non-commercial; .*--accept-licence"):
        add(there, files / "inswapper_128.onnx")
    assert not there.exists()


def test_a_described_model_comes_with_its_description(files: Path, there: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine.onnx"
    shutil.copy(files / "inswapper_128.onnx", mine)
    with pytest.raises(ModelError, match="could be inswapper_128"):
        add(there, mine)
    mine.with_suffix(".toml").write_text(CUSTOM)
    added = add(there, mine)
    assert (added.name, added.kind, added.terms.licence) == ("mine", "swapper", "mine")
    assert (there / "mine.toml").read_text() == CUSTOM
    assert state(there, "mine") is State.PRESENT
    mine.with_suffix(".toml").write_text(CUSTOM.replace("size = 128", "size = 256"))
    with pytest.raises(ModelError, match=r"does not fit mine: input target"):
        add(there, mine)
    assert add(there, mine.rename(tmp_path / "other.onnx"), "mine").name == "mine"


def test_a_checksum_beside_the_file_has_to_agree(files: Path, there: Path, tmp_path: Path) -> None:
    file = tmp_path / "fan_68_5.onnx"
    shutil.copy(files / file.name, file)
    file.with_suffix(".hash").write_text("01234567")
    with pytest.raises(ModelError, match=r"fan_68_5\.hash says otherwise"):
        add(there, file)
    file.with_suffix(".hash").write_text(f"{zlib.crc32(file.read_bytes()):08X}\n")
    add(there, file)


def test_a_file_of_the_store_can_be_added_where_it_lies(files: Path, there: Path) -> None:
    there.mkdir(parents=True)
    shutil.copy(files / "fan_68_5.onnx", there)
    add(there, there / "fan_68_5.onnx")
    assert state(there, "fan_68_5") is State.PRESENT


def test_models_added_at_the_same_time_are_all_recorded(files: Path, there: Path) -> None:
    names = ("xseg_1", "xseg_2", "xseg_3", "fan_68_5")
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda name: add(there, files / f"{name}.onnx"), names))
    assert set(index.read(there)) == set(names)
    assert not [one for one in there.iterdir() if one.suffix == ".tmp"]


def test_a_damaged_index_is_named(files: Path, there: Path) -> None:
    add(there, files / "fan_68_5.onnx")
    for text in ("{", "[]", '{"models": {"a": {}}}', json.dumps({"models": 3})):
        (there / index.FILE).write_text(text)
        with pytest.raises(ModelError, match=r"index\.json is damaged"):
            store.verify(there)


def test_a_store_that_cannot_be_written_is_an_error_in_one_line(files: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(ModelError, match=r"cannot add .*: "):
        add(tmp_path / "file", files / "fan_68_5.onnx")


def test_data_in_other_files_are_refused_wherever_they_are_named(there: Path, tmp_path: Path) -> None:
    """In a weight, in a node, and in a graph within a node."""
    outside = numpy_helper.from_array(np.zeros(4, np.float32), "w")
    outside.ClearField("raw_data")
    outside.data_location = TensorProto.EXTERNAL
    outside.external_data.add(key="location", value="../../../../etc/passwd")
    constant = helper.make_node("Constant", [], ["w"])
    constant.attribute.add(name="value", type=onnx.AttributeProto.TENSOR, t=outside)
    inner = helper.make_graph([constant], "inner", [], [helper.make_tensor_value_info("w", FLOAT, [4])])
    branch = helper.make_node("If", ["input"], ["w"], then_branch=inner, else_branch=inner)
    for i, graph in enumerate(
        (
            helper.make_graph([], "g", [], [], [outside]),
            helper.make_graph([constant], "g", [], []),
            helper.make_graph([branch], "g", [], []),
        )
    ):
        file = tmp_path / f"{i}.onnx"
        file.write_bytes(helper.make_model(graph).SerializeToString())
        with pytest.raises(ModelError, match=f"{i}.onnx: .*it refers to data in other files"):
            add(there, file)


def test_what_is_no_model_is_refused_in_one_line(files: Path, there: Path, tmp_path: Path) -> None:
    whole = (files / "fan_68_5.onnx").read_bytes()
    made = {
        "empty": b"",
        "text": b"no model at all\n",
        "half": whole[: len(whole) // 2],
        "number": b"\x08" + b"\x80" * 4096,
        "deep": _deep(600),
        "cut": whole[:-3],
    }
    for name, data in made.items():
        file = tmp_path / f"{name}.onnx"
        file.write_bytes(data)
        with pytest.raises(FacestreamError) as error:
            add(there, file)
        assert str(file) in str(error.value)
        assert "\n" not in str(error.value)
        assert ".added." not in str(error.value)
    assert [one.name for one in there.iterdir()] == []


def test_a_file_that_is_too_large_is_refused_before_it_is_read(
    files: Path, there: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("swapper.models.add.MOST_BYTES", 1000)
    with pytest.raises(ModelError, match="larger than an ONNX file can be"):
        add(there, files / "fan_68_5.onnx")
    assert [one.name for one in there.iterdir()] == []


def test_a_file_that_never_opens_costs_its_time_and_no_more(
    files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inspection, "_SECONDS", 0)
    with pytest.raises(ModelError, match="does not open within 0 s"):
        inspect(files / "fan_68_5.onnx")


def test_names_within_a_file_cannot_write_on_a_terminal(tmp_path: Path) -> None:
    graph = inspect(_saved(tmp_path / "m.onnx", ["n", 2], name="in\x1b[31m"))
    assert str(graph.inputs[0]) == r"'in\x1b[31m' float (any, 2)"


def _saved(file: Path, shape: list[int | str], name: str = "input") -> Path:
    inputs = [helper.make_tensor_value_info(name, FLOAT, shape)]
    outputs = [helper.make_tensor_value_info("output", FLOAT, shape)]
    graph = helper.make_graph([helper.make_node("Identity", [name], ["output"])], "g", inputs, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    file.write_bytes(model.SerializeToString())
    return file


def _deep(levels: int) -> bytes:
    """Graphs in attributes of nodes of graphs, as plain bytes."""

    def message(number: int, content: bytes) -> bytes:
        size, out = len(content), bytearray([number << 3 | 2])
        while size > 0x7F:
            out.append(size & 0x7F | 0x80)
            size >>= 7
        return bytes(out) + bytes([size]) + content

    graph = b""
    for _ in range(levels):
        graph = message(1, message(5, message(6, graph)))
    return message(7, graph)
