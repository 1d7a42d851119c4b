"""Several runs of tests side by side: the pass rate of each domain by model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from gapwatch.sinks.issues.run_outcomes import TestOutcome, TestRun, domain_names


def domain_table(runs: Sequence[TestRun]) -> tuple[list[str], list[list[str]]]:
    """Return titles and rows: the total first, then each domain with its number of tests; a column for each run.

    A cell has the rate with its counts; `-` without a decided test. A model of several runs is named with the run.

    Source: the layout of Table 3 of GRAFITE (pass rates by domain and model).
    """
    models = Counter(run.model for run in runs)
    titles = ["domain", *(run.model if models[run.model] == 1 else f"{run.model} {run.run_id}" for run in runs)]
    groups = [{"Total": [*run.outcomes.values()], **run.by(domain_names)} for run in runs]
    names = ["Total", *sorted({name for by in groups for name in by} - {"Total"})]
    rows = []
    for name in names:
        tests = {one.test_id for by in groups for one in by.get(name, [])}
        rows.append(
            [f"{name} ({len(tests)})", *(_cell(run, by.get(name, [])) for run, by in zip(runs, groups, strict=True))]
        )
    return titles, rows


def _cell(run: TestRun, some: Sequence[TestOutcome]) -> str:
    rate = run.rate(some)
    return f"{rate.value:.1%} ({round(rate.value * rate.n)}/{rate.n})" if rate.n else "-"
