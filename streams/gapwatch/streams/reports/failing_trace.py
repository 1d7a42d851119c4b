"""One failing trace in its own words: the texts of failing spans, with the metrics that fail on them."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from gapwatch.scorers.portfolio.claim import CheckClaim
from gapwatch.scorers.portfolio.polarity import is_cascade
from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.scorers.printable import shown
from gapwatch.sinks.reading.failing_excerpt import failing_excerpt
from gapwatch.sinks.reading.pipeline_results import FailingTrace
from gapwatch.sinks.store.transaction import Connection

#: Failing spans of an excerpt, and characters of each.
_SPANS, _CHARACTERS = 3, 220


def metrics_on_texts(portfolio: Portfolio, alerted: Sequence[str]) -> list[str]:
    """Return the metrics whose failures a text shows.

    Args:
        portfolio: Portfolio of the metrics.
        alerted: Metrics with an open alert, the most urgent first; they come first.
    """
    checks = [m.name for m in portfolio.metrics if isinstance(m.claim, CheckClaim) and not is_cascade(m)]
    return sorted(checks, key=lambda name: alerted.index(name) if name in alerted else len(alerted))


def excerpt_of(
    con: Connection, pipeline: str, traces: Sequence[FailingTrace], metrics: Sequence[str]
) -> tuple[FailingTrace, Table] | None:
    """Return the trace that shows the most failing metrics, with a table of its texts; None if no text is stored.

    Args:
        con: Connection to a store.
        pipeline: Pipeline of the traces.
        traces: Traces to choose from.
        metrics: Names of the metrics that count, the most important first.
    """
    found = [(trace, failing_excerpt(con, pipeline, trace.trace_id, metrics, _SPANS)) for trace in traces]
    trace, spans = max(found, key=lambda one: sum(len(span.failing) for span in one[1]), default=(None, []))
    if trace is None or not spans:
        return None
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for span in spans:
        table.add_row(Text(f"  {shown(span.component, 20)}", "dim"), Text(shown(span.text, _CHARACTERS)))
        for metric, expected in span.failing:
            text = Text("fails ", "red").append(metric, "bold red").append(f": {shown(expected, 150)}", "dim")
            table.add_row(Text(""), text)
    return trace, table
