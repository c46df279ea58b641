"""Stand-ins that find painted faces and say what they are: detectors, landmarkers, recogniser, classifier."""

import numpy as np

from tests.golden.graph import I64, Graph, uniform

T5 = np.array(
    [[0.342, 0.462], [0.657, 0.460], [0.500, 0.640], [0.371, 0.825], [0.632, 0.823]]
)  # markers in face-box units


def template_68():
    p = np.zeros((68, 2))
    a = np.linspace(np.pi, 0, 17)
    p[0:17] = np.c_[0.5 + 0.44 * np.cos(a), 0.47 + 0.53 * np.sin(a)]
    bx = np.linspace(0, 1, 5)
    arch = 0.035 * np.sin(np.pi * bx)
    p[17:22] = np.c_[0.19 + 0.24 * bx, 0.36 - arch]
    p[22:27] = np.c_[0.57 + 0.24 * bx, 0.36 - arch]
    p[27:31] = np.c_[np.full(4, 0.5), np.linspace(0.44, 0.635, 4)]
    p[31:36] = np.c_[np.linspace(0.43, 0.57, 5), [0.685, 0.695, 0.70, 0.695, 0.685]]
    e = np.deg2rad([180, 240, 300, 0, 60, 120])
    p[36:42] = np.array([0.345, 0.465]) + np.c_[0.055 * np.cos(e), 0.025 * np.sin(e)]
    p[42:48] = np.array([0.655, 0.463]) + np.c_[0.055 * np.cos(e), 0.025 * np.sin(e)]
    m = np.deg2rad(180 + 30 * np.arange(12))
    p[48:60] = np.array([0.501, 0.826]) + np.c_[0.128 * np.cos(m), 0.050 * np.sin(m)]
    m = np.deg2rad(180 + 45 * np.arange(8))
    p[60:68] = np.array([0.501, 0.826]) + np.c_[0.100 * np.cos(m), 0.020 * np.sin(m)]
    return p


def shape_weights():
    """68 x 5 matrix: landmarks as weighted sums of the five markers (rows sum to 1, affine equivariant)"""
    h5 = np.c_[T5, np.ones(5)]
    inv = np.zeros((3, 3))
    a = h5.T @ h5
    det = (
        a[0, 0] * (a[1, 1] * a[2, 2] - a[1, 2] * a[2, 1])
        - a[0, 1] * (a[1, 0] * a[2, 2] - a[1, 2] * a[2, 0])
        + a[0, 2] * (a[1, 0] * a[2, 1] - a[1, 1] * a[2, 0])
    )
    for i in range(3):
        for j in range(3):
            m = np.delete(np.delete(a, j, 0), i, 1)
            inv[i, j] = (-1) ** (i + j) * (m[0, 0] * m[1, 1] - m[0, 1] * m[1, 0]) / det
    return np.round(np.c_[template_68(), np.ones(68)] @ inv @ h5.T, 6).astype(np.float32)


def markers(g, bgr):
    """[N,3,H,W] BGR 0..1 -> [N,5,H,W] marker strength 0..1"""
    b, gr, r = g.split(bgr, 3, 1)
    hi = g.rmax(bgr, 1)
    resp = g.cat(
        g.sub(r, g.op("Max", gr, b)),
        g.sub(gr, g.op("Max", r, b)),
        g.sub(b, g.op("Max", r, gr)),
        g.sub(g.op("Min", r, gr), b),
        g.sub(g.op("Min", gr, b), r),
    )
    return g.clip(g.affine(g.sub(resp, g.mul(hi, 0.5)), 8.0, -0.16), 0.0, 1.0)


# ---------------------------------------------------------------- detectors
K = 17  # window of 17 x 17 blocks, block = stride / 2


