"""Report of a run of tests as one HTML file, without scripts and without a network."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from gapwatch.sinks.issues.run_outcomes import TestOutcome, TestRun, domain_names, issue_names, tag_names
from gapwatch.sinks.issues.run_report import run_sentences
from gapwatch.sinks.issues.side_by_side import domain_table

_STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; margin: 1rem 0; width: 100%; }
th, td { text-align: left; padding: .3rem .6rem; border-bottom: 1px solid #8884; vertical-align: top; }
td.n { text-align: right; font-variant-numeric: tabular-nums; }
.pass { color: #157f3b; } .fail { color: #c2261e; } .error { color: #9a6700; }
@media (prefers-color-scheme: dark) { .pass { color: #4cc36f; } .fail { color: #ff7b72; } .error { color: #d9a441; } }
.bar { background: #8883; height: .6rem; width: 10rem; display: inline-block; }
.bar i { background: #157f3b; height: 100%; display: block; }
.wide { overflow-x: auto; }
details { margin: .4rem 0; } pre { white-space: pre-wrap; overflow-wrap: anywhere; margin: .3rem 0; }
"""


def runs_html(runs: Sequence[TestRun]) -> str:
    """Return the page of one or more runs.

    Several runs begin with the pass rate of each domain by model. Each run: its sentences, rates by domain, issue and
    tag, then each test with all verdicts.
    """
    title = f"Run {runs[0].run_id}" if len(runs) == 1 else f"{len(runs)} runs side by side"
    parts = [
        "<!doctype html><html lang='en'><meta charset='utf-8'><meta name='viewport' content='width=device-width'>",
        f"<title>{escape(title)}</title><style>{_STYLE}</style><h1>{escape(title)}</h1>",
    ]
    if len(runs) > 1:
        titles, rows = domain_table(runs)
        head = "".join(f"<th>{escape(one)}" for one in titles)
        cells = "".join(
            f"<tr><td>{escape(name)}" + "".join(f"<td class='n'>{escape(one)}" for one in row) for name, *row in rows
        )
        parts.append(f"<div class='wide'><table><tr>{head}{cells}</table></div>")
    for run in runs:
        parts += _run(run, headed=len(runs) > 1)
    return "".join(parts) + "</html>\n"


def _run(run: TestRun, headed: bool) -> list[str]:
    parts = [f"<h2>{escape(run.model)}, run {escape(run.run_id)}</h2>"] if headed else []
    parts += [f"<p>{escape(line)}</p>" for line in run_sentences(run)]
    parts.append(f"<p>Started {escape(str(run.at))} UTC by {escape(run.author)}.</p>")
    for title, names in (("Domain", domain_names), ("Issue", issue_names), ("Tag", tag_names)):
        groups = run.by(names)
        if groups and set(groups) != {"-"}:
            parts.append(_rates(run, title, groups.items()))
    return [*parts, "<h2>Tests</h2>", *map(_test, run.outcomes.values())]


def _rates(run: TestRun, title: str, groups: Iterable[tuple[str, Sequence[TestOutcome]]]) -> str:
    rows = []
    for name, some in groups:
        rate = run.rate(some)
        errors = sum(one.outcome == "error" for one in some)
        passed = round(rate.value * rate.n) if rate.n else 0
        share = f"{rate.value:.1%}" if rate.n else "-"
        interval = f"{rate.lower:.1%} to {rate.upper:.1%}" if rate.n else "-"
        width = f"{100 * rate.value:.0f}" if rate.n else "0"
        rows.append(
            f"<tr><td>{escape(name)}<td class='n'>{passed}/{rate.n}<td class='n'>{share}"
            f"<td><span class='bar'><i style='width:{width}%'></i></span><td>{interval}<td class='n'>{errors}"
        )
    head = f"<tr><th>{title}<th>pass<th>rate<th><th>95 % interval<th>errors"
    return f"<h2>By {title.lower()}</h2><table>{head}{''.join(rows)}</table>"


def _test(one: TestOutcome) -> str:
    title = one.issue.title if one.issue is not None else "?"
    verdicts = "".join(
        f"<tr><td>{escape(v['judge'])}<td class='{v['outcome']}'>{v['outcome']}"
        f"<td>{escape(v['justification'] or v['reason'] or '')}"
        for v in one.verdicts
    )
    asked = "" if one.test is None else f"<b>Input</b><pre>{escape(one.test.input_text())}</pre>"
    right = (
        "" if one.test is None or not one.test.reference else f"<b>Reference</b><pre>{escape(one.test.reference)}</pre>"
    )
    said = f"<b>Answer</b><pre>{escape(one.output if one.output is not None else one.error or '')}</pre>"
    word = f"<p>Set by a person: {escape(one.overridden)}</p>" if one.overridden else ""
    return (
        f"<details><summary><span class='{one.outcome}'>{one.outcome}</span> {escape(title)} "
        f"<small>{escape(one.test_id)}</small></summary>{word}{asked}{right}{said}<table>{verdicts}</table></details>"
    )
