"""Several judges of one question: the average of those that answered, where enough of them did (GRAFITE)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gapwatch.scorers.judges.scale import PASSING_POSITION

#: Name of the ensemble's own row and series, beside those of its members.
ENSEMBLE = "ensemble"


@dataclass(frozen=True)
class Vote:
    """What one member said.

    Attributes:
        judge: Its name.
        state: pass, fail, error, shed_budget or shed_load.
        position: On the scale, from 0 to 1; None where it gave no verdict.
    """

    judge: str
    state: str
    position: float | None


@dataclass(frozen=True)
class EnsembleVerdict:
    """What the ensemble says.

    Attributes:
        state: pass, fail or error; shed_budget where every member was shed.
        score: Average position, from 0 to 1; None without a decision.
        reason: Why there is none.
        left_out: Members without a verdict.
    """

    state: str
    score: float | None
    reason: str | None
    left_out: tuple[str, ...]


def decide(votes: Sequence[Vote], quorum: int) -> EnsembleVerdict:
    """Return the ensemble's decision: pass when the average is over half of the scale; a tie fails.

    Args:
        votes: One a member.
        quorum: How many must have answered.
    """
    said = [vote.position for vote in votes if vote.position is not None]
    left_out = tuple(vote.judge for vote in votes if vote.position is None)
    if votes and all(vote.state.startswith("shed_") for vote in votes):
        return EnsembleVerdict(votes[0].state, None, None, left_out)
    if not said or len(said) < quorum:
        return EnsembleVerdict(
            "error", None, f"no_quorum: {len(said)} of {len(votes)} judges answered, {quorum} wanted", left_out
        )
    average = sum(said) / len(said)
    # Averages of thirds and tenths: what is a tie on paper is a tie here.
    passes = average > PASSING_POSITION + 1e-12
    return EnsembleVerdict("pass" if passes else "fail", average, None, left_out)
