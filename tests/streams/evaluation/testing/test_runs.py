"""Runs of tests: GRAFITE's seed served again, interruptions, overrides, comparison, functions, a gate."""

from __future__ import annotations

import json
import math
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pytest
import yaml
from scipy.stats import binomtest

from gapwatch.sinks.evaluation.paired_difference import least_changes, mcnemar_exact
from gapwatch.sinks.issues.issue import Issue, IssueTest
from tests.gapwatch_command import Ran, gapwatch
from tests.streams.evaluation.testing.recorded_endpoint import SEED, recorded, serving, verdict

JUDGES = ("llama-3.3:70b", "phi-4", "gpt-oss:120b")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "s.duckdb"


def configured(folder: Path, url: str, judges: tuple[str, ...] = JUDGES, **more: Any) -> Path:
    path = folder / "tests.yaml"
    written = {"judges": [{"base_url": url, "model": name} for name in judges], **more}
    if not {"entrypoint", "models"} & set(more):
        written["model"] = {"base_url": url, "model": "llama3.1:8b"}
    path.write_text(yaml.safe_dump(written))
    return path


def run(path: Path, store: Path, *options: object) -> Ran:
    return gapwatch("test", "run", path, "--store", store, *options)


def seeded(store: Path) -> None:
    gapwatch("issue", "import", SEED, "--store", store, "--by", "ann")


def few(store: Path, count: int = 6) -> None:
    """Keep one issue with some tests."""
    issue = Issue("i-1", "Sums", "", "open", "", ("math",), 3, "right", "", "ann")
    asked = [({"role": "user", "content": f"question {n}"},) for n in range(count)]
    tests = [IssueTest(f"t-{n}", "i-1", one, None, None, None, "", True, "ann") for n, one in enumerate(asked)]
    lines = [{"issue": issue.row()}, *({"test": test.row()} for test in tests)]
    file = store.with_name("few.jsonl")
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert gapwatch("issue", "import", file, "--store", store, "--by", "ann").status == 0


def test_the_recorded_run_of_grafite_comes_out_as_it_was(store: Path, tmp_path: Path) -> None:
    seeded(store)
    with serving(recorded()) as (url, calls):
        said = run(configured(tmp_path, url), store, "--name", "again")
    assert said.status == 0, said.err
    assert "7 tests pass in all judges, 9 fail in all, 4 split" in said.out
    assert "1 call of a judge failed: an error each" in said.out
    assert "llama-3.3:70b is of the family of llama3.1:8b" in said.out
    assert "pass rate 35.0% (7/20)" in said.out
    assert calls["llama3.1:8b"] == 20
    with duckdb.connect(str(store), read_only=True) as con:
        sql = "SELECT test_id, replace(judge, 'llm/', ''), outcome FROM test_verdicts WHERE run_id {} ORDER BY ALL"
        again, before = (con.execute(sql.format(which)).fetchall() for which in ("= 'again'", "<> 'again'"))
    assert again == before

    match = gapwatch("compare", "run_2025", "again", "--store", store)
    assert "Both runs have the same outcome on all 20 tests" in match.out
    table = gapwatch("test", "trend", "--by-domain", "--store", store).out  # domain by model, as the paper's Table 3
    assert "Math" in table and table.count("50.0% (2/4)") == 2
    page = tmp_path / "r.html"
    gapwatch("test", "report", "again", "--html", page, "--store", store)
    text = page.read_text()
    assert text.count("<details>") == 20 and "<script" not in text and "http" not in text.split("<h2>Tests")[0]


