"""Names of the objects in the store."""

from __future__ import annotations


def plan_object(job: str) -> str:
    """A job's plan, a `Plan` record."""
    return f"jobs/{job}/plan"


def sides_object(job: str) -> str:
    """A job's tracks other than the picture."""
    return f"jobs/{job}/sides"


def finish_object(job: str) -> str:
    """What a job's result is joined from, a `FinishOrder` record: a replay starts from it. Once it is there
    the result is published, whatever is wished afterwards."""
    return f"jobs/{job}/finish"
