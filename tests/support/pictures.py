"""Encoded pictures and source textures for tests."""

from __future__ import annotations

import struct
import zlib
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from swapper.engines.base import SourceFace


def encoded(picture: npt.NDArray[Any], kind: str = ".png") -> bytes:
    done, data = cv2.imencode(kind, picture)
    assert done
    return data.tobytes()


def texture(face: SourceFace) -> npt.NDArray[np.float32]:
    return face.arrays["texture"].astype(np.float32)


def assert_alike(a: npt.NDArray[np.float32], b: npt.NDArray[np.float32], limit: float = 6) -> None:
    """Mean difference of colours where both show, and of alpha everywhere, in 8-bit steps."""
    both = (a[..., 3] > 128) & (b[..., 3] > 128)
    assert both.mean() > 0.15
    assert np.abs(a[both] - b[both])[:, :3].mean() < limit
    assert np.abs(a[..., 3] - b[..., 3]).mean() < 20


def with_orientation(jpeg: bytes, orientation: int) -> bytes:
    """A JPEG with an EXIF block that holds this one tag."""
    tiff = struct.pack("<2sHIHHHIHHI", b"II", 42, 8, 1, 0x0112, 3, 1, orientation, 0, 0)
    block = b"Exif\0\0" + tiff
    return jpeg[:2] + b"\xff\xe1" + struct.pack(">H", len(block) + 2) + block + jpeg[2:]


def png_with_orientation(png: bytes, orientation: int) -> bytes:
    tiff = struct.pack("<2sHIHHHIHHI", b"II", 42, 8, 1, 0x0112, 3, 1, orientation, 0, 0)
    chunk = b"eXIf" + tiff
    block = struct.pack(">I", len(tiff)) + chunk + struct.pack(">I", zlib.crc32(chunk))
    return png[:33] + block + png[33:]
