"""Side data of decoded frames: display matrix, mastering display, light level.

PyAV 18 fails on frames that carry data of a kind it has no name for, such as the EXIF block of a photo or the
view number of stereo HEVC. Its enumeration is given such kinds as they come.
"""

from __future__ import annotations

from typing import Any, cast

import av
from av.sidedata.sidedata import SideData, Type


def _unnamed(kind: type[Type], value: object) -> Type:
    member: Any = object.__new__(kind)
    member._name_, member._value_ = f"KIND_{value}", value
    return cast(Type, member)


Type._missing_ = classmethod(_unnamed)  # type: ignore[assignment, method-assign]


def side_data(frame: av.VideoFrame, kind: Type) -> bytes:
    """The data of a kind; empty if the frame has none."""
    part = frame.side_data.get(kind.name)
    return bytes(part) if isinstance(part, SideData) else b""
