"""The evidence in commit metadata: who is named, who is run alone, who is dead, and who is innocent."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swapper.containment import CLEAN, DEAD_STREAM, Containment, Mark, Suspect, Verdict

pytestmark = pytest.mark.unit
BEFORE = 100
"""Where the partition ended when it was taken over."""


def suspect(number: int, stream: str = "j/0") -> Suspect:
    return stream, 1, number


class Worker:
    """One life of a worker that reads one partition; what it wrote last stays in `text`."""

    def __init__(self, text: str | None) -> None:
        self.marks = Containment()
        self.marks.enter(0, text, BEFORE)
        self.text = self.marks.text(0, 0)
        self.dead: set[Suspect] = set()

    def live(self, batches: list[Suspect], poison: set[Suspect], hold: int) -> bool:
        """Run all batches; False if the worker died. An engine holds the newest `hold` of a stream back and
        goes off when it is given a poisoned one."""
        held: list[Suspect] = []
        for batch in batches:
            careful = self.marks.careful(0, 0)
            verdict = self.marks.verdict(0, batch) if careful else Verdict.RUN
            if verdict is Verdict.DEAD:
                self.dead.add(batch)
                continue
            alone = verdict is Verdict.ALONE
            if careful:
                self.marks.name(0, [batch] if alone else [*held, batch])
                self.text = self.marks.text(0, 0)
            if batch in poison:
                return False
            if not alone:
                held = [*held, batch][-hold:] if hold else []
        return True


def lives(batches: list[Suspect], poison: set[Suspect], hold: int) -> tuple[int, set[Suspect]]:
    """(deaths until all is done, batches found dead)"""
    text, deaths = None, 0
    while True:
        worker = Worker(text)
        if worker.live(batches, poison, hold):
            return deaths, worker.dead
        text, deaths = worker.text, deaths + 1


@given(count=st.integers(1, 12), place=st.integers(0, 11), hold=st.integers(0, 5))
def test_one_poisoned_batch_costs_four_deaths_and_nobody_else(count: int, place: int, hold: int) -> None:
    batches = [suspect(n) for n in range(count)]
    poison = batches[place % count]
    assert lives(batches, {poison}, hold) == (4, {poison})


@given(places=st.sets(st.integers(0, 9), max_size=DEAD_STREAM - 1), hold=st.integers(0, 3))
def test_several_poisoned_batches_are_all_found_and_nobody_else(places: set[int], hold: int) -> None:
    poison = {suspect(place) for place in places}
    deaths, dead = lives([suspect(n) for n in range(10)], poison, hold)
    assert dead == poison
    assert deaths <= (1 if poison else 0) + 3 * len(poison)


def test_a_stream_with_many_dead_batches_is_given_up_as_a_whole() -> None:
    batches = [suspect(n) for n in range(20)]
    healthy = [suspect(n, "k/0") for n in range(5)]
    deaths, dead = lives([*batches, *healthy], set(batches), hold=0)
    assert dead == set(batches)
    assert deaths == 1 + 3 * DEAD_STREAM


def test_deaths_at_other_batches_each_time_condemn_nobody() -> None:
    text = None
    for victim in range(20):
        worker = Worker(text)
        assert not worker.live([suspect(n) for n in range(30)], {suspect(victim)}, hold=0)
        text = worker.text
    assert Worker(text).live([suspect(n) for n in range(30)], set(), hold=0)
    assert Mark.read(text).dead == ()


def test_a_worker_that_leaves_in_order_is_no_evidence() -> None:
    text = None
    for _ in range(10):
        marks = Containment()
        marks.enter(0, text, BEFORE)
        assert not marks.careful(0, 0)
        text = marks.leave(0, 0)


def test_past_what_was_there_at_first_all_is_forgiven() -> None:
    marks = Containment()
    marks.enter(0, Mark(True, 3, (), {suspect(1): 2}, (suspect(0),)).text(), BEFORE)
    assert marks.careful(0, BEFORE - 1)
    assert Mark.read(marks.text(0, BEFORE - 1)).attempts == 4
    assert not marks.careful(0, BEFORE)
    assert Mark.read(marks.text(0, BEFORE)) == Mark(clean=True, attempts=1)


def test_metadata_of_earlier_versions_and_of_others_is_read() -> None:
    assert Mark.read(CLEAN) == Mark(clean=True)
    assert Mark(clean=True).text() == CLEAN, "what earlier versions look for"
    for text in (None, "", "somebody's note", f"{CLEAN} {{broken", f"{CLEAN} [1]"):
        assert Mark.read(text).attempts == 0


@given(
    st.builds(
        Mark,
        st.booleans(),
        st.integers(0, 99),
        st.lists(st.builds(suspect, st.integers(0, 9999))).map(tuple),
        st.dictionaries(st.builds(suspect, st.integers(0, 9999)), st.integers(1, 9)),
        st.lists(st.builds(suspect, st.integers(0, 9999))).map(tuple),
    )
)
def test_a_mark_survives_being_written(mark: Mark) -> None:
    assert Mark.read(mark.text()) == mark


def test_what_does_not_fit_into_the_metadata_is_left_out() -> None:
    many = tuple(suspect(n) for n in range(500))
    text = Mark(True, 2, many[:3], dict.fromkeys(many, 1), many).text()
    assert len(text.encode()) <= 4096
    assert Mark.read(text).attempts == 2
    assert Mark.read(text).named == many[:3]
    assert Mark.read(text).dead[-1] == many[-1]
