"""Makes the bad and good metrics of `mutations.yaml` on a fixture in one of its variations, and asks the critic."""

from __future__ import annotations

import ast
import copy
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from gapwatch.design.analysis import no_progress
from gapwatch.design.architecture.claimed_code import ClaimedCode
from gapwatch.design.architecture.model import Architecture, ComponentDraft
from gapwatch.design.metrics.choice import PipelineView
from gapwatch.design.metrics.critic import Case, review_metrics
from gapwatch.design.metrics.metric_design import MetricDesign, RubricDraft
from gapwatch.design.metrics.rules.code_view import CodeView
from gapwatch.design.metrics.rules.served_code import served_functions
from gapwatch.design.metrics.rules.set_up_code import set_up_functions
from gapwatch.design.metrics.spans import PATTERN_FIELDS, IntegrationPoint, span_name
from gapwatch.design.patterns.libraries import default_catalog
from gapwatch.design.patterns.library_uses import CodePlace
from gapwatch.design.source.scan import scan_repository
from gapwatch.design.stage import CodeReading, read_code, understand
from gapwatch.scorers.portfolio.polarity import BY_THE_CLAIM
from tests.design.source_tree import write_tree
from tests.design.truths.fixture_variations import Written, vary

FOLDER = Path(__file__).parent
MUTATIONS: dict[str, Any] = yaml.safe_load((FOLDER / "mutations.yaml").read_text(encoding="utf-8"))
VARIATIONS = [v["id"] for v in MUTATIONS["variations"]]
_ALL_FIELDS = sorted({f for fields in PATTERN_FIELDS.values() for f in fields})


@dataclass
class Fixture:
    """A fixture in one variation, read by the design stage."""

    text: str
    written: Written
    code: CodeReading
    view: PipelineView
    claimed: ClaimedCode