def cells(g, m, level):
    """marker maps -> per-cell measurements at stride 8 * 2**level; all from the cell's corner, in pixels"""
    blk = 4 * 2**level
    w = np.zeros((3, 1, blk, blk))
    w[0] = 1
    w[1] = np.arange(blk)[None, None, :]
    w[2] = np.arange(blk)[None, :, None]
    s = g.op("Conv", m, g.c(np.tile(w, (5, 1, 1, 1))), group=5, kernel_shape=[blk, blk], strides=[blk, blk])
    off = (np.arange(K) - 8) * blk
    w = np.zeros((3, 3, K, K))
    w[0, 0] = w[1, 1] = w[2, 2] = 1
    w[1, 0] = off[None, :]
    w[2, 0] = off[:, None]
    a = g.op(
        "Conv",
        s,
        g.c(np.tile(w, (5, 1, 1, 1))),
        group=5,
        kernel_shape=[K, K],
        strides=[2, 2],
        pads=[8, 8, 7, 7],
    )
    area = g.op("Gather", a, g.c(np.arange(0, 15, 3), np.int64), axis=1)  # [1,5,h,w]
    cx = g.div(g.op("Gather", a, g.c(np.arange(1, 15, 3), np.int64), axis=1), g.add(area, 1e-3))
    cy = g.div(g.op("Gather", a, g.c(np.arange(2, 15, 3), np.int64), axis=1), g.add(area, 1e-3))
    mx, my = g.rmean(cx, 1), g.rmean(cy, 1)
    dx, dy = g.sub(cx, mx), g.sub(cy, my)
    size = g.mul(g.op("Sqrt", g.add(g.rmean(g.add(g.mul(dx, dx), g.mul(dy, dy)), 1), 1e-4)), 4.83)
    ex, ey = g.rmean(g.pick(cx, 1, 0, 2), 1), g.rmean(g.pick(cy, 1, 0, 2), 1)
    ux, uy = g.sub(g.rmean(g.pick(cx, 1, 3, 5), 1), ex), g.sub(g.rmean(g.pick(cy, 1, 3, 5), 1), ey)
    cos = g.div(uy, g.op("Sqrt", g.add(g.add(g.mul(ux, ux), g.mul(uy, uy)), 1e-3)))
    b2 = g.mul(size, size)
    presence = g.clip(g.div(g.rmin(area, 1), g.affine(b2, 0.0015, 1.0)), 0.0, 1.0)
    quality = g.affine(g.clip(g.div(g.rmean(area, 1), g.affine(b2, 0.0075, 1.0)), 0.0, 1.0), 0.3, 0.66)
    overfull = g.clip(
        g.affine(g.div(g.rmean(area, 1), g.affine(b2, 0.0075, 1.0)), -4.0, 5.8), 0.0, 1.0
    )  # markers of two faces mixed up
    q = g.div(g.add(size, 1.0), 64.0 * 2**level)
    gate = g.clip(g.affine(g.add(q, g.div(1.0, q)), -0.8, 2.6), 0.0, 1.0)
    half = 4.0 * 2**level
    ox, oy = g.div(g.sub(mx, half), 2 * half), g.div(g.sub(my, half), 2 * half)
    centre = g.clip(g.affine(g.add(g.mul(ox, ox), g.mul(oy, oy)), -0.2, 1.0), 0.0, 1.0)
    upright = g.clip(g.affine(cos, 0.9, 0.35), 0.05, 1.0)
    return {
        "cx": cx,
        "cy": cy,
        "mx": mx,
        "my": g.affine(size, -0.06, my),
        "size": size,
        "w": g.mul(size, 0.82),
        "h": size,
        "a": g.mul(g.mul(presence, overfull), gate),
        "b": g.mul(g.mul(centre, upright), quality),
        "conf": g.clip(g.div(area, g.affine(b2, 0.0025, 1.0)), 0.0, 1.0),
    }


def yoloface(name):
    g = Graph(name)
    x = g.input("input", [1, 3, 640, 640])
    m = markers(g, x)
    cols = []
    for level in range(3):
        st, n = 8 * 2**level, 80 // 2**level
        d = cells(g, m, level)
        gx, gy = (
            np.arange(n, dtype=np.float32).reshape(1, 1, 1, n) * st,
            np.arange(n, dtype=np.float32).reshape(1, 1, n, 1) * st,
        )
        ax, ay = g.split(g.add(d["cx"], gx), 5, 1), g.split(g.add(d["cy"], gy), 5, 1)
        cf = g.split(d["conf"], 5, 1)
        pts = [t for k in range(5) for t in (ax[k], ay[k], cf[k])]
        cols.append(
            g.reshape(
                g.cat(g.add(d["mx"], gx), g.add(d["my"], gy), d["w"], d["h"], g.mul(d["a"], d["b"]), *pts),
                1,
                20,
                n * n,
            )
        )
    g.output(g.cat(*cols, axis=2), "output", [1, 20, 8400])
    return g.model()


