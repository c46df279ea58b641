"""The swapper as a service: engines warm first, then partitions."""

from __future__ import annotations

from contextlib import ExitStack

from runtime.cluster import configure_group, configure_share_group
from runtime.jobs import JobBoard
from runtime.kafka import producer
from runtime.memory import fitted, share
from runtime.outbox import Outbox
from runtime.settings import Settings
from runtime.store import Store
from schemas.events import Role
from schemas.job import Lane
from swapper.grouped import GroupReader
from swapper.pipeline import Pipeline, Topics
from swapper.recipes import RecipeBook
from swapper.runner import Runner
from swapper.shared import Containment, ShareReader


def group_name(settings: Settings, lane: Lane) -> str:
    """The consumer or share group of a lane's swappers. The two kinds never share a name: a broker
    refuses a group of one kind under the name of the other."""
    kind = "swapper" if settings.swapper.group == "consumer" else "swapper.share"
    return f"{settings.topic_prefix}{kind}.{lane}"


class SwapperService:
    """One worker of one lane."""

    name = "swapper"

    def __init__(self, settings: Settings, lane: Lane = Lane.BATCH) -> None:
        self._room = share(settings, Role.SWAPPER).frames
        self._settings = fitted(settings, Role.SWAPPER)
        self._lane = lane
        self._readers: list[GroupReader] | list[ShareReader] = []
        self._opened = ExitStack()
        """What `close` lets go of, however far `start` came."""

    def start(self) -> None:
        """Load and warm the engines, start the stages, join the group."""
        settings, topics = self._settings, self._settings.topic_set
        board = JobBoard(settings, "swapper")
        self._opened.callback(board.close)
        recipes = RecipeBook(board, Store.of(settings), settings.models_dir)
        for name in settings.swapper.engines:
            recipes.engine(name)
        outbox = Outbox(producer(settings.kafka, "swapper"))
        self._opened.callback(outbox.close)
        frames = topics.frames(self._lane)
        names = Topics(frames, topics.swaps(self._lane), topics.dead, topics.events)
        self._pipeline = Pipeline(
            Runner(recipes),
            outbox,
            names,
            settings.limits.queue_batches,
            settings.swapper.hang_seconds,
            self._room,
        )
        self._opened.callback(self._pipeline.stop)
        self._pipeline.start()
        group = group_name(settings, self._lane)
        if settings.swapper.group == "share":
            configure_share_group(settings, group)
            containment = Containment(settings, group, frames)
            self._readers = [
                ShareReader(settings, group, frames, self._pipeline, board, containment)
                for _ in range(settings.swapper.share_consumers)
            ]
        else:
            configure_group(settings, group)
            self._readers = [GroupReader(settings, group, frames, self._pipeline)]
        for reader in self._readers:
            reader.start()

    def step(self, timeout: float) -> None:
        """One turn of the main loop."""
        self._pipeline.check()
        for reader in self._readers:
            if isinstance(reader, GroupReader):
                reader.step(timeout)
            else:
                reader.check()
        if self._settings.swapper.group == "share":
            self._pipeline.wait(timeout)

    def drain(self, deadline: float) -> None:
        """Leave the group: what is finished is committed, what is not runs again elsewhere."""
        for reader in self._readers:
            reader.close()

    def close(self) -> None:
        self._opened.close()
