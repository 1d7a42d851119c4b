"""Outcomes of a run of tests: judges' mean, a person's word before it; rates with their intervals."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from gapwatch.scorers.errors import UsageError
from gapwatch.scorers.judges.agreement import Estimate, share
from gapwatch.scorers.judges.ensemble import Vote, decide
from gapwatch.sinks.issues.issue import Issue, IssueTest
from gapwatch.sinks.issues.issue_query import read_issues, read_tests
from gapwatch.sinks.reading.query_answer import ask
from gapwatch.sinks.store.store_reader import StoreReader


@dataclass(frozen=True)
class TestOutcome:
    """Outcome of one test of a run.

    Attributes:
        test_id: Id of the test.
        issue: Its issue; None where the store no longer knows it.
        outcome: pass, fail or error.
        mean: Mean of the judges that answered, 0 to 1; None without one.
        verdicts: Each judge's verdict.
        output: The answer; None if there is none.
        error: Why there is none.
        test_sha: Digest of what was asked and how it is judged; None if not known.
        overridden: Who set the outcome, and why; None where the judges did.
        test: The test as it is now; None where the store does not have it.
    """

    __test__ = False  # no test of pytest

    test_id: str
    issue: Issue | None
    outcome: str
    mean: float | None
    verdicts: tuple[dict[str, Any], ...]
    output: str | None
    error: str | None
    test_sha: str | None
    overridden: str | None
    test: IssueTest | None = None

    @property
    def is_split(self) -> bool:
        """True if judges that answered disagree."""
        return len({one["outcome"] for one in self.verdicts} - {"error"}) > 1


@dataclass(frozen=True)
class TestRun:
    """A run of tests with its outcomes.

    Attributes:
        run_id: Id of the run.
        model: What was tested.
        judges: Names of its judges.
        author: Who started it.
        at: When, UTC.
        planned: Ids of its tests.
        outcomes: Outcome by the id of the test, for those that are done.
    """

    __test__ = False

    run_id: str
    model: str
    judges: tuple[str, ...]
    author: str
    at: Any
    planned: tuple[str, ...]
    outcomes: Mapping[str, TestOutcome] = field(default_factory=dict)

    @property
    def failed_calls(self) -> int:
        """Number of judges' calls that failed."""
        return sum(v["outcome"] == "error" for one in self.outcomes.values() for v in one.verdicts)

    @property
    def same_family(self) -> list[str]:
        """Judges of the family of the tested model, which may favour its answers."""
        return [judge for judge in self.judges if family_of(judge) == family_of(self.model)]

    def rate(self, outcomes: Iterable[TestOutcome] | None = None) -> Estimate:
        """Return the pass rate of some outcomes; errors are neither."""
        words = [one.outcome for one in (self.outcomes.values() if outcomes is None else outcomes)]
        return share(words.count("pass"), words.count("pass") + words.count("fail"))

    def by(self, names: Callable[[TestOutcome], Sequence[str]]) -> dict[str, list[TestOutcome]]:
        """Return the outcomes by name, such as by issue; an outcome may have several names."""
        groups: dict[str, list[TestOutcome]] = {}
        for one in self.outcomes.values():
            for name in names(one):
                groups.setdefault(name, []).append(one)
        return dict(sorted(groups.items()))


def issue_names(one: TestOutcome) -> Sequence[str]:
    """Return the title of the issue of an outcome."""
    return [one.issue.title] if one.issue is not None else ["?"]


def domain_names(one: TestOutcome) -> Sequence[str]:
    """Return the domain of an outcome."""
    return [one.issue.domain or "-"] if one.issue is not None else ["-"]


def tag_names(one: TestOutcome) -> Sequence[str]:
    """Return the tags of an outcome."""
    return one.issue.tags if one.issue is not None else ()


def family_of(model: str) -> str:
    """Return the family of a model: the first letters of its name, such as llama."""
    found = re.match(r"[a-z]+", model.rpartition("/")[2].lower())
    return found[0] if found else model.lower()


