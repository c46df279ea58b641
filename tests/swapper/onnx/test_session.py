"""Models run over many items: batched only where that is shown to change nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from schemas.errors import ModelError
from swapper.engines.onnx import protobuf
from swapper.engines.onnx.session import Model, Models, mapped

pytestmark = pytest.mark.unit

F32 = TensorProto.FLOAT
RNG = np.random.default_rng(1)


def saved(
    path: Path, nodes: list[onnx.NodeProto], weights: dict[str, np.ndarray], shape: list[int | str]
) -> Path:
    """A model from `input` to `output`; weights are listed among the inputs too, as old exporters do."""
    inputs = [helper.make_tensor_value_info("input", F32, shape)]
    inputs += [helper.make_tensor_value_info(name, F32, value.shape) for name, value in weights.items()]
    outputs = [helper.make_tensor_value_info("output", F32, [shape[0], None])]
    stored = [numpy_helper.from_array(value, name) for name, value in weights.items()]
    graph = helper.make_graph(nodes, "test", inputs, outputs, stored)
    graph.value_info.append(helper.make_tensor_value_info("hidden", F32, [1, 8]))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    model.ir_version = 8
    onnx.save(model, str(path))
    return path


def doubling(path: Path, shape: list[int | str]) -> Path:
    nodes = [
        helper.make_node("Mul", ["input", "scale"], ["hidden"]),
        helper.make_node("Mul", ["hidden", "scale"], ["output"]),
    ]
    return saved(path, nodes, {"scale": np.full((1, 8), 2, np.float32)}, shape)


def baked(path: Path) -> Path:
    """Reshapes to one item whatever comes in: 8 numbers of several items would be mixed up, or refused."""
    shape = numpy_helper.from_array(np.array([1, 8]), "shape")
    nodes = [
        helper.make_node("Reshape", ["input", "shape"], ["hidden"]),
        helper.make_node("Mul", ["hidden", "scale"], ["output"]),
    ]
    file = saved(path, nodes, {"scale": np.full((1, 8), 4, np.float32)}, [1, 2, 4])
    model = onnx.load(str(file))
    model.graph.initializer.append(shape)
    onnx.save(model, str(file))
    return file


def mixing(path: Path) -> Path:
    """Takes any number of items, but gives each the mean of all."""
    nodes = [
        helper.make_node("ReduceMean", ["input"], ["hidden"], axes=[0], keepdims=1),
        helper.make_node("Mul", ["input", "scale"], ["scaled"]),
        helper.make_node("Sub", ["scaled", "hidden"], ["output"]),
    ]
    return saved(path, nodes, {"scale": np.full((1, 8), 5, np.float32)}, ["n", 8])


class Runs:
    """Counts runs of a session."""

    def __init__(self, model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
        from swapper.engines.onnx import session

        self.sizes: list[int] = []
        plain = session._run

        def counted(*args: object) -> object:
            self.sizes.append(args[2])  # type: ignore[arg-type]
            return plain(*args)  # type: ignore[arg-type]

        monkeypatch.setattr(session, "_run", counted)


def test_open_batch_axis_takes_many_after_a_proof(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model(doubling(tmp_path / "m.onnx", ["n", 8]))
    runs = Runs(model, monkeypatch)
    items = RNG.random((5, 8), np.float32)
    for _ in range(2):
        (made,) = model({"input": items})
        np.testing.assert_array_equal(made, items * 4)
    assert runs.sizes == [1, 1, 1, 3, 5, 5]


def test_fixed_batch_axis_is_opened_after_a_proof(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model(doubling(tmp_path / "m.onnx", [1, 8]))
    runs = Runs(model, monkeypatch)
    items = RNG.random((4, 8), np.float32)
    np.testing.assert_array_equal(model({"input": items})[0], items * 4)
    np.testing.assert_array_equal(model({"input": items[:1]})[0], items[:1] * 4)
    assert runs.sizes == [1, 1, 1, 3, 1, 1, 1, 4, 1]


@pytest.mark.parametrize("make", [baked, mixing])
def test_models_that_mix_items_up_are_run_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: object
) -> None:
    file = make(tmp_path / "m.onnx")  # type: ignore[operator]
    items = RNG.random((3, 2, 4) if make is baked else (3, 8), np.float32)
    model = Model(file)
    (made,) = model({"input": items})
    np.testing.assert_allclose(made, items.reshape(3, 8) * 4, rtol=1e-6)
    runs = Runs(model, monkeypatch)
    model({"input": items})
    assert runs.sizes == [1, 1, 1]


def test_large_inputs_are_run_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model(doubling(tmp_path / "m.onnx", ["n", 8]))
    items = RNG.random((150, 8), np.float32)
    runs = Runs(model, monkeypatch)
    np.testing.assert_array_equal(model({"input": items})[0], items * 4)
    assert runs.sizes[4:] == [64, 64, 22]


def test_opened_file_is_a_valid_model_with_the_same_weights(standins: Path, fixed_standins: Path) -> None:
    for file in sorted(fixed_standins.glob("*.onnx")):
        opened = onnx.load_from_string(protobuf.with_free_batch(mapped(file)))
        for value in opened.graph.input:
            axes = value.type.tensor_type.shape.dim
            assert len(axes) == 1 or axes[0].dim_param == "batch"
        plain = onnx.load(str(file))
        assert [w.name for w in opened.graph.initializer] == [w.name for w in plain.graph.initializer]
        assert opened.graph.node == plain.graph.node


@pytest.mark.parametrize("kind", [np.float32, np.float16])
def test_last_initializer_is_read_without_the_library(tmp_path: Path, kind: type) -> None:
    first, last = RNG.random((3, 8)).astype(kind), RNG.random((512, 512)).astype(kind)
    nodes = [helper.make_node("Identity", ["input"], ["output"])]
    graph = helper.make_graph(
        nodes,
        "test",
        [helper.make_tensor_value_info("input", F32, [1, 8])],
        [helper.make_tensor_value_info("output", F32, [1, 8])],
        [numpy_helper.from_array(first, "first"), numpy_helper.from_array(last, "last")],
    )
    onnx.save(helper.make_model(graph), str(tmp_path / "m.onnx"))
    np.testing.assert_array_equal(Models(tmp_path).emap("m"), last.astype(np.float32))


def test_emap_of_the_stand_in_is_the_librarys(standins: Path) -> None:
    stored = onnx.load(str(standins / "inswapper_128.onnx")).graph.initializer[-1]
    np.testing.assert_array_equal(Models(standins).emap("inswapper_128"), numpy_helper.to_array(stored))


@pytest.mark.parametrize("size", [0, 10, 5000])
def test_a_file_that_was_cut_off_is_refused(standins: Path, tmp_path: Path, size: int) -> None:
    data = (standins / "inswapper_128.onnx").read_bytes()
    (tmp_path / "inswapper_128.onnx").write_bytes(data[:size])
    models = Models(tmp_path)
    with pytest.raises(ModelError, match=r"inswapper_128\.onnx"):
        models["inswapper_128"]
    with pytest.raises(ModelError):
        models.emap("inswapper_128")


def test_a_file_whose_checksum_is_another_is_refused(standins: Path, tmp_path: Path) -> None:
    (tmp_path / "fan_68_5.onnx").write_bytes((standins / "fan_68_5.onnx").read_bytes())
    models = Models(tmp_path)
    assert models["fan_68_5"].inputs == ("input",)
    (tmp_path / "fan_68_5.hash").write_text("01234567\n")
    with pytest.raises(ModelError, match=r"fan_68_5\.hash says otherwise: refused"):
        Models(tmp_path)["fan_68_5"]


def test_a_device_that_is_not_there_is_refused_and_not_replaced(standins: Path) -> None:
    with pytest.raises(ModelError, match=r"gives no CUDAExecutionProvider here; it has: .*CPU"):
        Models(standins, "cuda")["fan_68_5"]
