"""Steps of alerts: what a person is told when a bound holds again beside an open shift."""

from __future__ import annotations

from gapwatch.streams.alerting.incidents.alert_book import AlertBook, OpenAlert
from gapwatch.streams.alerting.rules.alert_rule import rules_of
from gapwatch.streams.alerting.rules.bound import Bound
from gapwatch.streams.alerting.rules.breach import Breach
from gapwatch.streams.alerting.rules.finding import Finding, Watched
from gapwatch.streams.alerting.series.slice_units import SeriesKey
from gapwatch.streams.detectors.change import rate_interval
from tests.streams.alerting.builders import portfolio

SERIES = SeriesKey("shop", "production", "agent", "parses", "1", "", "")
RULE = rules_of([portfolio()])[0]
BOUND = Bound("failure_rate", True, "<=", 0.02, 120, 50, "share")
HOLDS_AGAIN = Finding(
    Watched(SERIES, "bound"), 300, breach=Breach(BOUND, False, 100, rate_interval(1, 100), 100, 1, "within the bound")
)


def open_alert(alert_id: str, kind: str) -> OpenAlert:
    return OpenAlert(alert_id, "s-" + alert_id, Watched(SERIES, kind), "page", 200, 190, alert_id)


def test_a_bound_that_holds_again_beside_an_open_shift_says_that_the_rate_is_still_shifted() -> None:
    book = AlertBook("live")
    for incident in (open_alert("a-bound", "bound"), open_alert("a-shift", "rate")):
        book.open[incident.watched] = incident

    step = book.take(HOLDS_AGAIN, RULE)

    assert step is not None and step.state == "resolved"
    assert step.why == "within the bound; the rate is still shifted: alert a-shift is open"


def test_a_bound_that_holds_again_by_itself_says_only_that() -> None:
    book = AlertBook("live")
    book.open[Watched(SERIES, "bound")] = open_alert("a-bound", "bound")

    step = book.take(HOLDS_AGAIN, RULE)

    assert step is not None and step.why == "within the bound"
