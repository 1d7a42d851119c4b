"""Views of a store: verdicts, rates, rates by dimension, failing traces, costs, open alerts.

A view uses only what DuckDB 1.2 has, so that any later command line of DuckDB reads it, and neither `rowid` nor a
Python function, so that it also works over the Parquet files of a snapshot.
"""

from __future__ import annotations

from gapwatch.scorers.slices.tables import GAPS, SERIES, SOURCE
from gapwatch.sinks.catalog.rate_interval import UNDECIDED, rates_sql, with_interval

_SERIES_NAMES = [name for name, _ in SERIES]
_SOURCE_NAMES = [name for name, _ in SOURCE]
_RATE = 'units, bad, unknown, errors, unknown_share, effective_units, rate, "lower", "upper"'

#: Columns that identify a row, except the judge, which may be null and is compared with IS NOT DISTINCT FROM.
_IDENTITY = [*_SOURCE_NAMES, "span_index", "metric", "metric_version"]

#: Breakdowns of a rate that the ticks hold: name, and the level at which they count.
DIMENSIONS = {"release": "unit", "model": "span", "tier": "span"}

#: Columns of a series in `rates_by`. Epochs are summed, because each tick has its own probability.
_BY_SERIES = "lane, pipeline, environment, component, metric, metric_version, judge"

#: Sums over ticks with the columns outcome (good, bad, unknown, error), p, n, and f: the share of a trace that is one
#: count.
_SUMS = f"""coalesce(sum(n) FILTER (outcome IN ('good', 'bad')), 0)::BIGINT AS units,
            coalesce(sum(n) FILTER (outcome = 'bad'), 0)::BIGINT AS bad,
            coalesce(sum(n) FILTER (outcome = 'unknown'), 0)::BIGINT AS unknown,
            coalesce(sum(n) FILTER (outcome = 'error'), 0)::BIGINT AS errors,
            coalesce(sum(n / p) FILTER ({UNDECIDED}), 0) / nullif(sum(n / p), 0) AS unknown_share,
            coalesce(sum(n * f / p) FILTER (outcome = 'bad'), 0)::DOUBLE AS wb,
            coalesce(sum(n * f / (p * p)) FILTER (outcome = 'bad'), 0)::DOUBLE AS wb2,
            coalesce(sum(n * f / p) FILTER (outcome = 'good'), 0)::DOUBLE AS wg,
            coalesce(sum(n * f / (p * p)) FILTER (outcome = 'good'), 0)::DOUBLE AS wg2,
            coalesce(sum(n * f / (p * p * p)) FILTER (outcome IN ('good', 'bad')), 0)::DOUBLE AS w3"""


# Words of `checking.claim_words`; the table holds a claim only in words.
_CANNOT_FAIL = """(claim = 'measure' AND contains(expected, ', no limit'))
                OR (claim = 'composite' AND NOT contains(expected, ' is at least '))
                OR (claim = 'label' AND contains(expected, ' has any value'))"""


