"""Stand-ins that change or mask a crop: swappers, enhancers, occluders, parsers; and the content check."""

import numpy as np

from tests.golden.graph import F32, F64, Graph, column, hadamard, permutation, uniform


def basis(n, size):
    t = (np.arange(size) + 0.5) / size
    return np.round(np.stack([np.cos(np.pi * k * t) for k in range(n)]), 7)


def blur_kernel(seed, n=5):
    k = np.outer(np.hanning(n + 2)[1:-1], np.hanning(n + 2)[1:-1])
    k = k * (1 + 0.5 * uniform(seed, (n, n)))
    return np.round(k / k.sum(), 7)


def swapper(name, size, mean, std, out_norm, source, seed, scale=2.0, emap=False, extra_mask=False):
    g = Graph(name)
    x = g.input("target", ["N", 3, size, size])
    img = g.affine(x, column(std), column(mean))  # RGB 0..1
    if source == 512:
        s = g.input("source", ["N", 512])
        f = g.reshape(g.op("Tanh", g.op("MatMul", s, g.c(scale * uniform(seed, (512, 27))))), -1, 3, 3, 3)
        nb = 3
    else:
        s = g.input("source", ["N", 3, source, source])
        f = g.affine(
            g.op("AveragePool", s, kernel_shape=[source // 4] * 2, strides=[source // 4] * 2), 1.6, -0.8
        )
        f = g.op(
            "Conv", f, g.c(np.array([[1, -0.3, 0.2], [0.1, 1, -0.4], [-0.2, 0.3, 1]]).reshape(3, 3, 1, 1))
        )
        nb = 4
    tint = g.op("MatMul", g.op("MatMul", g.c(basis(nb, size).T), f), g.c(basis(nb, size)))  # [N,3,S,S]
    soft = g.op(
        "Conv",
        img,
        g.c(np.tile(blur_kernel(seed + 1), (3, 1, 1, 1))),
        group=3,
        kernel_shape=[5, 5],
        pads=[2, 2, 2, 2],
    )
    mix = g.op(
        "Conv",
        img,
        g.c(np.array([[0.22, 0.06, -0.03], [-0.04, 0.2, 0.07], [0.05, -0.02, 0.24]]).reshape(3, 3, 1, 1)),
    )
    y = g.add(g.add(g.mul(soft, 0.62), mix), g.mul(tint, 0.17))
    if out_norm:
        y = g.div(g.sub(y, column(mean)), column(std))
    g.output(y, "output", ["N", 3, size, size])
    if extra_mask:
        g.output(g.clip(g.affine(g.rmean(img, 1), 2.0, -0.2), 0.0, 1.0), "mask", ["N", 1, size, size])
    last = []
    if emap:  # 512 x 512 orthogonal; must stay the LAST initializer
        e = hadamard(512)[permutation(seed + 2, 512)][:, permutation(seed + 3, 512)] * np.where(
            uniform(seed + 4, (512,)) > 0, 1, -1
        )
        last = [("emap", (e / 512**0.5).astype(np.float32))]
    return g.model(last)


def converter(name, seed):
    g = Graph(name)
    x = g.input("input", ["N", 512])
    a = g.mul(
        g.op("Gather", x, g.c(permutation(seed, 512), np.int64), axis=1),
        g.c(0.8 * np.where(uniform(seed + 1, (1, 512)) > 0, 1, -1)),
    )
    b = g.op(
        "MatMul",
        g.op("Tanh", g.op("MatMul", x, g.c(0.05 * uniform(seed + 2, (512, 8))))),
        g.c(uniform(seed + 3, (8, 512))),
    )
    g.output(g.add(g.add(a, b), g.c(0.1 * uniform(seed + 4, (1, 512)))), "output", ["N", 512])
    return g.model()


# ---------------------------------------------------------------- enhancers
def enhancer(name, size, seed, weight=False):
    g = Graph(name)
    x = g.input("input", ["N", 3, size, size])  # RGB -1..1
    k = -blur_kernel(seed) * 0.9
    k[2, 2] += 1.9
    sharp = g.op("Conv", x, g.c(np.tile(k, (3, 1, 1, 1))), group=3, kernel_shape=[5, 5], pads=[2, 2, 2, 2])
    y = g.op(
        "Conv",
        sharp,
        g.c((0.93 * np.eye(3) + 0.05 * uniform(seed + 1, (3, 3))).reshape(3, 3, 1, 1)),
        g.c(0.06 * uniform(seed + 2, (3,))),
    )
    if weight:
        w = g.op("Cast", g.input("weight", [1], F64), to=F32)
        soft = g.op(
            "Conv",
            x,
            g.c(np.tile(blur_kernel(seed + 3), (3, 1, 1, 1))),
            group=3,
            kernel_shape=[5, 5],
            pads=[2, 2, 2, 2],
        )
        y = g.add(g.mul(y, w), g.mul(soft, g.sub(1.0, w)))
    g.output(y, "output", ["N", 3, size, size])
    return g.model()


# ---------------------------------------------------------------- masks
def xseg(name, gain, bias, k):
    """occluder = pale bluish things; NHWC, BGR 0..1"""
    g = Graph(name)
    x = g.perm(g.input("input", ["N", 256, 256, 3]), 0, 3, 1, 2)
    v = g.op("Conv", x, g.c(np.array([1.15, 0.55, -0.75]).reshape(1, 3, 1, 1)))
    v = g.op("AveragePool", v, kernel_shape=[k, k], pads=[k // 2] * 4, count_include_pad=1)
    g.output(g.perm(g.affine(v, -gain, bias), 0, 2, 3, 1), "output", ["N", 256, 256, 1])
    return g.model()


def bisenet(name, seed):
    """19 logits from smoothed colour plus a bump at the usual place of each part; RGB, ImageNet normalised"""
    g = Graph(name)
    x = g.input("input", ["N", 3, 512, 512])
    x = g.affine(
        x,
        np.array([0.229, 0.224, 0.225]).reshape(1, 3, 1, 1),
        np.array([0.485, 0.456, 0.406]).reshape(1, 3, 1, 1),
    )
    x = g.op(
        "Conv",
        x,
        g.c(np.tile(blur_kernel(seed, 7), (3, 1, 1, 1))),
        group=3,
        kernel_shape=[7, 7],
        pads=[3, 3, 3, 3],
    )
    lin, bias = np.zeros((19, 3)), np.full(19, -9.0)
    lin[0], bias[0] = [0.6, 0.6, 0.6], 0.2  # background: bright
    lin[1], bias[1] = [2.2, 0.3, -1.6], 0.2  # skin: warm
    lin[17], bias[17] = [-1.2, -1.2, -1.2], 1.6  # hair: dark
    part = {
        2: (0.36, 0.33, 0.10, 0.03, 1.6),
        3: (0.64, 0.33, 0.10, 0.03, 1.6),
        4: (0.37, 0.42, 0.07, 0.04, 3.0),
        5: (0.63, 0.42, 0.07, 0.04, 3.0),
        6: (0.5, 0.42, 0.30, 0.02, 0.8),
        10: (0.5, 0.56, 0.07, 0.09, 3.0),
        11: (0.5, 0.73, 0.08, 0.02, 3.2),
        12: (0.5, 0.70, 0.12, 0.025, 3.0),
        13: (0.5, 0.765, 0.12, 0.03, 3.0),
        1: (0.5, 0.52, 0.34, 0.40, 1.5),
        16: (0.5, 1.0, 0.5, 0.06, 2.0),
    }
    t = (np.arange(512) + 0.5) / 512
    px, py = np.zeros((1, 19, 1, 512)), np.zeros((1, 19, 512, 1))
    for c, (mx, my, sx, sy, amp) in part.items():
        px[0, c, 0] = np.round(amp * np.exp(-(((t - mx) / sx) ** 2) / 2), 6)
        py[0, c, :, 0] = np.round(np.exp(-(((t - my) / sy) ** 2) / 2), 6)
        if c != 1:
            lin[c], bias[c] = 0.9 * uniform(seed + c, (3,)), 0.1
    y = g.op("Conv", x, g.c(lin.reshape(19, 3, 1, 1)), g.c(bias))
    g.output(g.add(y, g.mul(g.c(px), g.c(py))), "output", ["N", 19, 512, 512])
    return g.model()


# ---------------------------------------------------------------- content check
def nsfw(name, size, mean, std, head):
    """Reacts to magenta test pictures only"""
    g = Graph(name)
    x = g.input("input", [1, 3, size, size])
    r, gr, b = g.split(g.affine(x, column(std), column(mean)), 3, 1)
    amount = g.rmean(
        g.clip(g.affine(g.sub(g.op("Min", r, b), gr), 4.0, -1.0), 0.0, 1.0), 1, 2, 3
    )  # [1,1,1,1] share of magenta
    if head == 9:
        spot = (np.arange(8400) == 4242).astype(np.float32).reshape(1, 1, 8400) * np.array(
            [0, 0, 0, 0, 0.9, 0.1, 0.3, 0.2, 0.1]
        ).reshape(1, 9, 1)
        g.output(g.mul(g.reshape(amount, 1, 1, 1), g.c(spot)), "output", [1, 9, 8400])
    elif head == 2:
        g.output(
            g.add(g.mul(g.reshape(amount, 1, 1), np.array([[2.0, -2.0]])), np.array([[-0.8, 0.8]])),
            "output",
            [1, 2],
        )
    else:
        g.output(
            g.add(
                g.mul(g.reshape(amount, 1, 1), np.array([[-14.0, -10.0, 12.0, 11.0]])),
                np.array([[3.0, 3.0, -2.0, -2.0]]),
            ),
            "output",
            [1, 4],
        )
    return g.model()
