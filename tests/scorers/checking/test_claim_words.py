"""Claims in words for an engineer on call who does not know the portfolio."""

from __future__ import annotations

import pytest

from gapwatch.scorers.checking.claim_words import expected_words
from gapwatch.scorers.loading.load import parse_portfolio

TOP = "gapwatch: 1\nportfolio: x\nversion: 1\npipeline: p\ncomponents: [{id: c, kind: llm}]\nmetrics:\n"


def words_of(claim: str, more: str = "") -> str:
    others = "".join(
        f"- {{name: {name}, component: c, claim: {{form: check, field: input, present: true}}}}\n"
        for name in ("a", "b")
    )
    return expected_words(
        parse_portfolio(f"{TOP}{others}- {{name: m, component: c, claim: {claim}{more}}}\n").metrics[2]
    )


@pytest.mark.parametrize(
    ("predicate", "words"),
    [
        ("field: output, present: true", "output is present"),
        ("field: output, absent: true", "output is missing"),
        ("field: error_type, sibling: output", "output is present whenever error_type is"),
        ("field: tier, one_of: [a, b, '']", 'tier is a, b or ""'),
        ("field: latency, range: {min: 0, below: 2.5}", "latency is at least 0 and below 2.5"),
        ("field: latency, range: {min: 3, max: 3}", "latency is exactly 3"),
        ("field: latency, range: {max: 20, warn: {max: 8}}", "latency is at most 20 (warns unless at most 8)"),
        ("field: output, length: {max: 200}", "output has at most 200 characters"),
        ("field: 'output#/items', count: {min: 1}", "output#/items has at least 1 elements"),
        ("field: output, matches: '^a'", "output matches ^a"),
        ("field: output, not_matches: 'a'", "output does not match a"),
        ("field: output, format: iso_date", "output is an ISO 8601 date"),
        ("field: output, json: {required: [/answer, /citations]}", "output is JSON and has /answer and /citations"),
        (
            "field: output, json: {types: {'': object, /n: integer}}",
            "output is JSON, with the whole value an object, /n an integer",
        ),
        ("field: output, substring_of: input", "output is inside input"),
        ("field: output, substring_of: input, each: true", "every text of output is inside input"),
        ("field: output, cited_in: input", "every text of output that a model wrote cites a part of input"),
        ("field: latency, compares: {operator: <=, other: attributes.limit}", "latency <= attributes.limit"),
        (
            "field: output, all_of: [{matches: a}, {any_of: [{matches: b}, {matches: c}]}]",
            "output matches a and (output matches b or output matches c)",
        ),
        ("field: tier, not: {one_of: [a, b]}", "tier is not a or b"),
        ("field: tier, not: {matches: a}", "not (tier matches a)"),
    ],
)
def test_a_check_in_words(predicate, words):
    assert words_of(f"{{form: check, {predicate}}}") == words


@pytest.mark.parametrize(
    ("claim", "words"),
    [
        ("{form: measure, field: latency, unit: seconds}", "latency in seconds, no limit"),
        (
            "{form: measure, field: latency, unit: seconds, limit: {max: 20, warn: 8}}",
            "latency in seconds is at most 20 (warns above 8)",
        ),
        ("{form: measure, field: latency, unit: seconds, limit: {min: 0}}", "latency in seconds is at least 0"),
        ("{form: label, field: tier, labels: [a, b, c], bad: [c]}", "tier is a or b, not c"),
        ("{form: label, field: tier, bad: [c]}", "tier is not c"),
        ("{form: label, field: tier}", "tier has any value"),
        ("{form: composite, parts: {a: 0.25, b: 0.75}, pass_at: 0.9}", "0.25 a + 0.75 b is at least 0.9"),
        ("{form: ratio, numerator: a, denominator: b}", "a divided by b, each summed by unit"),
        ("{form: python, scorer: polite, fields: [output]}", "the Python scorer polite passes output"),
        (
            "{form: judge, rubric: {criterion: 'Is it polite?', scale: [a, b], inputs: [output], pass_at: a},"
            " judges: [{model: x/y}, {model: z}]}",
            "Is it polite? (judged by x/y and z, passes at a)",
        ),
    ],
)
def test_every_other_form_in_words(claim, words):
    assert words_of(claim) == words


def test_the_filter_is_part_of_what_is_expected():
    words = words_of("{form: check, field: output, present: true}", ", when: {field: tier, one_of: [a]}")

    assert words == "output is present, where tier is a"


def test_words_stay_on_one_short_line_whatever_is_written():
    words = words_of(
        '{form: check, field: output, one_of: ["\\n\\e[1m", ' + ", ".join(f"'{'x' * 500}{i}'" for i in range(50)) + "]}"
    )

    assert words.isprintable()
    assert len(words) < 700
    assert words.endswith("or 43 more")
