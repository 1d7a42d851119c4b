"""Errors of judges are asked again: once each, without counting a span twice, and with the old row still there."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from gapwatch.scorers.errors import JobError, UsageError
from gapwatch.scorers.judges.chat_model import ChatCall, ChatReply, ModelFailure
from gapwatch.scorers.judges.scripted_model import verdict_reply
from gapwatch.sinks.reading.verdict_archive import VerdictArchive
from gapwatch.sinks.store.store import Store
from gapwatch.sinks.verdicts.retries import Retry
from gapwatch.streams.judges.audit.rebuilding import Rebuilder
from tests.gapwatch_command import gapwatch
from tests.scorers.judges.rubrics import judged_metric, portfolio_of
from tests.streams.judges.judged_store import imbalance_of, judge, open_ids, query, scored_store, trace

N = 6
PORTFOLIO = portfolio_of(judged_metric(), budget={"judge_usd_per_week": 5})
OUTCOMES = "SELECT outcome, scored_outcome, override_by, count(*) FROM verdicts GROUP BY ALL ORDER BY ALL"
COUNTS = """SELECT (SELECT list(t ORDER BY t) FROM ticks t), (SELECT list(r ORDER BY r) FROM rates r),
    (SELECT list(l ORDER BY l) FROM (SELECT state, sum(n) FROM ledger WHERE metric IS NOT NULL GROUP BY state) l)"""


def refuses(call: ChatCall) -> ModelFailure:
    return ModelFailure("bad_request", "no such parameter")


def even_only(call: ChatCall) -> ChatReply | ModelFailure:
    """Answers for three of six traces, and refuses the others."""
    if any(f"order {n} " in text for n in (1, 3, 5) for _, text in call.messages):
        return refuses(call)
    return verdict_reply(call, "Good")


def passes(call: ChatCall) -> ChatReply:
    return verdict_reply(call, "Good")


def retried(path: Path, *where: str) -> dict[str, Any]:
    with Store.open(path) as store:
        return Retry.read({"where": list(where), "by": "ann"}).apply(store, datetime.now(UTC))


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = scored_store(tmp_path, PORTFOLIO, [trace(n) for n in range(N)])
    judge(path, PORTFOLIO, even_only, (1e-6, 4e-6))
    assert query(path, OUTCOMES) == [("error", "error", None, 3), ("pass", "pass", None, 3)]
    return path


def test_new_verdicts_override_the_errors_and_no_count_changes(store):
    before = query(store, COUNTS)
    asked = retried(store, "reason=bad_request")
    assert (asked["asked_again"], asked["by_reason"], asked["still_waiting"]) == (3, {"bad_request": 3}, 0)
    (spent,) = query(store, "SELECT sum(usd) / 3 FROM judge_calls WHERE usd > 0")[0]
    assert asked["expected_usd"] == pytest.approx(3 * spent)
    assert asked["budgets"][0]["usd_per_week"] == 5
    assert query(store, COUNTS) == before

    result = judge(store, PORTFOLIO, passes, (1e-6, 4e-6))
    assert result.left == 0
    assert query(store, OUTCOMES) == [("pass", "error", "judge retry", 3), ("pass", "pass", None, 3)]
    assert query(store, COUNTS) == before
    assert query(store, "SELECT count(*) FROM gaps") == [(N,)]
    assert imbalance_of(store) == 0
    assert query(store, 'SELECT text, "by" FROM annotations WHERE "by" = \'ann\'') == [
        ("gapwatch judge retry --where reason=bad_request: 3 requests are asked again", "ann")
    ]
    (why,) = query(store, "SELECT override_why FROM verdicts WHERE overridden LIMIT 1")[0]
    assert "request_sha " in why
    with pytest.raises(UsageError, match="in this store are: none"):
        retried(store, "reason=bad_request")


def test_the_same_command_twice_asks_once(store):
    assert retried(store, "metric=faithful")["asked_again"] == 3
    again = retried(store, "metric=faithful")
    assert (again["asked_again"], again["still_waiting"]) == (0, 3)
    calls: list[ChatCall] = []

    def counted(call: ChatCall) -> ChatReply:
        calls.append(call)
        return passes(call)

    judge(store, PORTFOLIO, counted)
    assert len(calls) == 3


def test_a_retry_that_fails_again_can_be_retried(store):
    before = query(store, COUNTS)
    for _ in range(2):
        assert retried(store, "judge=mini", "since=1h")["asked_again"] == 3
        judge(store, PORTFOLIO, refuses)
        assert query(store, OUTCOMES)[0] == ("error", "error", None, 3)
    assert retried(store, "judge=mini")["asked_again"] == 3
    judge(store, PORTFOLIO, passes)
    assert query(store, OUTCOMES)[0] == ("pass", "error", "judge retry", 3)
    assert query(store, COUNTS) == before


def test_an_unknown_reason_is_refused_with_those_that_exist(store):
    with pytest.raises(UsageError, match=r"'timeout'; the reasons in this store are: bad_request \(3\)"):
        retried(store, "reason=timeout")


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ([], "send `where`"), (["outcome=fail"], "expected NAME=VALUE"), (["reason="], "expected NAME=VALUE"),
        (["reason=a", "reason=b"], "given twice"), (["since=soon"], "is not a time"),
    ],
)  # fmt: skip
def test_wrong_conditions_are_refused(where, said):
    with pytest.raises(UsageError, match=said):
        Retry.read({"where": where, "by": "ann"})


def test_a_stop_in_the_middle_loses_no_retry(store):
    before = query(store, COUNTS)
    retried(store, "reason=bad_request")

    def stop(_: object) -> None:
        raise JobError("stopped")

    with pytest.raises(JobError):
        judge(store, PORTFOLIO, passes, on_batch=stop, provider={"concurrency": 1})
    judge(store, PORTFOLIO, passes)
    assert query(store, OUTCOMES) == [("pass", "error", "judge retry", 3), ("pass", "pass", None, 3)]
    assert query(store, COUNTS) == before
    ((requests, closed),) = query(
        store,
        """SELECT (SELECT count(*) FROM internal.judge_requests), (SELECT count(*) FROM internal.judge_closed)""",
    )
    assert (requests, closed) == (N + 3, N + 3)


def test_a_person_who_decides_meanwhile_is_right(store):
    retried(store, "reason=bad_request")
    row = query(store, "SELECT concat_ws('/', source_topic, source_partition, source_offset, span_index, metric) "
                       "FROM gaps WHERE outcome = 'error' ORDER BY source_offset")[0][0]  # fmt: skip
    assert gapwatch("override", row, "--store", store, "--outcome", "fail", "--why", "wrong", "--by", "bob").status == 0
    judge(store, PORTFOLIO, passes)
    assert query(store, OUTCOMES) == [
        ("fail", "error", "bob", 1), ("pass", "error", "judge retry", 2), ("pass", "pass", None, 3),
    ]  # fmt: skip


def test_an_ensemble_without_a_quorum_is_decided_by_the_retries(tmp_path):
    metric = judged_metric()
    metric["claim"]["judges"] = [{"name": name, "model": f"v/{name}"} for name in ("a", "b", "c")]
    portfolio = portfolio_of(metric)
    path = scored_store(tmp_path, portfolio, [trace(1), trace(2)])
    judge(path, portfolio, refuses)
    before = query(path, COUNTS)
    assert retried(path, "reason=bad_request")["asked_again"] == 6
    judge(path, portfolio, passes)
    rows = query(path, "SELECT judge, outcome, scored_outcome, count(*) FROM verdicts GROUP BY ALL ORDER BY ALL")
    assert rows == [(name, "pass", "error", 2) for name in ("a", "b", "c", "ensemble")]
    assert query(path, COUNTS) == before
    assert imbalance_of(path) == 0


def test_the_command_prints_what_it_asked(store):
    done = gapwatch("judge", "retry", "--store", store, "--where", "reason=bad_request", "--by", "ann")
    assert (done.status, json.loads(done.out)["asked_again"]) == (0, 3)
    with Store.open(store) as opened:
        assert len(open_ids(opened)) == 3
    unknown = gapwatch("judge", "retry", "--store", store, "--where", "reason=nothing", "--by", "ann")
    assert unknown.status != 0
    assert "bad_request (3)" in unknown.err


def test_the_request_of_a_retried_verdict_is_rebuilt_from_its_row(store):
    retried(store, "reason=bad_request")
    judge(store, PORTFOLIO, passes)
    with Store.open(store) as opened:
        archive = VerdictArchive(opened.cursor())
        rebuilt = [Rebuilder(archive).rebuild(archive.verdict(place_of_error(n))) for n in (1, 3, 5)]
    assert [one.verdict.outcome for one in rebuilt] == ["pass"] * 3
    assert all(one.verdict.evidence["justification"] for one in rebuilt)


def place_of_error(number):
    return f"traces.jsonl/0/{number}/0/faithful/mini"
