"""Two runs are compared by example: outcomes, numbers, and a judge asked in both orders, held against scipy."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from scipy import stats

from gapwatch.eval import Example, OpenAICompatibleLLMClient, set_llm_client
from gapwatch.eval import eval as evaluated
from gapwatch.scorers.errors import UsageError
from gapwatch.sinks.evaluation.paired_difference import PairedNumbers, t_within, two_sided_t
from tests.gapwatch_command import gapwatch
from tests.streams.judges.model_server import HttpAnswer, nonce_in, served, verdict

#: What each release answers, by the name of the case: candidate good, baseline good, equal, a judge that takes the
#: first, a call that fails.
CASES = {"up": ("bad", "good"), "down": ("good", "bad"), "same": ("good", "good"), "swayed": ("good", "bad")}
COUNTS = {"up": 10, "down": 2, "same": 6, "swayed": 4, "broken": 2}


def _answer(question: str, release: int) -> str:
    case = question.split()[0]
    if case == "broken" and release == 0:
        raise LookupError("no answer")
    return f"a {CASES.get(case, ('good', 'good'))[release]} answer to {question}"


@evaluated(task="chat")
def before(question: str) -> str:
    return _answer(question, 0)


@evaluated(task="chat")
def after(question: str) -> str:
    return _answer(question, 1)


def _examples() -> list[Example]:
    return [
        Example(f"{case}-{i}", {"question": f"{case} {i}"}, metadata={"topic": "even" if i % 2 == 0 else "odd"})
        for case, count in COUNTS.items()
        for i in range(count)
    ]


def _shown(body: dict[str, Any], name: str) -> str:
    text = body["messages"][-1]["content"]
    found = re.search(rf"<<<DATA {nonce_in(body)} {re.escape(name)}>>>\n(.*?)\n<<<END", text, re.DOTALL)
    assert found is not None, text
    return found[1]


def _judged(first: str, second: str) -> str:
    if "swayed" in first:
        return "first"
    good = ["good" in one for one in (first, second)]
    return "tie" if good[0] == good[1] else "first" if good[0] else "second"


def _pairwise(body: dict[str, Any], _headers: dict[str, str]) -> HttpAnswer:
    if "attributes.first_answer" not in body["messages"][-1]["content"]:
        return verdict(body, "Excellent")
    return verdict(body, _judged(_shown(body, "attributes.first_answer"), _shown(body, "attributes.second_answer")))


def test_a_judge_in_both_orders_tells_the_better_release_and_its_position_bias() -> None:
    with served(_pairwise) as server:
        set_llm_client(OpenAICompatibleLLMClient(server.base_url, None, "small"))
        try:
            baseline = before.eval(_examples())
            run = after.eval(_examples(), baseline=baseline)
        finally:
            set_llm_client(None)
        asked = [one for one in server.server.requests if "first_answer" in one["messages"][-1]["content"]]

    # 22 pairs have both outputs and are asked twice, but the 6 of equal answers: their two requests are one.
    assert len(asked) == 16 * 2 + 6
    assert run.baseline_name == "before"
    assert run.comparison is not None
    (pairs,) = [one for one in run.comparison.metrics if one.metric.name == "pairwise_llm_judge"]
    assert [pairs.count(word) for word in ("outperform", "underperform", "match")] == [10, 2, 10]
    assert sorted(pairs.undecided) == ["broken-0", "broken-1"]
    assert pairs.pairs.p_value == pytest.approx(stats.binomtest(10, 12).pvalue, abs=1e-12)
    assert pairs.word == "outperform"
    bias = stats.binomtest(4, 22).proportion_ci(method="wilson")
    told = f"the order decides 4 of 22 pairs (18.2%, 95 % interval {bias.low:.1%} to {bias.high:.1%})"
    assert told in pairs.notes[0]
    assert "4 towards the answer that stands first and 0 towards the second" in pairs.notes[0]
    assert pairs.notes[1] == "6 are ties in both orders."
    result = run.result("pairwise_llm_judge")
    assert result is not None
    assert result.score == pytest.approx(0.5 + 8 / 22 / 2)
    report = run.to_markdown()
    assert "## after" in report and "| topic: even | pairwise_llm_judge | 12 | 5 | 1 | 5 |" in report
    assert run.to_json()["comparison"]["metrics"][-1]["by_example"]["up-0"] == "outperform"


PORTFOLIO = """
gapwatch: 1
portfolio: replies
version: 1
pipeline: replies
components: [{id: app, kind: llm}]
metrics:
  - name: better_than_before
    component: app
    purpose: "the new answer is better than the old one"
    concern: quality
    claim:
      form: compare
      rubric:
        criterion: "Which answer is better?"
        scale: {first: 1, tie: 0, second: -1}
        inputs: [attributes.baseline_output, output]
        pass_at: 0
      judges: [{model: llm/small}]
