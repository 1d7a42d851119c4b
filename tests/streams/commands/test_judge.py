"""What one types: replay with judges, judge run, rerun, reproducibility, estimate, agreement, override; over HTTP."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import rfc8785
import yaml

from tests.gapwatch_command import gapwatch
from tests.scorers.judges.rubrics import judged_metric
from tests.streams.judges.judged_store import query, states, trace
from tests.streams.judges.model_server import HttpAnswer, ServerThread, served, verdict

METRIC = judged_metric()


def number_in(body: dict[str, Any]) -> int:
    return int(body["messages"][1]["content"].split("Was order ")[1].split(" ")[0])


def answer(body: dict[str, Any], headers: dict[str, str]) -> HttpAnswer:
    """Every third order is bad."""
    return verdict(body, "Poor" if number_in(body) % 3 == 0 else "Good")


@pytest.fixture
def server() -> Iterator[ServerThread]:
    with served(lambda body, headers: answer(body, headers)) as running:
        yield running


class Place:
    """A folder with traces, a portfolio and settings of judges."""

    def __init__(
        self, folder: Path, base_url: str, metrics: list[dict[str, Any]], traces: int = 12, **top: Any
    ) -> None:
        written = {
            "gapwatch": 1, "portfolio": "judged", "version": 1, "pipeline": "p", "edges": [], "metrics": metrics,
            "components": [{"id": "c", "role": "ai_core", "kind": "llm"}], **top,
        }  # fmt: skip
        self.store = folder / "s.duckdb"
        self.traces, self.portfolio, self.judges = folder / "t.jsonl", folder / "p.yaml", folder / "j.yaml"
        self.traces.write_text("".join(json.dumps(trace(i)) + "\n" for i in range(traces)))
        self.portfolio.write_text(yaml.dump(written, sort_keys=False, Dumper=yaml.CSafeDumper))
        provider = {"adapter": "http", "base_url": base_url, "first_delay_seconds": 0.01}
        prices = {"openai/gpt-4.1-mini": {"input": 0.4, "output": 1.6}}
        self.judges.write_text(yaml.dump({"providers": {"*": provider}, "prices": prices}, Dumper=yaml.CSafeDumper))

    def replay(self, *more: object) -> Any:
        return gapwatch(
            "replay", self.traces, "--portfolio", self.portfolio, "--store", self.store, "--json", "--quiet", *more
        )

    def row(self, offset: int, judge: str = "/mini") -> str:
        return f"t.jsonl/0/{offset}/0/faithful{judge}"

    def judge(self, command: str, *more: object) -> Any:
        return gapwatch("judge", command, *more, "--store", self.store)


@pytest.fixture
def place(tmp_path: Path, server: ServerThread) -> Place:
    return Place(tmp_path, server.base_url, [METRIC])


def test_replay_judges_before_its_end_and_a_second_run_adds_nothing(place: Place) -> None:
    ran = place.replay("--judges", place.judges)

    assert ran.status == 0, ran.err
    told = ran.json()
    assert told["outcomes"] == {"faithful": {"pass": 8, "fail": 4}}
    assert told["ledger_imbalance"] == 0
    assert told["judged"]["usd"] == pytest.approx(12 * (500 * 0.4e-6 + 40 * 1.6e-6))
    again = place.replay("--judges", place.judges).json()
    assert (again["judged"]["closed"], again["judged"]["calls"]) == (0, 0)
    assert query(place.store, "SELECT count(*) FROM gaps") == [(12,)]


def test_the_report_says_what_was_asked_and_why_there_is_no_verdict(place: Place, server: ServerThread) -> None:
    server.server.answer = lambda body, headers: (
        HttpAnswer(400, b'{"error": {"message": "too hot"}}') if number_in(body) == 4 else verdict(body, "Superb")
    )
    shown = gapwatch(
        "replay", place.traces, "--portfolio", place.portfolio, "--store", place.store, "--judges", place.judges
    )
    ran = place.judge("rerun", place.row(4), "--judges", place.judges)

    assert shown.status == 0, shown.err
    assert "judges: 12 requests, 23 calls, " in shown.out  # eleven were asked to say it again
    assert "; all ended in an error: 11 off_scale, 1 bad_request" in shown.out
    assert "metric faithful: error for all 12 traces" in shown.out
    assert ran.json()["after"]["outcome"] == "error"
    assert ran.json()["why"] == "status 400: too hot"


def test_what_a_replay_left_open_is_judged_by_judge_run(place: Place) -> None:
    assert place.replay().json()["outcomes"] == {"faithful": {"pending": 12}}
    ran = place.judge("run", "--judges", place.judges)

    assert ran.status == 0, ran.err
    assert ran.json()["closed"] == 12
    assert states(place.store, "faithful") == {"pass": 8, "fail": 4}


def test_a_provider_that_is_down_leaves_the_requests_and_status_one(tmp_path: Path) -> None:
    place = Place(tmp_path, "http://127.0.0.1:9/v1", [METRIC])
    place.replay()
    ran = place.judge("run", "--judges", place.judges, "--patience", 0)

    assert ran.status == 1
    assert "still pending" in ran.err
    assert states(place.store, "faithful") == {"pending": 12}


@pytest.mark.parametrize(
    ("written", "because"),
    [
        ("providers: {}", "providers"),
        ("nonsense: [", "not valid YAML"),
        ("providers: {'*': {adapter: http}}", "base_url"),
        ("providers: {other: {adapter: http, base_url: 'http://localhost/v1'}}", "no provider 'openai'"),
        ("{providers: {'*': {adapter: http, base_url: 'http://localhost/v1'}}, usd_per_week: {x: 1}}", "usd_per_week"),
    ],
)
def test_wrong_settings_are_refused_before_anything_is_read(place: Place, written: str, because: str) -> None:
    place.judges.write_text(written)
    ran = place.replay("--judges", place.judges)

    assert ran.status == 2
    assert because in ran.err
    assert not place.store.exists()


def test_a_rerun_sends_the_same_bytes_and_says_whether_the_verdict_is_the_same(
    place: Place, server: ServerThread
) -> None:
    place.replay("--judges", place.judges)
    sent = {number_in(body): body for body in server.server.requests}
    shown = place.judge("rerun", place.row(5), "--show")
    ran = place.judge("rerun", place.row(5), "--judges", place.judges)

    assert shown.status == 0, shown.err
    ((sha,),) = query(place.store, "SELECT judge_request_sha FROM gaps WHERE source_offset = 5")
    document = shown.out.removesuffix("\n").encode()
    assert hashlib.sha256(document).hexdigest() == sha
    assert document == rfc8785.dumps(sent[5])
    assert ran.json()["agrees"] is True
    assert server.server.requests[-1] == sent[5]


@pytest.mark.parametrize(
    ("statement", "because"),
    [
        ("DELETE FROM samples", "sample"),
        ("DELETE FROM templates", "template"),
        ("UPDATE templates SET text = text || '.'", "was changed"),
        ("DELETE FROM portfolios", "portfolio"),
        ("UPDATE gaps SET judge_input_sha = 'x'", "does not give the judged input"),
        ("UPDATE gaps SET judge_request_sha = 'x'", "differs from the one that was sent"),
    ],
)
def test_a_rerun_says_what_is_missing(place: Place, statement: str, because: str) -> None:
    place.replay("--judges", place.judges)
    query(place.store, statement)
    ran = place.judge("rerun", place.row(5), "--show")

    assert ran.status == 2
    assert because in ran.err


def test_a_place_without_a_row_is_refused(place: Place) -> None:
    place.replay("--judges", place.judges)

    for wrong in ("nonsense", "t.jsonl/0/99/0/faithful", "t.jsonl/0/5/0/faithful/other"):
        assert place.judge("rerun", wrong, "--show").status == 2


def test_reproducibility_is_the_share_that_comes_out_the_same_with_an_interval(
    place: Place, server: ServerThread
) -> None:
    place.replay("--judges", place.judges)
    # Now every fourth order is bad: of 12, the orders 3, 4, 6, 8, 9 come out otherwise.
    server.server.answer = lambda body, headers: verdict(body, "Poor" if number_in(body) % 4 == 0 else "Good")
    told = place.judge("reproducibility", "--judges", place.judges).json()

    assert told["outcome_agrees"]["n"] == 12
    assert told["outcome_agrees"]["value"] == pytest.approx(7 / 12)
    assert told["outcome_agrees"]["lower"] < 7 / 12 < told["outcome_agrees"]["upper"]
    assert (told["errors"], told["not_rebuilt"]) == ({}, [])


def test_an_estimate_counts_prompts_prices_and_volume_and_asks_nobody(tmp_path: Path, server: ServerThread) -> None:
    metric = {**METRIC, "sample": {"rate": 0.5}}
    place = Place(
        tmp_path, server.base_url, [metric], 400, volume={"traces_per_day": 1000}, budget={"judge_usd_per_week": 2}
    )
    ran = gapwatch("judge", "estimate", place.traces, "--portfolio", place.portfolio, "--judges", place.judges)

    assert ran.status == 0, ran.err
    (one,) = ran.json()["judges"]
    assert 0.4 < one["calls_per_trace"] < 0.6
    assert one["calls_per_week"] == pytest.approx(7000 * one["calls_per_trace"])
    assert one["usd_per_call"] == pytest.approx(one["prompt_tokens"] * 0.4e-6 + 200 * 1.6e-6)
    assert one["usd_per_week"] == pytest.approx(one["calls_per_week"] * one["usd_per_call"])
    assert one["worst_usd_per_call"] > one["usd_per_call"]
    assert ran.json()["cap_usd_per_week"] == 2
    assert server.server.requests == []


def test_a_person_overrides_a_verdict_which_stays(place: Place) -> None:
    place.replay("--judges", place.judges)
    before = query(place.store, "SELECT * FROM gaps ORDER BY source_offset")
    first = gapwatch(
        "override", place.row(5), "--store", place.store, "--outcome", "fail", "--score", 0, "--why", "no", "--by", "a"
    )
    second = gapwatch(
        "override", place.row(5, ""), "--store", place.store, "--outcome", "pass", "--why", "yes after all", "--by", "b"
    )

    assert (first.status, second.status) == (0, 0), first.err + second.err
    assert query(place.store, "SELECT * FROM gaps ORDER BY source_offset") == before
    assert query(place.store, 'SELECT outcome, why, "by" FROM overrides ORDER BY "at"') == [
        ("fail", "no", "a"), ("pass", "yes after all", "b"),
    ]  # fmt: skip
    last = query(place.store, "SELECT outcome, score, overridden, override_by FROM verdicts WHERE source_offset = 5")
    assert last == [("pass", None, True, "b")]


@pytest.mark.parametrize(
    ("more", "because"),
    [
        (["--outcome", "maybe", "--why", "x"], "maybe"), (["--outcome", "fail", "--why", " "], "why"),
        (["--outcome", "fail", "--why", "x", "--score", "nan"], "score"), (["--outcome", "fail"], "--why"),
    ],
)  # fmt: skip
def test_what_is_no_override_is_refused(place: Place, more: list[str], because: str) -> None:
    place.replay("--judges", place.judges)
    ran = gapwatch("override", place.row(5), "--store", place.store, *more)

    assert ran.status == 2
    assert because in ran.err
    assert query(place.store, "SELECT count(*) FROM overrides") == [(0,)]


def test_agreement_says_that_no_judge_decided_where_every_call_failed(tmp_path: Path, server: ServerThread) -> None:
    judges = [{"name": n, "model": f"openai/{n}"} for n in ("a", "b")]
    server.server.answer = lambda body, headers: HttpAnswer(400, b'{"error": {"message": "too hot"}}')
    place = Place(tmp_path, server.base_url, [{**METRIC, "claim": {**METRIC["claim"], "judges": judges}}], 3)
    assert place.replay("--judges", place.judges).status == 0
    shown = place.judge("agreement").out

    assert shown.startswith("no judge has decided: 6 requests ended in an error (6 bad_request);")
    assert "second judge" not in shown


def test_agreement_of_judges_with_each_other_and_with_people(tmp_path: Path, server: ServerThread) -> None:
    judges = [{"name": n, "model": f"openai/{n}"} for n in ("a", "b")]
    metric = {**METRIC, "claim": {**METRIC["claim"], "judges": judges}}

    def voices(body: dict[str, Any], headers: dict[str, str]) -> HttpAnswer:
        return verdict(body, "Poor" if number_in(body) % (3 if body["model"] == "a" else 4) == 0 else "Good")

    server.server.answer = voices
    place = Place(tmp_path, server.base_url, [metric])
    assert place.replay("--judges", place.judges).status == 0
    # People go through the first six with judge a, and differ from it on the fourth.
    for offset in range(6):
        said = "fail" if offset == 0 else "pass"
        done = gapwatch("override", place.row(offset, "/a"), "--store", place.store, "--outcome", said, "--why", "seen")
        assert done.status == 0, done.err
    found = {(one["first"], one["second"]): one for one in place.judge("agreement", "--json").json()}

    # a fails 0 3 6 9, b fails 0 4 8: both 0; they differ on 3, 4, 6, 8, 9.
    assert set(found) == {("a", "b"), ("a", "human")}
    assert found["a", "b"]["same"]["value"] == pytest.approx(7 / 12)
    chance = (4 * 3 + 8 * 9) / 144
    assert found["a", "b"]["kappa"]["value"] == pytest.approx((7 / 12 - chance) / (1 - chance))
    assert found["a", "human"]["same"]["value"] == pytest.approx(5 / 6)
    assert found["a", "human"]["f1"]["value"] == pytest.approx(2 / 3)
    assert found["a", "human"]["f1"]["n"] == 6
