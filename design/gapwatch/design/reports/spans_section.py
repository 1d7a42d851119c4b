"""Sections of the design report about spans: those that there are, what they answer, and those to emit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from gapwatch.design.emission.patch import make_patch
from gapwatch.design.metrics.spans import VALUES
from gapwatch.design.reports.document import Block, Code, Codes, Fold, Heading, Inline, Paragraph, Table, Words
from gapwatch.design.reports.summary import begin_with, spans_in_order
from gapwatch.design.stage import Design

#: Spans that there are that the report lists one by one.
_MOST_SPANS = 60
#: Reasons that are shown of a metric that today's spans do not answer.
_MOST_REASONS = 3
#: Lines to write that the report lists; a patch holds all.
_MOST_LINES = 80


def _answered(whole: int, part: int, every: int) -> str:
    if not whole and not part:
        return f"none of the {every} metrics yet"
    return f"{whole} of {every} metrics" + (f", and {part} in part" if part else "")


def present_section(design: Design) -> Iterator[Block]:
    """Yield the spans that the program emits already, and for each metric whether they answer it."""
    spans, libraries = design.instrumentation.spans, design.instrumentation.libraries
    if not spans and not libraries:
        return
    metrics = [m for m in design.metrics if m.is_exported]
    count = Counter(m.is_answered for m in metrics)
    yield _title("Spans that there are")
    yield Paragraph(
        (
            f"The code names {len(spans)} spans, and {len(libraries)} lines turn the calls of libraries into spans. "
            f"They answer {_answered(count['yes'], count['partly'], len(metrics))}. The part ",
            Code("spans"),
            " of the portfolio gives them their components.",
        ),
        "sub",
    )
    yield _table(
        ("metric", "answered", "by the spans of", "what is missing"),
        [
            (
                Code(m.name),
                m.is_answered,
                Codes(tuple(m.answered), 4) if m.answered else "none",
                "; ".join(dict.fromkeys(list(m.unanswered.values())[:_MOST_REASONS])) or "nothing",
            )
            for m in metrics
        ],
    )
    component = {r.evidence: r.component for r in design.present.rules if "span" in r.conditions}
    rows: list[tuple[Inline | Words, ...]] = [
        (
            Code(s.names[0]),
            s.library,
            s.kind or "any",
            Code(str(s.place)),
            Code(s.literal if s.is_native else component.get(str(s.place), "")),
        )
        for s in spans[:_MOST_SPANS]
    ]
    if rows:
        more = f", the first {_MOST_SPANS} of {len(spans)}" if len(spans) > _MOST_SPANS else ""
        table = _table(("span", "by", "kind", "named at", "component"), rows)
        yield Fold(_title(f"All spans with a name in the code{more}", 3), (table,), look="component")
    if libraries:
        yield _table(
            ("spans of calls of", "by", "because of"),
            [(Codes(one.libraries, 6), one.by, Code(str(one.place))) for one in libraries],
        )


def points_section(design: Design) -> Iterator[Block]:
    """Yield the spans to emit."""
    yield _title("Spans to emit")
    if not design.points:
        yield Paragraph(("None: the spans that there are answer every metric.",))
        return
    yield Paragraph(("Emit one span around the body of each function, with these fields. ", begin_with(design)), "sub")
    for title, points in spans_in_order(design):
        yield _title(title, 3)
        yield _table(
            ("component", "span", "kind", "function at", "fields", "metrics that need it"),
            [
                (
                    Code(p.component),
                    Code(p.name),
                    p.kind,
                    Code(str(p.place)),
                    Codes(tuple(p.fields), len(p.fields)),
                    Codes(tuple(p.blind), len(p.blind)),
                )
                for p in points
            ],
            "points",
        )
    yield from _code(design)
    used = {f for p in design.points for f in p.fields}
    yield _title("Values of the fields", 3)
    yield _table(("field", "value"), [(Code(f), value) for f, value in VALUES.items() if f in used])


def _code(design: Design) -> Iterator[Block]:
    """Yield the lines that emit the spans with plain OpenTelemetry, and what they cannot know."""
    patch = make_patch(design.root, design.planned, [r.path for r in design.readings])
    rows: list[tuple[Inline | Words, ...]] = [
        (Code(f"{i.path}:{i.line}"), Code(i.text.strip())) for i in patch.insertions[:_MOST_LINES]
    ]
    rows += [(Code(at), ("around this call: ", Code(words))) for at, words in patch.wrapped[: _MOST_LINES - len(rows)]]
    by_hand = [
        (f"{p.path}:{p.function.line}", name, reason) for p in design.planned for name, reason in p.by_hand.items()
    ]
    if rows:
        yield _title("Code to write", 3)
        run = Code("gapwatch instrument -- python app.py")
        write = Code("gapwatch design REPO --instrument DIR")
        words: Words = ("Each line stands above the named one. ", write, " writes them as a patch, with the module ")
        words += (Code("span_recording"), " that they import; ", run, " emits the same spans without them.")
        yield Paragraph(words, "sub")
        yield _table(("above", "line"), rows, "points")
        if (more := len(patch.insertions) + len(patch.wrapped) - len(rows)) > 0:
            yield Paragraph((f"And {more} more: the patch has them.",))
    if by_hand or patch.left_out:
        yield _title("Fields that only you can write", 3)
        left = [*((at, f"{name}: {reason}") for at, name, reason in by_hand), *patch.left_out]
        yield _table(("at", "why"), [(Code(at), why) for at, why in left])


def _title(text: str, level: int = 2) -> Heading:
    return Heading(level, (text,))


def _table(head: tuple[str, ...], rows: list[tuple[Inline | Words, ...]], look: str = "") -> Table:
    return Table(head, tuple(tuple(c if isinstance(c, tuple) else (c,) for c in row) for row in rows), look)
