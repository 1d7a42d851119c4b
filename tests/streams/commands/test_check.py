"""`gapwatch check`: all problems, or what a good portfolio watches and what its author overlooked."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from gapwatch.scorers.checking.check import check_portfolio
from gapwatch.scorers.checking.warnings import portfolio_warnings
from gapwatch.scorers.errors import UsageError
from gapwatch.scorers.loading.load import parse_portfolio
from gapwatch.streams.commands.check import check
from tests.paths import EXAMPLE_PORTFOLIO

TOP = """gapwatch: 1
portfolio: shop
version: 1
pipeline: shop
components:
- {id: c, kind: llm, tiers: [{id: large, by: llm}, {id: rules, by: rule}]}
"""
JUDGE = "{form: judge, rubric: {criterion: is it polite, scale: [a, b], inputs: [output]}, judges: [{model: x}]}"


def warnings_of(*metrics: str, more: str = "") -> list[tuple[str, str]]:
    """The warnings about single metrics and questions."""
    text = TOP + "metrics:\n" + "".join(f"- {metric}\n" for metric in metrics) + more
    return [(caution.about, caution.text) for caution in portfolio_warnings(parse_portfolio(text)) if caution.about]


def test_a_good_portfolio_is_told_metric_by_metric():
    run = CliRunner().invoke(check, [str(EXAMPLE_PORTFOLIO)])

    assert run.exit_code == 0
    lines = run.stdout.splitlines()
    assert lines[0].startswith("airline-agent 3, pipeline airline-agent")
    row = next(line.split() for line in lines if "answer_parses" in line)
    assert row[:2] == ["agent", "answer_parses"]
    assert "output is JSON and has /answer and /citations" in run.stdout
    assert next(line.split()[-2:] for line in lines if "fallback_rate " in line) == ["lower", "page"]
    assert "router" in run.stdout and "no metric: this component is not monitored" in run.stdout
    assert run.stderr == ""


def test_every_problem_of_every_file_is_shown_with_its_line_and_the_status_is_2(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # short names: a long one leaves no room for a problem on one line
    one, two = Path("one.yaml"), Path("two.yaml")
    one.write_text(TOP + "metrics:\n- {name: A, component: c, claim: {form: chek}}\n")
    two.write_text("gapwatch: 2\n")

    run = CliRunner().invoke(check, [str(one), str(EXAMPLE_PORTFOLIO), str(two)])

    assert run.exit_code == 2
    assert "one.yaml is refused: 2 problems" in run.stderr
    assert f"{one}:8" in run.stderr and "metrics[0].claim.form" in run.stderr and "write check" in run.stderr
    assert "two.yaml is refused: 6 problems" in run.stderr
    assert "airline-agent 3" in run.stdout  # the good one is told all the same
    columns = [line.index("metrics[0]") for line in run.stderr.splitlines() if "metrics[0]" in line]
    assert len(columns) == 2 and len(set(columns)) == 1


def test_a_missing_file_is_a_problem_of_that_file(tmp_path):
    run = CliRunner().invoke(check, [str(tmp_path / "none.yaml")])

    assert run.exit_code == 2
    assert "cannot be read: No such file or directory" in run.stderr


def test_facts_are_read_from_their_own_file(tmp_path):
    facts = tmp_path / "facts.yaml"
    facts.write_text(
        "- {id: f-agent-cascade, kind: direction, metric: fallback_rate, better: higher, by: a, at: 2027-01-01}\n"
    )

    run = CliRunner().invoke(check, [str(EXAMPLE_PORTFOLIO), "--facts", str(facts)])

    assert run.exit_code == 2
    assert "contradicts the fact f-agent-cascade" in " ".join(run.stderr.split())


def test_no_control_character_of_a_stranger_reaches_the_terminal(tmp_path):
    path = tmp_path / "p.yaml"
    bad = '"\\e[31m\\a"'
    path.write_text(f"gapwatch: {bad}\n{bad}: 1\nportfolio: {bad}\nmetrics: [{{{bad}: [bold]}}]\n")
    good = tmp_path / "good.yaml"
    good.write_text(
        f"gapwatch: 1\nportfolio: {bad}\nversion: 1\npipeline: {bad}\n"
        f"components: [{{id: {bad}, kind: tool}}, {{id: x, kind: tool}}]\n"
        f"metrics: [{{name: m, component: {bad}, claim: {{form: check, field: output, matches: '[/bold]'}}}}]\n"
    )

    run = CliRunner().invoke(check, [str(path), str(good)])

    assert run.exit_code == 2
    assert "\x1b" not in run.output and "\a" not in run.output
    assert "output matches [/bold]" in run.stdout


def test_two_portfolios_of_one_pipeline_cannot_run_together(tmp_path):
    copy = tmp_path / "copy.yaml"
    copy.write_text(EXAMPLE_PORTFOLIO.read_text())

    first, second = check_portfolio(EXAMPLE_PORTFOLIO, copy)

    assert not any("claims the pipeline" in caution.text for caution in first.warnings)
    assert any(
        f"{EXAMPLE_PORTFOLIO} claims the pipeline airline-agent, too" in caution.text for caution in second.warnings
    )


@pytest.mark.parametrize(
    ("metric", "said"),
    [
        (
            "{name: m, component: c, claim: {form: measure, field: latency, unit: s}, alert: {}}",
            "it can never fail, so it never alerts",
        ),
        ("{name: m, component: c, claim: {form: label, field: model}, alert: {}}", "give the claim a bad label"),
        (
            "{name: m, component: c, claim: {form: check, field: output, present: true}, targets: [alert]}",
            "never alerts",
        ),
        (
            "{name: m, component: c, claim: {form: check, field: output, present: true},"
            " when: {field: tier, one_of: [lrge, large]}}",
            "the component c has no tier lrge; did you mean large?",
        ),
        (
            "{name: m, component: c, claim: {form: check, field: output, present: true}, monitors: [n]}",
            "monitors names n",
        ),
        (f"{{name: m, component: c, claim: {JUDGE}}}", "it also judges tiers that a rule answers (rules)"),
        (
            "{name: fallback_rate, component: c, claim: {form: label, field: model}}",
            "no question asks for it; add a fact",
        ),
    ],
)
def test_what_was_overlooked_is_told(metric, said):
    found = warnings_of(metric)

    assert len(found) == 1
    assert said in found[0][1]


@pytest.mark.parametrize(
    "metric",
    [
        "{name: m, component: c, claim: {form: measure, field: latency, unit: s},"
        " direction: {better: lower, of: mean}, alert: {}}",
        "{name: m, component: c, claim: {form: check, field: output, present: true}, alert: {}}",
        "{name: m, component: c, claim: {form: check, field: output, present: true}, alert: {severity: page}}",
        f"{{name: m, component: c, claim: {JUDGE}, when: {{field: tier, one_of: [large]}}}}",
        f"{{name: m, component: c, claim: {JUDGE}, when: {{not: {{field: tier, one_of: [rules]}}}}}}",
    ],
)
def test_what_is_well_thought_of_earns_no_word(metric):
    assert warnings_of(metric) == []


def test_an_unverified_cascade_names_the_question_that_would_settle_it():
    found = warnings_of(
        "{name: fallback_rate, component: c, claim: {form: label, field: model}}",
        more="questions: [{id: q-1, text: 'Is the small model a worse one?', decides: [fallback_rate]}]\n",
    )

    assert "answer this question: q-1: Is the small model a worse one?" in found[0][1]


def test_an_answered_question_is_to_be_written_into_the_direction():
    found = warnings_of(
        "{name: fallback_rate, component: c, claim: {form: label, field: model}, direction: {better: lower}}",
        more="facts: [{id: f, kind: direction, metric: fallback_rate, better: lower, by: a, at: 2026-01-01}]\n",
    )

    assert found == [("fallback_rate", "the fact f says lower: write that into direction, with verdict: verified")]


def test_an_empty_portfolio_says_that_it_watches_nothing():
    text = TOP + "metrics: []\n"

    (caution,) = portfolio_warnings(parse_portfolio(text))
    assert caution.text == "no metrics: nothing is monitored"


CHECK = "{form: check, field: output, present: true}"


def test_a_portfolio_that_tells_nobody_is_told_so():
    silent = parse_portfolio(TOP + f"metrics: [{{name: m, component: c, claim: {CHECK}}}]\n")
    (caution,) = portfolio_warnings(silent)
    assert caution.text.startswith("no metric asks for an alert: nobody will be told;")

    telling = parse_portfolio(TOP + f"metrics: [{{name: m, component: c, claim: {CHECK}, alert: {{}}}}]\n")
    assert portfolio_warnings(telling) == []


def test_a_page_that_needs_a_fact_is_refused_with_the_fact_and_the_fact_mends_it(tmp_path):
    path = tmp_path / "p.yaml"
    fallback = "{name: fallback_rate, component: c, claim: {form: label, field: model, bad: [small]}"
    latency = "{name: wait, component: c, claim: {form: measure, field: latency, unit: seconds}"
    alert = "alert: {severity: page}}"
    path.write_text(TOP + f"metrics:\n- {fallback}, {alert}\n- {latency}, {alert}\n")
    refused = CliRunner().invoke(check, [str(path)])
    said = " ".join(refused.stderr.split())

    assert refused.exit_code == 2
    assert f"{path}:8 metrics[0].alert.severity" in said and f"{path}:9 metrics[1].alert.severity" in said
    block = refused.stderr[refused.stderr.index("\nfacts:\n") :]
    assert block.count("by: WHO SAYS SO") == 2 == len(block.splitlines()) - 2

    path.write_text(path.read_text() + block)
    unfilled = CliRunner().invoke(check, [str(path)])
    assert unfilled.exit_code == 2
    assert "WHO SAYS SO is not the name of a person" in " ".join(unfilled.stderr.split())

    path.write_text(path.read_text().replace("LOWER OR HIGHER", "lower").replace("WHO SAYS SO", "maria"))
    filled = CliRunner().invoke(check, [str(path)])
    assert (filled.exit_code, filled.stderr) == (0, "")
    assert [line.split()[-2:] for line in filled.stdout.splitlines() if " page" in line] == [["lower", "page"]] * 2


def test_a_further_fact_goes_below_the_facts_that_there_are(tmp_path):
    path = tmp_path / "p.yaml"
    known = "- {id: f-wait, kind: scope, value: all, by: a, at: 2026-01-01}\n"
    metric = "{name: wait, component: c, claim: {form: measure, field: latency, unit: s}, alert: {severity: page}}"
    path.write_text(TOP + f"facts:\n{known}metrics:\n- {metric}\n")
    refused = CliRunner().invoke(check, [str(path)])

    assert f"under facts, {path}:7" in refused.stderr
    assert "  - {id: f-wait-2, component: c, kind: direction, metric: wait" in refused.stderr
    assert "\nfacts:" not in refused.stderr


def test_settings_of_judges_are_checked_with_the_portfolio(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    prices = "prices: {openai/gpt-4.1-mini: {input: 1, output: 4}, anthropic/claude: {input: 1, output: 4}}"
    providers = f'{prices}\nproviders: {{"*": {{adapter: http, base_url: "http://127.0.0.1:9/v1"}}}}'
    good.write_text(f"{providers}\ngive_up_after: 6h\n")
    bad.write_text(f"{providers}\ngive_up_after: soon\n")

    run = CliRunner().invoke(check, [str(EXAMPLE_PORTFOLIO), "--judges", str(good)])
    assert run.exit_code == 0, run.output
    assert "a request waits 6h in an outage" in run.output
    run = CliRunner().invoke(check, [str(EXAMPLE_PORTFOLIO), "--judges", str(bad)])
    assert isinstance(run.exception, UsageError)
    assert "give_up_after" in str(run.exception)


def test_the_prompts_of_judges_are_printed_with_a_trace_or_an_example(tmp_path):
    conversation = "{form: judge, rubric: {criterion: is it polite, inputs: [trace.transcript]}, judges: [{model: x}]}"
    portfolio, traces = tmp_path / "p.yaml", tmp_path / "t.jsonl"
    portfolio.write_text(
        TOP + f"metrics:\n- {{name: polite, component: c, sample: {{rate: 0.001}}, claim: {JUDGE}}}\n"
        f"- {{name: polite_all_along, scope: trace, claim: {conversation}}}\n"
    )
    traces.write_text(
        '{"trace_id": "t\\u001b1", "pipeline": "shop", "spans": [{"span_id": "s", "component": "c", "kind": "llm", '
        '"input": [{"role": "user", "content": "Where is it?"}], "output": "Dear \\u001b[2J you"}]}\n'
    )
    real = CliRunner().invoke(check, [str(portfolio), "--prompts", "--against", str(traces)])
    invented = CliRunner().invoke(check, [str(portfolio), "--prompts"])

    assert real.exit_code == invented.exit_code == 0, real.output
    assert f"Prompt of polite {traces}, line 1, trace t" in real.stdout
    assert "<<<DATA 0000000000000000 output>>>\nDear \\u{1b}[2J you\n" in real.stdout
    assert "trace.transcript turn 2 of 2, assistant (c)>>>\nDear" in real.stdout
    assert "\x1b" not in real.stdout
    assert "(the text of output)" in invented.stdout
    assert "turn 2 of 3, assistant, calls tool find_order>>>" in invented.stdout
