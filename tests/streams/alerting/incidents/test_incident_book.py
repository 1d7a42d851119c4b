"""Which alerts are one incident: by the times of their changes and the graph; and which component moved first."""

from __future__ import annotations

import json
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapwatch.streams.alerting.incidents.component_graph import ComponentGraph
from gapwatch.streams.alerting.incidents.first_component import MovedFrom, first_components
from gapwatch.streams.alerting.incidents.incident_book import IncidentBook, Onset, incident_id_of
from gapwatch.streams.alerting.series.slice_units import SeriesKey

_MINUTE = 2  # ticks
_HOUR = 60 * _MINUTE
CHAIN = ComponentGraph([("retrieve", "rank"), ("rank", "answer"), ("answer", "check"), ("mail", "send")])


def series(component: str, metric: str = "m", pipeline: str = "shop") -> SeriesKey:
    return SeriesKey(pipeline, "production", component, metric, "v", "", "")


def onset(at: int, before: int = 3, after: int = 3) -> Onset:
    return Onset(at, at - before, at + after)


def book() -> IncidentBook:
    return IncidentBook(lambda _: CHAIN)


def test_series_that_move_within_a_minute_are_one_incident() -> None:
    one = book()
    found = [
        one.join(f"a{i}", series(name), onset(1_000 + i), 1_010 + i)
        for i, name in enumerate(("answer", "retrieve", "rank", "check"))
    ]

    assert found == [incident_id_of("a0")] * 4


def test_a_change_that_began_with_it_joins_however_late_it_is_found() -> None:
    one = book()
    first = one.join("a1", series("retrieve"), onset(1_000), 1_010)

    assert one.join("a2", series("answer"), onset(1_004, 20, 20), 1_000 + 5 * _HOUR) == first


def test_of_one_component_a_change_joins_whose_wide_set_holds_the_other_one() -> None:
    """Few failures date a change late or early: the set has hours, and the most likely tick lies an hour off."""
    one = book()
    first = one.join("a1", series("retrieve", "latency"), onset(1_000), 1_010)
    wide = onset(1_000 - _HOUR, _HOUR, _HOUR + 20)

    assert one.join("a2", series("retrieve", "answers"), wide, 1_080) == first
    assert one.join("a3", series("rank", "answers"), onset(1_000 + _HOUR, _HOUR + 20, _HOUR), 1_090) != first


def test_a_change_that_began_an_hour_later_is_another_incident() -> None:
    one = book()
    first = one.join("a1", series("retrieve"), onset(1_000), 1_010)

    assert one.join("a2", series("answer"), onset(1_000 + _HOUR), 1_010 + _HOUR) != first


def test_a_metric_of_an_open_incident_stays_in_it_whenever_it_moves() -> None:
    """The bound of a metric and its shift are one thing."""
    one = book()
    first = one.join("a1", series("retrieve"), onset(1_000), 1_010)

    assert one.join("a2", series("retrieve"), onset(1_000 + 3 * _HOUR), 1_010 + 3 * _HOUR) == first


def test_a_metric_of_an_older_incident_joins_that_with_which_it_moved() -> None:
    """Undecided traces of a metric since eight o'clock are another thing than a bad release at ten."""
    one = book()
    older = one.join("a1", series("answer", "rejected"), onset(1_000), 1_010)
    release = one.join("a2", series("answer", "fallback"), onset(1_000 + 2 * _HOUR), 1_010 + 2 * _HOUR)

    assert release != older
    assert one.join("a3", series("answer", "rejected"), onset(1_002 + 2 * _HOUR), 1_020 + 2 * _HOUR) == release
    assert one.join("a4", series("check"), onset(1_004 + 2 * _HOUR), 1_030 + 2 * _HOUR) == release


def test_components_without_a_way_between_them_are_two_incidents() -> None:
    one = book()
    first = one.join("a1", series("retrieve"), onset(1_000), 1_010)
    second = one.join("a2", series("mail"), onset(1_000), 1_010)

    assert second != first
    assert one.join("a3", series("send"), onset(1_001), 1_012) == second
    assert one.join("a4", series(""), onset(1_001), 1_012) == first  # the whole trace belongs to every component


def test_two_pipelines_are_two_incidents() -> None:
    one = book()
    first = one.join("a1", series("retrieve"), onset(1_000), 1_010)

    assert one.join("a2", series("retrieve", pipeline="mail"), onset(1_000), 1_010) != first


