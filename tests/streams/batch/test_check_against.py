"""`gapwatch check --against FILE` and `--explain`: what a portfolio finds in real traces, before it is deployed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gapwatch.scorers.loading.load import load_portfolio
from gapwatch.scorers.scoring.scorer_host import ScorerHost
from gapwatch.streams.batch.check_against import check_against
from gapwatch.streams.batch.replay import ReplayOptions, replay
from tests.gapwatch_command import Ran, gapwatch
from tests.terminal import on_terminal

TOP = """gapwatch: 1
portfolio: shop
version: 1
pipeline: shop
volume: {traces_per_day: 100000}
components:
- {id: agent, kind: llm}
- {id: search, kind: tool}
metrics:
"""
ANSWERS = "{name: answers, component: agent, claim: {form: check, field: output, present: true}}"
PARSES = '{name: parses, component: agent, claim: {form: check, field: "output#/a", length: {min: 1}}}'
FAST = "{name: fast, component: agent, claim: {form: measure, field: latency, unit: seconds}}"
POLITE = "{name: polite, component: agent, claim: {form: python, scorer: polite, fields: [output]}}"
SCORERS = """
from gapwatch.scorers.scoring.python_scorer import scorer

@scorer(name="polite", fields=["output"])
def polite(spans):
    return ["please" in (span["output"] or "") for span in spans]