def rates_by_sql(period: str, where: str = "true") -> str:
    """Return SQL for failure rates by dimension: all, release, model, tier.

    Ticks count releases in traces, but models and tiers in spans. An interval must not count the spans of one trace as
    so many traces: each span weighs as much as a trace divided by the mean number of spans, as if all spans of a trace
    had the same outcome. Counts without a value of the dimension have a row of their own, with the value null.

    Args:
        period: SQL expression over `bucket` that becomes the column `period`; `NULL::TIMESTAMP` for all times.
        where: SQL condition that selects the ticks.

    Returns:
        A SELECT of the series without its epoch, period, dimension, value, counted (traces or spans), and the columns
        of a rate.
    """
    levels = ", ".join(f"('{name}', '{level}')" for name, level in DIMENSIONS.items())
    keys = f"{_BY_SERIES}, period"
    weighted = _SUMS.replace(" f ", """ CASE WHEN "level" = 'unit' THEN 1.0 ELSE f END """)
    return f"""
    WITH counted AS (
        SELECT {_BY_SERIES}, {period} AS period, "level", facet, "value", p,
            CASE WHEN outcome IN ('pass', 'warn') THEN 'good' WHEN outcome = 'fail' THEN 'bad'
                WHEN outcome = 'skip' THEN 'unknown' ELSE outcome END AS outcome, sum(n) AS n
        FROM ticks
        WHERE (("level" = 'unit' AND facet IN ('all', 'release'))
            OR ("level" = 'span' AND facet IN ('all', 'model', 'tier')))
            AND ({where})
        GROUP BY ALL
    ), share AS (
        SELECT {keys}, least(1.0, coalesce(sum(n) FILTER ("level" = 'unit')
            / nullif(sum(n) FILTER ("level" = 'span'), 0), 1.0)) AS f
        FROM counted WHERE facet = 'all' GROUP BY ALL
    ), dimensions AS (SELECT * FROM (VALUES {levels}) AS d(dimension, "level")
    ), valued AS (
        SELECT {keys}, facet AS dimension, "level", "value", p, outcome, n FROM counted
        WHERE ("level" = 'unit') OR facet <> 'all'
        UNION ALL
        SELECT {keys}, d.dimension, c."level", NULL AS "value", p, outcome,
            sum(CASE WHEN facet = 'all' THEN n ELSE -n END) AS n
        FROM counted c JOIN dimensions d ON d."level" = c."level" AND c.facet IN ('all', d.dimension)
        GROUP BY ALL HAVING sum(CASE WHEN facet = 'all' THEN n ELSE -n END) > 0
    ), sums AS (
        SELECT v.lane, v.pipeline, v.environment, v.component, v.metric, v.metric_version, v.judge, v.period,
            dimension, "value", CASE WHEN "level" = 'unit' THEN 'traces' ELSE 'spans' END AS counted,
            {weighted}
        FROM valued v JOIN share s ON {_same("v", "s", keys)}
        GROUP BY ALL
    )
    SELECT {keys}, dimension, "value", counted, {_RATE} FROM ({with_interval("SELECT * FROM sums")})"""


def component_rates_sql(period: str, where: str = "true") -> str:
    """Return SQL for the failure rate of whole components: all their metrics together.

    The rate is the mean over the metrics, weighted by their traces. For the interval, the metrics of one trace count as
    one trace. Components are ranked by their worst metric: many calm metrics hide it in the mean. Metrics with the
    direction `higher` or `unknown` are left out: their failures are no fault, or may be none. So are metrics that
    cannot fail, such as a measure without a limit.

    Args:
        period: SQL expression over `bucket` that becomes the column `period`; `NULL::TIMESTAMP` for all times.
        where: SQL condition that selects the ticks.
    """
    keys = "lane, pipeline, environment, component, period"
    return f"""
    WITH direction AS (
        SELECT metric, metric_version, arg_max(direction->>'better', recorded_at) AS better,
            bool_or({_CANNOT_FAIL}) AS cannot_fail
        FROM metrics GROUP BY ALL
    ), counted AS (
        SELECT lane, pipeline, environment, component, metric, {period} AS period, outcome, p, sum(n) AS n
        FROM ticks LEFT JOIN direction USING (metric, metric_version)
        WHERE "level" = 'unit' AND facet = 'all' AND coalesce(better, 'lower') NOT IN ('higher', 'unknown')
            AND NOT coalesce(cannot_fail, false) AND ({where})
        GROUP BY ALL
    ), by_metric AS (
        SELECT {keys}, metric, sum(n) FILTER (outcome IN ('good', 'bad')) AS known,
            sum(n / p) FILTER (outcome = 'bad') / sum(n / p) FILTER (outcome IN ('good', 'bad')) AS rate
        FROM counted GROUP BY ALL
    ), share AS (
        SELECT {keys}, coalesce(max(known) / nullif(sum(known), 0), 1.0) AS f, count(*) AS metrics,
            arg_max(metric, rate) AS worst_metric, max(rate) AS worst_rate
        FROM by_metric GROUP BY ALL
    ), sums AS (
        SELECT c.lane, c.pipeline, c.environment, c.component, c.period, s.metrics, s.worst_metric, s.worst_rate,
            {_SUMS}
        FROM counted c JOIN share s ON {_same("c", "s", keys)}
        GROUP BY ALL
    )
    SELECT {keys}, metrics, {_RATE}, worst_metric, worst_rate FROM ({with_interval("SELECT * FROM sums")})"""


