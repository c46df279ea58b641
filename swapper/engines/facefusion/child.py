"""What runs in the child: FaceFusion's processors, one configuration, one frame at a time.

Run by the checkout's own Python, which has none of our packages: standard library at import, and numpy from
the checkout's environment. Nothing newer than Python 3.10. Names of FaceFusion are looked up one by one, so
that a checkout that lacks one is refused by that name.
"""

from __future__ import annotations

import importlib
import os
import resource
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from swapper.engines.facefusion.protocol import Blob, Message, receive, send

_TUPLES = ("face_detector_margin", "face_mask_padding")
"""Items that FaceFusion keeps as tuples; JSON has lists only."""
_OPAQUE = 255


class Refused(Exception):
    """Says what of `error` messages: `kind` is one of version, names, environment, models, size, content."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


class Chain:
    """Processors of a checkout, set up once: FaceFusion's state is one of the whole process."""

    def __init__(
        self, home: str, versions: Sequence[str], processors: Sequence[str], items: Mapping[str, Any]
    ):
        """Raises Refused."""
        sys.path.insert(0, home)
        self.version = _version(home)
        if self.version not in versions:
            known = ", ".join(versions)
            raise Refused("version", f"FaceFusion {self.version} is not known here, only {known}")
        if set(items["execution_providers"]) != {"cpu"}:
            _hold_sessions_to_their_providers()
        put = _named("facefusion.state_manager", "init_item")
        for name, value in items.items():  # before processors are imported: they read it then
            put(name, tuple(value) if name in _TUPLES else value)
        self.clear = _named("facefusion.face_store", "clear_faces")
        self._flags = _named("facefusion.content_analyser", "analyse_frame")
        self._processors: list[tuple[str, Callable[[dict[str, Any]], tuple[Any, Any]]]] = []
        for name in processors:
            module = f"facefusion.processors.modules.{name}.core"
            process, ready = _named(module, "process_frame"), _named(module, "pre_check")
            if not ready():
                raise Refused("models", f"{name} of FaceFusion is not ready: a model is missing or damaged")
            self._processors.append((name, process))
        self._sources: list[Any] = []
        self._reference: Any = None

    def face(self, sources: Sequence[Any], reference: Any) -> None:
        """Pictures that the next frames get."""
        self._sources, self._reference = list(sources), reference

    def test(self, picture: Any, what: str) -> None:
        """FaceFusion's content check; `what` names the picture. Raises Refused."""
        if self._flags(picture):
            raise Refused("content", f"FaceFusion's content check refuses {what}")

    def run(self, picture: Any) -> tuple[Any, Any]:
        """(height, width, 3) B G R; returns such a one and a mask (height, width). Raises Refused."""
        import numpy as np

        target, frame = picture.copy(), picture.copy()  # written to, perhaps
        mask = np.full(picture.shape[:2], _OPAQUE, np.uint8)
        for name, process in self._processors:
            frame, mask = process(
                {
                    "reference_vision_frame": target if self._reference is None else self._reference,
                    "source_vision_frames": self._sources,
                    "target_vision_frames": [target],
                    "temp_vision_frame": frame,
                    "temp_vision_mask": mask,
                }
            )
            _check(name, picture, frame, mask)
        return frame, mask


def main(descriptor: int) -> None:
    """Answer messages until the worker is gone."""
    os.set_inheritable(descriptor, False)  # FaceFusion starts processes of its own
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a memory image holds faces
    threading.Thread(target=_follow, args=(os.getppid(),), daemon=True).start()
    with socket.socket(fileno=descriptor) as channel:
        try:
            _serve(channel)
        except (EOFError, ConnectionError):
            return


def _serve(channel: socket.socket) -> None:
    chain: Chain | None = None
    while True:
        message = receive(channel)
        try:
            if message.kind == "configure":
                chain = Chain(**message.fields)
                answer = Message("ready", {"version": chain.version})
            else:
                assert chain is not None
                answer = _answer(chain, message)
        except Refused as error:
            answer = Message("error", {"what": error.kind, "text": str(error)})
        except Exception as error:  # FaceFusion raises whatever its libraries raise
            traceback.print_exc()
            answer = Message("error", {"what": "failed", "text": f"{type(error).__name__}: {error}"})
        send(channel, answer)


