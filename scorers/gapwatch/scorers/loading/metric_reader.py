"""Prepares a metric of a portfolio for its model: parses its fields and predicates in the metric's scope."""

from __future__ import annotations

from collections.abc import Mapping

from gapwatch.scorers.loading.predicate_reader import (
    UNREADABLE,
    UNREADABLE_FIELD,
    MetricScope,
    read_field,
    read_predicate,
)
from gapwatch.scorers.loading.problems import KeyPath, ProblemList
from gapwatch.scorers.portfolio.field import Field


def unreadable_metric(position: int) -> dict[str, object]:
    """Return what replaces the required parts of a metric that cannot be read; the name is unique in the file.

    Args:
        position: Position of the metric in the file.
    """
    return {"name": f"unreadable_{position}", "claim": {"form": "check", "predicate": UNREADABLE}}


def prepare_metric(
    raw: dict[str, object], path: KeyPath, components: Mapping[str, tuple[str, ...]], problems: ProblemList
) -> dict[str, object]:
    """Return a metric as written, with its maps and texts replaced by parsed predicates and fields.

    Args:
        raw: The metric as written; not changed.
        path: Its place in the file.
        components: Members of each of the portfolio's components by its id; none of one that stands for itself.
        problems: List to which problems are added.
    """
    scope = MetricScope("trace" if raw.get("scope") == "trace" else "span", components, path)
    metric = dict(raw)
    claim, when, sample = raw.get("claim"), raw.get("when"), raw.get("sample")
    if isinstance(claim, dict):
        metric["claim"] = _claim(claim, (*path, "claim"), scope, problems)
    if when is not None:
        metric["when"] = read_predicate(when, (*path, "when"), scope, problems)
    if isinstance(sample, dict) and isinstance(sample.get("strata"), list):
        strata = [
            _stratum(stratum, (*path, "sample", "strata", position), scope, problems)
            for position, stratum in enumerate(sample["strata"])
        ]
        metric["sample"] = {**sample, "strata": strata}
    return metric


def _claim(claim: dict[str, object], path: KeyPath, scope: MetricScope, problems: ProblemList) -> dict[str, object]:
    form = claim.get("form")
    if form == "check":
        predicate = read_predicate(claim, path, scope, problems, own=True, beside=("form", "optional"))
        beside = {key: value for key, value in claim.items() if key in ("form", "optional")}
        return {**beside, "predicate": predicate}
    if form in ("measure", "label") and "field" in claim:
        return {**claim, "field": _field(claim["field"], (*path, "field"), scope, problems)}
    if form == "python":
        return _with_fields(claim, "fields", path, scope, problems)
    rubric = claim.get("rubric")
    if form in ("judge", "compare") and isinstance(rubric, dict):
        return {**claim, "rubric": _with_fields(rubric, "inputs", (*path, "rubric"), scope, problems)}
    return claim


def _with_fields(
    raw: dict[str, object], key: str, path: KeyPath, scope: MetricScope, problems: ProblemList
) -> dict[str, object]:
    names = raw.get(key)
    if not isinstance(names, list):
        return raw
    return {**raw, key: [_field(name, (*path, key, position), scope, problems) for position, name in enumerate(names)]}


def _stratum(raw: object, path: KeyPath, scope: MetricScope, problems: ProblemList) -> object:
    if not isinstance(raw, dict) or "when" not in raw:
        return raw
    return {**raw, "when": read_predicate(raw["when"], (*path, "when"), scope, problems)}


def _field(raw: object, path: KeyPath, scope: MetricScope, problems: ProblemList) -> Field:
    return read_field(raw, path, scope, problems) or UNREADABLE_FIELD