def _same(one: str, other: str, columns: str) -> str:
    return " AND ".join(f"{one}.{name} IS NOT DISTINCT FROM {other}.{name}" for name in columns.split(", "))


def _rates_view() -> str:
    series = ", ".join(_SERIES_NAMES)
    columns = 'units, bad, unknown, errors, effective_units, rate, "lower", "upper", unknown_share'
    rows = rates_sql(f"{series}, date_trunc('hour', bucket) AS hour")
    return f"CREATE VIEW rates AS SELECT {series}, hour, {columns} FROM ({rows})"


def _rates_by_view() -> str:
    return f"""CREATE VIEW rates_by AS
    SELECT {_BY_SERIES}, period AS "day", dimension, "value", counted, {_RATE}
    FROM ({rates_by_sql("date_trunc('day', bucket)::TIMESTAMP")})"""


def _component_rates_view() -> str:
    return f"""CREATE VIEW component_rates AS
    SELECT lane, pipeline, environment, component, period AS "week", metrics, {_RATE}, worst_metric, worst_rate
    FROM ({component_rates_sql("date_trunc('week', bucket)::TIMESTAMP")})"""


def _verdicts_view() -> str:
    """Return the DDL of the view `verdicts`: each row with its override, the latest if there are several."""
    replaced = ("outcome", "score", "label", "evidence")
    kept = ", ".join(f"g.{name}" for name in GAPS.names if name not in replaced)
    same = " AND ".join(f"o.{name} = g.{name}" for name in _IDENTITY)
    last = ", ".join([*_IDENTITY, "judge"])
    return f"""CREATE VIEW verdicts AS
    WITH last_words AS (
        SELECT * FROM overrides
        QUALIFY row_number() OVER (PARTITION BY {last} ORDER BY "at" DESC, override_id DESC) = 1
    ), said AS (
        SELECT * FROM metrics
        QUALIFY row_number() OVER (PARTITION BY portfolio_sha, metric, metric_version ORDER BY recorded_at DESC) = 1
    )
    SELECT g.seq, {kept},
        CASE WHEN o.override_id IS NULL THEN g.outcome ELSE o.outcome END AS outcome,
        CASE WHEN o.override_id IS NULL THEN g.score ELSE o.score END AS score,
        CASE WHEN o.override_id IS NULL THEN g.label ELSE o.label END AS label,
        s.claim, s.concern, s.expected, s.evidence, s.direction, g.evidence AS row_evidence,
        o.override_id IS NOT NULL AS overridden, g.outcome AS scored_outcome,
        o.why AS override_why, o."by" AS override_by, o."at" AS override_at, g.kept_at
    FROM gaps g
    LEFT JOIN last_words o ON {same} AND o.judge IS NOT DISTINCT FROM g.judge
    LEFT JOIN said s ON s.portfolio_sha = g.portfolio_sha AND s.metric = g.metric
        AND s.metric_version = g.metric_version"""


def _failing_traces_view() -> str:
    place = ", ".join(_SOURCE_NAMES)
    same = " AND ".join(f"s.{name} = f.{name}" for name in _SOURCE_NAMES)
    return f"""CREATE VIEW failing_traces AS
    WITH failing AS (
        SELECT *, count(*) OVER each_trace AS failing_spans FROM verdicts WHERE outcome = 'fail'
        WINDOW each_trace AS (PARTITION BY {place}, metric, judge)
        QUALIFY row_number() OVER (PARTITION BY {place}, metric, judge ORDER BY span_index) = 1
    )
    SELECT f.event_at, f.pipeline, f.environment, f."release", f.component, f.metric, f.judge, f.model, f.tier,
        f.session_id, f.trace_id, f.failing_spans, f.span_id, f.observed, f.expected, f.score, f.label, f.reason,
        f.row_evidence, f.p_evaluated, f.p_kept, TRY_CAST(decode(s.record) AS JSON) AS "text", {
        ", ".join(f"f.{name}" for name in _SOURCE_NAMES)
    }
    FROM failing f LEFT JOIN samples s ON {same}
    QUALIFY row_number() OVER (PARTITION BY {
        ", ".join(f"f.{name}" for name in _SOURCE_NAMES)
    }, f.metric, f.judge) = 1"""


