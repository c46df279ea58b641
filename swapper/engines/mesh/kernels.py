"""Inner loops over triangles and pixels, compiled by numba; they hold no lock and use one thread.

Single precision throughout: a bare Python number would make numba compute in double.
A raster is float32 (height, width, 3): u, v in 0..1 and depth, which is EMPTY where no triangle is.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import numpy.typing as npt

Raster = npt.NDArray[np.float32]
Samples = npt.NDArray[Any]

F, U = np.float32, np.uint32
ZERO, HALF, ONE = F(0), F(0.5), F(1)
EMPTY = F(1e9)
_COVERED = F(1e8)
_EDGE = F(-1e-3)
"""Slack of the inside test, so that neighbours leave no gap."""
_TINY = F(1e-6)
_FLAT = F(1e-12)
_LAST = F(1.001)
_MIN_ALPHA = F(0.004)
"""Below one 8-bit step."""

_jit = numba.njit(nogil=True, cache=True, error_model="numpy")


@_jit
def rasterise(
    points: npt.NDArray[np.float32],
    depth: npt.NDArray[np.float32],
    uv: npt.NDArray[np.float32],
    triangles: npt.NDArray[np.int32],
    raster: Raster,
) -> None:
    """Draw the mesh's u, v into a raster, the nearest surface on top. `points` (n, 2) are x, y in pixels."""
    height, width = raster.shape[0], raster.shape[1]
    for y in range(height):
        for x in range(width):
            raster[y, x, 2] = EMPTY
    for t in range(triangles.shape[0]):
        a, b, c = U(triangles[t, 0]), U(triangles[t, 1]), U(triangles[t, 2])
        x0, y0 = points[a, 0], points[a, 1]
        bx, by = points[b, 0] - x0, points[b, 1] - y0
        cx, cy = points[c, 0] - x0, points[c, 1] - y0
        area = bx * cy - cx * by
        if abs(area) < _TINY:
            continue
        # Weights of b and c are linear: w = slope_x * x + slope_y * (y - y0) - slope_x * x0
        inverse = ONE / area
        bsx, bsy, csx, csy = cy * inverse, -cx * inverse, -by * inverse, bx * inverse
        left, right = min(x0, points[b, 0], points[c, 0]), max(x0, points[b, 0], points[c, 0])
        top, bottom = min(y0, points[b, 1], points[c, 1]), max(y0, points[b, 1], points[c, 1])
        first_row = max(0, int(np.floor(top)))
        last_row = min(height - 1, int(np.ceil(bottom)))
        ub, uc = uv[b, 0] - uv[a, 0], uv[c, 0] - uv[a, 0]
        vb, vc = uv[b, 1] - uv[a, 1], uv[c, 1] - uv[a, 1]
        zb, zc = depth[b] - depth[a], depth[c] - depth[a]
        du, dv, dz = bsx * ub + csx * uc, bsx * vb + csx * vc, bsx * zb + csx * zc
        for y in range(first_row, last_row + 1):
            wb = bsy * (F(y) - y0) - bsx * x0
            wc = csy * (F(y) - y0) - csx * x0
            low, high, inside = left - ONE, right + ONE, True
            for k in range(3):  # the span where each of the three weights is not negative
                if k == 0:
                    value, slope = wb - _EDGE, bsx
                elif k == 1:
                    value, slope = wc - _EDGE, csx
                else:
                    value, slope = ONE - wb - wc - _EDGE, -bsx - csx
                if slope > _FLAT:
                    low = max(low, -value / slope)
                elif slope < -_FLAT:
                    high = min(high, -value / slope)
                elif value < ZERO:
                    inside = False
            if not inside or high < low:
                continue
            u = uv[a, 0] + wb * ub + wc * uc
            v = uv[a, 1] + wb * vb + wc * vc
            z = depth[a] + wb * zb + wc * zc
            for x in range(max(0, int(np.ceil(low))), min(width - 1, int(np.floor(high))) + 1):
                here = z + dz * F(x)
                if here < raster[y, x, 2]:
                    raster[y, x, 0] = u + du * F(x)
                    raster[y, x, 1] = v + dv * F(x)
                    raster[y, x, 2] = here


