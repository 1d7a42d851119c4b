"""Ensemble of judges: the average of the members that answered, if they reach the quorum (GRAFITE)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gapwatch.scorers.judges.scale import PASSING_POSITION

#: Name of the ensemble's own row and series, beside those of its members.
ENSEMBLE = "ensemble"


@dataclass(frozen=True)
class Vote:
    """Vote of one member.

    Attributes:
        judge: Name of the judge.
        state: pass, fail, error, shed_budget or shed_load.
        position: Position of its verdict on the scale, from 0 (worst) to 1 (best); None without a verdict.
    """

    judge: str
    state: str
    position: float | None


@dataclass(frozen=True)
class EnsembleVerdict:
    """Verdict of the ensemble.

    Attributes:
        state: pass, fail or error; shed_budget or shed_load where every member was shed.
        score: Average position, from 0 to 1; None without a verdict.
        reason: Reason for an error.
        left_out: Members without a verdict.
    """

    state: str
    score: float | None
    reason: str | None
    left_out: tuple[str, ...]


def decide(votes: Sequence[Vote], quorum: int, passes_from: float | None) -> EnsembleVerdict:
    """Return the ensemble's verdict: pass when the average position reaches that of `pass_at`; a tie passes.

    `pass_at` names the last band that passes, so an average exactly there passes. Without it, and on a scale of two
    bands, the average must be above the middle: there a tie fails.

    Args:
        votes: One vote per member.
        quorum: Number of members that must have answered.
        passes_from: Lowest average position that passes, from 0 to 1; None for an average above the middle.
    """
    said = [vote.position for vote in votes if vote.position is not None]
    left_out = tuple(vote.judge for vote in votes if vote.position is None)
    if votes and all(vote.state.startswith("shed_") for vote in votes):
        return EnsembleVerdict(votes[0].state, None, None, left_out)
    if not said or len(said) < quorum:
        return EnsembleVerdict(
            "error", None, f"no_quorum: {len(said)} of {len(votes)} judges answered, {quorum} needed", left_out
        )
    average = sum(said) / len(said)
    # The tolerance makes exact ties (averages of thirds and tenths) ties in floating point, too.
    passes = average > PASSING_POSITION + 1e-12 if passes_from is None else average >= passes_from - 1e-12
    return EnsembleVerdict("pass" if passes else "fail", average, None, left_out)
