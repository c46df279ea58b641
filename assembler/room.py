"""How many streams are encoded at once: no more than fit in memory.

An encoder holds far more than the frames that wait for it. A stream of which all patches are here comes to
its end whatever happens; one that waits for some may wait for long, with its encoder open. Such streams get
half of the room, so that they never hold up the others, of which one may always run.
"""

from __future__ import annotations

from collections.abc import Sequence

from runtime.settings import MIB, LimitSettings
from schemas.frames import VideoFormat

_FIXED = 24 * MIB
_FRAMES = {
    "libx264": 140, "libx265": 230, "libsvtav1": 550, "libvpx-vp9": 140, "ffv1": 30, "mjpeg": 30,
    "prores_ks": 30, "h264_nvenc": 40, "hevc_nvenc": 40,
}  # fmt: skip
"""What an encoder takes, in frames: measured at 640x360 to 1920x1080 with preset medium and the job's default
threads (docs/performance.md); for nvenc assumed."""


def encoder_bytes(video: VideoFormat, encoder: str, limits: LimitSettings) -> int:
    """What encoding a stream takes at most, with the batches that wait for its encoder and the one in it."""
    waiting = (limits.queue_batches + 2) * max(limits.batch_bytes, video.frame_bytes)
    return _FIXED + video.frame_bytes * _FRAMES.get(encoder, max(_FRAMES.values())) + waiting


class Room:
    """`size` bytes for encoders. The caller tells what is open: (bytes, whether all patches are here)."""

    def __init__(self, size: int) -> None:
        self._size = size

    def has(self, size: int, answered: bool, open_now: Sequence[tuple[int, bool]]) -> bool:
        """Whether a stream that takes `size` bytes may begin."""
        taken = sum(one for one, _ in open_now) + size
        if answered:
            return taken <= self._size or not any(sure for _, sure in open_now)
        return taken <= self._size // 2