def anchor_detector(name, gain):
    """scrfd / retinaface layout: 3 x score, 3 x box distances, 3 x point offsets; 2 anchors per cell;
    any canvas that is a multiple of 32"""
    g = Graph(name)
    x = g.input("input", [1, 3, "height", "width"])
    m = markers(g, g.clip(g.affine(x, 128.0 / 255, 127.5 / 255), 0.0, 1.0))
    score, box, pts = [], [], []
    for level in range(3):
        st = 8.0 * 2**level
        d = cells(g, m, level)
        s = g.perm(g.mul(g.mul(d["a"], d["b"]), gain), 0, 2, 3, 1)  # [1,h,w,1]
        score.append(g.reshape(g.cat(s, g.mul(s, 0.96), axis=3), -1, 1))
        hw, hh = g.mul(d["w"], 0.5), g.mul(d["h"], 0.5)
        b = [
            g.op("Neg", g.sub(d["mx"], hw)),
            g.op("Neg", g.sub(d["my"], hh)),
            g.add(d["mx"], hw),
            g.add(d["my"], hh),
        ]
        b = g.perm(g.mul(g.cat(*b), 1.0 / st), 0, 2, 3, 1)
        box.append(g.reshape(g.cat(b, g.mul(b, 1.03), axis=3), -1, 4))
        ax, ay = g.split(d["cx"], 5, 1), g.split(d["cy"], 5, 1)
        p = g.perm(g.mul(g.cat(*[t for k in range(5) for t in (ax[k], ay[k])]), 1.0 / st), 0, 2, 3, 1)
        pts.append(g.reshape(g.cat(p, g.mul(p, 1.01), axis=3), -1, 10))
    for kind, ts, w in (("score", score, 1), ("bbox", box, 4), ("kps", pts, 10)):
        for st, t in zip((8, 16, 32), ts, strict=True):
            g.output(t, f"{kind}_{st}", [f"cells_{st}", w])
    return g.model()


