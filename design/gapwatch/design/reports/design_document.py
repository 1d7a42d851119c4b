"""Contents of the design report: metrics, questions, judges, components, edges, spans, rejections, unread files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import yaml

from gapwatch.design.architecture.model import ComponentDraft
from gapwatch.design.metrics.metric_design import MetricDesign
from gapwatch.design.metrics.questions import QuestionDraft
from gapwatch.design.reports.document import (
    Badge,
    Block,
    Code,
    Codes,
    Document,
    Fold,
    Graph,
    Heading,
    Inline,
    Listing,
    Paragraph,
    Strong,
    Table,
    Tiles,
    Words,
)
from gapwatch.design.reports.graph_folding import folded
from gapwatch.design.reports.left_out_section import left_out_section
from gapwatch.design.reports.notices_section import notices_section
from gapwatch.design.reports.spans_section import points_section, present_section
from gapwatch.design.reports.summary import summary
from gapwatch.design.stage import Design

#: Labels of key figures whose JSON key alone is unclear.
_LABELS = {
    "own_import_rate": "share of the repository's own imports that lead to a file",
    "own_imports_lost": "imports of the repository's own files that lead to none",
    "component_edges": "edges between components",
    "edges_verified_share": "share of verified edges",
    "nodes_pruned": "components pruned",
    "nodes_missing": "files with patterns and without a component",
    "metrics": "metrics, with the judges that wait for a model",
    "metrics_exported": "metrics of portfolio.yaml",
    "metrics_dropped": "metrics rejected",
    "passed": "metrics passed",
    "flagged": "metrics flagged",
    "integration_points": "spans to emit",
    "spans_there": "spans that the code names already",
    "libraries_instrumented": "lines that turn the calls of libraries into spans",
    "metrics_answered": "metrics that the spans of today answer",
    "metrics_partly_answered": "metrics that the spans of today answer in part",
    "spans_first": "spans of the first step",
    "metrics_of_first": "metrics that the first step serves",
}
#: Unread paths that the report lists one by one; the rest is a count.
_MOST_SKIPPED = 40


def design_document(design: Design) -> Document:
    """Build the report of a design; the same design gives the same document."""
    parts = (
        _head,
        _metrics,
        _questions,
        _judges,
        _components,
        _edges,
        present_section,
        points_section,
        _shelf,
        left_out_section,
        _refused,
        _reading,
    )
    sections = (tuple(part(design)) for part in parts)
    return Document(f"Monitoring design for {design.name}", tuple(section for section in sections if section))


def _table(head: tuple[str, ...], rows: Iterable[tuple[Inline | Words, ...]], look: str = "") -> Table:
    made = (tuple(cell if isinstance(cell, tuple) else (cell,) for cell in row) for row in rows)
    return Table(head, tuple(made), look)


def _text(*words: Inline, look: str = "") -> Paragraph:
    return Paragraph(words, look)


def _title(text: str, level: int = 2) -> Heading:
    return Heading(level, (text,))


def _codes(texts: Iterable[str], most: int) -> Codes:
    return Codes(tuple(texts), most)


def _all(texts: list[str]) -> Codes:
    return _codes(texts, len(texts))


def _spaced(text: str) -> str:
    return text.replace("_", " ")


def _head(design: Design) -> Iterator[Block]:
    yield _title(f"Monitoring design for {design.name}", 1)
    if design.goal:
        yield _text(f"Goal: {design.goal}", look="goal")
    yield _text(
        f"Design {design.version}. Read from the code only: Gapwatch asked no model and used no network.", look="sub"
    )
    yield from notices_section(design)
    yield from _numbers(design)


def _numbers(design: Design) -> Iterator[Block]:
    s = summary(design)
    confidence = f"confidence {s['overall_confidence']:g}, lowest {s['lowest_confidence']:g}"
    metrics = f"{s['judges']} judge{'s' * (s['judges'] != 1)} designed, {s['metrics_dropped']} metrics rejected"
    first = f"the first {s['spans_first']} serve {s['metrics_of_first']} metrics"
    calls = f"of {s['call_sites']:,} in {s['files']:,} files, {s['lines']:,} lines"
    tiles = (
        (f"{s['components']}", "components", confidence),
        (f"{s['edges_verified_share']:.0%}", "edges verified", f"of {s['component_edges']}; others are inferred"),
        (f"{s['metrics_exported']}", "metrics", metrics),
        (f"{s['open_questions']}", "open questions", "only you can answer"),
        (f"{s['integration_points']}", "spans to emit", first),
        (f"{s['resolution_rate']:.1%}", "calls resolved", calls),
    )
    yield Tiles(tiles)
    causes = ", ".join(f"{cause} {count}" for cause, count in s["unresolved_by_cause"].items()) or "none"
    rows = (
        (_LABELS.get(name, _spaced(name)), str(value)) for name, value in (s | {"unresolved_by_cause": causes}).items()
    )
    yield Fold(_title("All numbers"), (_table(("number", "value"), rows),), look="component")


def _components(design: Design) -> Iterator[Block]:
    yield _title("Components")
    yield Graph(design.architecture)
    if left := folded(design.architecture).left_out:
        yield _text(f"{left} edges lie inside of a box or are not drawn; all are in the table below.", look="sub")
    for c in design.architecture.components:
        aside = (Badge(c.kind), Badge(c.priority), Badge(f"confidence {c.confidence:g}", "conf"), c.description)
        title = Heading(3, (c.name, " ", Code(c.id)))
        yield Fold(title, (_facts(design, c),), f"c-{c.id}", aside, f"component {c.role}")
    missing = design.architecture.missing
    if missing:
        yield _title("Files with patterns that no component holds", 3)
        yield _table(("file", "salience", "reason"), ((Code(m.path), f"{m.salience:g}", m.why) for m in missing))
    for c in design.architecture.pruned:
        yield _text("Pruned: ", Code(c.id), f", confidence {c.confidence:g}: {'; '.join(c.issues)}")


def _facts(design: Design, c: ComponentDraft) -> Table:
    metrics = [m.name for m in design.metrics if c.id in m.owners]
    offline = "online and offline" if c.is_offline_evaluable else "online only"
    rows: list[tuple[Inline | Words, ...]] = [
        ("role", c.role),
        (
            "stage, pattern",
            f"{c.stage or 'none'}, {c.pattern} ({c.reasoning}; confidence {c.classification_confidence:g})",
        ),
        ("AI behaviour", _spaced(", ".join(c.semantics)) or "none"),
        ("silent failure", (Badge(c.silent_failure, f"risk {c.silent_failure}"), f": {c.silent_because}")),
        ("effect on the user", c.user_facing_failure),
        ("measurement", f"{c.measured}; {offline}; fit to its stage: {c.alignment}"),
        ("files", _codes(c.files, 8)),
        ("patterns", _codes((f"{h.pattern} {h.path}:{h.line}" for h in c.hits), 6) if c.hits else "none"),
        ("metrics", _codes(metrics, 12) if metrics else "none"),
    ]
    if c.tiers:
        rows.insert(2, ("internal structure", tuple(_tiers(c))))
    if c.issues:
        rows.append(("critic", "; ".join(c.issues)))
    return _table((), rows, "facts")


def _tiers(c: ComponentDraft) -> Iterator[Inline]:
    for position, tier in enumerate(c.tiers):
        yield "; " if position else ""
        yield Badge(tier.id, f"tier {tier.by}")
        yield f" {'LLM' if tier.by == 'llm' else 'rule'} "
        yield Code(str(tier.place))


def _edges(design: Design) -> Iterator[Block]:
    edges = design.architecture.edges
    if not edges:
        return
    yield _title("Edges")
    yield _table(
        ("from", "to", "label", "status", "because", "evidence"),
        ((Code(e.src), Code(e.dst), e.label, _status(e.verification), e.because, Code(e.evidence[0])) for e in edges),
    )


def _status(verification: str) -> Inline:
    return Strong(verification) if verification == "verified" else verification


def _questions(design: Design) -> Iterator[Block]:
    yield _title("Questions")
    if not design.open_questions:
        yield _text("No question is open.")
        return
    command = Code("gapwatch design answer REPO QUESTION VALUE --by NAME")
    again = f", then run gapwatch design again{', with the same goal' if design.goal else ''}. If that has "
    where = (Code("--out DIR"), ", give it to the answers, too.")
    yield _text("Answer with ", command, again, *where, look="sub")
    stale = tuple(
        (("Fact ", Code(f.id), " answers ", Code(f.question or ""), ", a question that the code no longer raises."),)
        for f in design.stale_facts
    )
    yield Listing((*map(_question, design.open_questions), *stale), "questions")


def _question(q: QuestionDraft) -> tuple[Words, ...]:
    options = _all(q.options) if q.options else q.answer_type
    decides = _codes(q.decides, 6) if q.decides else "which metrics exist"
    return (
        (Code(q.id), " ", Strong(q.text)),
        (f"Why: {q.why}.",),
        ("Answer: ", options, f". Assumed until you answer: {q.default}."),
        ("Affects: ", decides, "."),
    )


def _metrics(design: Design) -> Iterator[Block]:
    yield _title("Metrics")
    yield _table(
        ("metric", "purpose", "claim, as in the portfolio", "concern", "better", "alert", "evidence"),
        (
            (Code(m.name), _purpose(m), _claim(m), _spaced(m.concern), _better(m), _alert(m), _codes(m.evidence, 2))
            for m in design.metrics
            if m.source != "judge"
        ),
        "metrics",
    )


def _claim(m: MetricDesign) -> Words:
    """Return claim, condition and limit in the words of the portfolio."""
    words: list[Inline] = [Code(_flow(m.claim))]
    if m.when is not None and m.claim["form"] != "ratio":
        words += [" when ", Code(_flow(_shortened(m.when)))]
    if m.limit_place is not None:
        words += [" limit from ", Code(str(m.limit_place))]
    return tuple(words)


#: Names of spans that a condition lists in the report; the portfolio has all.
_MOST_NAMES = 4


def _shortened(value: object) -> object:
    if isinstance(value, dict):
        return {k: _shortened(v) for k, v in value.items()}
    if isinstance(value, list) and len(value) > _MOST_NAMES + 1 and all(isinstance(v, str) for v in value):
        return [*value[:_MOST_NAMES], f"and {len(value) - _MOST_NAMES} more"]
    return [_shortened(v) for v in value] if isinstance(value, list) else value


def _flow(value: object) -> str:
    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    text: str = yaml.dump(
        value, Dumper=dumper, default_flow_style=True, sort_keys=False, allow_unicode=True, width=10_000
    )
    return text.strip()


def _better(m: MetricDesign) -> str:
    if m.better == "unknown":
        return f"unknown ({_spaced(m.of)})"
    return f"{m.better} {_spaced(m.of)}{'' if m.direction_verdict == 'verified' else ' (unverified)'}"


def _alert(m: MetricDesign) -> Badge:
    return Badge(m.severity, f"sev {m.severity}") if m.severity else Badge("none", "none")


def _purpose(m: MetricDesign) -> str:
    return f"{m.purpose}. Valid when {m.valid_when}." if m.valid_when else f"{m.purpose}."


def _judges(design: Design) -> Iterator[Block]:
    judges = [m for m in design.metrics if m.source == "judge"]
    if not judges:
        return
    yield _title("Judges")
    yield _text("Drafted from the prompts and from the answer fields that the code reads.", look="sub")
    if not design.judge_model:
        asked, option = Code("q-pipeline-judge-model"), Code("--judge-model")
        yield _text("Not exported until you name a model: answer ", asked, ", or pass ", option, ".", look="sub")
    rows = []
    for m in judges:
        rubric = m.claim["rubric"]
        monitors = _codes(m.monitors, 8) if m.monitors else "no metric"
        rows.append((Code(m.name), Code(m.tier), _marked(rubric["criterion"]), _codes(rubric["inputs"], 8), monitors))
    yield _table(("metric", "tier", "criterion", "inputs", "monitored between judgements by"), rows, "judges")


def _marked(text: str) -> Words:
    """Return a text with the parts between backticks as code."""
    return tuple(Code(part) if i % 2 else part for i, part in enumerate(text.split("`")))


#: Metrics on the shelf that the report lists.
_MOST_SHELVED = 60


def _shelf(design: Design) -> Iterator[Block]:
    selection = design.selection
    if not selection.shelf:
        return
    yield _title("Shelf")
    command = Code("gapwatch design add REPO METRIC --by NAME")
    yield _text(
        f"{len(selection.shelf)} more metrics passed the critic. A portfolio holds the few that "
        "would catch most: what a user notices and nothing else tells, few of a kind and component. Add one with ",
        command,
        ", or all with ",
        Code("--all"),
        ". Give both the --out of this design.",
        look="sub",
    )
    if selection.came_in or selection.went_out:
        came, went = (_codes(names, 12) if names else "none" for names in (selection.came_in, selection.went_out))
        yield _text("The goal brought in: ", came, ". For them went out: ", went, ".")
    rows = ((Code(s.metric.name), f"{s.metric.purpose}.", s.why) for s in selection.shelf[:_MOST_SHELVED])
    yield _table(("metric", "purpose", "why it is here"), rows)
    if len(selection.shelf) > _MOST_SHELVED:
        yield _text(f"And {len(selection.shelf) - _MOST_SHELVED} more.")


def _refused(design: Design) -> Iterator[Block]:
    yield _title("Rejected, flagged and missing metrics")
    critique = design.critique
    flagged = [v for v in critique.reviews if v.status != "pass"]
    counted = f"Metrics rejected: {len(design.dropped)}; kept with a flag: {len(flagged)}; passed: "
    issues = len(critique.cross_component_issues)
    yield _text(f"{counted}{len(critique.reviews) - len(flagged)}. Issues across components: {issues}.", look="sub")
    found = [(m.name, f"rejected: {', '.join(v.rules)}", v.reasoning, "") for m, v in design.dropped]
    # A metric without a judge beside it stays: what the critic says of metrics that were kept is a flag.
    found += [(v.metric, f"kept, flagged: {', '.join(v.rules)}", v.reasoning, v.suggested_fix or "") for v in flagged]
    found += [(i.component, "component", i.issue, i.suggestion) for i in critique.cross_component_issues]
    found += [(g.metric, "not monitored", g.missing, g.fix) for g in design.gaps]
    found += [("", "refused operation", line, "") for line in design.refused_operations]
    alike: dict[tuple[str, str, str], list[str]] = {}
    for name, *told in found:
        alike.setdefault((told[0], told[1], told[2]), []).append(name)
    rows = ((_all([n for n in names if n]), *told) for told, names in alike.items())
    yield _table(("metric or component", "rule", "reason", "fix"), rows) if found else _text("None.")


def _reading(design: Design) -> Iterator[Block]:
    rows: list[tuple[Inline, str]] = [(Code(s.path), s.reason) for s in design.skipped[:_MOST_SKIPPED]]
    for r in design.readings:
        if r.errors:
            first, last = r.errors[0]
            more = f", and {len(r.errors) - 1} more places" if len(r.errors) > 1 else ""
            rows.append((Code(r.path), f"lines {first}-{last} cannot be parsed{more}"))
    rows += [
        (f"{language}, files: {count:,}", "Gapwatch reads Python only") for language, count in design.unread.items()
    ]
    yield _title("Files not read")
    yield _table(("path", "reason"), rows) if rows else _text("Every file was read.")
    if len(design.skipped) > _MOST_SKIPPED:
        yield _text(f"{len(design.skipped) - _MOST_SKIPPED} more paths were not read.")