_COSTS_VIEW = """CREATE VIEW costs AS
    SELECT date_trunc('day', kept_at)::TIMESTAMP AS "day", 'judge' AS spent_by, pipeline, NULL::VARCHAR AS component,
        metric, judge, model, count(*)::BIGINT AS calls, sum(input_tokens)::BIGINT AS input_tokens,
        sum(output_tokens)::BIGINT AS output_tokens, sum(usd) AS usd
    FROM judge_calls GROUP BY ALL
    UNION ALL
    SELECT date_trunc('day', bucket)::TIMESTAMP AS "day", 'pipeline' AS spent_by, pipeline, component, metric,
        NULL AS judge, NULL AS model, sum(n)::BIGINT AS calls, NULL AS input_tokens, NULL AS output_tokens,
        sum(score_sum / p) AS usd
    FROM ticks SEMI JOIN (
        SELECT metric, metric_version FROM metrics WHERE claim = 'measure' AND expected LIKE '%cost_usd%'
    ) USING (metric, metric_version)
    WHERE "level" = 'span' AND facet = 'all' AND score_sum IS NOT NULL GROUP BY ALL"""


def _alerts_open_view() -> str:
    # In one tick an alert may open, take over the state of its incident, and end.
    last = "(seq, \"at\", state <> 'open', state = 'resolved')"
    names = ", ".join(_SERIES_NAMES)
    return f"""CREATE VIEW alerts_open AS
    WITH steps AS (
        SELECT alert_id, {names}, arg_max(shift_id, {last}) AS shift_id, arg_max(incident_id, {last}) AS incident_id,
            arg_max(state, {last}) AS state, arg_max(severity, {last}) AS severity, min("at") AS found_at,
            max("at") AS changed_at, arg_max("by", {last}) AS changed_by, arg_max(why, {last}) AS why,
            arg_max(attribution->>'until', {last}) AS silenced_until
        FROM alerts GROUP BY ALL
        HAVING arg_max(state, {last}) IN ('open', 'acknowledged', 'silenced')
    ), labels AS (
        SELECT shift_id, arg_max(kind, seq) AS kind, arg_max(verdict, seq) AS verdict, arg_max(moved, seq) AS moved,
            max(question) AS question, arg_max(change_at, seq) AS change_at, arg_max(change_from, seq) AS change_from,
            arg_max(change_to, seq) AS change_to, arg_max(rate_before, seq) AS rate_before,
            arg_max(rate_after, seq) AS rate_after, arg_max("lower", seq) AS "lower", arg_max("upper", seq) AS "upper",
            arg_max(units, seq) AS units
        FROM shifts GROUP BY shift_id
    )
    SELECT alert_id, severity, state, {names}, kind, verdict, moved, question, change_at, change_from, change_to,
        rate_before, rate_after, "lower", "upper", units, found_at, changed_at, changed_by, why, silenced_until,
        incident_id, a.shift_id
    FROM steps a LEFT JOIN labels s ON s.shift_id = a.shift_id"""


_INCIDENTS_OPEN_VIEW = """CREATE VIEW incidents_open AS
    WITH ordered AS (
        SELECT *, min("at") OVER each_incident AS opened_at, row_number() OVER (
            PARTITION BY incident_id ORDER BY seq DESC, "at" DESC, json_array_length(members) DESC) AS place
        FROM incidents WINDOW each_incident AS (PARTITION BY incident_id)
    )
    SELECT incident_id, severity, state, lane, pipeline, environment, name, kind, component, since, since_from,
        since_to, json_array_length(members)::BIGINT AS alerts, opened_at, "at" AS changed_at, "by" AS changed_by,
        why, members, told
    FROM ordered WHERE place = 1 AND state IN ('open', 'acknowledged', 'silenced')"""


def view_statements() -> list[str]:
    """Return the statements that create the views over the tables."""
    return [
        _rates_view(),
        _verdicts_view(),
        _rates_by_view(),
        _component_rates_view(),
        _failing_traces_view(),
        _COSTS_VIEW,
        _alerts_open_view(),
        _INCIDENTS_OPEN_VIEW,
    ]
