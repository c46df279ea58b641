"""How the memory of a service is shared out among its queues, so that the whole stays below its setting.

What a process holds: the interpreter with its libraries and models, what its Kafka clients queue, frames. The
first is measured, each of the others has a bound; `fitted` lowers those bounds to their share of the setting.
What is left is for decoders and encoders, of which a service opens only as many as fit.
"""

from __future__ import annotations

from dataclasses import dataclass

from runtime.settings import MIB, Settings
from schemas.errors import SettingsError
from schemas.events import Role

_OWN = {Role.INGEST: 160 * MIB, Role.SWAPPER: 448 * MIB, Role.ASSEMBLER: 160 * MIB}
"""Resident size of a service that is ready and has no work."""
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
    frames = min(settings.limits.assembler_bytes, room // 4) if role is Role.ASSEMBLER else room // 4
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
