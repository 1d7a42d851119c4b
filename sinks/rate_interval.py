"""The published rate of a series with its 95 % interval, as SQL: macros over sums of weighted units, and the view."""

from __future__ import annotations

RATE_MACROS: list[str] = []

RATES_VIEW = """CREATE VIEW rates AS SELECT {series}, date_trunc('hour', bucket) AS hour, sum(n)::BIGINT AS units
    FROM ticks WHERE level = 'unit' AND facet = 'all' GROUP BY ALL"""
