"""Which offset of each partition may be committed while streams are read to their end."""

from __future__ import annotations


class StreamOffsets:
    """For each partition, the offset from which to read again so that no unfinished stream is lost:
    the start of the oldest unfinished stream, else the next offset.

    Streams are known by any hashable key, here always (stream, epoch). Not thread safe: it belongs to
    the thread that polls.
    """

    def __init__(self) -> None:
        self._next: dict[int, int] = {}
        self._open: dict[int, dict[tuple[str, int], int]] = {}
        self._committed: dict[int, int] = {}

    def seen(self, partition: int, offset: int) -> None:
        """A record was read."""
        self._next[partition] = max(self._next.get(partition, 0), offset + 1)

    def begin(self, partition: int, key: tuple[str, int], offset: int) -> None:
        """A stream starts at `offset`. A second start of the same stream changes nothing."""
        self._open.setdefault(partition, {}).setdefault(key, offset)

    def finish(self, partition: int, key: tuple[str, int]) -> None:
        """All of a stream is done with; unknown streams are ignored."""
        self._open.get(partition, {}).pop(key, None)

    def forget(self, partition: int) -> None:
        """The partition belongs to somebody else now."""
        self._next.pop(partition, None)
        self._open.pop(partition, None)
        self._committed.pop(partition, None)

    def position(self, partition: int) -> int | None:
        """Where to read again; None before the first record."""
        if partition not in self._next:
            return None
        starts = self._open.get(partition, {}).values()
        return min(starts, default=self._next[partition])

    def pending(self) -> dict[int, int]:
        """Partitions whose position moved since `committed`."""
        positions = {p: self.position(p) for p in self._next}
        return {
            p: offset
            for p, offset in positions.items()
            if offset is not None and offset != self._committed.get(p)
        }

    def committed(self, offsets: dict[int, int]) -> None:
        """These positions were committed."""
        self._committed.update(offsets)
