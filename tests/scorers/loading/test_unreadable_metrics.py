"""Metrics that cannot be read: each problem is reported once, and no stand-in of the reader is blamed."""

import pytest

from gapwatch.scorers.errors import PortfolioError
from gapwatch.scorers.loading.load import parse_portfolio

HEAD = """gapwatch: 1
portfolio: x
version: 1
pipeline: p
components: [{id: c, role: ai_core, kind: llm}]
edges: []
metrics:
"""


@pytest.mark.parametrize(("names", "problems"), [(("a", "b"), 2), (("", ""), 4), (("a", "a"), 3)])
def test_two_unknown_forms_are_no_name_that_is_used_twice(names: tuple[str, str], problems: int) -> None:
    lines = [
        f"- {{{f'name: {name}, ' if name else ''}component: c, claim: {{form: chek, field: output}}}}\n"
        for name in names
    ]
    with pytest.raises(PortfolioError) as caught:
        parse_portfolio(HEAD + "".join(lines))

    assert "unreadable" not in str(caught.value)
    assert str(caught.value).count("'chek' is not allowed here") == 2
    assert ("the metric a is defined twice" in str(caught.value)) == (names == ("a", "a"))
    assert len(str(caught.value).splitlines()) == problems


@pytest.mark.parametrize(("written", "meant"), [("=<", "<="), ("=>", ">=")])
def test_an_operator_with_its_characters_swapped_is_answered_with_the_one_that_was_meant(
    written: str, meant: str
) -> None:
    metric = f"""- name: a
  component: c
  claim: {{form: check, field: output, present: true}}
  threshold: {{operator: "{written}", value: 0.05}}
"""
    with pytest.raises(PortfolioError) as caught:
        parse_portfolio(HEAD + metric)

    assert str(caught.value).rstrip().endswith(f"write {meant}")