"""


def test_files_of_runs_are_compared_by_the_command_with_a_portfolios_own_claim(tmp_path: Path) -> None:
    runs = [function.eval(_examples()[:18], metrics=["latency_ms"]) for function in (before, after, before)]
    files = [tmp_path / f"{i}.json" for i in range(3)]
    for file, run in zip(files, runs, strict=True):
        file.write_text(json.dumps(run.to_json()))
    (tmp_path / "p.yaml").write_text(PORTFOLIO)

    def answer(body: dict[str, Any], _headers: dict[str, str]) -> HttpAnswer:
        return verdict(body, _judged(_shown(body, "attributes.baseline_output"), _shown(body, "output")))

    with served(answer) as server:
        config = tmp_path / "c.yaml"
        llm = {"base_url": server.base_url, "model": "small"}
        entrypoint = {"module": "m", "function": "f"}
        config.write_text(yaml.safe_dump({"entrypoint": entrypoint, "task": "chat", "llm": llm, "portfolio": "p.yaml"}))
        found = gapwatch("compare", *files[:2], "--config", config, "--format", "json")
        side = gapwatch("compare", *files, "--config", config)

    assert found.status == 0, found.err
    by_name = {one["metric"]: one for one in found.json()["metrics"]}
    judged = by_name["better_than_before"]
    assert (judged["outperform"], judged["underperform"], judged["match"]) == (10, 2, 6)
    assert judged["notes"][0].startswith("Position bias: the order decides 0 of 18 pairs")
    latencies = [[one.latency_seconds * 1000 for one in run.examples] for run in runs[:2]]  # type: ignore[operator]
    expected = stats.ttest_rel(latencies[1], latencies[0])
    interval = expected.confidence_interval()
    # Milliseconds come from the difference of two times since the epoch, which have 1e-6 s.
    assert by_name["latency_ms"]["difference"] == pytest.approx(
        sum(latencies[1]) / 18 - sum(latencies[0]) / 18, abs=2e-3
    )
    assert by_name["latency_ms"]["lower"] == pytest.approx(interval.low, abs=4e-3)
    assert side.out.startswith("# 2 runs beside before")
    assert "(outperform)" in side.out and "(match)" in side.out


def test_lanes_of_a_store_are_compared_and_what_is_shared_is_said(tmp_path: Path) -> None:
    def label(text: str) -> str:
        return text

    def wrong(text: str) -> str:
        return text if text in ("a", "b") else "?"

    store = tmp_path / "s.duckdb"
    given = [Example(letter, {"text": letter}, reference=letter) for letter in "abcdefghij"]
    function = evaluated(task="classification", metrics=["accuracy"])
    first = function(label).eval(given[:9], store=store)
    second = function(wrong).eval(given[1:], store=store, baseline=first.id)

    found = gapwatch("compare", first.id, second.id, "--store", store)
    as_json = gapwatch("compare", first.id, second.id, "--store", store, "--format", "json").json()

    assert found.status == 0, found.err
    assert "8 examples are in both runs. 1 only in that of" in found.out
    (accuracy,) = as_json["metrics"]
    assert (accuracy["outcome"], accuracy["match"], accuracy["underperform"]) == ("underperform", 1, 7)
    assert accuracy["p_value"] == pytest.approx(stats.binomtest(0, 7).pvalue)
    assert second.comparison is not None
    assert second.comparison.metrics[0].words == accuracy["by_example"]


def test_an_example_that_changed_is_left_out_and_a_wrong_baseline_is_refused(tmp_path: Path) -> None:
    first = after.eval([Example("1", {"question": "up 1"}), Example("2", {"question": "up 2"})], metrics=[])
    run = after.eval(
        [Example("1", {"question": "up 1"}), Example("2", {"question": "up 3"})], metrics=["latency_ms"], baseline=first
    )

    assert run.comparison is not None
    assert (run.comparison.shared, run.comparison.changed) == (("1",), ("2",))
    assert "1 have other inputs or another reference now: left out." in run.to_markdown()
    (tmp_path / "x.json").write_text("[]")
    for wrong in (tmp_path / "none.json", tmp_path / "x.json", 3):
        with pytest.raises(UsageError, match=r"none\.json cannot be read|is no run"):
            after.eval([Example("1", {"question": "up 1"})], baseline=wrong)  # type: ignore[arg-type]
    alone = gapwatch("compare", tmp_path / "none.json", tmp_path / "x.json")
    assert (alone.status, "is no run of an evaluation" in alone.err) == (2, True)


def test_the_paired_interval_is_that_of_scipy() -> None:
    rng = random.Random(7)
    for n in (2, 3, 4, 9, 30, 501):
        one, other = ([rng.gauss(0, 1) for _ in range(n)] for _ in range(2))
        found = PairedNumbers([b - a for a, b in zip(one, other, strict=True)])
        expected = stats.ttest_rel(other, one)
        interval = expected.confidence_interval()
        assert found.p_value == pytest.approx(expected.pvalue, abs=1e-12)
        assert found.interval == pytest.approx((interval.low, interval.high), abs=1e-10)
    for freedom in (1, 2, 7, 20_000):
        assert two_sided_t(0.95, freedom) == pytest.approx(stats.t.ppf(0.975, freedom), abs=1e-10)
        assert t_within(0.7, freedom) == pytest.approx(1 - 2 * stats.t.sf(0.7, freedom), abs=1e-11)
