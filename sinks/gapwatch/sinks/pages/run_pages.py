"""Pages of the runs of tests: the trend, one run with its verdicts, and two runs compared."""

from __future__ import annotations

from gapwatch.sinks.issues.run_comparison import RunComparison, compare_runs
from gapwatch.sinks.issues.run_outcomes import (
    TestOutcome,
    TestRun,
    domain_names,
    issue_names,
    list_runs,
    read_run,
    tag_names,
)
from gapwatch.sinks.issues.run_report import comparison_sentences, run_sentences
from gapwatch.sinks.issues.side_by_side import domain_table
from gapwatch.sinks.pages.layout import Html, badge, cell, named, page, page_link, section, share_cells, table
from gapwatch.sinks.store.store_reader import StoreReader

#: Latest runs of the page of all runs. More: each costs some queries.
_MOST = 50


def runs_page(con: StoreReader) -> str:
    """Return the page of all runs, the latest first, with the form that compares two."""
    known = list_runs(con)
    runs = [read_run(con, one.run_id) for one in reversed(known[-_MOST:])]
    rows = [
        [
            page_link(f"runs/{run.run_id}", run.run_id),
            run.model,
            *share_cells(run.rate()),
            _errors(run.outcomes.values()),
            run.at,
        ]
        for run in runs
    ]
    parts = [
        section(
            "Runs",
            table(("run", "model", "#pass rate", "0 to 100 %", "#errors", "started (UTC)"), rows, "no runs yet"),
            hint="Pass rate over the tests with a decision, with Wilson's 95 % interval. An error is neither.",
        )
    ]  # fmt: skip
    if len(runs) > 1:
        parts.append(section("Compare two runs", _compare_form(runs)))
        (first, *models), cells = domain_table(runs[7::-1])
        titles = (first, *(f"#{one}" for one in models))
        parts.append(section("By domain and model", table(titles, cells, "no runs yet")))
    return page("runs", parts)


def run_page(con: StoreReader, wanted: str) -> str:
    """Return the page of one run.

    Raises:
        UsageError: There is no such run, or several begin so.
    """
    run = read_run(con, wanted)
    said = "".join(f"<p>{cell(line)}</p>" for line in run_sentences(run))
    parts = [section(f"Run {run.run_id}", said, f"<p>Started {cell(run.at)} UTC by {cell(run.author)}.</p>")]
    for title, names in (("domain", domain_names), ("issue", issue_names), ("tag", tag_names)):
        groups = run.by(names)
        if not groups or set(groups) == {"-"}:
            continue
        rows = [[name, *share_cells(run.rate(some)), _errors(some)] for name, some in groups.items()]
        parts.append(section(f"By {title}", table((title, "#pass rate", "0 to 100 %", "#errors"), rows, "none")))
    parts.append(section("Tests", *map(_test, run.outcomes.values())))
    return page(f"run {run.run_id}", parts, "../")


def comparison_page(con: StoreReader, baseline: str, candidate: str) -> str:
    """Return the page of two runs compared.

    Raises:
        UsageError: There is no such run, or several begin so.
    """
    found = compare_runs(read_run(con, baseline), read_run(con, candidate))
    one, other = found.baseline, found.candidate
    first = f"{other.run_id} ({other.model}) against {one.run_id} ({one.model}): {found.word}. {found.sentence}"
    lines = [first, *comparison_sentences(found)]
    said = "".join(f"<p>{cell(line)}</p>" for line in lines)
    return page("comparison", [section("Two runs of tests", said), *_changed(found)])


def _changed(found: RunComparison) -> list[str]:
    words = {**dict.fromkeys(found.worse, "worse"), **dict.fromkeys(found.better, "better")}
    rows = []
    for id_, word in words.items():
        was, now = found.baseline.outcomes[id_], found.candidate.outcomes[id_]
        rows.append([badge(word), named(_title(now), id_), _words(was), _words(now)])
    titles = ("changed", "test", f"answer in {found.baseline.run_id}", f"answer in {found.candidate.run_id}")
    return [section("Tests that changed", table(titles, rows, "no test changed"))]


def _words(one: TestOutcome) -> Html:
    why = next((v["justification"] or v["reason"] for v in one.verdicts if v["outcome"] == one.outcome), "")
    answer = one.output if one.output is not None else one.error or ""
    return Html(f'<div class="text">{cell(answer[:400])}<small>{cell(why)}</small></div>')


def _title(one: TestOutcome) -> str:
    return one.issue.title if one.issue is not None else "?"


def _errors(some: object) -> str:
    assert hasattr(some, "__iter__")
    return str(sum(one.outcome == "error" for one in some))


def _test(one: TestOutcome) -> str:
    verdicts = [
        [v["judge"], badge(v["outcome"]), Html(f'<div class="text">{cell(v["justification"] or v["reason"])}</div>')]
        for v in one.verdicts
    ]
    shown = [
        ("input", "" if one.test is None else one.test.input_text()),
        ("reference", "" if one.test is None else one.test.reference or ""),
        ("answer", one.output if one.output is not None else one.error or ""),
        ("set by a person", one.overridden or ""),
    ]
    texts = "".join(f"<h3>{name}</h3><pre>{cell(text)}</pre>" for name, text in shown if text)
    judged = table(("judge", "verdict", "why"), verdicts, "no judge was asked")
    return (
        f"<details><summary>{badge(one.outcome)} {cell(_title(one))} <small>{cell(one.test_id)}</small></summary>"
        f"{texts}{judged}</details>"
    )


def _compare_form(runs: list[TestRun]) -> str:
    def choices(chosen: TestRun) -> str:
        return "".join(
            f'<option value="{cell(run.run_id)}"{" selected" if run is chosen else ""}>'
            f"{cell(run.run_id)} ({cell(run.model)})</option>"
            for run in runs
        )

    return (
        '<form method="get" action="compare">'
        f'<label>baseline <select name="baseline">{choices(runs[1])}</select></label> '
        f'<label>candidate <select name="candidate">{choices(runs[0])}</select></label> <button>compare</button></form>'
    )
