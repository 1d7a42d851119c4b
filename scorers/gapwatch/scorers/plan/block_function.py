"""Function that scores the rows of one block: straight-line Python, written for the block's metrics.

A row for which the conditions of all claims hold passes them all, or warns where a claim has a bound for that. For
another row each claim is decided by its condition, or else by the functions of `claim_outcomes`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gapwatch.scorers.plan.claim_outcomes import ClaimOutcome
from gapwatch.scorers.plan.codes import DEFERRED, FAIL, PASS, WARN
from gapwatch.scorers.plan.passing import Conditions
from gapwatch.scorers.plan.row_values import BlockRows
from gapwatch.scorers.portfolio.claim import CheckClaim, LabelClaim, MeasureClaim
from gapwatch.scorers.portfolio.metric import Metric

_NAN = float("nan")


@dataclass(frozen=True)
class BlockFunction:
    """Compiled function of a block with m metrics.

    Attributes:
        source: Its Python source, for people.
        usual: Code of each metric in a row for which all conditions hold.
        scored: Numbers of the metrics that have scores.
        constants: Values of the portfolio that it compares with, by their names in the source.
        run: Takes rows; returns the numbers of those for which not all conditions hold, their codes, and the scores of
            all rows for each metric in `scored`.
    """

    source: str
    usual: bytes
    scored: tuple[int, ...]
    constants: Mapping[str, object]
    run: Callable[[BlockRows], tuple[list[int], bytearray, tuple[list[float], ...]]]

    def codes_and_scores(self, rows: BlockRows) -> tuple[npt.NDArray[np.uint8], dict[int, npt.NDArray[np.float64]]]:
        """Return the codes of n rows, n x m in columns, and the scores by metric number, NaN for no score."""
        others, codes_of_others, scores = self.run(rows)
        codes = np.empty((len(rows.owners), len(self.usual)), np.uint8, order="F")
        codes[:] = np.frombuffer(self.usual, np.uint8)
        if others:
            codes[others] = np.frombuffer(bytes(codes_of_others), np.uint8).reshape(-1, len(self.usual))
        return codes, {m: np.array(values, np.float64) for m, values in zip(self.scored, scores, strict=True)}


def block_function(
    metrics: Sequence[Metric], outcomes: Sequence[ClaimOutcome], conditions: Conditions
) -> BlockFunction:
    """Compile the metrics of one block.

    Args:
        metrics: m metrics.
        outcomes: Their functions.
        conditions: Conditions of the block.
    """
    usual, all_, each, first = [], [], [], []
    unwarned: dict[int, str] = {}
    scored = [m for m, outcome in enumerate(outcomes) if outcome.score is not None]
    on_pass, otherwise = [], []
    for m, (metric, outcome) in enumerate(zip(metrics, outcomes, strict=True)):
        is_decided = isinstance(metric.claim, CheckClaim | MeasureClaim | LabelClaim)
        good = PASS if is_decided else DEFERRED
        usual.append(good)
        code = conditions.constants_name((ClaimOutcome, m), outcome.code)
        wanted = [conditions.passes(metric.claim)] if is_decided else []
        wanted += [conditions.holds(metric.when)] if metric.when is not None else []
        parts = [part for part in wanted if part is not None]
        if len(parts) < len(wanted):
            first.append(f"q{m} = {code}(rows, i)")
            all_.append(f"q{m} == {good}")
            each.append(f"q{m}")
        elif parts:
            condition = " and ".join(parts)
            warns = conditions.warns_else(metric.claim) if metric.when is None else None
            if warns is not None:
                unwarned[m] = condition
            all_.append(condition if warns is None else warns)
            each.append(f"{good} if {condition} else {_rest(metric, conditions)}{code}(rows, i)")
        else:
            each.append(str(good))
        if outcome.score is not None:
            score = conditions.constants_name((float, ("score", m)), outcome.score)
            number = conditions.number(metric.claim.field) if isinstance(metric.claim, MeasureClaim) else None
            is_known = number is not None and len(parts) == len(wanted)
            read = f"{score}(rows, i)"
            if isinstance(metric.claim, MeasureClaim):
                known = conditions.passes(metric.claim.model_copy(update={"limit": None}))
                read = f"{number} if {known} else {read}" if known is not None else read
            otherwise.append(f"x{m}({read})")
            on_pass.append(f"x{m}({number})" if is_known else otherwise[-1])
    warned = [f"{PASS} if {unwarned[m]} else {WARN}" if m in unwarned else str(good) for m, good in enumerate(usual)]
    if unwarned:
        on_pass += [f"if not ({' and '.join(unwarned.values())}):", *_noting(warned, "    ")]
    source = _source(conditions, scored, [*conditions.lines, *first], all_, each, on_pass, otherwise)
    names = dict(conditions.constants)
    values = {name: value for name, value in names.items() if name.startswith("k") and not callable(value)}
    exec(compile(source, "<block of the scoring plan>", "exec"), names)  # noqa: S102 - the source has names alone
    return BlockFunction(source, bytes(usual), tuple(scored), values, names["score_rows"])


def _rest(metric: Metric, conditions: Conditions) -> str:
    """Return the source that decides most rows that do not pass; a metric with a `when` leaves them to its function."""
    if metric.when is not None:
        return ""
    warns, fails = conditions.warns_else(metric.claim), conditions.fails_else(metric.claim)
    return (f"{WARN} if {warns} else " if warns else "") + (f"{FAIL} if {fails} else " if fails else "")


def _noting(codes: Sequence[str], indent: str = "") -> list[str]:
    """Return the lines that note the codes of a row that is not usual."""
    return [f"{indent}others.append(i)", f"{indent}codes += bytes(({', '.join(codes)},))"]


def _source(
    conditions: Conditions,
    scored: Sequence[int],
    lines: Sequence[str],
    all_: Sequence[str],
    each: Sequence[str],
    on_pass: Sequence[str],
    otherwise: Sequence[str],
) -> str:
    columns = "".join(f", {name}" for name in conditions.columns.values())
    lists = "".join(f", rows.{source}" for source in conditions.columns)
    elements = f"(s{columns})" if columns else "s"
    source = f"zip(rows.owners{lists})" if columns else "rows.owners"
    scores = ", ".join(f"scores{m}" for m in scored)
    out = [
        # As defaults the constants are local names, which Python finds faster than global ones.
        f"def score_rows(rows, {', '.join(f'{name}={name}' for name in conditions.constants)}):",
        "    others, codes = [], bytearray()",
        *(f"    scores{m} = []\n    x{m} = scores{m}.append" for m in scored),
        f"    for i, {elements} in enumerate({source}):",
        *(f"        {line}" for line in lines),
    ]
    otherwise = [*_noting(each), *otherwise]
    if all_:
        joined = "\n            and ".join(all_)
        out += [f"        if not (\n            {joined}\n        ):"]
        out += [f"            {line}" for line in otherwise]
        if on_pass:
            out += ["        else:", *(f"            {line}" for line in on_pass)]
    else:
        out += [f"        {line}" for line in on_pass] or ["        pass"]
    out.append(f"    return others, codes, ({scores}{',' if scores else ''})")
    return "\n".join(out) + "\n"


def column_of(rows: BlockRows, read: Callable[[BlockRows, int], Any]) -> list[Any]:
    """Return the values of all rows."""
    return [read(rows, i) for i in range(len(rows.owners))]