@_jit
def look_up(raster: Raster, texture: Samples, out: npt.NDArray[np.float32]) -> None:
    """`texture` (side, side, channels) sampled at each pixel of a raster; 0 where it is empty."""
    top = F(texture.shape[0] - 1)
    last = F(texture.shape[0] - 2)
    for y in range(raster.shape[0]):
        for x in range(raster.shape[1]):
            if raster[y, x, 2] > _COVERED:
                for c in range(texture.shape[2]):
                    out[y, x, c] = ZERO
                continue
            u = min(max(raster[y, x, 0] * top, ZERO), last)
            v = min(max(raster[y, x, 1] * top, ZERO), last)
            i, j = U(u), U(v)
            fu, fv = u - F(i), v - F(j)
            for c in range(texture.shape[2]):
                above = F(texture[j, i, c]) * (ONE - fu) + F(texture[j, i + U(1), c]) * fu
                below = F(texture[j + U(1), i, c]) * (ONE - fu) + F(texture[j + U(1), i + U(1), c]) * fu
                out[y, x, c] = above * (ONE - fv) + below * fv


@_jit
def blend_luma(
    plane: Samples,
    raster: Raster,
    texture: npt.NDArray[np.uint8],
    gain: npt.NDArray[np.float32],
    cover: npt.NDArray[np.uint8],
    black: np.float32,
    scale: np.float32,
) -> None:
    """Lay `texture` (side, side, 2: y, alpha) on `plane`, in place; both are of the raster's size.

    A sample becomes `black + scale * y * gain`; `gain` (n, n, 3) and `cover` (m, m) stretch over the
    plane, the first smoothly. Samples with no alpha keep their value.
    """
    height, width = plane.shape[0], plane.shape[1]
    n, m = gain.shape[0], cover.shape[0]
    top, last = F(texture.shape[0] - 1), F(texture.shape[0] - 2)
    step_x, step_y = F(n) / F(width), F(n) / F(height)
    cover_x, cover_y = F(m) / F(width), F(m) / F(height)
    unit, ceiling = F(1 / 65025), black + scale * F(255)
    row = np.empty(n, np.float32)
    for y in range(height):
        gy = min(max((F(y) + HALF) * step_y - HALF, ZERO), F(n) - _LAST)
        g0 = U(gy)
        gf = gy - F(g0)
        for p in range(n):
            row[p] = gain[g0, p, 0] * (ONE - gf) + gain[g0 + U(1), p, 0] * gf
        cover_row = U((F(y) + HALF) * cover_y)
        for x in range(width):
            if raster[y, x, 2] > _COVERED:
                continue
            u = min(max(raster[y, x, 0] * top, ZERO), last)
            v = min(max(raster[y, x, 1] * top, ZERO), last)
            i, j = U(u), U(v)
            i1, j1 = i + U(1), j + U(1)
            fu, fv = u - F(i), v - F(j)
            w11 = fu * fv
            w01, w10 = fu - w11, fv - w11
            w00 = ONE - fu - w10
            alpha = (
                w00 * F(texture[j, i, 1])
                + w01 * F(texture[j, i1, 1])
                + w10 * F(texture[j1, i, 1])
                + w11 * F(texture[j1, i1, 1])
            )
            alpha *= F(cover[cover_row, U((F(x) + HALF) * cover_x)]) * unit
            if alpha < _MIN_ALPHA:
                continue
            value = (
                w00 * F(texture[j, i, 0])
                + w01 * F(texture[j, i1, 0])
                + w10 * F(texture[j1, i, 0])
                + w11 * F(texture[j1, i1, 0])
            )
            gx = min(max((F(x) + HALF) * step_x - HALF, ZERO), F(n) - _LAST)
            k = U(gx)
            light = row[k] + (row[k + U(1)] - row[k]) * (gx - F(k))
            value = min(black + scale * value * light, ceiling)
            plane[y, x] = U(F(plane[y, x]) * (ONE - alpha) + value * alpha + HALF)