@cache
def _ranges(text: str) -> dict[str, tuple[int, int]]:
    out: dict[str, tuple[int, int]] = {}

    def walk(node: ast.AST, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                assert child.end_lineno is not None
                out[prefix + child.name] = child.lineno, child.end_lineno
                walk(child, f"{prefix}{child.name}.")

    walk(ast.parse(text), "")
    return out


def read_fixture(file: str, variation: str, folder: Path) -> Fixture:
    """Write a fixture in a variation to a folder, and read it."""
    text = (FOLDER / "critic" / file).read_text(encoding="utf-8")
    written = vary(variation, text)
    scan = scan_repository(write_tree(folder, written.files))
    code = read_code(scan, (), default_catalog(), no_progress)
    return Fixture(text, written, code, understand(code, "", None), ClaimedCode(code.material))


def is_refused(fixture: Fixture, case: dict[str, Any], which: str) -> list[str]:
    """Return the rules that refuse the metric of a case, its `bad` or its `good` one; or one of the pair of a twin."""
    wanted = case[which]
    metrics = [_metric(fixture, case, wanted, wanted["at"], "")]
    if "beside" in wanted:
        beside = {**case, "metric": case.get("beside_metric", case["metric"])}
        metrics.append(_metric(fixture, beside, wanted, wanted["beside"], "_beside"))
    points: dict[str, list[IntegrationPoint]] = {}
    for m, at in zip(metrics, (wanted["at"], wanted.get("beside")), strict=False):
        names = [at[0], *wanted.get("over", [])]
        points.setdefault(m.component, []).extend(_point(fixture, m.component, name) for name in names)
    architecture = Architecture([_component(fixture, m) for m in metrics][:1], [])
    for m in metrics:
        m.component = architecture.components[0].id
    points = {metrics[0].component: [p for some in points.values() for p in some]}
    code = fixture.claimed
    view = CodeView(code, fixture.view.prompts, metrics, points, served_functions(code), set_up_functions(code))
    reviews = review_metrics(Case(architecture, metrics, points, (), view)).reviews
    return [rule for r in reviews if r.status == "reject" for rule in r.rules if rule != "missing_judge"]


def _line(fixture: Fixture, place: list[str]) -> int:
    name, words = place
    lines = fixture.text.splitlines()
    ranges = _ranges(fixture.text)
    if name == "<module>":
        inside = {n for first, last in ranges.values() for n in range(first, last + 1)}
        return next(n for n, line in enumerate(lines, 1) if words in line and n not in inside)
    first, last = ranges[name]
    return next(n for n in range(first, last + 1) if words in lines[n - 1])


def _place(fixture: Fixture, place: list[str], is_claim: bool = False) -> CodePlace:
    """Return a place in the variation; a metric stays on the function whose body moved into another."""
    if is_claim and place[0] in fixture.written.outer:
        path, line = fixture.written.outer[place[0]]
        return CodePlace(path, line)
    wanted = _line(fixture, place)
    for at in range(wanted, 0, -1):
        found = fixture.written.lines.get(at) or fixture.written.lines.get(-at)
        if found is not None:
            return CodePlace(*found)
    raise AssertionError((place, "not in the variation"))


def _symbol(fixture: Fixture, name: str) -> str:
    new = fixture.written.names.get(name, name)
    symbols = [s.id for s in fixture.code.material.graph.symbols if s.kind == "function"]
    return next(s for s in symbols if s == new or s.endswith(f".{new}"))


def _component(fixture: Fixture, metric: MetricDesign) -> ComponentDraft:
    found = [c for c in fixture.view.architecture.components if set(metric.symbols) & set(c.symbols)]
    return copy.copy(next(iter(found or fixture.view.architecture.components)))


def _point(fixture: Fixture, component: str, name: str) -> IntegrationPoint:
    symbol = _symbol(fixture, name)
    symbols = {s.id: s for s in fixture.code.material.graph.symbols}
    s = symbols[symbol]
    fields = [*_ALL_FIELDS, "attributes.count", "attributes.length", "attributes.words", "output", "latency"]
    fields.append("attributes.retrieved_count")
    return IntegrationPoint(
        component, span_name(symbol, symbols), "other", symbol, CodePlace(s.path, s.line, s.end), fields
    )


def _metric(fixture: Fixture, case: dict[str, Any], wanted: dict[str, Any], at: list[str], suffix: str) -> MetricDesign:
    written = case["metric"]
    source = written.get("source", "catalog")
    symbol = _symbol(fixture, at[0])
    symbols = {s.id: s for s in fixture.code.material.graph.symbols}
    over = [span_name(_symbol(fixture, name), symbols) for name in wanted.get("over", [])]
    place = _place(fixture, at, is_claim=True)
    components = [c.id for c in fixture.view.architecture.components if symbol in c.symbols]
    component = next(iter(components), fixture.view.architecture.components[0].id)
    spans = over or [span_name(symbol, symbols)]
    claim = dict(written.get("claim", {"form": "judge"}))
    made = MetricDesign(
        name=f"{component}_{written['family']}{suffix}",
        component=component,
        source=source,
        family=written["family"],
        purpose="",
        concern="reliability",
        claim=claim,
        evidence=[f"{place} {at[1]}"],
        symbols=[symbol],
        places=[place],
        spans=spans,
        fields=[claim["field"]] if "field" in claim else ["output"],
        when={"field": "name", "one_of": spans},
        better=written.get("better", "lower"),
    )
    made.prompts = [_place(fixture, wanted["prompt"])] if wanted.get("prompt") else []
    made.evidence_from = [_place(fixture, wanted["evidence"])] if wanted.get("evidence") else []
    made.limit_place = _place(fixture, written["limit_from"]) if "limit_from" in written else None
    if source == "judge":
        made.rubric = RubricDraft("Is it right?", ["Read.", "Judge."], ["output"], {"5": 5, "3": 3, "1": 1}, 3, {})
        made.tier = "some_tier"
    if "fact" in wanted:
        made.fact = "f-" + wanted["fact"]["question"]
    elif "direction" in wanted:
        made.direction_place = _place(fixture, wanted["direction"])
        made.direction_evidence = str(made.direction_place)
    elif made.says_by_itself:
        made.direction_evidence = BY_THE_CLAIM
    else:
        made.direction_verdict = "unverified"
    if made.is_cascade and made.direction_verdict != "verified":
        made.better = "unknown"
    return made
