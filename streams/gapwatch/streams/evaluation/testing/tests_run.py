"""A run of tests: asks the model, asks the judges, stores each test with its verdicts; an interrupted run goes on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from gapwatch.sinks.issues.issue import Issue, IssueTest
from gapwatch.streams.evaluation.testing.answer_judges import JudgedAnswer, TestJudges, TestVerdict
from gapwatch.streams.evaluation.testing.run_config import TestRunConfig
from gapwatch.streams.evaluation.testing.tested_model import TestedAnswer

#: Stores rows by table, in one transaction.
Append = Callable[[Mapping[str, Sequence[Mapping[str, Any]]]], None]


async def run_tests(
    run_id: str,
    config: TestRunConfig,
    file: Path,
    tests: Sequence[tuple[Issue, IssueTest]],
    append: Append,
    on_done: Callable[[int], None],
) -> None:
    """Ask and judge tests, and store each with all its verdicts.

    Args:
        run_id: Id of the run.
        config: What is tested, and by which judges.
        file: Path of the configuration.
        tests: Tests that have no result in the run yet.
        append: Stores the results of some tests, all or none.
        on_done: Called with the number of stored tests.

    Raises:
        UsageError: The function cannot be imported, or a key is missing.
    """
    model = config.tested(file)
    judges = TestJudges([one.client() for one in config.judges])
    done = 0
    try:
        for begin in range(0, len(tests), config.concurrency):
            some = tests[begin : begin + config.concurrency]
            answers = await model.answers([test for _, test in some])
            rows: dict[str, list[dict[str, Any]]] = {"test_results": [], "test_verdicts": []}
            for (issue, test), answer in zip(some, answers, strict=True):
                rows["test_results"].append(_result(run_id, issue, test, answer))
            for (issue, test), answer in zip(some, answers, strict=True):
                if answer.output is None:
                    continue
                said = await judges.judge(_judged(issue, test, answer.output))
                rows["test_verdicts"] += [_verdict(run_id, test, one) for one in said]
            append({table: part for table, part in rows.items() if part})
            done += len(some)
            on_done(done)
    finally:
        await model.close()
        await judges.close()


def _judged(issue: Issue, test: IssueTest, output: str) -> JudgedAnswer:
    template, guideline = test.setup(issue)
    return JudgedAnswer(template, guideline, test.input_text(), output, test.reference)


def _result(run_id: str, issue: Issue, test: IssueTest, answer: TestedAnswer) -> dict[str, Any]:
    return {
        "run_id": run_id, "test_id": test.test_id, "issue_id": issue.issue_id, "test_sha": test.sha(issue),
        "output": answer.output, "error": answer.error, "seconds": answer.seconds,
    }  # fmt: skip


def _verdict(run_id: str, test: IssueTest, said: TestVerdict) -> dict[str, Any]:
    return {
        "run_id": run_id, "test_id": test.test_id, "judge": said.judge, "outcome": said.outcome, "score": said.score,
        "justification": said.justification, "reason": said.reason,
    }  # fmt: skip