@_jit
def blend_chroma(
    first: Samples,
    second: Samples,
    raster: Raster,
    texture: npt.NDArray[np.uint8],
    gain: npt.NDArray[np.float32],
    cover: npt.NDArray[np.uint8],
    grey: np.float32,
    scale: np.float32,
    shift_x: int,
    shift_y: int,
) -> None:
    """As `blend_luma` for both chroma planes; `texture` is (side, side, 3: cb, cr, alpha).

    A sample becomes `grey + scale * (c * gain + offset)` with c -.5..+.5; gain and the two offsets
    are the channels of `gain`. Its place is the middle of the luma samples that it belongs to.
    """
    height, width = first.shape[0], first.shape[1]
    n, m = gain.shape[0], cover.shape[0]
    rows, columns = raster.shape[0], raster.shape[1]
    top, last = F(texture.shape[0] - 1), F(texture.shape[0] - 2)
    step_x, step_y = F(n) / F(columns), F(n) / F(rows)
    cover_x, cover_y = F(m) / F(columns), F(m) / F(rows)
    block_x, block_y = 1 << shift_x, 1 << shift_y
    unit, code, reach = F(1 / 65025), F(1 / 255), min(HALF * scale, grey - ONE)
    row = np.empty((n, 3), np.float32)
    for y in range(height):
        luma_y = (F(y) + HALF) * F(block_y)
        gy = min(max(luma_y * step_y - HALF, ZERO), F(n) - _LAST)
        g0 = U(gy)
        gf = gy - F(g0)
        for p in range(n):
            for c in range(3):
                row[p, c] = gain[g0, p, c] * (ONE - gf) + gain[g0 + U(1), p, c] * gf
        cover_row = min(U(luma_y * cover_y), U(m - 1))
        for x in range(width):
            u, v, count = ZERO, ZERO, 0
            for ly in range(y << shift_y, min((y << shift_y) + block_y, rows)):
                for lx in range(x << shift_x, min((x << shift_x) + block_x, columns)):
                    if raster[ly, lx, 2] < _COVERED:
                        u += raster[ly, lx, 0]
                        v += raster[ly, lx, 1]
                        count += 1
            if count == 0:
                continue
            u = min(max(u / F(count) * top, ZERO), last)
            v = min(max(v / F(count) * top, ZERO), last)
            i, j = U(u), U(v)
            i1, j1 = i + U(1), j + U(1)
            fu, fv = u - F(i), v - F(j)
            w11 = fu * fv
            w01, w10 = fu - w11, fv - w11
            w00 = ONE - fu - w10
            luma_x = (F(x) + HALF) * F(block_x)
            alpha = (
                w00 * F(texture[j, i, 2])
                + w01 * F(texture[j, i1, 2])
                + w10 * F(texture[j1, i, 2])
                + w11 * F(texture[j1, i1, 2])
            )
            alpha *= F(cover[cover_row, min(U(luma_x * cover_x), U(m - 1))]) * unit
            if alpha < _MIN_ALPHA:
                continue
            gx = min(max(luma_x * step_x - HALF, ZERO), F(n) - _LAST)
            k = U(gx)
            kf = gx - F(k)
            light = row[k, 0] + (row[k + U(1), 0] - row[k, 0]) * kf
            for c in range(2):
                value = (
                    w00 * F(texture[j, i, c])
                    + w01 * F(texture[j, i1, c])
                    + w10 * F(texture[j1, i, c])
                    + w11 * F(texture[j1, i1, c])
                )
                offset = row[k, c + 1] + (row[k + U(1), c + 1] - row[k, c + 1]) * kf
                value = scale * ((value * code - F(128 / 255)) * light + offset)
                value = grey + min(max(value, -reach), reach)
                if c == 0:
                    first[y, x] = U(F(first[y, x]) * (ONE - alpha) + value * alpha + HALF)
                else:
                    second[y, x] = U(F(second[y, x]) * (ONE - alpha) + value * alpha + HALF)