def test_it_lasts_while_one_of_its_alerts_is_open() -> None:
    one = book()
    first = one.join("a1", series("retrieve"), onset(1_000), 1_010)
    one.join("a2", series("answer"), onset(1_000), 1_011)
    one.end("a1", 1_100)

    assert one.join("a3", series("rank"), onset(1_005), 1_200) == first


def test_it_opens_again_within_the_hour_and_not_later() -> None:
    one = book()
    first = one.join("a1", series("retrieve"), onset(1_000), 1_010)
    one.end("a1", 1_050)
    another = one.join("a2", series("rank"), onset(1_060), 1_070)
    again = one.join("a3", series("retrieve"), onset(1_100), 1_110)
    one.end("a3", 1_150)
    later = one.join("a4", series("retrieve"), onset(1_150 + _HOUR), 1_160 + _HOUR)

    assert another != first and later != first
    assert again == first


def test_a_change_whose_time_is_not_known_does_not_join_everything() -> None:
    one = book()
    first = one.join("a1", series("retrieve"), onset(1_000, 5 * _HOUR, 5 * _HOUR), 1_010)

    assert one.join("a2", series("answer"), onset(1_000 + 4 * _HOUR), 1_010 + 4 * _HOUR) != first


@given(
    st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 400), st.integers(0, 30), st.booleans()), max_size=12),
    st.integers(0, 12),
)
def test_a_restored_book_goes_on_as_if_it_had_never_stopped(moves: list[tuple[str, int, int, bool]], stop: int) -> None:
    """The stop may be anywhere; JSON is the form in which the state is saved."""
    whole, parts = book(), book()
    for i, (component, at, width, ends) in enumerate(sorted(moves, key=lambda one: one[1])):
        if i == stop:
            saved = json.loads(json.dumps(parts.as_json()))
            parts = book()
            parts.take_json(saved)
        found = [one.join(f"a{i}", series(component), onset(at, width, width), at + width) for one in (whole, parts)]
        assert found[0] == found[1]
        if ends:
            whole.end(f"a{i}", at + width)
            parts.end(f"a{i}", at + width)
    assert whole.as_json() == parts.as_json()


_TEN = datetime(2026, 3, 2, 10)


def moved(component: str, minute: int, width: int = 1) -> MovedFrom:
    at, near = _TEN + timedelta(minutes=minute), timedelta(minutes=width)
    return MovedFrom(component, at, at - near, at + near)


@pytest.mark.parametrize(
    ("changes", "first"),
    [
        ([moved("answer", 0), moved("retrieve", 1)], "retrieve"),  # they may have moved together: the one upstream
        ([moved("answer", 0), moved("retrieve", 30)], "answer"),  # surely earlier
        ([moved("answer", 0), moved("retrieve", 30, 40)], "retrieve"),
        ([moved("check", 2), moved("rank", 1), moved("answer", 0)], "rank"),
        ([moved("mail", 1), moved("retrieve", 0)], "retrieve"),  # no way between them: the likely time
        ([moved("answer", 0)], "answer"),
        ([], None),
    ],
)
def test_the_first_component_is_the_one_upstream_unless_another_surely_moved_earlier(
    changes: list[MovedFrom], first: str | None
) -> None:
    for moves in (changes, changes[::-1]):
        assert next(iter(first_components(moves, CHAIN)), None) == first


def test_where_neither_times_nor_the_graph_order_them_all_that_may_be_first_are_named() -> None:
    together = [moved("retrieve", 0), moved("mail", 1), moved("answer", 1)]

    assert first_components(together, CHAIN) == ["retrieve", "mail"]
    assert first_components(together[::-1], ComponentGraph()) == ["retrieve", "answer", "mail"]
    assert first_components([*together, moved("early", -30)], CHAIN) == ["early"]


def test_a_circle_of_components_has_a_first_one_too() -> None:
    circle = ComponentGraph([("a", "b"), ("b", "a")])

    assert first_components([moved("b", 0), moved("a", 1)], circle)[0] == "b"


def test_a_change_moves_along_edges_only_downstream_of_another() -> None:
    assert CHAIN.moved_along({"retrieve", "check"})
    assert not CHAIN.moved_along({"retrieve", "mail"}) and not CHAIN.moved_along({"retrieve"})
