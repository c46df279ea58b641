"""The findings of a judgement."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Report:
    """Rows of (what, whether it is right or None for a remark, in numbers)."""

    rows: list[tuple[str, bool | None, str]] = field(default_factory=list)

    def add(self, what: str, right: object, numbers: str) -> None:
        self.rows.append((what, bool(right), numbers))

    def info(self, what: str, numbers: str) -> None:
        self.rows.append((what, None, numbers))

    @property
    def right(self) -> bool:
        return all(right is not False for _, right, _ in self.rows)

    @property
    def wrong(self) -> list[str]:
        """What is wrong, a line each."""
        return [f"{what}: {numbers}" for what, right, numbers in self.rows if right is False]

    def __str__(self) -> str:
        words = {True: "ok", False: "FAIL", None: "info"}
        return "\n".join(f"  {words[right]:4}  {what:26} {numbers}" for what, right, numbers in self.rows)
