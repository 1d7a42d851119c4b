"""Rules over a whole portfolio: unique names, names that must exist, patterns, time zones, URLs."""

from __future__ import annotations

import string
import zoneinfo
from collections.abc import Iterable, Sequence

from gapwatch.scorers.loading.alert_rules import check_alert
from gapwatch.scorers.loading.direction_rules import check_direction
from gapwatch.scorers.loading.draft import Draft
from gapwatch.scorers.loading.metric_rules import check_metric
from gapwatch.scorers.loading.problems import KeyPath, ProblemList, nearest, one_of
from gapwatch.scorers.loading.re2 import note_pattern
from gapwatch.scorers.loading.threshold_rules import check_threshold
from gapwatch.scorers.portfolio.component import Component
from gapwatch.scorers.portfolio.llm_origin import split_entry
from gapwatch.scorers.printable import shown

#: Names in braces that a URL may contain.
TRACE_URL_NAMES = ("trace_id", "span_id", "session_id", "pipeline", "environment", "component")
RUNBOOK_URL_NAMES = ("metric", "component", "pipeline", "environment")


def check_portfolio_rules(draft: Draft) -> None:
    """Note every problem between the parts of a portfolio."""
    check_unique(((("components", i, "id"), part.id) for i, part in draft.components), "component", draft.problems)
    check_unique(((("metrics", i, "name"), part.name) for i, part in draft.metrics), "metric", draft.problems)
    check_unique(((("questions", i, "id"), part.id) for i, part in draft.questions), "question", draft.problems)
    for position, component in draft.components:
        tiers = (
            (("components", position, "tiers", index, "id"), tier.id) for index, tier in enumerate(component.tiers)
        )
        check_unique(tiers, "tier", draft.problems)
        _check_members(draft, component, ("components", position, "members"))
    for position, edge in draft.edges:
        draft.know_component(edge.from_, ("edges", position, "from"))
        draft.know_component(edge.to, ("edges", position, "to"))
    for position, question in draft.questions:
        draft.know_component(question.component, ("questions", position, "component"))
    for position, metric in draft.metrics:
        check_metric(draft, metric, ("metrics", position))
        check_direction(draft, metric, ("metrics", position))
        check_threshold(draft, metric, ("metrics", position))
        check_alert(draft, metric, ("metrics", position))


def _check_members(draft: Draft, component: Component, path: KeyPath) -> None:
    check_unique((((*path, i), member) for i, member in enumerate(component.members)), "member", draft.problems)
    for index, member in enumerate(component.members):
        draft.know_component(member, (*path, index))
        found = draft.by_id.get(member)
        if member == component.id or (found is not None and found.members):
            draft.problems.add((*path, index), f"{shown(member)} has members itself", "a component without members")


def check_unique(named: Iterable[tuple[KeyPath, str]], what: str, problems: ProblemList) -> None:
    """Note every name that is used twice."""
    seen: set[str] = set()
    for path, name in named:
        if name in seen:
            problems.add(path, f"the {what} {shown(name)} is defined twice", "a unique name")
        seen.add(name)


def check_header(
    time_zone: str | None,
    redact: Sequence[str],
    written: Sequence[str] | None,
    urls: dict[str, str],
    component_ids: frozenset[str],
    problems: ProblemList,
) -> None:
    """Note every problem in the top-level values of a portfolio.

    Args:
        time_zone: As written; None where it is not a text.
        redact: Patterns of texts to redact.
        written: Entries of `written_by_llm`; None where the portfolio has no such key.
        urls: `trace_url` and `runbook_url`, as far as the portfolio has them.
        component_ids: Ids of all components.
        problems: List to which problems are added.
    """
    if time_zone is not None and not is_time_zone(time_zone):
        close = nearest(time_zone, zoneinfo.available_timezones())
        problems.add(
            ("time_zone",),
            f"no time zone named {shown(time_zone)}",
            "a name of the IANA time zone database, like Europe/Berlin",
            close,
        )
    for position, pattern in enumerate(redact):
        note_pattern(pattern, ("redact", position), problems)
    for position, entry in enumerate(written or ()):
        if split_entry(entry, component_ids) is None:
            known = [f"{component}.output" for component in sorted(component_ids)]
            message = f"{shown(entry)!r} is not a component and a field of its spans"
            problems.add(
                ("written_by_llm", position), message, "component.field, like agent.output", nearest(entry, known)
            )
    for key, names in (("trace_url", TRACE_URL_NAMES), ("runbook_url", RUNBOOK_URL_NAMES)):
        if key in urls:
            check_url(urls[key], names, (key,), problems)


def is_time_zone(name: str) -> bool:
    """Return whether a name is an IANA time zone; a path to a file is never one."""
    if len(name) > 100:  # zoneinfo recurses over the parts of a path
        return False
    try:
        zoneinfo.ZoneInfo(name)
    except (ValueError, OSError, zoneinfo.ZoneInfoNotFoundError):
        return False
    return True


def check_url(url: str, names: Sequence[str], path: KeyPath, problems: ProblemList) -> None:
    """Note a problem where a template is no web address, or has a name in braces that is not one of `names`."""
    if not url.startswith(("https://", "http://")):
        problems.add(path, f"{shown(url)!r} is not a web address", "https://...")
    try:
        holes = [hole for _, hole, spec, how in string.Formatter().parse(url) if hole is not None]
        plain = all(not spec and not how for _, hole, spec, how in string.Formatter().parse(url) if hole is not None)
    except ValueError:
        problems.add(path, "unbalanced braces", "{name}, or {{ and }} for a literal brace")
        return
    for hole in holes:
        if hole not in names or not plain:
            problems.add(path, f"unknown name {{{shown(hole)}}}", one_of(names), nearest(hole, names))
