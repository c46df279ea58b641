"""Time spent by stage of the engine."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Stages(dict[str, float]):
    """Seconds by stage, summed until cleared."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self.clock = clock

    @contextmanager
    def __call__(self, stage: str) -> Iterator[None]:
        start = self.clock()
        try:
            yield
        finally:
            self[stage] = self.get(stage, 0.0) + self.clock() - start
