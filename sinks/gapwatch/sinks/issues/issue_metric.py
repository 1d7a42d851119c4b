"""A metric for a portfolio that watches for the return of an issue."""

from __future__ import annotations

import re
from collections.abc import Sequence

import yaml

from gapwatch.sinks.issues.issue import Issue


def issue_metric_name(issue: Issue) -> str:
    """Return a name of a metric from the title of an issue."""
    words = re.sub(r"[^a-z0-9]+", "_", issue.title.lower()).strip("_")[:40].strip("_")
    return f"no_{words}" if words else f"no_{re.sub(r'[^a-z0-9]+', '_', issue.issue_id.lower())}"


def issue_metric(issue: Issue, component: str, judges: Sequence[str]) -> str:
    """Return the metric as YAML, an entry of the list `metrics`.

    Live traces have no reference answer, so the judge sees input and output, whatever the tests show it.

    Args:
        issue: The issue; its guideline is the criterion.
        component: Component whose spans are judged.
        judges: Models that judge, `vendor/name`.
    """
    metric = {
        "name": issue_metric_name(issue),
        "component": component,
        "purpose": f"watches for the return of {issue.issue_id}: {issue.title}",
        "claim": {
            "form": "judge",
            "rubric": {
                "criterion": issue.guideline or issue.description or issue.title,
                "scale": [1, 0], "inputs": ["input", "output"], "template": "grafite_input_output",
            },
            "judges": [{"model": judge} for judge in judges],
        },
        "sample": {"rate": 0.1},
        "alert": {"severity": "ticket"},
    }  # fmt: skip
    return yaml.safe_dump([metric], sort_keys=False, allow_unicode=True, width=110)
