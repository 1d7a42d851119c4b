"""What an alert on numbers or labels says of its cause: how much they moved, which parts hold it, which traces."""

from __future__ import annotations

from typing import Any

import numpy as np

from gapwatch.sinks.reading.cause_query import counted_cells, score_sums
from gapwatch.sinks.reading.example_rows import value_examples
from gapwatch.sinks.store.transaction import Connection
from gapwatch.sinks.store.utc_text import utc_text
from gapwatch.streams.alerting.incidents.attribution import (
    EXAMPLES,
    FACETS,
    LEAST_BEFORE,
    PARTS,
    Moved,
    labels,
    new_values,
    noted_near,
    span_of,
)
from gapwatch.streams.alerting.rules.finding import Part
from gapwatch.streams.detectors.grid import quantiles_of_cells

_OTHERS = (0.5, 0.75, 0.95, 0.25, 0.05)
# Two numbers of neighbouring cells are the same.
_TIED = 0.02


def attribute_values(con: Connection, moved: Moved, part: Part) -> dict[str, Any]:
    """Return where a shift of values lies, what was new near it, and example traces; see `attribution.attribute`.

    Args:
        con: In the transaction that holds the ticks up to now.
        moved: Which series, and when.
        part: Which of its values moved.
    """
    found = {
        "shares": {},
        "labels": labels(con, moved) if part.statistic is None else [],
        "new": new_values(con, moved),
        "annotations": noted_near(con, moved),
        "examples": _examples(con, moved, part),
    }
    if part.statistic is None:
        return found
    return {
        **found,
        "shares": {facet: parts for facet in FACETS if (parts := _shares(con, moved, facet))},
        "values": _quantiles(con, moved, part.statistic),
    }


def _quantiles(con: Connection, moved: Moved, wanted: float) -> dict[str, float | None]:
    """Return one quantile of the numbers before and since the change, within half a percent.

    It is the one that is wanted, or, where ties hold that one in its place, the one that moved most.
    """
    before, after = counted_cells(con, span_of(moved))
    found = [{"q": q, "before": _quantile(before, q), "after": _quantile(after, q)} for q in (wanted, *_OTHERS)]
    return found[0] if _moved_by(found[0]) > _TIED else max(found, key=_moved_by)


def _moved_by(quantile: dict[str, float | None]) -> float:
    before, after = quantile["before"], quantile["after"]
    if before is None or after is None or before == after:
        return 0.0
    return abs(after - before) / max(abs(before), abs(after))


def _quantile(cells: dict[int, int], q: float) -> float | None:
    (value,) = quantiles_of_cells(cells, (q,))
    return None if value is None else float(f"{value:.4g}")


def _shares(con: Connection, moved: Moved, facet: str) -> list[dict[str, Any]]:
    """Return the parts with the largest share of what the sum of the numbers is beyond the expected, largest first."""
    rows = score_sums(con, span_of(moved), facet)
    if not rows:
        return []
    before, sum_before, after, sum_after = np.array([row[1:] for row in rows]).T
    whole = sum_before.sum() / before.sum() if before.sum() else 0.0
    expected = np.where(before >= LEAST_BEFORE, sum_before / np.maximum(before, 1.0), whole)
    excess = sum_after - after * expected
    total = float(excess.sum())
    if not total or not np.isfinite(total):
        return []
    shares = excess / total
    return [
        {
            "value": rows[i][0],
            "share": float(shares[i]),
            "units": int(after[i]),
            "mean": float(sum_after[i] / after[i]),
            "before_units": int(before[i]),
            "before_mean": float(sum_before[i] / before[i]) if before[i] else None,
        }
        for i in np.argsort(-shares, kind="stable").tolist()
        if after[i]
    ][:PARTS]


def _examples(con: Connection, moved: Moved, part: Part) -> list[dict[str, Any]]:
    """Return the first traces since the change with a value in the part that moved, of the rows that are kept.

    Where that part shrank, it is those outside of it.
    """
    wanted = part.as_value_part(inside=moved.grew)
    rows = value_examples(con, moved.lane, moved.series, wanted, moved.since, moved.until, EXAMPLES)
    return [
        {"trace_id": trace, "at": utc_text(at), "observed": observed, "release": release}
        for trace, at, observed, release in rows
    ]
