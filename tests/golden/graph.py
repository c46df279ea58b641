"""ONNX graphs put together by hand, and numbers that are the same on every machine."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

F32, F64, I64 = TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.INT64


def uniform(seed, shape):
    """splitmix64 -> uniform(-1, 1), exactly reproducible"""
    n = int(np.prod(shape))
    with np.errstate(over="ignore"):
        z = np.uint64(seed * 1000003 + 12345) + np.arange(1, n + 1, dtype=np.uint64) * np.uint64(
            0x9E3779B97F4A7C15
        )
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    return ((z >> np.uint64(40)).astype(np.float64) / 2**24 * 2 - 1).astype(np.float32).reshape(shape)


def permutation(seed, n):
    return np.argsort(uniform(seed, (n,)), kind="stable").astype(np.int64)


def hadamard(n):
    m = np.array([[1.0]])
    while m.shape[0] < n:
        m = np.block([[m, m], [m, -m]])
    return m


def column(values):
    """Numbers for the three channels of [N,3,H,W]"""
    return np.array(values, np.float64).reshape(1, 3, 1, 1)


class Graph:
    """Collects nodes; tensors go by their names, numbers become initializers"""

    def __init__(self, name):
        self.name, self.k = name, 0
        self.nodes, self.inits, self.ins, self.outs, self.cache = [], [], [], [], {}

    def c(self, value, dtype=np.float32):
        a = np.ascontiguousarray(np.asarray(value, dtype))
        key = (a.dtype.str, a.shape, a.tobytes())
        if key not in self.cache:
            n = f"c{len(self.inits)}"
            self.inits.append(numpy_helper.from_array(a, n))
            self.cache[key] = n
        return self.cache[key]

    def op(self, kind, *ins, n_out=1, out=None, **attrs):
        ins = [self.c(i) if not isinstance(i, str) else i for i in ins]
        outs = []
        for _ in range(n_out):
            self.k += 1
            outs.append(f"t{self.k}")
        if out:
            outs = [out]
        self.nodes.append(helper.make_node(kind, ins, outs, **attrs))
        return outs[0] if n_out == 1 else outs

    def input(self, name, shape, dtype=F32):
        self.ins.append(helper.make_tensor_value_info(name, dtype, shape))
        return name

    def output(self, t, name, shape, dtype=F32):
        self.op("Identity", t, out=name)
        self.outs.append(helper.make_tensor_value_info(name, dtype, shape))

    # shorthands
    def add(self, a, b):
        return self.op("Add", a, b)

    def sub(self, a, b):
        return self.op("Sub", a, b)

    def mul(self, a, b):
        return self.op("Mul", a, b)

    def div(self, a, b):
        return self.op("Div", a, b)

    def clip(self, a, lo, hi):
        return self.op("Clip", a, lo, hi)

    def affine(self, a, k, b):
        return self.add(self.mul(a, k), b)

    def cat(self, *t, axis=1):
        return self.op("Concat", *t, axis=axis)

    def reshape(self, t, *shape):
        return self.op("Reshape", t, self.c(list(shape), np.int64))

    def perm(self, t, *p):
        return self.op("Transpose", t, perm=list(p))

    def rmean(self, t, *axes, keep=1):
        return self.op("ReduceMean", t, axes=list(axes), keepdims=keep)

    def rmax(self, t, *axes, keep=1):
        return self.op("ReduceMax", t, axes=list(axes), keepdims=keep)

    def rmin(self, t, *axes, keep=1):
        return self.op("ReduceMin", t, axes=list(axes), keepdims=keep)

    def rsum(self, t, *axes, keep=1):
        return self.op("ReduceSum", t, self.c(list(axes), np.int64), keepdims=keep)

    def pick(self, t, axis, a, b):
        return self.op("Slice", t, self.c([a], np.int64), self.c([b], np.int64), self.c([axis], np.int64))

    def split(self, t, n, axis):
        return self.op("Split", t, n_out=n, axis=axis)

    def model(self, last=()):
        """The finished model; `last`: initializers that come after all others."""
        inits = self.inits + [numpy_helper.from_array(a, n) for n, a in last]
        g = helper.make_graph(self.nodes, self.name, self.ins, self.outs, inits)
        m = helper.make_model(g, opset_imports=[helper.make_opsetid("", 13)], producer_name="standin")
        m.ir_version = 8
        onnx.checker.check_model(m, full_check=True)
        return m