def yunet(name):
    g = Graph(name)
    x = g.input("input", [1, 3, 640, 640])
    m = markers(g, g.mul(x, 1.0 / 255))
    cls, obj, box, pts = [], [], [], []
    for level in range(3):
        st, n = 8.0 * 2**level, (80 // 2**level) ** 2
        d = cells(g, m, level)

        def flat(t, k, n=n):
            return g.reshape(g.perm(t, 0, 2, 3, 1), 1, n, k)

        cls.append(flat(d["a"], 1))
        obj.append(flat(d["b"], 1))
        box.append(
            flat(
                g.cat(
                    g.mul(d["mx"], 1.0 / st),
                    g.mul(d["my"], 1.0 / st),
                    g.op("Log", g.mul(d["w"], 1.0 / st)),
                    g.op("Log", g.mul(d["h"], 1.0 / st)),
                ),
                4,
            )
        )
        ax, ay = g.split(d["cx"], 5, 1), g.split(d["cy"], 5, 1)
        pts.append(flat(g.mul(g.cat(*[t for k in range(5) for t in (ax[k], ay[k])]), 1.0 / st), 10))
    for kind, ts, w in (("cls", cls, 1), ("obj", obj, 1), ("bbox", box, 4), ("kps", pts, 10)):
        for st, t in zip((8, 16, 32), ts, strict=True):
            g.output(t, f"{kind}_{st}", [1, (640 // st) ** 2, w])
    return g.model()


# ---------------------------------------------------------------- landmarkers
def crop_points(g, x):
    """[N,3,256,256] BGR 0..1 -> centroids [N,5,2] in crop pixels, presence [N,1], fill [N,1]"""
    win = np.clip((128 - np.abs(np.arange(256) - 127.5)) / 24.0, 0, 1)
    win = win * np.clip((118 - np.abs(np.arange(256) - 127.5)) / 12.0, 0, 1)
    m = g.mul(g.mul(markers(g, x), win.reshape(1, 1, 1, 256)), win.reshape(1, 1, 256, 1))
    xs = np.arange(256.0)
    area = g.rsum(m, 2, 3, keep=0)  # [N,5]
    sx = g.rsum(g.mul(g.rsum(m, 2, keep=0), (xs - 127.5).reshape(1, 1, 256)), 2, keep=0)
    sy = g.rsum(g.mul(g.rsum(m, 3, keep=0), (xs - 127.5).reshape(1, 1, 256)), 2, keep=0)
    den = g.add(area, 1e-3)
    c = g.cat(
        g.reshape(g.add(g.div(sx, den), 127.5), 0, 5, 1),
        g.reshape(g.add(g.div(sy, den), 127.5), 0, 5, 1),
        axis=2,
    )
    presence = g.rmin(g.clip(g.mul(area, 1.0 / 150), 0.0, 1.0), 1)
    fill = g.clip(g.mul(g.rmean(area, 1), 1.0 / 330), 0.0, 1.0)
    return c, presence, fill


def fan4(name):
    g = Graph(name)
    x = g.input("input", ["N", 3, 256, 256])
    c, presence, fill = crop_points(g, x)
    bright = g.reshape(g.rmean(x, 1, 2, 3), -1, 1, 1)
    p = g.op("MatMul", g.c(shape_weights()), g.mul(c, 0.25))  # [N,68,2] on the 64 grid
    drift = np.array([[0.45, -0.25]]) + 0.12 * uniform(21, (68, 2))  # not rotation invariant on purpose
    p = g.add(p, g.mul(bright, g.c(drift.reshape(1, 68, 2))))
    conf = g.mul(presence, g.affine(fill, 0.5, 0.5))  # [N,1]
    g.output(
        g.cat(p, g.op("Expand", g.reshape(conf, -1, 1, 1), g.c([1, 68, 1], np.int64)), axis=2),
        "landmarks_xyscore",
        ["N", 68, 3],
    )
    peak = np.maximum(1 - np.abs(np.arange(64) - 30.0) / 6, 0)
    heat = g.mul(
        g.mul(peak.reshape(1, 1, 1, 64), peak.reshape(1, 1, 64, 1)), 0.9 + 0.02 * uniform(22, (1, 68, 1, 1))
    )
    g.output(g.mul(heat, g.reshape(conf, -1, 1, 1, 1)), "heatmaps", ["N", 68, 64, 64])
    return g.model()


def peppa(name):
    g = Graph(name)
    x = g.input("input", ["N", 3, 256, 256])
    c, presence, fill = crop_points(g, x)
    p = g.add(
        g.op("MatMul", g.c(shape_weights()), g.mul(c, 0.25)),
        g.c(np.array([[-0.3, 0.5]]) + 0.1 * uniform(23, (1, 68, 2))),
    )
    conf = g.op(
        "Expand", g.reshape(g.mul(presence, g.affine(fill, 0.2, 0.6)), -1, 1, 1), g.c([1, 68, 1], np.int64)
    )
    g.output(g.reshape(g.cat(p, conf, axis=2), -1, 204), "output", ["N", 204])
    return g.model()


def fan_68_5(name):
    g = Graph(name)
    x = g.input("input", ["N", 5, 2])
    g.output(
        g.add(g.op("MatMul", g.c(shape_weights()), x), g.c(0.002 * uniform(24, (1, 68, 2)))),
        "output",
        ["N", 68, 2],
    )
    return g.model()


# ---------------------------------------------------------------- recogniser, classifier
def arcface(name):
    g = Graph(name)
    x = g.input("input", ["N", 3, 112, 112])  # RGB -1..1
    mid = g.op("Slice", x, g.c([24, 24], np.int64), g.c([104, 88], np.int64), g.c([2, 3], np.int64))
    r, gr, b = g.split(g.rmean(mid, 2, 3), 3, 1)  # [N,1,1,1]
    u1 = g.sub(r, g.mul(g.add(gr, b), 0.5))
    u2 = g.mul(g.sub(gr, b), 0.8660254)
    u = g.reshape(g.cat(u1, u2), -1, 2)
    pool = g.op("AveragePool", x, kernel_shape=[14, 14], strides=[14, 14])
    pool = g.reshape(g.sub(pool, g.rmean(pool, 1, 2, 3)), -1, 192)
    h = g.op("Tanh", g.op("MatMul", pool, g.c(0.25 * uniform(31, (192, 24)))))
    y = g.add(
        g.op("MatMul", g.mul(u, 5.0), g.c(uniform(32, (2, 512)))),
        g.op("MatMul", g.mul(h, 0.3), g.c(uniform(33, (24, 512)))),
    )
    g.output(y, "output", ["N", 512])
    return g.model()


def fairface(name):
    g = Graph(name)
    x = g.input("input", ["N", 3, 224, 224])  # RGB, ImageNet normalised
    x = g.affine(
        x,
        np.array([0.229, 0.224, 0.225]).reshape(1, 3, 1, 1),
        np.array([0.485, 0.456, 0.406]).reshape(1, 3, 1, 1),
    )
    mid = g.op("Slice", x, g.c([48, 48], np.int64), g.c([208, 176], np.int64), g.c([2, 3], np.int64))
    rgb = g.reshape(g.rmean(mid, 2, 3), -1, 3)
    chroma = g.sub(rgb, g.rmean(rgb, 1))
    ang = np.deg2rad(np.arange(7) * 360 / 7 + 15)
    axes = np.stack([np.full(3, 0.0) + np.array([2, -1, -1]) / 6**0.5, np.array([0, 1, -1]) / 2**0.5])
    race = g.op("MatMul", chroma, g.c((np.c_[np.cos(ang), np.sin(ang)] @ axes).T))
    gender = g.op("MatMul", chroma, g.c(np.array([[0.5, -0.5], [-0.5, 0.5], [0.35, -0.35]])))
    lum = g.rmean(rgb, 1)
    mids = np.linspace(0.15, 0.9, 9)
    age = g.op("Neg", g.op("Abs", g.sub(lum, g.c(mids.reshape(1, 9)))))
    for n, t in (("race_id", race), ("gender_id", gender), ("age_id", age)):
        g.output(g.op("ArgMax", t, axis=1, keepdims=0), n, ["N"], I64)
    return g.model()
