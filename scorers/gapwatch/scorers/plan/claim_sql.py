"""Compiles a metric's claim to SQL: outcome and reason in one byte, score, label."""

from __future__ import annotations

from dataclasses import dataclass

from gapwatch.scorers.plan.codes import DEFERRED, FAIL, NOT_APPLICABLE, PASS, SKIP_OFFSET, WARN, unknown
from gapwatch.scorers.plan.field_sql import ABSENT, FieldCompiler
from gapwatch.scorers.plan.predicate_sql import PredicateCompiler
from gapwatch.scorers.plan.sql_text import double, literals
from gapwatch.scorers.portfolio.claim import CheckClaim, LabelClaim, MeasureClaim
from gapwatch.scorers.portfolio.metric import Metric

NOT_IN_LABELS = unknown("not_in_labels")


@dataclass(frozen=True)
class ClaimSql:
    """SQL of one metric on one span or trace.

    Attributes:
        code: A code of `gapwatch.scorers.plan.codes`, never null.
        score: DOUBLE expression, or None where the claim has no score.
        label: VARCHAR expression, or None where the claim has no label.
        stratum: 1-based position of the first stratum whose `when` is true, 0 for no stratum; None without strata.
        observed: Slot kind (o: text, y: number) and expression of the value that a row shows; None where the row shows
            the score or the label.
    """

    code: str
    score: str | None = None
    label: str | None = None
    stratum: str | None = None
    observed: tuple[str, str] | None = None


class ClaimCompiler:
    """Compiles the metrics of one block."""

    def __init__(self, fields: FieldCompiler, predicates: PredicateCompiler) -> None:
        self._fields = fields
        self._predicates = predicates

    def compile(self, metric: Metric) -> ClaimSql:
        """Return the SQL of a metric of a loaded portfolio."""
        claim = metric.claim
        if isinstance(claim, CheckClaim):
            sql = self._check(claim)
        elif isinstance(claim, MeasureClaim):
            sql = self._measure(claim)
        elif isinstance(claim, LabelClaim):
            sql = self._label(claim)
        else:
            sql = ClaimSql(str(DEFERRED))
        code = sql.code
        if metric.when is not None:
            code = f"CASE WHEN {self._predicates.compile(metric.when).truth} THEN {code} ELSE {NOT_APPLICABLE} END"
        return ClaimSql(code, sql.score, sql.label, self._stratum(metric), sql.observed)

    def _check(self, claim: CheckClaim) -> ClaimSql:
        predicate = self._predicates.compile(claim.predicate)
        good = str(PASS)
        if predicate.warn is not None:
            good = f"CASE WHEN {predicate.warn} THEN {PASS} ELSE {WARN} END"
        if predicate.reason is None:
            code = f"CASE WHEN {predicate.truth} THEN {good} ELSE {FAIL} END"
        else:
            rest = _optional(predicate.reason, claim.optional)
            code = f"CASE WHEN {predicate.truth} THEN {good} WHEN NOT {predicate.truth} THEN {FAIL} ELSE {rest} END"
        return ClaimSql(code, observed=self._predicates.seen(claim.predicate))

    def _measure(self, claim: MeasureClaim) -> ClaimSql:
        sql = self._fields.field(claim.field)
        number = sql.readable_number
        outcome = str(PASS)
        if claim.limit is not None:
            outcome = _against_limit(number, claim.limit.max, claim.limit.min, claim.limit.warn)
        rest = _optional(sql.number_reason, claim.optional)
        return ClaimSql(f"CASE WHEN {number} IS NOT NULL THEN {outcome} ELSE {rest} END", score=number)

    def _label(self, claim: LabelClaim) -> ClaimSql:
        sql = self._fields.field(claim.field)
        text = sql.readable_text
        bad = f"WHEN {text} IN ({literals(claim.bad)}) THEN {FAIL} " if claim.bad else ""
        if claim.labels is None:
            good = f"WHEN {text} <> '' THEN {PASS}"
        else:
            good = f"WHEN {text} IN ({literals(claim.labels)}) THEN {PASS} WHEN {text} <> '' THEN {NOT_IN_LABELS}"
        empty = _optional(str(ABSENT), claim.optional)
        rest = _optional(sql.text_reason, claim.optional)
        code = f"CASE {bad}{good} WHEN {text} = '' THEN {empty} ELSE {rest} END"
        return ClaimSql(code, label=f"nullif({text}, '')")

    def _stratum(self, metric: Metric) -> str | None:
        if not metric.sample.strata:
            return None
        cases = [
            f"WHEN {self._predicates.compile(stratum.when).truth} THEN {position}"
            for position, stratum in enumerate(metric.sample.strata, start=1)
        ]
        return f"CASE {' '.join(cases)} ELSE 0 END"


def _optional(reason: str, optional: bool) -> str:
    return f"({reason}) + {SKIP_OFFSET}" if optional else f"({reason})"


def _against_limit(number: str, maximum: float | None, minimum: float | None, warn: float | None) -> str:
    limit = maximum if maximum is not None else minimum
    assert limit is not None
    operator = "<=" if maximum is not None else ">="
    inner = warn if warn is not None else limit
    return (
        f"CASE WHEN {number} {operator} {double(inner)} THEN {PASS} "
        f"WHEN {number} {operator} {double(limit)} THEN {WARN} ELSE {FAIL} END"
    )
