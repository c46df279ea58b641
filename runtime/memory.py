"""How the memory of a service is shared out among its queues, so that the whole stays below its setting.

What a process holds: the interpreter with its libraries and models, what its Kafka clients queue, frames. The
first is measured, each of the others has a bound; `fitted` lowers those bounds to their share of the setting.
What is left is for decoders and encoders, of which a service opens only as many as fit.
"""

from __future__ import annotations

import ctypes
import time
from dataclasses import dataclass

from runtime.settings import MIB, Settings
from schemas.errors import SettingsError
from schemas.events import Role

_OWN = {Role.INGEST: 160 * MIB, Role.SWAPPER: 448 * MIB, Role.ASSEMBLER: 160 * MIB}
"""Resident size of a service that is ready and has no work."""
_M_ARENA_MAX = -8
"""Of glibc's malloc.h."""
_ARENAS = 2
_TIDY_SECONDS = 5.0
_LINGERING = 1.5
"""A consumer may hold so many times `prefetch_bytes`: an answer stays until its last record is taken."""


@dataclass(frozen=True, slots=True)
class Share:
    """Bounds of one service, bytes."""

    prefetch: int
    unsent: int
    frames: int
    """Frames that wait."""
    work: int
    """Decoders, encoders, and what they hold."""


def share(settings: Settings, role: Role) -> Share:
    """What each part of a service may take. Raises SettingsError where the setting is too small."""
    total = getattr(settings.memory, role.value)
    room = total - _OWN[role]
    least = max(16 * settings.limits.batch_bytes, 4 * settings.kafka.record_limit)
    if room < least:
        raise SettingsError(
            f"memory.{role}: {total // MIB} MiB are too few: it takes {_OWN[role] // MIB} MiB without work "
            f"and at least {least // MIB} for it (16 limits.batch_bytes, and 4 kafka.record_limit)"
        )
    prefetch = 0 if role is Role.INGEST else min(settings.kafka.prefetch_bytes, room // 8)
    unsent = 0 if role is Role.ASSEMBLER else min(settings.kafka.producer_queue_bytes, room // 4)
    frames = {
        Role.INGEST: 0,  # what is decoded is sent at once
        Role.SWAPPER: room // 4,
        Role.ASSEMBLER: min(settings.limits.assembler_bytes, room // 4),
    }[role]
    return Share(prefetch, unsent, frames, room - round(prefetch * _LINGERING) - unsent - frames)


def fitted(settings: Settings, role: Role) -> Settings:
    """The settings with the bounds of the Kafka clients and of waiting frames lowered to their share."""
    part = share(settings, role)
    kafka, limits = settings.kafka, settings.limits
    fits = {
        "prefetch_bytes": part.prefetch or kafka.prefetch_bytes,
        "producer_queue_bytes": part.unsent or kafka.producer_queue_bytes,
    }
    held = {"assembler_bytes": part.frames} if role is Role.ASSEMBLER else {}
    return settings.model_copy(
        update={"kafka": kafka.model_copy(update=fits), "limits": limits.model_copy(update=held)}
    )


class Allocator:
    """Has glibc give back what is freed; other C libraries are left as they are.

    It keeps an arena for each few threads, and encoders come with many: ten streams of 640x360 took 609 MiB
    where half of that does. (A threshold for `mmap` does as well, but costs 2.7 ms for each block of 3 MB.)
    """

    def __init__(self) -> None:
        """To be called before there are threads."""
        libc = ctypes.CDLL(None)
        self._trim = getattr(libc, "malloc_trim", None)
        self._next = 0.0
        if (mallopt := getattr(libc, "mallopt", None)) is not None:
            mallopt(_M_ARENA_MAX, _ARENAS)

    def tidy(self) -> None:
        """Give back what is free now, if that was not done a moment ago."""
        now = time.monotonic()
        if self._trim is not None and now >= self._next:
            self._next = now + _TIDY_SECONDS
            self._trim(0)