@_jit
def read_hues(
    target: npt.NDArray[np.float32],
    points: npt.NDArray[np.float32],
    triangles: npt.NDArray[np.int32],
    weights: npt.NDArray[np.float32],
    darkest: np.float32,
    greyest: np.float32,
    out: npt.NDArray[np.float32],
) -> None:
    """Log of luma, and cb and cr over luma, of `target` (side, side, 3: y, cb, cr) at places (n,) that
    lie in `triangles` (n, 3) of vertices `points` (m, 2) with `weights` (n, 3) of the corners.

    `darkest` and `greyest` are added to luma as a logarithm's argument and as a divisor.
    """
    bottom, right = F(target.shape[0]) - _LAST, F(target.shape[1]) - _LAST
    for n in range(triangles.shape[0]):
        x, y = -HALF, -HALF
        for corner in range(3):
            vertex, w = triangles[n, corner], weights[n, corner]
            x += w * points[vertex, 0]
            y += w * points[vertex, 1]
        x, y = min(max(x, ZERO), right), min(max(y, ZERO), bottom)
        i, j = U(x), U(y)
        fx, fy = x - F(i), y - F(j)
        for c in range(3):
            above = target[j, i, c] * (ONE - fx) + target[j, i + U(1), c] * fx
            below = target[j + U(1), i, c] * (ONE - fx) + target[j + U(1), i + U(1), c] * fx
            out[n, c] = above * (ONE - fy) + below * fy
        luma = max(out[n, 0], ZERO)
        out[n, 0] = np.log(luma + darkest)
        out[n, 1] /= luma + greyest
        out[n, 2] /= luma + greyest


@_jit
def fit_surface(
    values: npt.NDArray[np.float32],
    basis: npt.NDArray[np.float32],
    start: npt.NDArray[np.float32],
    stiffness: npt.NDArray[np.float32],
    least: npt.NDArray[np.float32],
    most: npt.NDArray[np.float32],
    rounds: int,
    fit: npt.NDArray[np.float32],
    spread: npt.NDArray[np.float32],
) -> None:
    """Coefficients `fit` (m, k) of a surface over `basis` (n, m) near most of `values` (n, k), and the
    deviation `spread` (k,) of those, kept from `least` to `most`. `start` (n,): 1 for places to begin
    with, around their median, else 0. `stiffness` (m,) keeps coefficients small.

    Iteratively reweighted least squares with weights (1 + d²/3)⁻², d in deviations.
    """
    n, m, k = basis.shape[0], basis.shape[1], values.shape[1]
    weight, off = start.copy(), np.empty((n, k), np.float32)
    for c in range(k):
        centre = np.median(values[start > ZERO, c])
        for i in range(n):
            off[i, c] = values[i, c] - centre
    matrix, right = np.empty((m, m), np.float32), np.empty((m, k), np.float32)
    for turn in range(rounds + 1):
        near = weight > F(0.05)
        for c in range(k):
            middle = F(np.median(np.abs(off[near, c])))
            spread[c] = min(max(F(1.48) * middle, least[c]), most[c])
        if turn == rounds:
            break
        matrix[:], right[:] = ZERO, ZERO
        for j in range(m):
            matrix[j, j] = stiffness[j]
        for i in range(n):
            far = ZERO
            for c in range(k):
                far += (off[i, c] / spread[c]) ** 2
            w = ONE / (ONE + far / F(3)) ** 2
            if turn == 0:
                w *= start[i]
            weight[i] = w
            for j in range(m):
                share = w * basis[i, j]
                for p in range(m):
                    matrix[j, p] += share * basis[i, p]
                for c in range(k):
                    right[j, c] += share * values[i, c]
        _solve(matrix, right, fit)
        for i in range(n):
            for c in range(k):
                value = values[i, c]
                for j in range(m):
                    value -= basis[i, j] * fit[j, c]
                off[i, c] = value


@_jit
def _solve(
    matrix: npt.NDArray[np.float32], right: npt.NDArray[np.float32], out: npt.NDArray[np.float32]
) -> None:
    """`out` (m, k) with matrix @ out = right, by elimination in place; `matrix` is positive definite."""
    m, k = right.shape
    for j in range(m):
        for row in range(j + 1, m):
            factor = matrix[row, j] / matrix[j, j]
            for p in range(j, m):
                matrix[row, p] -= factor * matrix[j, p]
            for c in range(k):
                right[row, c] -= factor * right[j, c]
    for j in range(m - 1, -1, -1):
        for c in range(k):
            value = right[j, c]
            for p in range(j + 1, m):
                value -= matrix[j, p] * out[p, c]
            out[j, c] = value / matrix[j, j]
