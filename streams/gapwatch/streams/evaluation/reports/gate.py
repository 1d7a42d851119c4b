"""Gates: bounds on the scores of a run, on which a build may stand."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gapwatch.scorers.errors import UsageError
from gapwatch.streams.evaluation.reports.run_result import EvaluationRun, score_text

#: Name in a gate for the share of calls that gave no output.
ERROR_RATE = "error_rate"
_OPERATORS: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt,
}  # fmt: skip
_GATE = re.compile(r"\s*(?:(lower|upper) bound\s*)?(>=|<=|>|<)\s*(-?[0-9]+(?:\.[0-9]+)?(?:e-?[0-9]+)?)\s*")


@dataclass(frozen=True)
class Gate:
    """Bound on a score.

    Attributes:
        metric: Id of the metric, or `error_rate`.
        text: The bound as written.
        of: The score itself, or the lower or upper bound of its 95 % interval.
        relation: `>=`, `<=`, `>` or `<`.
        value: The bound.
    """

    metric: str
    text: str
    of: str
    relation: str
    value: float

    def missed(self, run: EvaluationRun) -> str | None:
        """Return why a run misses the gate; None if it does not."""
        if self.metric == ERROR_RATE:
            found: float | None = len(run.errors) / len(run.examples)
        else:
            result = run.result(self.metric)
            if result is None:
                return f"{self.metric} was not computed: {run.left_out.get(self.metric, 'it is no metric of the run')}"
            found = result.score if self.of == "score" else result.details.get(self.of)
        told = self.metric if self.of == "score" else f"the {self.of} bound of {self.metric}"
        if found is None:
            return f"{told} has no value, but {self.text} is asked for"
        if _OPERATORS[self.relation](found, self.value):
            return None
        return f"{told} is {score_text(found)}, but {self.relation} {self.value:g} is asked for"


def read_gates(written: Mapping[str, str]) -> list[Gate]:
    """Return the gates of a configuration.

    Raises:
        UsageError: One is no bound.
    """
    return [_read(metric, text) for metric, text in written.items()]


def _read(metric: str, text: str) -> Gate:
    match = _GATE.fullmatch(text)
    if match is None:
        raise UsageError(
            f'gate: {metric}: {text!r} is no bound; write ">= 0.9", or "lower bound >= 0.8" for the lower end of the '
            "95 % interval"
        )
    return Gate(metric, text, match[1] or "score", match[2], float(match[3]))
