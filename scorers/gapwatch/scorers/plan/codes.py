"""One-byte codes of an outcome with its reason, as the functions of a plan return them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

#: Outcome ids, used for counting; 0 means that the metric does not apply.
NOT_APPLICABLE, PASS, WARN, FAIL, UNKNOWN, SKIP, ERROR, PENDING, SAMPLED_OUT, SHED_LOAD = range(10)
OUTCOME_NAMES = ("", "pass", "warn", "fail", "unknown", "skip", "error", "pending", "sampled_out", "shed_load")
OUTCOME_COUNT = len(OUTCOME_NAMES)

REASONS = (
    "absent",
    "wrong_type",
    "not_json",
    "no_time",
    "not_in_labels",
    "no_model_span",
    "part_unknown",
    "part_not_applicable",
    "exception",
    "timeout",
    "bad_result",
    "unscored",
)
_REASON_ID = {reason: i for i, reason in enumerate(REASONS)}

_UNKNOWN_BASE, _SKIP_BASE, _ERROR_BASE = 10, 40, 70
#: The metric applies, and its outcome is found afterwards: composites, Python scorers, judges.
DEFERRED = 200

_BASES = {UNKNOWN: _UNKNOWN_BASE, SKIP: _SKIP_BASE, ERROR: _ERROR_BASE}


def code(outcome: int, reason: str | None = None) -> int:
    """Return the code of an outcome; unknown, skip and error carry a reason of `REASONS`."""
    if reason is None:
        return {PENDING: 100, SAMPLED_OUT: 101, SHED_LOAD: 102}.get(outcome, outcome)
    return _BASES[outcome] + _REASON_ID[reason]


def unknown(reason: str) -> int:
    """Return the code of an unknown outcome with this reason."""
    return code(UNKNOWN, reason)


#: Turns the code of an unknown into that of a skip, for claims with `optional: true`.
SKIP_OFFSET = _SKIP_BASE - _UNKNOWN_BASE


def _outcome_table() -> npt.NDArray[np.uint8]:
    table = np.zeros(256, dtype=np.uint8)
    table[[PASS, WARN, FAIL]] = [PASS, WARN, FAIL]
    for outcome, base in _BASES.items():
        table[base : base + len(REASONS)] = outcome
    table[100], table[101], table[102] = PENDING, SAMPLED_OUT, SHED_LOAD
    return table


def _reason_table() -> npt.NDArray[np.int16]:
    table = np.full(256, -1, dtype=np.int16)
    for base in _BASES.values():
        table[base : base + len(REASONS)] = np.arange(len(REASONS))
    return table


#: Outcome id of each code, and its index into `REASONS` (-1 for no reason); both of length 256.
OUTCOME_OF_CODE = _outcome_table()
REASON_OF_CODE = _reason_table()
