"""Frames that do not come along with the topic, fetched once their patches are here.

Those of a replay, which are another stream's, and a stream's own that were let go to make room.
"""

from __future__ import annotations

from assembler.join import StreamKey, StreamState
from runtime.ranges import RangeReader
from runtime.settings import Settings
from schemas.frames import RangeRef


class Refetch:
    """Owns the readers, one for each stream that has any. The assembler's polling thread calls it."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._readers: dict[StreamKey, RangeReader] = {}

    def __len__(self) -> int:
        return len(self._readers)

    def bring(self, state: StreamState) -> None:
        """Give a stream that is being encoded the frames whose patches come next.

        Raises FramesLostError, BrokerError, RecordError.
        """
        if state.range is None or not state.wanting:
            return
        reader = self._readers.get(state.key) or self._open(state, state.range)
        if reader is None:
            return
        if (batch := reader.poll(0)) is not None:
            state.accept(batch)

    def forget(self, key: StreamKey) -> None:
        if (reader := self._readers.pop(key, None)) is not None:
            reader.close()

    def close(self) -> None:
        for key in list(self._readers):
            self.forget(key)

    def _open(self, state: StreamState, ref: RangeRef) -> RangeReader | None:
        """None for a stream's own frames of which the next have not been seen yet."""
        seq = 0
        if ref.source == state.key.stream:
            seq = state.next_seq
            if seq not in state.offsets:
                return None
            ref = ref.model_copy(update={"first_offset": state.offsets[seq]})
        reader = self._readers[state.key] = RangeReader(self._settings.kafka, "assembler", ref, seq)
        return reader
