"""What the report of a design says, once for all writers: found, watched, asked, refused, and why."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gapwatch.design.architecture.model import ComponentDraft
from gapwatch.design.metrics.metric_design import MetricDesign
from gapwatch.design.metrics.questions import QuestionDraft
from gapwatch.design.metrics.spans import VALUES
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
from gapwatch.design.reports.summary import begin_with, spans_in_order, summary
from gapwatch.design.stage import Design

#: Paths that were not read and that the report names one by one.
_MOST_SKIPPED = 40


def design_document(design: Design) -> Document:
    """Build the report of a design; the same design gives the same document."""
    parts = (_head, _components, _edges, _questions, _metrics, _judges, _points, _refused, _reading)
    sections = (tuple(part(design)) for part in parts)
    return Document(f"What to watch in {design.name}", tuple(section for section in sections if section))


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
    yield _title(f"What to watch in {design.name}", 1)
    if design.goal:
        yield _text(f"Goal: {design.goal}", look="goal")
    yield _text(f"Design {design.version}, from the code alone: no model was asked, no network was used.", look="sub")
    if not design.has_model:
        missing = Strong("No call to a model was found.")
        yield _text(missing, " Nothing was guessed: see the first question.", look="notice")
    yield from _numbers(design)


def _numbers(design: Design) -> Iterator[Block]:
    s = summary(design)
    confidence = f"confidence {s['overall_confidence']:g}, lowest {s['lowest_confidence']:g}"
    metrics = f"{s['judges']} judges designed, {s['metrics_dropped']} refused"
    first = f"the first {s['spans_first']} feed {s['metrics_of_first']} metrics"
    calls = f"of {s['call_sites']:,} in {s['files']:,} files, {s['lines']:,} lines"
    tiles = (
        (f"{s['components']}", "components", confidence),
        (f"{s['edges_verified_share']:.0%}", "edges verified", f"of {s['component_edges']}; the rest inferred"),
        (f"{s['metrics_exported']}", "metrics", metrics),
        (f"{s['open_questions']}", "open questions", "only you can answer"),
        (f"{s['integration_points']}", "spans to emit", first),
        (f"{s['resolution_rate']:.1%}", "calls resolved", calls),
    )
    yield Tiles(tiles)
    causes = ", ".join(f"{cause} {count}" for cause, count in s["unresolved_by_cause"].items()) or "none"
    rows = ((_spaced(name), str(value)) for name, value in (s | {"unresolved_by_cause": causes}).items())
    yield Fold(_title("Numbers"), (_table(("what", "value"), rows),), look="component")


def _components(design: Design) -> Iterator[Block]:
    yield _title("Components")
    yield Graph(design.architecture)
    for c in design.architecture.components:
        aside = (Badge(c.kind), Badge(c.priority), Badge(f"confidence {c.confidence:g}", "conf"), c.description)
        title = Heading(3, (c.name, " ", Code(c.id)))
        yield Fold(title, (_facts(design, c),), f"c-{c.id}", aside, f"component {c.role}")
    missing = design.architecture.missing
    if missing:
        yield _title("Files that matter and belong to no component", 3)
        yield _table(("file", "salience", "why"), ((Code(m.path), f"{m.salience:g}", m.why) for m in missing))
    for c in design.architecture.pruned:
        yield _text("Pruned: ", Code(c.id), f", confidence {c.confidence:g}: {'; '.join(c.issues)}")


def _facts(design: Design, c: ComponentDraft) -> Table:
    metrics = [m.name for m in design.metrics if m.component == c.id]
    offline = "also offline" if c.is_offline_evaluable else "at run time only"
    rows: list[tuple[Inline | Words, ...]] = [
        ("role", c.role),
        (
            "stage, pattern",
            f"{c.stage or 'none'}, {c.pattern} ({c.reasoning}; confidence {c.classification_confidence:g})",
        ),
        ("does", _spaced(", ".join(c.semantics)) or "none of the ten AI behaviours"),
        ("fails silently", (Badge(c.silent_failure, f"risk {c.silent_failure}"), f": {c.silent_because}")),
        ("if it is wrong", c.user_facing_failure),
        ("can be measured", f"{c.measured}; {offline}; framework {c.alignment}"),
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
        yield _text("None is open.")
        return
    command = Code("gapwatch design answer REPO QUESTION VALUE --facts facts.yaml")
    yield _text("Answer with ", command, ", then design again.", look="sub")
    stale = tuple(
        (("The fact ", Code(f.id), " answers ", Code(f.question or ""), ", which the code no longer asks."),)
        for f in design.stale_facts
    )
    yield Listing((*map(_question, design.open_questions), *stale), "questions")


def _question(q: QuestionDraft) -> tuple[Words, ...]:
    options = _all(q.options) if q.options else q.answer_type
    decides = _codes(q.decides, 6) if q.decides else "what is measured at all"
    return (
        (Code(q.id), " ", Strong(q.text)),
        (f"Why: {q.why}.",),
        ("Answer: ", options, f". Until then: {q.default}."),
        ("Decides: ", decides, "."),
    )


def _metrics(design: Design) -> Iterator[Block]:
    yield _title("Metrics")
    yield _table(
        ("metric", "for", "concern", "better", "alert", "evidence"),
        (
            (Code(m.name), m.purpose, _spaced(m.concern), _better(m), _alert(m), _evidence(m))
            for m in design.metrics
            if m.source != "judge"
        ),
        "metrics",
    )


def _better(m: MetricDesign) -> str:
    return f"{m.better} {_spaced(m.of)}{'' if m.direction_verdict == 'verified' else ' (unverified)'}"


def _alert(m: MetricDesign) -> Badge:
    return Badge(m.severity, f"sev {m.severity}") if m.severity else Badge("none", "none")


def _evidence(m: MetricDesign) -> Words:
    valid = (f"; says something where {m.valid_when}",) if m.valid_when else ()
    return (_codes(m.evidence, 2), *valid)


def _judges(design: Design) -> Iterator[Block]:
    judges = [m for m in design.metrics if m.source == "judge"]
    if not judges:
        return
    yield _title("Judges")
    yield _text("Made from the prompts and from what the code reads of the answers.", look="sub")
    if not design.judge_model:
        asked, option = Code("q-pipeline-judge-model"), Code("--judge-model")
        yield _text("They wait for a model: answer ", asked, ", or give ", option, ".", look="sub")
    rows = []
    for m in judges:
        rubric = m.claim["rubric"]
        monitors = _codes(m.monitors, 8) if m.monitors else "nothing yet"
        rows.append((Code(m.name), Code(m.tier), rubric["criterion"], _codes(rubric["inputs"], 8), monitors))
    yield _table(("metric", "tier", "criterion", "is shown", "between judgements"), rows, "judges")


def _points(design: Design) -> Iterator[Block]:
    yield _title("What the pipeline must emit")
    yield _text(
        "One span around the body of each function; what it carries, and what is blind without it. ",
        begin_with(design),
        look="sub",
    )
    for title, points in spans_in_order(design):
        yield _title(title, 3)
        yield _table(
            ("component", "span", "kind", "where", "fields", "blind without it"),
            (
                (Code(p.component), Code(p.name), p.kind, Code(str(p.place)), _all(p.fields), _all(p.blind))
                for p in points
            ),
            "points",
        )
    used = {f for p in design.points for f in p.fields}
    yield _title("What the fields hold", 3)
    yield _table(("field", "value"), ((Code(f), value) for f, value in VALUES.items() if f in used))


def _refused(design: Design) -> Iterator[Block]:
    yield _title("Refused, flagged, missing")
    critique = design.critique
    yield _text(f"{critique.overall_assessment}.", look="sub")
    rows = [(Code(m.name), f"refused: {', '.join(v.rules)}", v.reasoning, "") for m, v in design.dropped]
    rows += [
        (Code(v.metric), f"{v.status}: {', '.join(v.rules)}", v.reasoning, v.suggested_fix or "")
        for v in critique.reviews
        if v.status != "pass"
    ]
    rows += [(Code(i.component), "across components", i.issue, i.suggestion) for i in critique.cross_component_issues]
    rows += [(Code(g.metric), "not watched", g.missing, g.fix) for g in design.gaps]
    rows += [(Code(""), "refused operation", line, "") for line in design.refused_operations]
    yield _table(("what", "rule", "why", "fix"), rows) if rows else _text("Nothing was.")


def _reading(design: Design) -> Iterator[Block]:
    rows = [(Code(s.path), s.reason) for s in design.skipped[:_MOST_SKIPPED]]
    for r in design.readings:
        if r.errors:
            first, last = r.errors[0]
            more = f", and {len(r.errors) - 1} more places" if len(r.errors) > 1 else ""
            rows.append((Code(r.path), f"lines {first}-{last} were not understood{more}"))
    yield _title("What could not be read")
    yield _table(("path", "why"), rows) if rows else _text("Everything was read.")
    if len(design.skipped) > _MOST_SKIPPED:
        yield _text(f"{len(design.skipped) - _MOST_SKIPPED} more paths were not read.")
