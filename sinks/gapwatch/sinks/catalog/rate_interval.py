"""Failure rate of a series with its 95 % confidence interval, as SQL over sums of weighted units.

A unit that was selected with probability p stands for w = 1 / p units of the process. The rate is Hajek's ratio: the
sum of w over bad units, divided by the sum of w over bad and good units. Its variance is the linearised one. The
effective units are those of a simple random sample of the same variance (Kish's W^2 / W2 if all units are bad, or all
are good).

The limits are Clopper and Pearson's, extended to weights as Fay and Feuer do. The upper limit is a quantile of the beta
distribution with the mean and variance of the rate after one more bad unit, the lower limit after one more good unit.
The added unit weighs sum w^3 / sum w^2, so that heavy units count in proportion to the variance that they bring. Exact
limits are too wide with enough data, so there 0.6 of a bad unit and 0.4 of a good unit are added instead. "Enough" is
a condition on the tested rate, not on the observed one: T expected bad and good effective units. Quantiles are
Paulson's, by the cube root of F: within 1 % for an upper limit; a lower limit is too low by a half for one bad unit, by
7 % for two, by 3 % for three. docs/figures/sinks.md has the measured coverage.

    Sources: Clopper and Pearson, Biometrika 26 (1934); Paulson, Ann. Math. Stat. 13 (1942); Kish, Survey Sampling
    (1965); Fay and Feuer, Statistics in Medicine 16 (1997); Korn and Graubard, Survey Methodology 24 (1998).
"""

from __future__ import annotations

#: SQL condition of ticks that count undecided units: no rate counts them.
UNDECIDED = "outcome IN ('unknown', 'error')"
#: 0.975 quantile of the normal distribution.
_Z = 1.959963984540054
#: Smallest expected number of effective units, bad and good, for the narrow limits. Smaller: intervals too short with
#: few expected failures. Larger: intervals needlessly wide. At 10 the boundary would lie on a round number.
_ENOUGH = 9.9
#: Bad and good parts of the added unit: with few expected units, and with enough.
_FEW_PARTS = (1.0, 0.0)
_ENOUGH_PARTS = (0.6, 0.4)

#: The four limits: name; sum and sum of squares over the counted units; the same over the others; added parts.
_LIMITS = {
    "bad_few": ("wb", "wb2", "wg", "wg2", _FEW_PARTS),
    "bad_enough": ("wb", "wb2", "wg", "wg2", _ENOUGH_PARTS),
    "good_few": ("wg", "wg2", "wb", "wb2", _FEW_PARTS),
    "good_enough": ("wg", "wg2", "wb", "wb2", _ENOUGH_PARTS),
}


def _each(template: str) -> str:
    return ", ".join(template.replace("@", name) for name in _LIMITS)


def _with_added_unit() -> str:
    """Return SQL of the sums after the added unit: x over the kind that the limit is for, y over the other kind."""
    columns = []
    for name, (x, x2, y, y2, (part_x, part_y)) in _LIMITS.items():
        columns += [
            f"{x} + {part_x} * w AS x_{name}",
            f"{x2} + {part_x} * w * w AS x2_{name}",
            f"{y} + {part_y} * w AS y_{name}",
            f"{y2} + {part_y} * w * w AS y2_{name}",
        ]
    return ", ".join(columns)


def _most(kind: str) -> str:
    """Return SQL that joins the limits for few and for enough expected units into the upper limit of a kind's share.

    The effective units include the added unit. Without it they would be too many if no heavy unit happened to be bad.
    """
    few, enough, units = f"q_{kind}_few", f"q_{kind}_enough", f"(k_{kind}_few * (x_{kind}_few + y_{kind}_few) - 1)"
    seam = f"({_ENOUGH} / greatest({units}, 1e-9))"
    return f"""CASE WHEN {few} <= {seam} OR {few} > 1 - {seam} THEN {few}
        ELSE greatest({enough}, least({few}, {seam})) END"""


