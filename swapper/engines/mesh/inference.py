"""ONNX Runtime on one thread."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime

Outputs = list[npt.NDArray[np.float32]]


class Model:
    """A model on the CPU, one thread and no spinning: a worker process is given one core."""

    def __init__(self, file: Path) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self._session: Any = onnxruntime.InferenceSession(
            str(file), options, providers=["CPUExecutionProvider"]
        )

    def __call__(self, images: npt.NDArray[np.uint8]) -> Outputs:
        """`images`: (n, height, width, 3) RGB."""
        outputs: Outputs = self._session.run(None, {"image": images})
        return outputs
