"""What a terminal shows while a job runs."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from control.watch import Status
from schemas.events import Role
from schemas.job import JobState

_PLAIN_SECONDS = 2.0


class Display:
    """A bar on a terminal; a line every two seconds where there is none, or with `plain`."""

    def __init__(self, plain: bool) -> None:
        console = Console(stderr=True)
        self._bar: Progress | None = None
        self._last = 0.0
        self._first_frame: float | None = None
        if console.is_terminal and not plain:
            self._bar = Progress(
                TextColumn("{task.description:<10}"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[speed]}"),
                TimeRemainingColumn(),
                TextColumn("{task.fields[lag]}"),
                console=console,
                transient=True,
            )
            self._task = self._bar.add_task("starting", total=None, speed="", lag="")

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def say(self, what: str) -> None:
        """A word on what goes on before there are frames."""
        if self._bar is not None:
            self._bar.update(self._task, description=what)

    def note(self, line: str) -> None:
        """A line that stays."""
        if self._bar is not None:
            self._bar.console.print(line, highlight=False, soft_wrap=True)
        else:
            click.echo(line, err=True)

    def show(self, status: Status) -> None:
        """Bring the bar, or the lines, up to date."""
        done = status.done[Role.ASSEMBLER]
        speed, lag = self._speed(done), self._lag(status)
        if self._bar is not None:
            total = status.frames or None
            self._bar.update(
                self._task, description=status.state, completed=done, total=total, speed=speed, lag=lag
            )
        elif time.monotonic() - self._last >= _PLAIN_SECONDS or status.state.ended:
            self._last = time.monotonic()
            click.echo(f"{status.state}: {done}/{status.frames} frames {speed} {lag}".rstrip(), err=True)

    def _speed(self, done: int) -> str:
        if not done:
            return ""
        now = time.monotonic()
        if self._first_frame is None:
            self._first_frame = now
        seconds = now - self._first_frame
        return f"{done / seconds:.0f} frames/s" if seconds > 1 else ""

    @staticmethod
    def _lag(status: Status) -> str:
        if status.state is not JobState.RUNNING:
            return ""
        swap = status.lag(Role.INGEST, Role.SWAPPER)
        assemble = status.lag(Role.SWAPPER, Role.ASSEMBLER)
        return f"waiting: {swap} to swap, {assemble} to assemble"
