"""Every file of the case log through the whole pipeline: right by the judge, or refused with a reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from schemas.containers import CONTAINERS, suffix_of
from schemas.job import JobSpec, JobState
from tests.media.check import check
from tests.support.assets import astronaut
from tests.support.cases import Case, cases
from tests.support.cluster import Cluster

pytestmark = pytest.mark.media

FAST = {
    "M00", "M01", "M07", "M14", "M21", "M25", "M28", "M40", "M43", "M44", "M53", "M60", "M69", "M80",
    "X01", "X14", "X21", "X27", "X43",
}  # fmt: skip
"""Run by `make test`: one of each kind. The others are marked slow, for `make media`."""
MESH = {
    "M00", "M02", "M26", "M40", "M43", "M44", "M46", "M50", "M52", "M53", "M55", "M60", "M69", "M70", "M80",
    "M81", "M83", "X17", "X21", "X24", "X42", "X43", "X44", "X50",
}  # fmt: skip
"""Cases in which pixels or faces matter; the others, of time and tracks, go through engine `none`."""
OTHERS = {"mpg": "mkv", "wmv": "mkv", "avi": "mp4"}
"""Output containers for inputs in one that we do not write, or, AVI, that holds no times; all others keep
theirs."""


def parameters(*kinds: str) -> list[object]:
    """Cases that have media as their target, slow ones marked."""
    return [
        pytest.param(case, id=name, marks=[] if name in FAST else [pytest.mark.slow])
        for name, case in cases().items()
        if case.expect in kinds and case.kind != "source"
    ]


def spec_of(cluster: Cluster, case: Case, folder: Path) -> JobSpec:
    """A job with default options, but for the encoder where the container does not take the usual one."""
    suffix = suffix_of(case.file)
    suffix = OTHERS.get(suffix, suffix)
    container = CONTAINERS[suffix]
    output = folder / f"{Path(case.file).stem}.{suffix}"
    source = astronaut() if case.name in MESH else None
    return cluster.spec(case.path, output, source, encode={"encoder": container.encoders[0]})


def tell(request: pytest.FixtureRequest, **told: str) -> None:
    """Into the JUnit report, for tests/media/table.py."""
    request.node.user_properties.extend(told.items())


@pytest.mark.parametrize("case", parameters("process", "degrade"))
def test_it_comes_out_right(
    cluster: Cluster, case: Case, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    spec = spec_of(cluster, case, tmp_path)
    (status,) = cluster.run(spec)
    assert status.record is not None
    assert (status.state, status.record.reason) == (JobState.DONE, "")
    report = check(case.path, Path(spec.output), case.flags)
    print(report)
    assert report.wrong == []
    if case.expect == "degrade":
        assert status.record.warnings.get("degraded", 0) > 0
    warnings = " ".join(sorted(status.record.warnings))
    tell(request, engine=spec.swap.engine, container=spec.container, warnings=warnings)


@pytest.mark.parametrize("case", parameters("reject"))
def test_it_is_refused_with_a_reason_and_leaves_nothing(
    cluster: Cluster, case: Case, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    (status,) = cluster.run(spec_of(cluster, case, tmp_path))
    assert status.state is JobState.FAILED
    assert status.record is not None
    assert case.file in status.record.reason
    assert "\n" not in status.record.reason
    assert list(tmp_path.iterdir()) == []
    tell(request, refused=status.record.reason.replace(str(case.path), case.file))
