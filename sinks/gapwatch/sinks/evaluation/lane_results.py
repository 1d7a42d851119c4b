"""Rates and rows of one lane, for the report of an evaluation."""

from __future__ import annotations

from typing import Any

from gapwatch.sinks.catalog.rate_interval import rates_sql
from gapwatch.sinks.reading.query_answer import ask
from gapwatch.sinks.store.store_reader import StoreReader


def lane_rates(con: StoreReader, lane: str) -> list[dict[str, Any]]:
    """Return the failure rates of the series of a lane, over all its traces, with the intervals of `gapwatch rates`.

    Returns:
        metric, metric_version, judge, units, bad, unknown, errors, rate, lower, upper; of a metric with several judges
        the series of all of them together is the one without a judge.
    """
    sql = rates_sql("metric, metric_version, judge", "lane = ?")
    return ask(con, f"SELECT * FROM ({sql}) ORDER BY metric, judge NULLS FIRST", [lane]).objects()


def lane_rows(con: StoreReader, lane: str) -> list[dict[str, Any]]:
    """Return the stored rows of a lane: place, metric, judge, outcome, score, band, reason, evidence of judges."""
    sql = """SELECT trace_id, span_id, metric, judge, outcome, score, band, reason,
        CASE WHEN judge IS NOT NULL THEN evidence END AS evidence FROM gaps
        WHERE lane = ? ORDER BY source_offset, span_index, metric, judge NULLS LAST"""
    return ask(con, sql, [lane]).objects()
