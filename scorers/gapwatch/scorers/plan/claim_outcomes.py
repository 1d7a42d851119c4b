"""Outcome of a metric in a row: one byte with outcome and reason, its score, label and stratum."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gapwatch.scorers.plan.codes import DEFERRED, FAIL, NOT_APPLICABLE, PASS, SKIP_OFFSET, WARN, unknown
from gapwatch.scorers.plan.row_values import ABSENT, BlockRows, RowInputs, owner_text
from gapwatch.scorers.plan.truths import Truth, TruthCompiler, number_or_none, shown_field, text_or_none
from gapwatch.scorers.portfolio.claim import CheckClaim, LabelClaim, Limit, MeasureClaim
from gapwatch.scorers.portfolio.field import Field, FieldKind
from gapwatch.scorers.portfolio.metric import Metric
from gapwatch.scorers.portfolio.predicate import Predicate

NOT_IN_LABELS = unknown("not_in_labels")
_NAN = float("nan")

Code = Callable[[BlockRows, int], int]


@dataclass(frozen=True)
class Observed:
    """Value that a row of a metric shows.

    Attributes:
        source: Equal for metrics that show the same.
        is_number: Whether it is a number.
        read: Gives the values of some rows; None where there is none.
    """

    source: tuple[object, ...]
    is_number: bool
    read: Callable[[BlockRows, Sequence[int]], Sequence[str | float | None]]


@dataclass(frozen=True)
class ClaimOutcome:
    """Functions of one metric on a row.

    Attributes:
        code: Gives a code of `gapwatch.scorers.plan.codes`.
        score: Gives the score, NaN for none; None where the claim has no score.
        labels: Gives the label of every row, None for no label; None where the claim has no label.
        stratum: Gives the 1-based position of the first stratum whose `when` is true, 0 for no stratum; None without
            strata.
        observed: Value that a row shows; None where it shows the score or the label.
    """

    code: Code
    score: Callable[[BlockRows, int], float] | None = None
    labels: Callable[[BlockRows], list[str | None]] | None = None
    stratum: Callable[[BlockRows, int], int] | None = None
    observed: Observed | None = None


class ClaimCompiler:
    """Compiles the metrics of one block.

    Args:
        inputs: Registry of the values that they read.
    """

    def __init__(self, inputs: RowInputs) -> None:
        self._inputs = inputs
        self._truths = TruthCompiler(inputs)

    def compile(self, metric: Metric) -> ClaimOutcome:
        """Return the functions of a metric of a loaded portfolio."""
        claim = metric.claim
        if isinstance(claim, CheckClaim):
            outcome = self._check(claim)
        elif isinstance(claim, MeasureClaim):
            outcome = self._measure(claim)
        elif isinstance(claim, LabelClaim):
            outcome = self._label(claim)
        else:
            outcome = ClaimOutcome(lambda rows, i: DEFERRED)
        code = outcome.code
        if metric.when is not None:
            code = _where(self._truths.compile(metric.when), code)
        return ClaimOutcome(code, outcome.score, outcome.labels, self._stratum(metric), outcome.observed)

    def _check(self, claim: CheckClaim) -> ClaimOutcome:
        holds, warns = self._truths.compile(claim.predicate), self._truths.warns(claim.predicate)
        offset = SKIP_OFFSET if claim.optional else 0

        def code(rows: BlockRows, i: int) -> int:
            truth = holds(rows, i)
            if truth is True:
                return PASS if warns is None or warns(rows, i) is True else WARN
            return FAIL if truth is False else truth + offset

        return ClaimOutcome(code, observed=self._observed(claim.predicate))

    def _observed(self, predicate: Predicate) -> Observed:
        field = shown_field(predicate)
        if field is not None:
            return self.observed(field)
        read = self._truths.shown(predicate)
        return Observed(("predicate", id(predicate)), False, lambda rows, places: [read(rows, i) for i in places])

    def observed(self, field: Field) -> Observed:
        """Return the value of a field: its number if it is always a number, else its text."""
        if field.kind is FieldKind.NUMBER:
            number = self._inputs.number(field)
            return Observed((field.text,), True, lambda rows, places: [number_or_none(number(rows, i)) for i in places])
        if field.kind is FieldKind.TEXT:
            of_owner = owner_text(field)
            return Observed((field.text,), False, lambda rows, places: [of_owner(rows.owners[i]) for i in places])
        text = self._inputs.text(field)
        return Observed((field.text,), False, lambda rows, places: [text_or_none(text(rows, i)) for i in places])

    def _measure(self, claim: MeasureClaim) -> ClaimOutcome:
        number, judge = self._inputs.number(claim.field), _against(claim.limit)
        offset = SKIP_OFFSET if claim.optional else 0

        def code(rows: BlockRows, i: int) -> int:
            found = number(rows, i)
            return judge(found) if found.__class__ is float else int(found) + offset

        def score(rows: BlockRows, i: int) -> float:
            found = number(rows, i)
            return found if found.__class__ is float else _NAN

        return ClaimOutcome(code, score=score)

    def _label(self, claim: LabelClaim) -> ClaimOutcome:
        text, bad, labels = self._inputs.text(claim.field), frozenset(claim.bad), claim.labels
        offset = SKIP_OFFSET if claim.optional else 0

        def code(rows: BlockRows, i: int) -> int:
            found = text(rows, i)
            if isinstance(found, int):
                return found + offset
            if found in bad:
                return FAIL
            if labels is not None and found in labels:
                return PASS
            if found == "":
                return ABSENT + offset
            return PASS if labels is None else NOT_IN_LABELS

        texts = self._inputs.texts(claim.field)
        return ClaimOutcome(code, labels=lambda rows: [found or None for found in texts(rows)])

    def _stratum(self, metric: Metric) -> Callable[[BlockRows, int], int] | None:
        if not metric.sample.strata:
            return None
        truths = [self._truths.compile(stratum.when) for stratum in metric.sample.strata]
        return lambda rows, i: next((k for k, truth in enumerate(truths, start=1) if truth(rows, i) is True), 0)


def _where(applies: Truth, code: Code) -> Code:
    return lambda rows, i: code(rows, i) if applies(rows, i) is True else NOT_APPLICABLE


def _against(limit: Limit | None) -> Callable[[float], int]:
    """Return the function that holds a number against a limit."""
    if limit is None:
        return lambda number: PASS
    bound = limit.max if limit.max is not None else limit.min
    assert bound is not None
    inner = bound if limit.warn is None else limit.warn
    if limit.max is not None:
        return lambda number: PASS if number <= inner else WARN if number <= bound else FAIL
    return lambda number: PASS if number >= inner else WARN if number >= bound else FAIL
