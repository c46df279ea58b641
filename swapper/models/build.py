"""Converts MediaPipe's TFLite face models to ONNX: uint8 NHWC pictures in, any number at once.

Only the operators these models use are known. The same file gives the same bytes every time, so
that the result can be pinned by its SHA-256.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from schemas.errors import ModelError

try:
    import onnx
    import tflite
    from onnx import TensorProto, helper, numpy_helper
except ImportError as missing:  # serving needs neither
    raise ModelError(
        f"building models needs {missing.name}: install the extra facestream[models]"
    ) from missing

Array = npt.NDArray[Any]

_OPSET = 17
_IR_VERSION = 8
_TYPES: Mapping[int, type[np.generic]] = {
    tflite.TensorType.FLOAT32: np.float32,
    tflite.TensorType.FLOAT16: np.float16,
    tflite.TensorType.INT32: np.int32,
}
_OPERATORS = {v: k for k, v in vars(tflite.BuiltinOperator).items() if isinstance(v, int)}
_NCHW = [0, 3, 1, 2]
_NHWC = [0, 2, 3, 1]


def convert(model: bytes, *, scale: float, shift: float, any_size: bool) -> bytes:
    """ONNX bytes of a TFLite model.

    Input `image`: uint8 (n, height, width, 3), taken as `sample * scale + shift`. With `any_size`
    height and width are free (multiples of the model's stride), else those of the TFLite model.
    Outputs `out0`, `out1`, … in TFLite's order, float32 (n, …).

    Raises ModelError for an operator that is not known.
    """
    return _Graph(tflite.Model.GetRootAsModel(model, 0)).convert(scale, shift, any_size)


@dataclass
class _Graph:
    """The ONNX graph while it grows. Feature maps are NCHW, `flat` tensors (n, anchors, values)."""

    model: Any
    nodes: list[Any] = field(default_factory=list)
    weights: list[Any] = field(default_factory=list)
    names: dict[int, str] = field(default_factory=dict)
    flat: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.graph = self.model.Subgraphs(0)
        self.constants = dict(self._constants())

    def convert(self, scale: float, shift: float, any_size: bool) -> bytes:
        source = self.graph.Inputs(0)
        self.names[source] = self._input(scale, shift)
        for i in range(self.graph.OperatorsLength()):
            self._operator(self.graph.Operators(i))
        outputs = [self._output(i) for i in range(self.graph.OutputsLength())]
        size = ["height", "width"] if any_size else self.shape(source)[1:3]
        image = helper.make_tensor_value_info("image", TensorProto.UINT8, ["n", *size, 3])
        graph = helper.make_graph(self.nodes, "face", [image], outputs, self.weights)
        opset = helper.make_opsetid("", _OPSET)
        made = helper.make_model(graph, opset_imports=[opset], ir_version=_IR_VERSION)
        onnx.checker.check_model(made)
        return bytes(made.SerializeToString(deterministic=True))

    def shape(self, tensor: int) -> list[int]:
        found = self.graph.Tensors(tensor)
        return [int(n) for n in found.ShapeAsNumpy()] if found.ShapeLength() else []

    def add(self, kind: str, inputs: list[str], **attributes: Any) -> str:
        """A new node; returns the name of its output."""
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], **attributes))
        return name

    def weight(self, values: Array) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def _constants(self) -> Any:
        for i in range(self.graph.TensorsLength()):
            tensor = self.graph.Tensors(i)
            buffer = self.model.Buffers(tensor.Buffer())
            if buffer.DataLength():
                raw = buffer.DataAsNumpy().tobytes()
                yield i, np.frombuffer(raw, _TYPES[tensor.Type()]).reshape(self.shape(i))

    def _input(self, scale: float, shift: float) -> str:
        image = self.add("Cast", ["image"], to=TensorProto.FLOAT)
        image = self.add("Transpose", [image], perm=_NCHW)
        image = self.add("Mul", [image, self.weight(np.array([scale], np.float32))])
        return self.add("Add", [image, self.weight(np.array([shift], np.float32))])

    def _output(self, index: int) -> Any:
        tensor = self.graph.Outputs(index)
        name, shape = f"out{index}", list[int | str](self.shape(tensor)[1:])
        if tensor in self.flat:
            self.nodes.append(helper.make_node("Identity", [self.names[tensor]], [name]))
            shape = ["anchors", *shape[1:]]
        else:
            self.nodes.append(helper.make_node("Flatten", [self.names[tensor]], [name], axis=1))
            shape = [int(np.prod(self.shape(tensor)[1:]))]
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", *shape])

    def _operator(self, operator: Any) -> None:
        code = self.model.OperatorCodes(operator.OpcodeIndex())
        number = max(code.BuiltinCode(), code.DeprecatedBuiltinCode())
        kind = _OPERATORS.get(number, str(number))
        if kind == "DEQUANTIZE":  # weights stored as float16
            stored = self.constants[operator.Inputs(0)]
            self.constants[operator.Outputs(0)] = stored.astype(np.float32)
            return
        if kind not in _CONVERTERS:
            raise ModelError(f"operator {kind} of the TFLite model is not known")
        inputs = [int(operator.Inputs(i)) for i in range(operator.InputsLength())]
        output = int(operator.Outputs(0))
        self.names[output] = _CONVERTERS[kind](self, operator, inputs, output)

    def activated(self, name: str, activation: int) -> str:
        if activation == tflite.ActivationFunctionType.NONE:
            return name
        if activation == tflite.ActivationFunctionType.RELU:
            return self.add("Relu", [name])
        raise ModelError(f"activation {activation} of the TFLite model is not known")

    def padding(self, tensor: int, kernel: list[int], stride: list[int], mode: int) -> list[int]:
        """TensorFlow's padding as ONNX wants it: top, left, bottom, right."""
        if mode == tflite.Padding.VALID:
            return [0, 0, 0, 0]
        before, after = [], []
        for size, k, s in zip(self.shape(tensor)[1:3], kernel, stride, strict=True):
            total = max((-(-size // s) - 1) * s + k - size, 0)
            before.append(total // 2)
            after.append(total - total // 2)
        return before + after


def _options(operator: Any, kind: Any) -> Any:
    table, options = operator.BuiltinOptions(), kind()
    options.Init(table.Bytes, table.Pos)
    return options


def _conv(graph: _Graph, operator: Any, inputs: list[int], output: int) -> str:
    options = _options(operator, tflite.Conv2DOptions)
    kernel = graph.constants[inputs[1]].transpose(0, 3, 1, 2)
    return _convolution(graph, options, inputs, kernel, 1)


def _depthwise(graph: _Graph, operator: Any, inputs: list[int], output: int) -> str:
    options = _options(operator, tflite.DepthwiseConv2DOptions)
    kernel = graph.constants[inputs[1]].transpose(3, 0, 1, 2)
    return _convolution(graph, options, inputs, kernel, graph.shape(inputs[0])[3])


def _convolution(graph: _Graph, options: Any, inputs: list[int], kernel: Array, groups: int) -> str:
    stride = [options.StrideH(), options.StrideW()]
    pads = graph.padding(inputs[0], list(kernel.shape[2:]), stride, options.Padding())
    weights = graph.weight(kernel), graph.weight(graph.constants[inputs[2]])
    name = graph.add("Conv", [graph.names[inputs[0]], *weights], strides=stride, pads=pads, group=groups)
    return graph.activated(name, options.FusedActivationFunction())


def _prelu(graph: _Graph, operator: Any, inputs: list[int], output: int) -> str:
    """a*x + (1-a)*relu(x), as two depthwise 1x1 convolutions: ONNX Runtime's own PRelu leaves its
    blocked layout and makes the mesh model four times slower on a CPU."""
    slope = graph.constants[inputs[1]].reshape(-1, 1, 1, 1)
    source = graph.names[inputs[0]]
    kept = graph.add("Relu", [source])
    kept = graph.add("Conv", [kept, graph.weight(1 - slope)], group=len(slope))
    leak = graph.add("Conv", [source, graph.weight(slope)], group=len(slope))
    return graph.add("Add", [kept, leak])


def _relu(graph: _Graph, operator: Any, inputs: list[int], output: int) -> str:
    return graph.add("Relu", [graph.names[inputs[0]]])


def _add(graph: _Graph, operator: Any, inputs: list[int], output: int) -> str:
    name = graph.add("Add", [graph.names[i] for i in inputs])
    return graph.activated(name, _options(operator, tflite.AddOptions).FusedActivationFunction())


def _max_pool(graph: _Graph, operator: Any, inputs: list[int], output: int) -> str:
    options = _options(operator, tflite.Pool2DOptions)
    kernel = [options.FilterHeight(), options.FilterWidth()]
    stride = [options.StrideH(), options.StrideW()]
    pads = graph.padding(inputs[0], kernel, stride, options.Padding())
    source = [graph.names[inputs[0]]]
    return graph.add("MaxPool", source, kernel_shape=kernel, strides=stride, pads=pads)


def _pad(graph: _Graph, operator: Any, inputs: list[int], output: int) -> str:
    pads = graph.constants[inputs[1]].astype(np.int64)[_NCHW].T.reshape(-1)
    return graph.add("Pad", [graph.names[inputs[0]], graph.weight(pads)])


def _reshape(graph: _Graph, operator: Any, inputs: list[int], output: int) -> str:
    """Feature map (n, h, w, c) to (n, h*w*anchors, values)."""
    graph.flat.add(output)
    shape = np.array([0, -1, graph.shape(output)[-1]], np.int64)
    name = graph.add("Transpose", [graph.names[inputs[0]]], perm=_NHWC)
    return graph.add("Reshape", [name, graph.weight(shape)])


def _concatenation(graph: _Graph, operator: Any, inputs: list[int], output: int) -> str:
    graph.flat.add(output)
    axis = _options(operator, tflite.ConcatenationOptions).Axis()
    return graph.add("Concat", [graph.names[i] for i in inputs], axis=axis)


_Converter = Callable[[_Graph, Any, list[int], int], str]
_CONVERTERS: Mapping[str, _Converter] = {
    "CONV_2D": _conv,
    "DEPTHWISE_CONV_2D": _depthwise,
    "PRELU": _prelu,
    "RELU": _relu,
    "ADD": _add,
    "MAX_POOL_2D": _max_pool,
    "PAD": _pad,
    "RESHAPE": _reshape,
    "CONCATENATION": _concatenation,
}
