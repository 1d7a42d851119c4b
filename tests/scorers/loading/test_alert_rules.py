"""An alert setting that could have no effect is refused at its line."""

from __future__ import annotations

import pytest

from gapwatch.scorers.errors import PortfolioError
from gapwatch.scorers.loading.load import parse_portfolio

_PORTFOLIO = """gapwatch: 1
portfolio: p
version: 1
pipeline: p
components: [{{id: c, role: ai_core, kind: llm}}]
metrics:
  - name: says_something
    component: c
    claim: {{form: check, field: output, present: true}}
    alert:
      severity: {severity}
      {setting}
"""


@pytest.mark.parametrize("setting", ["min_ratio: 1.5", "min_bad_per_hour: 2"])
@pytest.mark.parametrize("severity", ["ticket", "note"])
def test_a_setting_of_pages_is_refused_where_nothing_pages(severity: str, setting: str) -> None:
    with pytest.raises(PortfolioError) as raised:
        parse_portfolio(_PORTFOLIO.format(severity=severity, setting=setting))

    (problem,) = raised.value.problems
    assert problem.line == 12
    assert "only a page reads this" in str(problem)
    assert "min_change" in str(problem)


@pytest.mark.parametrize("setting", ["min_ratio: 1.5", "min_bad_per_hour: 2"])
def test_a_page_has_both_settings_and_a_ticket_the_smallest_change(setting: str) -> None:
    assert parse_portfolio(_PORTFOLIO.format(severity="page", setting=setting)).metrics[0].alert is not None
    small = _PORTFOLIO.format(severity="ticket", setting="min_change: {factor: 1.5}")
    assert parse_portfolio(small).metrics[0].alert is not None
