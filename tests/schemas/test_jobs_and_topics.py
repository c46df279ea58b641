"""Specs say what is wrong with them; topics come in pairs."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from schemas import errors, framing
from schemas.job import JobSpec, JobState, Lane, split_stream, stream_id
from schemas.record import decode
from schemas.topics import TopicSet, TopicSizes
from tests.support.records import SAMPLES

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"output": "o.flv"}, "ends in none of"),
        ({"encode": {"encoder": "ffv1"}}, "ffv1 goes into .mkv, .avi"),
        ({"encode": {"quality": 70}}, "encode.quality"),
        ({"encode": {"encoder": "theora"}}, "'theora' does not go into .mp4"),
        ({"plan": {"segment_seconds": 0}}, "plan.segment_seconds"),
        ({"job": "../x"}, "job"),
    ],
)
def test_a_wrong_spec_names_the_field(change: dict[str, object], says: str) -> None:
    with pytest.raises(ValidationError) as caught:
        JobSpec.model_validate({"job": "j", "input": "i.mp4", "output": "o.mp4"} | change)
    first = caught.value.errors()[0]
    assert says in ".".join(map(str, first["loc"])) + " " + first["msg"]


def test_stream_names_go_there_and_back() -> None:
    assert split_stream(stream_id("a/b-1", 7)) == ("a/b-1", 7)
    with pytest.raises(ValueError):
        split_stream("feed/live")


def test_states_that_end_a_job() -> None:
    assert {s for s in JobState if s.ended} == {JobState.DONE, JobState.FAILED, JobState.CANCELLED}


def test_frames_and_swaps_of_a_lane_have_equal_partitions() -> None:
    topics = TopicSet("p.")
    table = {t.name: t for t in topics.definitions(TopicSizes(frame_partitions=5))}
    for lane in Lane:
        assert table[topics.frames(lane)].partitions == table[topics.swaps(lane)].partitions == 5


def test_the_replay_window_is_bounded_by_size_and_time() -> None:
    topics = TopicSet()
    sizes = TopicSizes(frame_partitions=4, retention_bytes=400, retention_hours=2)
    config = {t.name: t.config for t in topics.definitions(sizes)}[topics.frames(Lane.BATCH)]
    assert config["retention.bytes"] == "100"
    assert config["retention.ms"] == str(2 * 3600 * 1000)
    assert config["cleanup.policy"] == "delete"


def test_every_error_tells_whether_a_retry_helps_and_how_to_exit() -> None:
    tree = [e for e in vars(errors).values() if isinstance(e, type) and issubclass(e, errors.FacestreamError)]
    assert len(tree) > 15
    for error in tree:
        assert error.__doc__
        assert error.exit_code in (1, 2, 3)
        assert isinstance(error.retryable, bool)
        assert error.__name__ in (errors.__doc__ or "")


def test_jobs_written_before_licences_were_kept_are_read() -> None:
    record, _ = SAMPLES["job"]
    header = record.header()
    del header["swap"]["accepted"]
    whole, _ = framing.pack(header, 0)
    read = decode(whole).record
    assert isinstance(read, JobSpec)
    assert read.swap.accepted == {}