def test_several_models_are_run_side_by_side_by_domain(store: Path, tmp_path: Path) -> None:
    few(store, 4)
    gapwatch("issue", "set", "i-1", "--domain", "Math", "--store", store, "--by", "ann")
    more = [Issue("i-2", "Cities", "", "open", "Facts", (), 3, "right", "", "ann")]
    asked = ({"role": "user", "content": "Where?"},)
    lines = [
        {"issue": more[0].row()},
        {"test": IssueTest("t-9", "i-2", asked, None, None, None, "", True, "ann").row()},
    ]
    (tmp_path / "more.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    gapwatch("issue", "import", tmp_path / "more.jsonl", "--store", store, "--by", "ann")

    def answer(model: str, messages: list[dict[str, str]]) -> tuple[int, str]:
        text = messages[-1]["content"]
        if model != "j1":
            return 200, f"{model} says {'nothing' if model == 'small:1b' and text != 'Where?' else 'it'}"
        return 200, verdict(messages, 0 if "says nothing" in text else 1, "as it is")

    with serving(answer) as (url, calls):
        models = [{"base_url": url, "model": name} for name in ("small:1b", "large:70b")]
        path = configured(tmp_path, url, ("j1",), model=None, models=models, gate=0.9)
        said = run(path, store, "--name", "both")
        again = run(path, store, "--name", "both")
    assert (calls["small:1b"], calls["large:70b"], calls["j1"]) == (5, 5, 10)
    assert (said.status, again.status) == (1, 1)
    assert "pass rate 20.0% of 5 tests of small:1b" in said.err
    table = [
        "| domain | small:1b | large:70b |",
        "| --- | --- | --- |",
        "| Total (5) | 20.0% (1/5) | 100.0% (5/5) |",
        "| Facts (1) | 100.0% (1/1) | 100.0% (1/1) |",
        "| Math (4) | 0.0% (0/4) | 100.0% (4/4) |",
    ]
    assert "\n".join(table) in said.out
    names = ("both-small-1b", "both-large-70b")
    assert gapwatch("test", "report", *names, "--store", store).out == said.out
    page = tmp_path / "r.html"
    gapwatch("test", "report", *names, "--html", page, "--store", store)
    text = page.read_text()
    assert text.count("<details>") == 10 and "<td>Math (4)<td class='n'>0.0% (0/4)<td class='n'>100.0% (4/4)" in text
    written = yaml.safe_load(path.read_text())
    path.write_text(yaml.safe_dump({**written, "models": [models[0], models[0]]}))
    assert "two models have one name" in run(path, store).err


def test_a_killed_run_goes_on_and_asks_nothing_twice(store: Path, tmp_path: Path) -> None:
    few(store)
    judged: list[str] = []
    process: list[subprocess.Popen[bytes]] = []

    def answer(model: str, messages: list[dict[str, str]]) -> tuple[int, str]:
        if model == "llama3.1:8b":
            return 200, f"answer to {messages[-1]['content']}"
        judged.append(messages[-1]["content"])
        if len(judged) == 3:  # of the second pair
            process[0].kill()
        return 200, verdict(messages, 1, "right")

    with serving(answer) as (url, calls):
        path = configured(tmp_path, url, ("j1",), concurrency=2)
        program = Path(sys.executable).with_name("gapwatch")
        words = [program, "test", "run", path, "--store", store, "--name", "r", "--quiet"]
        process.append(subprocess.Popen(words))
        assert process[0].wait(60) == -signal.SIGKILL
        part = gapwatch("test", "report", "r", "--store", store).out
        assert "2 tests of llama3.1:8b: 2 pass" in part
        assert "4 planned tests have no result yet" in part
        before = calls["llama3.1:8b"]
        whole = run(path, store, "--name", "r")
    assert whole.status == 0, whole.err
    assert calls["llama3.1:8b"] - before == 4
    assert "6 tests of llama3.1:8b: 6 pass" in whole.out
    assert "planned tests" not in whole.out


def test_a_tie_fails_a_failed_call_is_an_error_and_a_person_overrides(store: Path, tmp_path: Path) -> None:
    few(store, 3)

    def answer(model: str, messages: list[dict[str, str]]) -> tuple[int, str]:
        text = messages[-1]["content"]
        if model == "llama3.1:8b":
            return 200, f"answer to {text}"
        if "question 0" in text:  # a tie of the two
            return 200, verdict(messages, int(model == "j1"), "so")
        if "question 1" in text:  # one fails: of two, one is no quorum
            return (400, "too long") if model == "j2" else (200, verdict(messages, 1, "so"))
        return 200, verdict(messages, 1, "fine")

    with serving(answer) as (url, _):
        said = run(configured(tmp_path, url, ("j1", "j2"), gate=0.9), store, "--name", "r", "--by", "ann")
    assert said.status == 1
    assert "the gate is missed: pass rate 50.0% of 2 tests" in said.err
    trend = gapwatch("test", "trend", "--store", store, "--format", "json").json()
    assert [(one["decided"], one["rate"]) for one in trend] == [(2, 0.5)]
    gapwatch(
        "test",
        "override",
        "r",
        "t-1",
        "--outcome",
        "fail",
        "--why",
        "too long",
        "--store",
        store,
        "--by",
        "eve",
    )
    text = gapwatch("test", "report", "last", "--store", store).out
    assert "3 tests of llama3.1:8b: 1 pass, 2 fail, 0 without a decision" in text
    assert "eve: too long" in text and "1 outcomes are a person's" in text


def test_two_releases_of_a_function_are_compared_and_chance_is_named(store: Path, tmp_path: Path) -> None:
    few(store, 8)
    (tmp_path / "app_of_tests.py").write_text(
        "def good(question):\n    return 'yes ' + question\n\n\n"
        "def bad(messages):\n    n = int(messages[-1]['content'].split()[-1])\n"
        "    if n == 7:\n        raise SystemExit\n    return 'yes' if n == 0 else 'no'\n"
    )

    def answer(model: str, messages: list[dict[str, str]]) -> tuple[int, str]:
        output = messages[-1]["content"].split("**Model output to be rated**")[1]
        return 200, verdict(messages, int("\nyes" in output), "so")

    with serving(answer) as (url, _):
        for name in ("good", "bad"):
            entrypoint = {"module": "app_of_tests", "function": name}
            done = run(configured(tmp_path, url, ("j1",), entrypoint=entrypoint), store, "--name", name, "--quiet")
            assert done.status == 0, done.err
    found = gapwatch("compare", "good", "bad", "--store", store, "--format", "json").json()
    assert (found["outcome"], found["tests"], len(found["worse"])) == ("underperform", 7, 6)
    assert found["p_value"] == pytest.approx(binomtest(0, 6).pvalue, abs=1e-15)
    assert found["lower"] <= found["difference"] <= found["upper"] < 0
    told = gapwatch("compare", "good", "bad", "--store", store).out
    assert "app_of_tests:bad: **underperform**. The difference can be told from chance: 6 of 7" in told
    assert "1 tests are left out" in told and "| math |" in told
    again = gapwatch("compare", "good", "nobody", "--store", store)
    assert again.status == 2 and "the latest runs: good, bad" in again.err


@pytest.mark.parametrize(("better", "worse"), [(0, 0), (1, 0), (5, 0), (6, 0), (3, 9), (40, 60), (300, 200)])
def test_mcnemars_test_is_the_binomial_one_of_scipy(better: int, worse: int) -> None:
    expected = binomtest(better, better + worse).pvalue if better + worse else 1.0
    assert math.isclose(mcnemar_exact(better, worse), expected, rel_tol=1e-9)
    assert least_changes() == 6


def test_a_configuration_with_a_mistake_is_refused(store: Path, tmp_path: Path) -> None:
    few(store, 1)
    for written, told in (
        ({"judges": []}, "judges"),
        ({"judges": [{"base_url": "u", "model": "a"}]}, "write one of `model`, `models` and `entrypoint`"),
        ({"judges": [{"base_url": "u", "model": "a"}] * 2, "model": {"base_url": "u", "model": "m"}}, "one name"),
        ({"judges": [{"base_url": "u", "model": "a"}], "model": {"base_url": "u", "model": "m"}, "tags": []}, "tags"),
    ):
        path = tmp_path / "bad.yaml"
        path.write_text(yaml.safe_dump(written))
        ran = run(path, store)
        assert ran.status == 2 and told in ran.err, ran.err
    path = configured(tmp_path, "http://127.0.0.1:9/v1", ("j",), choose={"tags": ["nobody"]})
    assert "no active test is chosen" in run(path, store).err