def with_interval(sums: str) -> str:
    """Return SQL that adds `effective_units`, `rate`, `lower` and `upper` to a relation of sums.

    Args:
        sums: A SELECT with the columns `wb`, `wb2` (sum of w and of w^2 over bad units), `wg`, `wg2` (over good units)
            and `w3` (sum of w^3 over both); other columns pass through.

    Returns:
        A SELECT. All four columns are null without a unit. `lower` is 0 if no unit is bad, `upper` is 1 if all are.
    """
    return f"""
    WITH summed AS ({sums}),
    measured AS (
        SELECT *, wb / nullif(wb + wg, 0) AS rate, w3 / nullif(wb2 + wg2, 0) AS w,
            CASE WHEN wb > 0 AND wg > 0 THEN wb * wg * (wb + wg) * (wb + wg) / (wg * wg * wb2 + wb * wb * wg2)
                ELSE (wb + wg) * (wb + wg) / nullif(wb2 + wg2, 0) END AS effective_units
        FROM summed
    ),
    added AS (SELECT *, {_with_added_unit()} FROM measured),
    shaped AS (
        SELECT *, {_each("x_@ * y_@ * (x_@ + y_@) / nullif(y_@ * y_@ * x2_@ + x_@ * x_@ * y2_@, 0) AS k_@")} FROM added
    ),
    roots AS (
        SELECT *, {_each("1 / nullif(9 * k_@ * x_@, 0) AS a_@")}, {_each("1 / nullif(9 * k_@ * y_@, 0) AS b_@")}
        FROM shaped
    ),
    solved AS (
        SELECT *, {_each(f"pow(1 - b_@, 2) - {_Z * _Z} * b_@ AS d_@")},
            {
        _each(
            f"sqrt(greatest(pow((1 - a_@) * (1 - b_@), 2) - (pow(1 - a_@, 2) - {_Z * _Z} * a_@)"
            f" * (pow(1 - b_@, 2) - {_Z * _Z} * b_@), 0)) AS e_@"
        )
    }
        FROM roots
    ),
    quantiles AS (
        SELECT *, {
        _each(
            "CASE WHEN rate IS NULL THEN NULL WHEN d_@ > 0 THEN 1 - y_@ / (y_@ + x_@"
            " * pow(((1 - a_@) * (1 - b_@) + e_@) / d_@, 3)) ELSE 1 END AS q_@"
        )
    }
        FROM solved
    ),
    joined AS (
        SELECT *, {_most("bad")} AS most_bad, {_most("good")} AS most_good
        FROM quantiles
    )
    SELECT * EXCLUDE (w, most_bad, most_good, {_each("x_@, x2_@, y_@, y2_@, k_@, a_@, b_@, d_@, e_@, q_@")}),
        CASE WHEN rate IS NULL THEN NULL WHEN wb = 0 THEN 0 ELSE least(1 - most_good, rate) END AS "lower",
        CASE WHEN rate IS NULL THEN NULL WHEN wg = 0 THEN 1 ELSE greatest(most_bad, rate) END AS "upper"
    FROM joined"""


def rates_sql(groups: str, where: str = "true", source: str = "ticks") -> str:
    """Return SQL for the failure rates of units with confidence intervals, one row for each group.

    Args:
        groups: Columns of `ticks` and named expressions over them that form the groups.
        where: SQL condition that selects the ticks.
        source: Relation that holds the ticks.

    Returns:
        A SELECT of the groups and of units (good and bad), bad, unknown, errors (units without a verdict, because a
        judge or scorer failed), unknown_share (weighted share of undecided units, unknown or error, among all),
        effective_units, rate, lower, upper.
    """
    known, bad, good = "outcome IN ('good', 'bad')", "outcome = 'bad'", "outcome = 'good'"
    sums = f"""
        SELECT {groups},
            coalesce(sum(n) FILTER ({known}), 0)::BIGINT AS units,
            coalesce(sum(n) FILTER ({bad}), 0)::BIGINT AS bad,
            coalesce(sum(n) FILTER (outcome = 'unknown'), 0)::BIGINT AS unknown,
            coalesce(sum(n) FILTER (outcome = 'error'), 0)::BIGINT AS errors,
            coalesce(sum(n / p) FILTER ({UNDECIDED}), 0) / nullif(sum(n / p), 0) AS unknown_share,
            coalesce(sum(n / p) FILTER ({bad}), 0)::DOUBLE AS wb,
            coalesce(sum(n / (p * p)) FILTER ({bad}), 0)::DOUBLE AS wb2,
            coalesce(sum(n / p) FILTER ({good}), 0)::DOUBLE AS wg,
            coalesce(sum(n / (p * p)) FILTER ({good}), 0)::DOUBLE AS wg2,
            coalesce(sum(n / (p * p * p)) FILTER ({known}), 0)::DOUBLE AS w3
        FROM {source} WHERE level = 'unit' AND facet = 'all' AND ({where}) GROUP BY ALL"""
    return f"SELECT * EXCLUDE (wb, wb2, wg, wg2, w3) FROM ({with_interval(sums)})"
