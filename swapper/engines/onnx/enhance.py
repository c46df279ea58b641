"""Crops of many faces through an enhancer in one run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from swapper.engines.onnx.align import moved
from swapper.engines.onnx.catalog import Enhancer
from swapper.engines.onnx.masks import Cut, masks
from swapper.engines.onnx.options import EnhancerOptions, MaskOptions
from swapper.engines.onnx.session import Models
from swapper.engines.onnx.swap import Task
from swapper.engines.onnx.tensors import stacked

_MASKS = ("box", "occlusion")


def enhance(models: Models, tasks: Sequence[Task], options: EnhancerOptions, mask: MaskOptions) -> None:
    """Change faces, none of which lies over another; all tasks are of the same options."""
    kind = options.kind
    model = models[options.model]
    before = [task.surface.cut(task.matrix, kind.side) for task in tasks]
    constants = {"weight": np.array([options.weight])} if "weight" in model.inputs else {}
    (made, *_) = model({"input": stacked(before, kind.scale)}, constants)
    after = [_crop(one, kind) for one in made]
    cuts = [
        Cut(old, new, moved(task.face.outline, task.matrix))
        for task, old, new in zip(tasks, before, after, strict=True)
    ]
    for task, cut, one in zip(tasks, cuts, masks(models, cuts, masked(mask)), strict=True):
        task.surface.paste(cut.after, one, task.matrix, options.blend / 100)


def masked(mask: MaskOptions) -> MaskOptions:
    """The masks of an enhancer: always a box without padding, and occlusion where it is asked for."""
    types = ("box", "occlusion") if "occlusion" in mask.types else ("box",)
    return mask.model_copy(update={"types": types, "padding": (0, 0, 0, 0)})


def _crop(output: npt.NDArray[np.float32], kind: Enhancer) -> npt.NDArray[np.uint8]:
    """(side, side, 3) B G R."""
    planes = []
    for channel in (2, 1, 0) if kind.scale.rgb else (0, 1, 2):
        plane = output[channel]
        if kind.restore:
            plane = plane * kind.scale.deviation[channel] + kind.scale.mean[channel]
        planes.append(np.round(np.clip(plane, 0, 1) * np.float32(255)).astype(np.uint8))
    crop: Any = cv2.merge(planes)
    return np.asarray(crop)
