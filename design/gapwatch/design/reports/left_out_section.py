"""Section of the design report about code that has no metric because no request is seen to run it."""

from __future__ import annotations

from collections.abc import Iterator

from gapwatch.design.reports.document import Block, Code, Codes, Heading, Inline, Paragraph, Table
from gapwatch.design.stage import Design

#: Rows that the report lists.
_MOST_ROWS = 60
#: Functions and metrics of a row.
_MOST_FUNCTIONS, _MOST_METRICS = 4, 6


def left_out_section(design: Design) -> Iterator[Block]:
    """Yield what is left out as offline or dead code, code of the start and trials, with the way to contradict."""
    files = {path for component in design.architecture.components for path in component.files}
    # What has neither a component nor a metric was never looked at as a part of the pipeline.
    shown = [left for left in design.left_out if left.metrics or left.path in files]
    if not shown:
        return
    yield Heading(2, ("Code that no request runs",))
    yield Paragraph(
        (
            "It has no metric for that reason. If you know better, ",
            Code("gapwatch design add REPO METRIC --by NAME"),
            " takes in a metric of the last column.",
        ),
        "sub",
    )
    functions = {(h.path, h.line): h.symbol.rpartition(".")[2] for h in design.hits}
    rows: list[tuple[Inline, ...]] = []
    for left in shown[:_MOST_ROWS]:
        names = dict.fromkeys(functions.get((p.path, p.line), f"line {p.line}") for p in left.places)
        metrics: Inline = Codes(left.metrics, _MOST_METRICS) if left.metrics else "none"
        rows.append((Code(left.path), Codes(tuple(names), _MOST_FUNCTIONS), left.reason, metrics))
    head = ("file", "functions or lines", "why", "metrics that you can add")
    yield Table(head, tuple(tuple((cell,) for cell in row) for row in rows))
    if (more := len(shown) - _MOST_ROWS) > 0:
        yield Paragraph((f"And {more} more.",))
