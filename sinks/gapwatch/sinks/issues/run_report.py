"""Reports of a run of tests and of a comparison, in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gapwatch.scorers.judges.agreement import Estimate
from gapwatch.sinks.evaluation.markdown_table import markdown_table
from gapwatch.sinks.issues.run_comparison import RunComparison
from gapwatch.sinks.issues.run_outcomes import TestOutcome, TestRun, domain_names, issue_names, tag_names
from gapwatch.sinks.issues.side_by_side import domain_table


def rate_words(estimate: Estimate) -> str:
    """Return a rate as 45.0 % (9/20), 95 % interval 25.8 to 65.8 %."""
    if not estimate.n:
        return "no decided test"
    passed = round(estimate.value * estimate.n)
    return f"{estimate.value:.1%} ({passed}/{estimate.n}), 95 % interval {estimate.lower:.1%} to {estimate.upper:.1%}"


def run_sentences(run: TestRun) -> list[str]:
    """Return what a run says first, one sentence a line."""
    outcomes = list(run.outcomes.values())
    words = [one.outcome for one in outcomes]
    left = len(set(run.planned) - set(run.outcomes))
    lines = [
        f"{len(outcomes)} tests of {run.model}: {words.count('pass')} pass, {words.count('fail')} fail, "
        f"{words.count('error')} without a decision; pass rate {rate_words(run.rate())}."
    ]
    if left:
        lines.append(f"{left} planned tests have no result yet: start the run again under its name, and it goes on.")
    if len(run.judges) > 1:
        agreed = [one for one in outcomes if one.verdicts and not one.is_split and one.mean is not None]
        passes = sum(one.mean == 1 for one in agreed)
        split = sum(one.is_split for one in outcomes)
        lines.append(
            f"{passes} tests pass in all judges, {len(agreed) - passes} fail in all, {split} split "
            f"({', '.join(run.judges)}; the mean above 0.5 passes, a tie fails)."
        )
    if run.failed_calls:
        calls = "1 call of a judge" if run.failed_calls == 1 else f"{run.failed_calls} calls of judges"
        lines.append(f"{calls} failed: an error each, and no verdict.")
    if run.same_family:
        lines.append(
            f"{', '.join(run.same_family)} is of the family of {run.model}: it may favour such answers; read its "
            "verdicts beside those of the others."
        )
    overridden = sum(one.overridden is not None for one in outcomes)
    if overridden:
        lines.append(f"{overridden} outcomes are a person's.")
    return lines


def run_markdown(run: TestRun) -> str:
    """Return the report of a run: rates by domain, issue and tag, and each test with its justification."""
    parts = [f"# Run {run.run_id}\n", *run_sentences(run), ""]
    for title, names in (("domain", domain_names), ("issue", issue_names), ("tag", tag_names)):
        groups = run.by(names)
        if not groups or (title != "issue" and set(groups) == {"-"}):
            continue
        rows = [(name, *_rate_cells(run, some)) for name, some in groups.items()]
        parts.append(markdown_table((title, "pass", "decided", "pass rate", "95 % interval", "errors"), rows))
    rows = [
        (
            one.test_id, one.issue.title if one.issue else "?", one.outcome,
            "-" if one.mean is None else f"{one.mean:.2f}", _why(one),
        )
        for one in run.outcomes.values()
    ]  # fmt: skip
    parts.append(markdown_table(("test", "issue", "outcome", "mean", "why"), rows))
    return "\n".join(parts) + "\n"


def runs_markdown(runs: Sequence[TestRun]) -> str:
    """Return several runs side by side: the pass rate of each domain by model, then what each run says first."""
    titles, rows = domain_table(runs)
    parts = [f"# {len(runs)} runs side by side\n", markdown_table(titles, rows)]
    for run in runs:
        parts += [f"## {run.model}, run {run.run_id}\n", *run_sentences(run), ""]
    return "\n".join(parts)


def _rate_cells(run: TestRun, some: Sequence[TestOutcome]) -> tuple[str, ...]:
    estimate = run.rate(some)
    errors = sum(one.outcome == "error" for one in some)
    if not estimate.n:
        return "0", "0", "-", "-", str(errors)
    interval = f"{estimate.lower:.1%} to {estimate.upper:.1%}"
    return str(round(estimate.value * estimate.n)), str(estimate.n), f"{estimate.value:.1%}", interval, str(errors)


def _why(one: TestOutcome) -> str:
    if one.overridden is not None:
        return one.overridden
    if one.error is not None:
        return one.error
    told = next((v for v in one.verdicts if v["outcome"] == one.outcome), None)
    if told is None:
        return ""
    return f"{told['judge']}: {told['justification'] or told['reason'] or ''}"


def comparison_sentences(found: RunComparison) -> list[str]:
    """Return what a comparison says after its word, one sentence a line."""
    pairs = found.pairs
    low, high = pairs.interval
    parts = [
        f"{pairs.n} tests in both: {len(found.both_pass)} pass in both, {len(found.both_fail)} fail in both, "
        f"{len(found.better)} better, {len(found.worse)} worse.",
    ]
    if pairs.n:
        parts.append(f"Difference of the pass rates {pairs.difference:+.1%}, 95 % interval {low:+.1%} to {high:+.1%}.")
    if found.left_out:
        parts.append(
            f"{len(found.left_out)} tests are left out: in one run alone, without a decision, or changed in between."
        )
    return parts


def comparison_markdown(found: RunComparison) -> str:
    """Return the report of a comparison: by tag, and each test that changed."""
    one, other = found.baseline, found.candidate
    parts = [
        f"# {other.run_id} ({other.model}) against {one.run_id} ({one.model})\n",
        f"{other.model}: **{found.word}**. {found.sentence}",
        *comparison_sentences(found),
        "",
    ]
    outcomes = {**one.outcomes, **other.outcomes}
    changed = {**dict.fromkeys(found.better, "better"), **dict.fromkeys(found.worse, "worse")}
    groups: dict[str, list[str]] = {}
    for id_ in (*found.both_pass, *found.both_fail, *changed):
        for tag in tag_names(outcomes[id_]):
            groups.setdefault(tag, []).append(id_)
    if groups:
        rows = [(tag, len(ids), *_tag_cells(found, ids)) for tag, ids in sorted(groups.items())]
        parts.append(markdown_table(("tag", "tests", one.run_id, other.run_id, "better", "worse"), rows))
    if changed:
        rows = [
            (id_, outcomes[id_].issue.title if outcomes[id_].issue else "?", word, _why(other.outcomes[id_]))  # type: ignore[union-attr]
            for id_, word in changed.items()
        ]
        parts.append(markdown_table(("test", "issue", "changed", "why now"), rows))
    return "\n".join(parts) + "\n"


def _tag_cells(found: RunComparison, ids: Sequence[str]) -> tuple[str, ...]:
    def passed(names: Iterable[str]) -> int:
        return len(set(names) & set(ids))

    better, worse = passed(found.better), passed(found.worse)
    both = passed(found.both_pass)
    return f"{both + worse}/{len(ids)}", f"{both + better}/{len(ids)}", str(better), str(worse)
