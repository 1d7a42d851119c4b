from __future__ import annotations

import pytest

from gapwatch.scorers.errors import PortfolioError, UsageError
from gapwatch.scorers.loading.load import parse_portfolio
from gapwatch.streams.alerting.incidents.links import AlertLinks, PageAddress, check_template, runbook_link, trace_link
from gapwatch.streams.alerting.incidents.severity import told_severity
from tests.streams.alerting.builders import portfolio


def test_a_metric_has_its_own_runbook_before_that_of_the_portfolio_and_of_the_run() -> None:
    run = AlertLinks("s.duckdb", PageAddress("http://h:1/"), "https://run/{metric}", "https://run/{trace_id}")
    said = portfolio()
    own = parse_portfolio(
        said.text.replace(
            "    alert: {severity: page}", "    runbook_url: https://mine/{metric}\n    alert: {severity: page}"
        )
    )

    assert runbook_link(said, "parses") is None
    assert runbook_link(run.fill(said), "parses") == "https://run/parses"
    assert runbook_link(run.fill(own), "parses") == "https://mine/parses"
    assert trace_link(run.fill(said), "t/1") == "https://traces.example/t%2F1"
    assert run.page_of("a1") == "http://h:1/alerts/a1"
    assert run.command("a1") == "gapwatch explain a1 --store s.duckdb"


def test_a_runbook_that_is_no_address_is_refused_at_its_line() -> None:
    with pytest.raises(PortfolioError, match="runbook_url"):
        parse_portfolio(
            portfolio().text.replace(
                "    alert: {severity: page}", "    runbook_url: '{nothing}'\n    alert: {severity: page}"
            )
        )


@pytest.mark.parametrize(
    "text", ["wiki/{metric}", "https://wiki/", "https://wiki/{metric}/{trace}", "file:///{metric}"]
)
def test_a_template_that_cannot_be_filled_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--runbook-url"):
        check_template(text, "--runbook-url", "metric")


def test_an_acknowledged_alert_is_told_one_step_lower() -> None:
    assert told_severity("acknowledged", "page") == "ticket"
    assert told_severity("acknowledged", "ticket") == "note"
    assert told_severity("open", "page") == told_severity("resolved", "page") == "page"
