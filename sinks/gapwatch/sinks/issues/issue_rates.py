"""Failure rate of issues: of their tests, in the latest run that has them."""

from __future__ import annotations

from dataclasses import dataclass

from gapwatch.scorers.judges.agreement import Estimate, share
from gapwatch.sinks.issues.run_outcomes import read_run
from gapwatch.sinks.reading.query_answer import ask
from gapwatch.sinks.store.store_reader import StoreReader


@dataclass(frozen=True)
class IssueRate:
    """Failure rate of one issue.

    Attributes:
        run_id: Latest run with tests of the issue.
        model: What that run tested.
        failing: Share of its decided tests that fail, with Wilson's 95 % interval.
    """

    run_id: str
    model: str
    failing: Estimate


def issue_rates(con: StoreReader) -> dict[str, IssueRate]:
    """Return the failure rate by the id of the issue; issues whose tests were in no run are left out.

    Raises:
        JobError: The store cannot be read.
    """
    sql = """SELECT r.issue_id, arg_max(r.run_id, u.first_seq) AS run_id FROM test_results r
        JOIN (SELECT run_id, min(seq) AS first_seq FROM test_runs GROUP BY run_id) u USING (run_id)
        WHERE r.issue_id IS NOT NULL GROUP BY r.issue_id"""
    latest = {row["issue_id"]: row["run_id"] for row in ask(con, sql, []).objects()}
    runs = {run_id: read_run(con, run_id) for run_id in set(latest.values())}
    rates = {}
    for issue_id, run_id in latest.items():
        run = runs[run_id]
        words = [
            one.outcome for one in run.outcomes.values() if one.issue is not None and one.issue.issue_id == issue_id
        ]
        failed = words.count("fail")
        rates[issue_id] = IssueRate(run_id, run.model, share(failed, failed + words.count("pass")))
    return rates
