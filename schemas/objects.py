"""Names of the objects in the store."""

from __future__ import annotations


def plan_object(job: str) -> str:
    """A job's plan, a `Plan` record."""
    return f"jobs/{job}/plan"


def sides_object(job: str) -> str:
    """A job's tracks other than the picture."""
    return f"jobs/{job}/sides"


def finish_object(job: str) -> str:
    """What a finished job was joined from, a `FinishOrder` record: a replay starts from it."""
    return f"jobs/{job}/finish"


def published_object(job: str) -> str:
    """There once the result of a job may be in place: from then on it cannot be cancelled any more."""
    return f"jobs/{job}/published"
