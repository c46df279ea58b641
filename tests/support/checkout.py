"""A stand-in for a checkout of FaceFusion: the names that the contract tells of, and none of its work.

Written from the contract only. `events` in its folder tells what was called, one line each.
"""

from __future__ import annotations

import zlib
from pathlib import Path
from textwrap import dedent

MODELS = (
    "yoloface_8n",
    "2dfan4",
    "fan_68_5",
    "arcface_w600k_r50",
    "fairface",
    "xseg_1",
    "bisenet_resnet_34",
    "nsfw_1",
    "nsfw_2",
    "nsfw_3",
    "hyperswap_1a_256",
    "gfpgan_1.4",
)

_STATE = """
    _state = {}

    def init_item(name, value):
        _state[name] = value

    def get_item(name):
        return _state.get(name)
"""

_STORE = """
    frames = {}

    def clear_faces():
        from facefusion import events
        events.tell("clear", len(frames))
        frames.clear()
"""

_EVENTS = """
    from pathlib import Path

    _FILE = Path(__file__).parents[1] / "events"

    def tell(*words):
        with _FILE.open("a") as file:
            print(*words, file=file)
"""

_ANALYSER = """
    from facefusion import events, state_manager

    def analyse_frame(vision_frame):
        assert state_manager.get_item("execution_providers")
        events.tell("test")
        blue, green, red = vision_frame.reshape(-1, 3).mean(0)
        return bool(blue > 200 and red < 60)
"""

_PROCESSOR = """
    import os, sys, json
    import numpy
    from facefusion import events, face_store, state_manager

    assert state_manager.get_item("download_providers") == []
    assert isinstance(state_manager.get_item("face_detector_margin"), tuple)
    events.tell("import", __name__.split(".")[-2], os.getpid())
    events.tell("environment", json.dumps(dict(os.environ)))
    print("noise of an import")

    def pre_check():
        events.tell("pre_check", __name__.split(".")[-2])
        return True

    def process_frame(inputs):
        (target,) = inputs["target_vision_frames"]
        frame, mask = inputs["temp_vision_frame"], inputs["temp_vision_mask"]
        assert target.dtype == numpy.uint8 and mask.shape == target.shape[:2]
        face_store.frames[len(face_store.frames)] = target
        os.write(1, b"noise " * 2000)
        return work(inputs, frame, mask)
"""
"""A black picture has no face."""

_WORK = {
    "face_swapper": """
    def work(inputs, frame, mask):
        if inputs["target_vision_frames"][0].max() < 40:
            return frame, mask
        if state_manager.get_item("face_selector_mode") == "reference":
            frame[8:40, 8:40] = inputs["reference_vision_frame"].mean((0, 1))
        else:
            frame[8:40, 8:40] = inputs["source_vision_frames"][0].mean((0, 1))
        return frame, mask
""",
    "face_enhancer": """
    def work(inputs, frame, mask):
        frame[8:40, 8:40] = 255 - frame[8:40, 8:40]
        return frame, mask
""",
    "age_modifier": """
    def work(inputs, frame, mask):
        events.tell("age", state_manager.get_item("age_modifier_direction"))
        return frame, mask
""",
    "frame_enhancer": """
    def work(inputs, frame, mask):
        if state_manager.get_item("frame_enhancer_model") == "x2":
            return frame.repeat(2, 0).repeat(2, 1), mask.repeat(2, 0).repeat(2, 1)
        return frame // 2, mask
""",
    "frame_colorizer": """
    def work(inputs, frame, mask):
        return frame, mask
""",
    "background_remover": """
    def work(inputs, frame, mask):
        mask = mask.copy()
        mask[:, :32] = 0
        return frame, mask
""",
    "face_debugger": """
    def work(inputs, frame, mask):
        if inputs["target_vision_frames"][0].max() < 40:
            return frame, mask
        how = state_manager.get_item("face_debugger_items")
        print("about to", how, file=sys.stderr, flush=True)
        if how == "exit":
            os._exit(1)
        if how == "segv":
            import ctypes
            ctypes.string_at(0)
        if how == "hang":
            import time
            time.sleep(600)
        if how == "raise":
            raise KeyError("a fault of FaceFusion")
        if how == "gpu":
            import onnxruntime, warnings
            from onnx import helper
            value = helper.make_tensor_value_info("x", 1, [1])
            out = helper.make_tensor_value_info("y", 1, [1])
            graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "g", [value], [out])
            model = helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", 17)])
            warnings.simplefilter("ignore")
            onnxruntime.InferenceSession(model.SerializeToString(), providers=["CUDAExecutionProvider"])
        return frame, mask
""",
}


def build(home: Path, version: str = "3.8.1") -> Path:
    """Lay a stand-in out in a new folder."""
    package = home / "facefusion"
    modules = package / "processors" / "modules"
    modules.mkdir(parents=True)
    for folder in (package, package / "processors", modules):
        (folder / "__init__.py").touch()
    (package / "metadata.py").write_text(f"METADATA = {{'name': 'FaceFusion', 'version': {version!r}}}\n")
    parts = {"state_manager": _STATE, "face_store": _STORE, "content_analyser": _ANALYSER, "events": _EVENTS}
    for name, text in parts.items():
        (package / f"{name}.py").write_text(dedent(text))
    for name, work in _WORK.items():
        (modules / name).mkdir()
        (modules / name / "__init__.py").touch()
        (modules / name / "core.py").write_text(dedent(_PROCESSOR) + dedent(work))
    for name in MODELS:
        model(home, name)
    return home


def model(home: Path, name: str) -> Path:
    """A model file with the hash beside it."""
    folder = home / ".assets" / "models"
    folder.mkdir(parents=True, exist_ok=True)
    data = name.encode()
    (folder / f"{name}.hash").write_text(f"{zlib.crc32(data):08x}")
    (folder / f"{name}.onnx").write_bytes(data)
    return folder / f"{name}.onnx"


def events(home: Path, kind: str) -> list[str]:
    """What was told of one kind, without its name, oldest first."""
    file = home / "events"
    lines = file.read_text().splitlines() if file.exists() else []
    return [line.partition(" ")[2] for line in lines if line.split(" ")[0] == kind]