def _answer(chain: Chain, message: Message) -> Message:
    pictures = {name: _array(blob) for name, blob in message.blobs.items()}
    if message.kind == "face":
        reference = pictures.pop("reference", None)
        chain.face(list(pictures.values()), reference)
    elif message.kind == "clear":
        chain.clear()
    elif message.kind == "test":
        chain.test(pictures["picture"], message.fields["what"])
    else:
        return _changed(pictures["picture"], *chain.run(pictures["picture"]))
    return Message("done")


def _changed(before: Any, after: Any, mask: Any) -> Message:
    """What came out; a picture that is as before, and a mask that is opaque, need not travel."""
    blobs = {}
    if (after != before).any():
        blobs["picture"] = _blob(after)
    if (mask != _OPAQUE).any():
        blobs["mask"] = _blob(mask)
    return Message("done", {}, blobs)


def _array(blob: Blob) -> Any:
    import numpy as np

    return np.frombuffer(blob.data, np.uint8).reshape(blob.shape)


def _blob(picture: Any) -> Blob:
    import numpy as np

    flat: Any = np.ascontiguousarray(picture).reshape(-1)
    return Blob(picture.shape, memoryview(flat))


def _check(name: str, picture: Any, frame: Any, mask: Any) -> None:
    if getattr(frame, "ndim", 0) != 3 or frame.dtype != picture.dtype or frame.shape[2] != 3:
        raise Refused("names", f"{name} of FaceFusion made something else than a picture of B G R")
    if frame.shape != picture.shape or mask.shape != picture.shape[:2]:
        (high, wide), (height, width) = frame.shape[:2], picture.shape[:2]
        raise Refused(
            "size",
            f"{name} of FaceFusion made {wide}x{high} of {width}x{height}: patches cannot change a frame's "
            f"size; choose a model that keeps it",
        )


def _version(home: str) -> str:
    """From the checkout's metadata: whichever mapping in it has a version."""
    metadata = _module("facefusion.metadata")
    for value in vars(metadata).values():
        if isinstance(value, Mapping) and isinstance(value.get("version"), str):
            return str(value["version"])
    raise Refused("names", f"{home} does not say which version of FaceFusion it is")


def _named(module: str, name: str) -> Callable[..., Any]:
    found = getattr(_module(module), name, None)
    if not callable(found):
        raise Refused("names", f"this FaceFusion has no {module}.{name}, which is needed")
    return found  # type: ignore[no-any-return]


def _module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and name.startswith(error.name):
            raise Refused("names", f"this FaceFusion has no module {error.name}, which is needed") from None
        raise Refused("environment", f"{sys.executable} has no module {error.name}") from None


def _hold_sessions_to_their_providers() -> None:
    """ONNX Runtime leaves out a provider that does not start and goes on with the CPU: here that fails."""
    try:
        import onnxruntime
    except ModuleNotFoundError:
        return
    sessions = onnxruntime.InferenceSession
    start = sessions.__init__

    def held(session: Any, *given: Any, **named: Any) -> None:
        start(session, *given, **named)
        asked = named.get("providers") or (given[2] if len(given) > 2 else None) or []
        names = {one if isinstance(one, str) else one[0] for one in asked}
        if missing := names - set(session.get_providers()):
            text = f"ONNX Runtime did not start {', '.join(sorted(missing))}"
            print(text, file=sys.stderr, flush=True)  # noqa: T201 (FaceFusion ends the process on an error)
            raise RuntimeError(text)

    sessions.__init__ = held


def _follow(worker: int) -> None:
    """End with the worker, also in the middle of a frame."""
    while os.getppid() == worker:
        time.sleep(1)
    os._exit(1)
