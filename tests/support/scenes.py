"""Faces as films have them, made of plain portraits: turned, behind something, with closed eyes."""

from __future__ import annotations

import cv2
import numpy as np
import numpy.typing as npt

from swapper.engines.mesh.landmarks import Landmarks
from swapper.engines.mesh.topology import SKIN_PATCHES
from tests.support.faces import Bgr

Mask = npt.NDArray[np.bool_]
Colour = tuple[float, float, float] | npt.NDArray[np.float64]

_LIDS = (
    ([33, 246, 161, 160, 159, 158, 157, 173, 133], [33, 7, 163, 144, 145, 153, 154, 155, 133]),
    ([362, 398, 384, 385, 386, 387, 388, 466, 263], [362, 382, 381, 380, 374, 373, 390, 249, 263]),
)
"""Upper and lower lid of the right and the left eye, from left to right."""


def rolled(picture: Bgr, degrees: float, border: int = 0) -> Bgr:
    """Turned clockwise about its middle, with its edge repeated `border` samples outwards before."""
    wide = cv2.copyMakeBorder(picture, border, border, border, border, cv2.BORDER_REPLICATE)
    height, width = wide.shape[:2]
    matrix = cv2.getRotationMatrix2D((width / 2, height / 2), -degrees, 1)
    turned = cv2.warpAffine(
        wide, matrix, (width, height), flags=cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE
    )
    return turned.astype(np.uint8)


def skin(picture: Bgr, marks: Landmarks) -> npt.NDArray[np.float64]:
    """The colour of the cheeks, B G R."""
    mask = np.zeros(picture.shape[:2], np.uint8)
    for patch in SKIN_PATCHES[:2]:
        cv2.fillPoly(mask, [cv2.convexHull(np.round(marks[patch, :2]).astype(np.int32))], 1)
    colour: npt.NDArray[np.float64] = np.median(picture[mask > 0], axis=0)
    return colour


def behind_a_bar(
    picture: Bgr, marks: Landmarks, colour: Colour, angle: float, offset: float = 0
) -> tuple[Bgr, Mask]:
    """A grainy bar, a quarter of the face wide, across the whole picture; and where it is."""
    low, high = marks[:, :2].min(0), marks[:, :2].max(0)
    side, turn = float((high - low).max()), np.deg2rad(angle)
    across = np.array([-np.sin(turn), np.cos(turn)])
    y, x = np.mgrid[: picture.shape[0], : picture.shape[1]]
    away = (np.stack([x, y], -1) - (low + high) / 2 - across * offset * side) @ across
    share = np.clip(side / 8 - np.abs(away) + 0.5, 0, 1)
    return _laid_on(picture, share, np.ones_like(share), colour)


def behind_a_hand(picture: Bgr, marks: Landmarks, colour: Colour) -> tuple[Bgr, Mask]:
    """Four fingers, a thumb, palm and wrist from below, round in the light; and where they are."""
    low, high = marks[:, :2].min(0), marks[:, :2].max(0)
    side, turn = 0.55 * float((high - low).max()), np.deg2rad(-60)
    matrix = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
    y, x = np.mgrid[: picture.shape[0], : picture.shape[1]]
    place = (np.stack([x, y], -1) - low - (high - low) * [0.5, 0.7]) @ matrix / side
    share, shade = np.zeros(picture.shape[:2]), np.ones(picture.shape[:2])
    fingers = [
        (-0.25, -0.33 + 0.19 * i, long, -0.36 + 0.21 * i, 0.1)
        for i, long in enumerate((0.55, 0.65, 0.6, 0.45))
    ]
    for x0, y0, x1, y1, radius in (
        (-0.55, -0.05, -1.6, -0.05, 0.3),
        (-0.45, -0.15, -0.25, 0.15, 0.33),
        (-0.45, 0.2, 0.05, 0.45, 0.11),
        *fingers,
    ):
        start, way = np.array([x0, y0]), np.array([x1 - x0, y1 - y0])
        along = np.clip((place - start) @ way / (way @ way), 0, 1)
        off = np.linalg.norm(place - start - along[..., None] * way, axis=-1) / radius
        inside = np.clip((1 - off) * radius * side + 0.5, 0, 1)
        shade = shade * (1 - inside) + inside * (0.7 + 0.42 * np.sqrt(np.clip(1 - off**2, 0, 1)))
        share = np.maximum(share, inside)
    return _laid_on(picture, share, shade, colour)


def _laid_on(
    picture: Bgr, share: npt.NDArray[np.float64], shade: npt.NDArray[np.float64], colour: Colour
) -> tuple[Bgr, Mask]:
    grain = np.random.default_rng(0).normal(0, 3, picture.shape)
    mixed = (
        picture * (1 - share[..., None]) + (np.array(colour) * shade[..., None] + grain) * share[..., None]
    )
    return np.clip(mixed, 0, 255).astype(np.uint8), share > 0.99


def with_closed_eyes(picture: Bgr, marks: Landmarks, eyes: tuple[bool, bool] = (True, True)) -> Bgr:
    """The skin under each eye (right, left) laid over it up to the upper lid, lashes at the lower one."""
    result = picture.astype(np.float32)
    y, x = np.mgrid[: picture.shape[0], : picture.shape[1]]
    for shut, (upper, lower) in zip(eyes, _LIDS, strict=True):
        if not shut:
            continue
        corner, other = marks[upper[0], :2], marks[upper[-1], :2]
        long = float(np.linalg.norm(other - corner))
        axes = np.array([other - corner, [corner[1] - other[1], other[0] - corner[0]]]) / long
        place = (np.stack([x, y], -1) - corner) @ axes.T
        top, bottom = (
            np.interp(place[..., 0], *((marks[lid, :2] - corner) @ axes.T).T) for lid in (upper, lower)
        )
        down = place[..., 1]
        lid = (np.abs(place[..., 0] / long - 0.5) < 0.53) & (down > top - 0.04 * long)
        lid &= down <= bottom + 0.01 * long
        source = np.stack([place[..., 0], bottom + 0.14 * long + 0.7 * (bottom - down)], -1) @ axes + corner
        fold = cv2.remap(
            picture, source[..., 0].astype(np.float32), source[..., 1].astype(np.float32), cv2.INTER_LINEAR
        )
        share = cv2.GaussianBlur(lid.astype(np.float32), (0, 0), max(0.02 * long, 0.5))[..., None]
        result = result * (1 - share) + fold * share
        lashes = 0.65 * np.exp(-(((down - bottom) / (0.04 * long)) ** 2))
        lashes = (lashes * (np.abs(place[..., 0] / long - 0.5) < 0.5))[..., None]
        result = result * (1 - lashes) + lashes * np.array([35, 35, 45])
    return np.clip(result, 0, 255).astype(np.uint8)


def turned_marks(marks: Landmarks, degrees: float) -> Landmarks:
    """The mesh turned about the vertical through the middle of the head."""
    turn = np.deg2rad(degrees)
    centre = (marks.min(0) + marks.max(0)) / 2
    off = marks - centre
    x = off[:, 0] * np.cos(turn) + off[:, 2] * np.sin(turn)
    z = off[:, 2] * np.cos(turn) - off[:, 0] * np.sin(turn)
    return (np.column_stack([x, off[:, 1], z]) + centre).astype(np.float32)
