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
    (latest,) = rates_of(path, "--latest")
    assert (latest["judge"], latest["units"], latest["bad"], latest["errors"]) == ("ensemble", 2, 0, 0)


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


def rates_of(path: Path, *more: str) -> list[dict[str, Any]]:
    ran = gapwatch("rates", "--store", path, "--format", "json", *more)
    assert ran.status == 0, ran.err
    return [{name: value for name, value in row.items() if name != "epoch"} for row in ran.json()]


@pytest.mark.parametrize("per", ["hour", "all"])
def test_latest_rates_are_the_usual_ones_until_there_is_a_retry(tmp_path, per):
    portfolio = portfolio_of({**judged_metric(), "sample": {"rate": 0.5}})
    path = scored_store(tmp_path, portfolio, [trace(n, spans=1 + n % 3) for n in range(60)])

    def mixed(call: ChatCall) -> ChatReply | ModelFailure:
        number = int(call.messages[1][1].split("Was order ")[1].split(" ")[0])
        span = int(call.messages[1][1].split("placed? (")[1][0])
        kind = (number + span) % 4
        return refuses(call) if kind == 0 else verdict_reply(call, "Poor" if kind == 1 else "Good")

    judge(path, portfolio, mixed)
    (usual,) = rates_of(path, "--per", per)
    assert min(usual["bad"], usual["errors"], usual["units"] - usual["bad"]) > 0
    assert usual["effective_units"] is not None
    (latest,) = rates_of(path, "--per", per, "--latest")
    assert latest == {name: pytest.approx(v) if isinstance(v, float) else v for name, v in usual.items()}


def test_latest_rates_count_new_verdicts_and_words_of_people_and_the_usual_ones_say_so(store):
    (before,) = rates_of(store, "--per", "all")
    assert (before["units"], before["bad"], before["errors"]) == (3, 0, 3)
    retried(store, "reason=bad_request")
    judge(store, PORTFOLIO, lambda call: verdict_reply(call, "Poor"))

    assert rates_of(store, "--per", "all") == [before]
    (latest,) = rates_of(store, "--per", "all", "--latest")
    assert (latest["units"], latest["bad"], latest["errors"], latest["rate"]) == (6, 3, 0, 0.5)
    assert latest["unknown_share"] == 0
    assert "3 errors of judges were answered by `judge retry`" in gapwatch("rates", "--store", store).err
    assert gapwatch("rates", "--store", store, "--latest").err == ""
    assert gapwatch("rates", "--store", store, "--latest", "--by", "model").status == 2
    row = query(store, "SELECT lane, source_offset FROM gaps WHERE outcome = 'pass' LIMIT 1")[0]
    place = f"traces.jsonl/0/{row[1]}/0/faithful/mini"
    said = gapwatch("override", place, "--store", store, "--outcome", "fail", "--why", "no", "--by", "ann")
    assert said.status == 0, said.err
    assert rates_of(store, "--per", "all", "--latest")[0]["bad"] == 4
