"""What each job wants done, from its spec: engines opened once, faces loaded once."""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path

from runtime.jobs import JobBoard
from runtime.store import Store
from swapper.engines.base import Engine, SourceFace
from swapper.engines.registry import open_engine
from swapper.runner import Recipe

_KEPT = 64
"""Recipes kept in memory; a face is about 2 MB."""


class RecipeBook:
    """Recipes by (job, revision). Used from one thread."""

    def __init__(self, board: JobBoard, store: Store, models: Path) -> None:
        self._board = board
        self._store = store
        self._models = models
        self._engines: dict[str, Engine] = {}
        self._recipes: OrderedDict[tuple[str, int], Recipe] = OrderedDict()

    def engine(self, name: str) -> Engine:
        """An engine, warm. Raises UsageError for an unknown name and ModelError without its models."""
        if name not in self._engines:
            engine = open_engine(name, self._models)
            engine.warm()
            self._engines[name] = engine
        return self._engines[name]

    def __call__(self, job: str, revision: int) -> Recipe:
        """Raises BrokerError for an unknown job, StoreError without its face."""
        key = (job, revision)
        recipe = self._recipes.get(key)
        if recipe is None:
            recipe = self._recipes[key] = self._make(job, revision)
        self._recipes.move_to_end(key)
        while len(self._recipes) > _KEPT:
            self._recipes.popitem(last=False)
        return recipe

    def _make(self, job: str, revision: int) -> Recipe:
        swap = self._board.spec(job, revision).swap
        engine = self.engine(swap.engine)
        face = SourceFace.from_bytes(self._store.get(swap.face)) if swap.face else SourceFace(engine.name)
        return Recipe(engine, face, swap.options, swap.on_failure)
