"""Portfolios load completely or are refused with all their problems at once."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest
import rfc8785

from gapwatch.scorers.errors import PortfolioError
from gapwatch.scorers.loading.load import load_portfolio, parse_portfolio
from gapwatch.scorers.portfolio.claim import (
    CheckClaim,
    CompareClaim,
    CompositeClaim,
    JudgeClaim,
    JudgedClaim,
    MeasureClaim,
    PythonClaim,
)
from gapwatch.scorers.portfolio.field import parse_field
from gapwatch.scorers.portfolio.llm_origin import written_by_llm
from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.scorers.portfolio.predicate import field_predicates
from gapwatch.scorers.portfolio.sampling import Keep
from tests.paths import EXAMPLE_PORTFOLIO

EXAMPLE = EXAMPLE_PORTFOLIO.read_text(encoding="utf-8")
TOP = "gapwatch: 1\nportfolio: x\nversion: 1\npipeline: p\ncomponents:\n- {id: c, role: ai_core, kind: llm}\n"
CHECK = "{form: check, field: output, present: true}"


def metrics_of(*metrics: str, top: str = TOP) -> str:
    return top + "metrics:\n" + "".join(f"- {metric}\n" for metric in metrics)


def problems_of(text: str | bytes) -> list[str]:
    """Return the problems as `line key: message`."""
    with pytest.raises(PortfolioError) as refused:
        parse_portfolio(text, "p.yaml")
    return [f"{problem.line} {problem.key}: {problem.message}" for problem in refused.value.problems]


def named(portfolio: Portfolio, name: str):
    return next(metric for metric in portfolio.metrics if metric.name == name)


# ---- what is read ----


def test_the_example_of_the_documentation_loads_whole():
    portfolio = parse_portfolio(EXAMPLE)

    assert [metric.claim.form for metric in portfolio.metrics] == [
        *("check", "label", "label", "measure", "judge", "compare", "composite", "ratio", "python", "check")
    ]
    assert portfolio.text == EXAMPLE
    assert portfolio.facts[0].at == "2026-11-02"  # a date stays a text
    assert portfolio.components[0].tiers[1].id == "fallback"
    assert portfolio.edges[0].from_ == "router"
    assert portfolio.budget.judge_usd_per_week == 50


def test_the_claims_hold_fields_and_predicates_taken_apart():
    portfolio = parse_portfolio(EXAMPLE)
    parses, judge = named(portfolio, "answer_parses"), named(portfolio, "faithful_answers").claim
    rounds, seconds = named(portfolio, "rounds"), named(portfolio, "answer_seconds").claim

    assert isinstance(parses.claim, CheckClaim)
    assert parses.claim.predicate.shape.required == ("/answer", "/citations")
    assert not parses.claim.optional
    assert [part.name for part in parses.when.parts] == ["one_of", "not"]
    assert parses.when.parts[1].part.field == parse_field("tier", "span")  # inherited
    assert [(path, asserted) for _, path, asserted in field_predicates(parses.when, ("when",))] == [
        (("when", "all_of", 0, "one_of"), True),
        (("when", "all_of", 1, "not", "one_of"), False),
    ]
    assert isinstance(judge, JudgeClaim) and isinstance(judge, JudgedClaim)
    assert [field.text for field in judge.rubric.inputs] == ["input", "output#/answer"]
    assert isinstance(named(portfolio, "better_answers").claim, CompareClaim)
    assert isinstance(seconds, MeasureClaim) and (seconds.limit.max, seconds.limit.min, seconds.limit.warn) == (
        20,
        None,
        8,
    )
    assert rounds.is_trace and rounds.component is None
    assert rounds.claim.predicate.field.counted_component == "agent"
    assert (rounds.claim.predicate.bounds.min, rounds.claim.predicate.bounds.warn.max) == (1, 20)
    assert isinstance(named(portfolio, "sound_answers").claim, CompositeClaim)
    polite = named(portfolio, "polite").claim
    assert isinstance(polite, PythonClaim) and [field.base for field in polite.fields] == ["output", "attributes.tone"]


def test_the_sha_is_that_of_the_canonical_json_of_what_is_written():
    written = {
        "gapwatch": 1,
        "portfolio": "x",
        "version": 1,
        "pipeline": "p",
        "components": [{"id": "c", "role": "ai_core", "kind": "llm"}],
        "metrics": [],
        "budget": {"pages_per_month": 1e300, "tickets_per_month": float(2**60)},
    }
    text = TOP + "metrics: []\nbudget: {pages_per_month: 1.0e+300, tickets_per_month: 1152921504606846976}\n"

    assert parse_portfolio(text).sha == hashlib.sha256(rfc8785.dumps(written)).hexdigest()


def test_the_sha_knows_no_comments_order_or_anchors_but_every_value():
    plain = parse_portfolio(metrics_of(f"{{name: m, component: c, claim: {CHECK}}}"))
    commented = parse_portfolio(metrics_of(f"{{component: &x c, claim: {CHECK},\n   name: m}}  # why"))
    with_default = parse_portfolio(metrics_of(f"{{name: m, component: c, claim: {CHECK}, per_trace: any}}"))

    assert plain.sha == commented.sha
    assert plain.sha != with_default.sha


def test_the_version_of_a_metric_is_that_of_its_meaning():
    def version(metric: str) -> str:
        return parse_portfolio(metrics_of(metric)).metrics[0].version

    plain = version(f"{{name: m, component: c, claim: {CHECK}}}")
    claim = {"form": "check", "field": "output", "present": True}

    assert plain == hashlib.sha256(rfc8785.dumps({"claim": claim})).hexdigest()[:12]
    assert plain == version(f"{{name: other, purpose: p, component: c, claim: {CHECK}, alert: {{severity: note}}}}")
    assert plain != version(f"{{name: m, component: c, claim: {CHECK}, per_trace: any}}")  # written, so it counts
    assert plain != version(f"{{name: m, component: c, claim: {CHECK}, when: {{field: tier, one_of: [a]}}}}")


@pytest.mark.parametrize(
    ("keep", "outcomes"),
    [
        ({}, {"fail": 1.0, "unknown": 1.0, "error": 1.0, "pass": 0.02, "skip": 0.02, "warn": 0.02}),
        (
            {"fail": 0.5, "pass": 0.1},
            {"fail": 0.5, "unknown": 0.5, "error": 0.5, "pass": 0.1, "skip": 0.1, "warn": 0.1},
        ),
        ({"warn": 0.0}, {"fail": 1.0, "pass": 0.02, "warn": 0.0}),
    ],
)
def test_rows_are_kept_by_outcome(keep, outcomes):
    assert {outcome: Keep.model_validate(keep).of(outcome) for outcome in outcomes} == outcomes


def test_outputs_of_models_are_written_by_them_unless_the_portfolio_says_otherwise():
    components = "components: [{id: c, kind: llm}, {id: a.b, kind: agent}, {id: t, kind: tool}]\n"
    head = re.sub(r"components:\n.*\n", components, TOP)
    default = parse_portfolio(head + "metrics: []\n")
    declared = parse_portfolio(head + "metrics: []\nwritten_by_llm: [t.attributes.a b, 'a.b.attributes.meta#/x']\n")

    def written(portfolio: Portfolio, component: str | None, text: str) -> bool:
        field = parse_field(text, "span")
        models = written_by_llm(portfolio.written_by_llm, portfolio.components)
        return field is not None and models.holds(component, field)

    assert written(default, "c", "output")
    assert written(default, "a.b", "output#/deep/er")
    assert not written(default, "t", "output")
    assert not written(default, "c", "input")
    assert not written(default, None, "trace.duration")
    assert written(declared, "t", "attributes.a b")
    assert not written(declared, "c", "output")
    assert written(declared, "a.b", "attributes.meta#/x/y")
    assert not written(declared, "a.b", "attributes.meta#/xy")


def test_metrics_and_components_are_frozen():
    portfolio = parse_portfolio(EXAMPLE)

    with pytest.raises(ValueError, match="frozen"):
        portfolio.metrics[0].name = "other"


# ---- facts ----

FACT = "{id: f, kind: direction, metric: refusal_rate, better: %s, by: maria, at: %s}"
REFUSALS = "{name: refusal_rate, component: c, claim: {form: label, field: tier}, direction: {better: lower}}"


def test_the_later_of_two_facts_wins_whichever_file_it_is_in(tmp_path):
    path, facts = tmp_path / "p.yaml", tmp_path / "facts.yaml"
    path.write_text(metrics_of(REFUSALS) + f"facts: [{FACT % ('lower', '2026-11-02')}]\n")

    facts.write_text(f"- {FACT % ('lower', '2026-11-01')}\n")
    assert load_portfolio(path, facts).facts[0].at == "2026-11-02"

    facts.write_text(f"facts:\n- {FACT % ('unknown', '2026-11-02T08:00:00+01:00')}\n")
    assert load_portfolio(path, facts).direction_fact(load_portfolio(path).metrics[0]).better == "unknown"


def test_a_later_fact_refuses_the_direction_that_it_contradicts(tmp_path):
    path, facts = tmp_path / "p.yaml", tmp_path / "facts.yaml"
    path.write_text(metrics_of(REFUSALS) + f"facts: [{FACT % ('lower', '2026-11-02')}]\n")
    facts.write_text(f"- {FACT % ('higher', '2026-11-03')}\n")

    with pytest.raises(PortfolioError, match="contradicts the fact f of maria, which says higher"):
        load_portfolio(path, facts)


def test_problems_of_both_files_are_told(tmp_path):
    path, facts = tmp_path / "p.yaml", tmp_path / "facts.yaml"
    path.write_text(TOP + "metrics: []\ngaol: x\n")
    facts.write_text("- {id: f, kind: direction, by: maria, at: yesterday}\n")

    with pytest.raises(PortfolioError) as refused:
        load_portfolio(path, facts)

    found = [(Path(problem.file).name, problem.key) for problem in refused.value.problems]
    assert found == [("p.yaml", "gaol"), ("facts.yaml", "[0].at")]


def test_a_file_that_is_missing_is_named():
    with pytest.raises(PortfolioError, match=r"nowhere\.yaml: cannot be read: No such file"):
        load_portfolio("nowhere.yaml")


# ---- every problem at once ----


def test_every_problem_is_told_at_once_in_the_order_of_the_file():
    text = (
        "gapwatch: 1\n"
        "portfolio: x\n"
        "version: one\n"
        "time_zone: Europe/Atlantis\n"
        "components:\n"
        "- {id: c, kind: lm}\n"
        "metrics:\n"
        "- name: a\n"
        "  component: d\n"
        "  claim: {form: check, field: ouput, present: true}\n"
        "- name: A\n"
        "  component: c\n"
        "  purpos: x\n"
        "  claim: {form: judge}\n"
        "  sample: {rate: 2}\n"
        "- name: a\n"
        "  component: c\n"
        "  claim:\n"
        "    form: check\n"
        "    field: output\n"
        "    all_of: [{matches: '('}, {length: {min: 2, max: 1}}, {one_of: [yes]}]\n"
    )

    assert [problem.split(": ")[0] for problem in problems_of(text)] == [
        "1 pipeline",
        "3 version",
        "4 time_zone",
        "6 components[0].kind",
        "9 metrics[0].component",
        "10 metrics[0].claim.field",
        "11 metrics[1].name",
        "13 metrics[1].purpos",
        "14 metrics[1].claim.rubric",
        "14 metrics[1].claim.judges",
        "15 metrics[1].sample.rate",
        "16 metrics[2].name",
        "21 metrics[2].claim.all_of[0].matches",
        "21 metrics[2].claim.all_of[1].length",
        "21 metrics[2].claim.all_of[2].one_of[0]",
    ]


@pytest.mark.parametrize(
    ("written", "suggestion"),
    [
        (f"{{name: m, component: c, claim: {CHECK}, treshold: 1}}", "threshold"),
        ("{name: m, component: c, claim: {form: chek, field: output, present: true}}", "check"),
        ("{name: m, component: c, claim: {form: check, field: ouput, present: true}}", "output"),
        ("{name: m, component: c, claim: {form: check, field: output.a.b, present: true}}", "output#/a/b"),
        (
            "{name: m, component: c, claim: {form: check, field: finish_reason, present: true}}",
            "attributes.finish_reason",
        ),
        ("{name: m, component: c, claim: {form: check, field: output, range: {max: 1}}}", "output#"),
        ("{name: m, component: c, claim: {form: check, field: output, presnt: true}}", "present"),
        ("{name: m, component: c, claim: {form: check, field: output, present: false}}", "absent: true"),
        ("{name: m, component: c, claim: {form: check, field: output, one_of: [no, a]}}", '"no"'),
        ("{name: m, component: cc, claim: {form: check, field: output, present: true}}", "c"),
        (
            f"{{name: m, component: c, claim: {CHECK}, when: {{status: error}}}}",
            "{field: status, one_of: [error, ...]}",
        ),
        (f"{{name: m, component: c, claim: {CHECK}, alert: {{severity: tickets}}}}", "ticket"),
    ],
)
def test_a_problem_says_what_to_write(written, suggestion):
    with pytest.raises(PortfolioError) as refused:
        parse_portfolio(metrics_of(written))

    assert [problem.suggestion for problem in refused.value.problems] == [suggestion]


def test_no_more_problems_are_listed_than_anybody_reads():
    found = problems_of(metrics_of(*["{name: M, component: c, claim: 1}"] * 300))

    assert len(found) == 201
    assert found[-1] == "None : and 400 more problems"


# ---- rules that the normative cases leave to the reader ----


@pytest.mark.parametrize(
    ("metric", "key"),
    [
        ("{name: m, component: c, claim: {form: check, field: output, one_of: [a, a]}}", "claim.one_of"),
        (
            "{name: m, component: c, claim: {form: check, field: output, any_of: [{one_of: [a]}, {one_of: [b]}]}}",
            "any_of[0].one_of",
        ),
        (
            "{name: m, component: c, claim: {form: check, field: attributes.gold, substring_of: output}}",
            "claim.substring_of",
        ),
        (
            "{name: m, component: c, claim: {form: check, field: output, substring_of: 'attributes.row#/a/expected'}}",
            "substring_of",
        ),
        (
            "{name: m, component: c, claim: {form: check, field: output, substring_of: attributes.row.expected}}",
            "substring_of",
        ),
        ("{name: m, component: c, claim: {form: measure, field: latency, unit: s, limit: {warn: 1}}}", "claim.limit"),
        (
            "{name: m, component: c, claim: {form: measure, field: latency, unit: s, limit: {min: 2, warn: 1}}}",
            "limit.warn",
        ),
        ("{name: m, component: c, claim: {form: label, field: latency}}", "claim.field"),
        ("{name: m, component: c, claim: {form: label, field: tier}, per_trace: worst}", "per_trace"),
        (
            "{name: m, component: c, claim: {form: check, field: latency,"
            " range: {above: 1, below: 1.0000000000000002}}}",
            "range",
        ),
        (
            "{name: m, component: c, claim: {form: check, field: attributes.x, range: {max: 5, warn: {min: 9}}}}",
            "range.warn",
        ),
        (
            "{name: m, component: c, claim: {form: check, field: output, compares: {operator: '=', other: latency}}}",
            "compares",
        ),
        (
            "{name: fallback_rate, component: c, claim: {form: label, field: tier}, alert: {severity: note}}",
            "direction.better",
        ),
        ("{name: m, component: c, claim: {form: python, scorer: '__import__(1)', fields: [output]}}", "claim.scorer"),
        (
            "{name: m, scope: trace, claim: {form: check, field: trace.attributes.a, cited_in: trace.attributes.b}}",
            "cited_in",
        ),
        (
            "{name: m, component: c, claim: {form: judge, rubric: {criterion: x, scale: [a, b], inputs: [output],"
            " pass_at: d}, judges: [{model: x}]}}",
            "claim.rubric.pass_at",
        ),
        (
            "{name: m, component: c, claim: {form: judge, rubric: {criterion: x, scale: [a, b], inputs: [output]},"
            " judges: [{model: x, params: {api_key: sk-1}}]}}",
            "judges[0].params.api_key",
        ),
        (
            "{name: m, component: c, claim: {form: judge, rubric: {criterion: x, scale: [a, b], inputs: [output]},"
            " judges: [{model: x}], quorum: 2}}",
            "claim.quorum",
        ),
    ],
)
def test_it_is_refused(metric, key):
    assert any(key in problem for problem in problems_of(metrics_of(metric)))


def test_a_composite_of_a_composite_and_a_ratio_of_a_label_are_refused():
    found = problems_of(
        metrics_of(
            f"{{name: a, component: c, claim: {CHECK}}}",
            "{name: b, component: c, claim: {form: composite, parts: {a: 1.0}}}",
            "{name: d, component: c, claim: {form: composite, parts: {b: 1}}}",
            "{name: e, component: c, claim: {form: label, field: tier}}",
            "{name: f, component: c, claim: {form: ratio, numerator: e, denominator: a}}",
        )
    )

    assert [problem.split(":")[0] for problem in found] == [
        "10 metrics[2].claim.parts.b",
        "12 metrics[4].claim.numerator",
    ]


@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)",
        "https://x/{trace_id.__class__}",
        "https://x/{trace_id!r}",
        "https://x/{who}",
        "https://x/{",
    ],
)
def test_a_url_fills_in_known_names_only(url):
    assert "trace_url" in problems_of(TOP + f"metrics: []\ntrace_url: '{url}'\n")[0]


@pytest.mark.parametrize("zone", ["../../etc/passwd", "Europe", "", "/etc/localtime", "a" * 5000, "Mars/Olympus"])
def test_a_time_zone_is_one_of_the_list(zone):
    assert "time_zone" in problems_of(TOP + f"metrics: []\ntime_zone: '{zone}'\n")[0]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("version", "true"),
        ("version", "'1'"),
        ("version", "1.5"),
        ("gapwatch", "true"),
        ("gapwatch", "1.0"),
        ("pipeline", "1"),
    ],
)
def test_nothing_is_read_as_what_it_was_not_written_as(key, value):
    text = re.sub(rf"^{key}: .*$", f"{key}: {value}", TOP, flags=re.MULTILINE) + "metrics: []\n"

    assert [problem.split(":")[0].split(" ")[1] for problem in problems_of(text)] == [key]