"""


def trace(number: int, pipeline: str = "shop", **agent: Any) -> str:
    output = "" if number % 10 == 0 else json.dumps({"a": "please"}) if number % 2 else "text"
    spans = [
        {"span_id": "a", "component": "agent", "kind": "llm", "output": output, "tier": "primary", **agent},
        {"span_id": "b", "component": "search", "kind": "tool", "output": "found"},
    ]
    return json.dumps({"trace_id": f"t{number}", "pipeline": pipeline, "spans": spans})


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    return written(tmp_path, (trace(number) for number in range(200)))


def written(folder: Path, lines: Iterable[str], name: str = "traces.jsonl") -> Path:
    path = folder / name
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def portfolio(folder: Path, *metrics: str, top: str = TOP) -> Path:
    return written(folder, [top, *(f"- {metric}" for metric in metrics)], "shop.yaml")


def row_of(ran: Ran, metric: str) -> list[str]:
    """The cells of a metric in the table of what was found."""
    table = ran.out.partition("Against real traces")[2]
    return next(line for line in table.splitlines() if re.search(rf"\b{metric}\b", line)).split()


def doubts(ran: Ran) -> list[str]:
    table = ran.out.partition("Against real traces")[2]
    return [line.strip(" -") for line in table.partition("worth a look")[2].splitlines() if line.strip()]


def test_outcomes_rows_and_reasons_are_told_by_metric(tmp_path: Path, traces: Path) -> None:
    ran = gapwatch("check", portfolio(tmp_path, ANSWERS, PARSES), "--against", traces)

    assert (ran.status, ran.err) == (0, "")
    assert "Against real traces 200 read" in ran.out
    # 20 of 200 fail and are all kept, 2 % of the 180 that pass: 23.6 rows on 200 traces.
    assert row_of(ran, "answers") == ["agent", "answers", "200", "180", "20", "-", "11,800"]
    assert row_of(ran, "parses") == ["parses", "200", "100", "-", "100", "51,000", "not_json", "100"]
    assert "worth a look" not in ran.out.partition("Against")[2]


def test_rows_are_given_for_a_thousand_traces_where_no_volume_is_declared(tmp_path: Path, traces: Path) -> None:
    top = re.sub("volume:.*\n", "", TOP)

    ran = gapwatch("check", portfolio(tmp_path, ANSWERS, top=top), "--against", traces)

    assert "rows per 1,000" in ran.out
    assert row_of(ran, "answers")[-1] == "118"


def test_what_is_told_is_what_replay_counts_and_about_what_it_stores(tmp_path: Path, traces: Path) -> None:
    strata = "strata: [{name: dumb, when: {field: output, absent: true}, rate: 1.0}]"
    sample = f"sample: {{rate: 0.4, {strata}, keep: {{fail: 1.0, pass: 0.5}}}}"
    (tmp_path / "own.py").write_text(SCORERS)
    path = portfolio(tmp_path, f"{ANSWERS[:-1]}, {sample}}}", f"{POLITE[:-1]}, {sample}}}")
    shop = load_portfolio(path)

    with ScorerHost(str(tmp_path / "own.py")) as host:
        found = check_against([shop], [str(traces)], host)
        stored = replay([str(traces)], [shop], tmp_path / "s.duckdb", ReplayOptions(scorers=host))

    assert {one.metric.name: dict(one.outcomes) for one in found.metrics} == stored.outcomes
    # As inline check: 20 fail and are all kept, of 180 that pass 0.4 * 0.5; as scorer: what was selected is kept.
    answers, polite = found.metrics
    assert answers.rows_per_thousand == pytest.approx((20 + 180 * 0.2) * 5)
    assert polite.rows_per_thousand == pytest.approx((polite.outcomes["fail"] + polite.outcomes["pass"] * 0.5) * 5)


def test_the_volume_of_a_portfolio_is_that_of_its_own_pipeline(tmp_path: Path) -> None:
    other = written(tmp_path, [TOP.replace("shop", "other"), f"- {ANSWERS}"], "other.yaml")
    mixed = written(tmp_path, [trace(n, "shop" if n < 20 else "other") for n in range(200)])

    ran = gapwatch("check", portfolio(tmp_path, ANSWERS), other, "--against", mixed)

    rows = [line.split() for line in ran.out.partition("Against")[2].splitlines() if " answers " in line]
    assert [row[2] for row in rows] == ["20", "180"]
    assert [row[-1] for row in rows] == ["11,800", "11,800"]


@pytest.fixture
def misspelt(tmp_path: Path) -> Iterator[Path]:
    top = TOP.replace("id: search", "id: serach")
    yield portfolio(
        tmp_path,
        ANSWERS,
        "{name: found, component: serach, claim: {form: check, field: output, present: true}}",
        "{name: tone, component: agent, claim: {form: check, field: attributes.tone, one_of: [a, b]}}",
        "{name: named, component: agent, claim: {form: check, field: attributes.nmae, present: true}}",
        "{name: maybe, component: agent, claim: {form: check, field: attributes.x, range: {max: 1}, optional: true}}",
        "{name: never, component: agent, claim: {form: check, field: output, present: true},"
        " when: {field: tier, one_of: [prmary]}}",
        FAST,
        top=top,
    )


def test_what_is_misspelt_is_told_before_it_is_deployed(misspelt: Path, traces: Path) -> None:
    ran = gapwatch("check", misspelt, "--against", traces)

    assert ran.status == 0
    assert row_of(ran, "found")[:3] == ["serach", "found", "0"]
    assert doubts(ran) == [
        "component serach: the traces have no span of it; did you mean search?",
        "components in the traces but not in the portfolio: search (200 spans)",
        "metric tone: unknown on all 200 (absent 200); it reads attributes.tone: is it spelt as in the traces?",
        "metric named: fail on all 200; it reads attributes.nmae: is it spelt as in the traces?",
        "metric maybe: skip on all 200 (absent 200); it reads attributes.x: is it spelt as in the traces?",
        "metric never: applied to no span; its `when` is never true",
        "metric fast: unknown on all 200 (no_time 200); it reads latency",
    ]


def test_on_a_narrow_terminal_no_number_is_lost(misspelt: Path, traces: Path) -> None:
    status, shown = on_terminal(60, "check", misspelt, "--against", traces)

    assert status == 0
    plain = re.sub(r"\x1b\[[0-9;]*m", "", shown).partition("Against")[2]
    lines = [" ".join(line.split()) for line in plain.splitlines()]
    assert "answers 200 pass 180, fail 20 11,800" in lines
    assert "never 0 0" in lines
    assert max(len(line) for line in plain.splitlines()) <= 60


def test_a_file_that_is_foreign_in_full_names_the_pipelines_there_are(tmp_path: Path) -> None:
    foreign = written(tmp_path, [*(trace(n, "shopp") for n in range(3)), trace(9, "\x1b[31mred")])

    ran = gapwatch("check", portfolio(tmp_path, ANSWERS), "--against", foreign)

    assert ran.status == 1
    assert "is of another pipeline than the portfolio's: the traces name 'shopp' (3), " in ran.err
    assert "the portfolio names 'shop'; correct `pipeline` in the portfolio" in ran.err
    assert "\x1b" not in ran.out + ran.err


def test_an_empty_file_says_that_nothing_was_read(tmp_path: Path) -> None:
    ran = gapwatch("check", portfolio(tmp_path, ANSWERS), "--against", written(tmp_path, []))

    assert ran.status == 1
    assert "traces.jsonl is empty: it holds no record" in ran.err


def test_dead_letters_are_told_with_the_first_line_and_why(tmp_path: Path) -> None:
    lines = [trace(1), "nope", trace(2), '{"trace_id": "t", "pipeline": "shop"}', "[]"]

    ran = gapwatch("check", portfolio(tmp_path, ANSWERS), "--against", written(tmp_path, lines))

    assert ran.status == 0
    assert "3 dead letter" in ran.out and "2 read" in ran.out
    [doubt] = doubts(ran)
    assert "not_json 1" in doubt and "missing_field 1" in doubt and "not_object 1" in doubt
    assert "the first is traces.jsonl, line 2: Expecting value" in doubt


def test_no_name_of_a_trace_steers_the_terminal(tmp_path: Path) -> None:
    traces = written(tmp_path, [trace(1, component="\x1b[31m\a[bold]")])

    ran = gapwatch("check", portfolio(tmp_path, ANSWERS), "--against", traces)

    assert "\x1b" not in ran.out and "\a" not in ran.out
    assert any("[bold]" in doubt for doubt in doubts(ran))


def test_python_scorers_are_asked_where_their_module_is_named(tmp_path: Path, traces: Path) -> None:
    (tmp_path / "own.py").write_text(SCORERS)
    path = portfolio(tmp_path, POLITE)

    ran = gapwatch("check", path, "--against", traces, "--scorers", tmp_path / "own.py")
    without = gapwatch("check", path, "--against", traces)
    wrong = gapwatch("check", path, "--against", traces, "--scorers", tmp_path / "none.py")

    assert (ran.status, row_of(ran, "polite")[1:5]) == (0, ["polite", "200", "100", "100"])
    assert without.status == 2
    assert "no scorer named 'polite'" in without.err and "--scorers" in without.err
    assert wrong.status == 2
    assert "none.py cannot be loaded: ModuleNotFoundError" in wrong.err


@pytest.mark.parametrize("missing", ["none.jsonl", ""])
def test_a_file_that_cannot_be_read_is_status_2(tmp_path: Path, missing: str) -> None:
    ran = gapwatch("check", portfolio(tmp_path, ANSWERS), "--against", tmp_path / missing)

    assert ran.status == 2
    assert str(tmp_path / missing) in ran.err
    assert "no such file" in ran.err or "is a directory; give the files in it" in ran.err


def test_several_files_are_one_body_of_traces(tmp_path: Path, traces: Path) -> None:
    more = written(tmp_path, [trace(number) for number in range(1, 8, 2)], "more.jsonl")

    ran = gapwatch("check", portfolio(tmp_path, ANSWERS), "--against", traces, "--against", more)

    assert "204 read" in ran.out
    assert row_of(ran, "answers")[2:5] == ["204", "184", "20"]


def test_nothing_is_stored(tmp_path: Path, traces: Path) -> None:
    path = portfolio(tmp_path, ANSWERS)

    before = sorted(tmp_path.iterdir())
    gapwatch("check", path, "--against", traces)

    assert sorted(tmp_path.iterdir()) == before


def test_a_refused_portfolio_is_held_against_nothing(tmp_path: Path, traces: Path) -> None:
    bad = portfolio(tmp_path, "{name: m, component: c, claim: {form: check}}")

    ran = gapwatch("check", bad, "--against", traces)

    assert ran.status == 2
    assert "Against" not in ran.out


def test_explain_says_what_is_parsed_and_ends_with_the_functions(tmp_path: Path) -> None:
    tone = "{name: tone, component: agent, claim: {form: check, field: attributes.tone, one_of: [it's, b]}}"

    ran = gapwatch("check", portfolio(tmp_path, ANSWERS, tone), "--explain")

    assert (ran.status, ran.err) == (0, "")
    parsed, _, functions = ran.out.partition("Functions one for each component and its metrics\n")
    span = " ".join(parsed.partition("\nspan")[2].split())
    assert "output" in span and "attributes.tone" in span and "usage" not in span
    assert functions.startswith("# shop: agent: ") and "def score_rows(rows" in functions
    assert "it's" not in functions.partition("# k")[0] and "(\"it's\", 'b')" in functions