def list_runs(con: StoreReader) -> list[TestRun]:
    """Return all runs without their outcomes, the earliest first.

    Raises:
        JobError: The store cannot be read.
    """
    sql = """SELECT run_id, model, judges, tests, "by", "at" FROM test_runs
        QUALIFY row_number() OVER (PARTITION BY run_id ORDER BY seq) = 1 ORDER BY seq, run_id"""
    return [
        TestRun(
            row["run_id"],
            row["model"],
            tuple(_loaded(row["judges"])),
            row["by"],
            row["at"],
            tuple(_loaded(row["tests"])),
        )
        for row in ask(con, sql, []).objects()
    ]


def read_run(con: StoreReader, wanted: str) -> TestRun:
    """Return a run with its outcomes.

    Args:
        con: Reader of the store.
        wanted: Id of the run, its beginning if no other has it, or `last`.

    Raises:
        UsageError: There is no such run, or several.
    """
    runs = list_runs(con)
    found = [run for run in runs if run.run_id == wanted] or [run for run in runs if run.run_id.startswith(wanted)]
    if wanted == "last" and runs:
        found = [runs[-1]]
    if not runs:
        raise UsageError("the store has no run of tests yet; gapwatch test run CONFIG makes one")
    if len(found) != 1:
        known = ", ".join(run.run_id for run in runs[-5:])
        what = "several runs begin" if found else "no run begins"
        raise UsageError(f"{what} with {wanted!r}; the latest runs: {known}")
    return _with_outcomes(con, found[0])


def _with_outcomes(con: StoreReader, run: TestRun) -> TestRun:
    issues, tests = read_issues(con), read_tests(con)
    verdicts: dict[str, list[dict[str, Any]]] = {}
    for row in ask(
        con,
        """SELECT test_id, judge, outcome, score, justification, reason FROM test_verdicts WHERE run_id = ?
            QUALIFY row_number() OVER (PARTITION BY test_id, judge ORDER BY seq) = 1 ORDER BY seq""",
        [run.run_id],
    ).objects():
        verdicts.setdefault(row.pop("test_id"), []).append(row)
    said = {
        row["test_id"]: row
        for row in ask(
            con,
            """SELECT test_id, outcome, "by", why FROM test_overrides WHERE run_id = ?
                QUALIFY row_number() OVER (PARTITION BY test_id ORDER BY seq DESC) = 1""",
            [run.run_id],
        ).objects()
    }
    outcomes = {}
    for row in ask(
        con,
        """SELECT test_id, issue_id, test_sha, output, error FROM test_results WHERE run_id = ?
            QUALIFY row_number() OVER (PARTITION BY test_id ORDER BY seq) = 1 ORDER BY seq""",
        [run.run_id],
    ).objects():
        id_ = row["test_id"]
        outcome, mean = _decided(verdicts.get(id_, []))
        word = said.get(id_)
        outcomes[id_] = TestOutcome(
            id_, issues.get(row["issue_id"] or ""), word["outcome"] if word else outcome, mean,
            tuple(verdicts.get(id_, ())), row["output"], row["error"], row["test_sha"],
            f"{word['by']}: {word['why']}" if word else None, tests.get(id_),
        )  # fmt: skip
    return TestRun(run.run_id, run.model, run.judges, run.author, run.at, run.planned, outcomes)


def _decided(verdicts: Sequence[Mapping[str, Any]]) -> tuple[str, float | None]:
    """Return the outcome of some verdicts: their mean above a half passes, a tie fails, without a quorum an error."""
    votes = [Vote(one["judge"], one["outcome"], one["score"]) for one in verdicts]
    if not votes:
        return "error", None
    decision = decide(votes, len(votes) // 2 + 1, None)
    return decision.state, decision.score


def _loaded(value: Any) -> Any:
    return orjson.loads(value) if isinstance(value, str) else value
