"""Issues that are similar to what somebody wants to report: by failing metrics and by text."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from rapidfuzz import fuzz, utils

from gapwatch.sinks.issues.issue import Issue

#: Least similarity, 0 to 100, that is proposed. Lower: proposals that nobody takes.
LEAST = 45.0
#: What a shared failing metric adds. More: two texts about one metric are always proposed.
_METRIC = 25.0


def similar_issues(
    text: str, metrics: Collection[str], issues: Iterable[Issue], most: int = 3
) -> list[tuple[float, Issue]]:
    """Return the most similar issues that are not closed, with a similarity from 0 to 100, the most similar first.

    Args:
        text: What was seen or said.
        metrics: Metrics that fail.
        issues: All issues.
        most: Largest number.
    """
    found = []
    for issue in issues:
        if issue.status == "closed":
            continue
        words = f"{issue.title} {issue.description}"
        likeness = fuzz.token_set_ratio(text, words, processor=utils.default_process) if text else 0.0
        shares = any(metric == issue.metric or metric in words.split() for metric in metrics)
        found.append((min(100.0, 0.75 * likeness + (_METRIC if shares else 0.0)), issue))
    return sorted((one for one in found if one[0] >= LEAST), key=lambda one: (-one[0], one[1].issue_id))[:most]
