"""Python scorers through `gapwatch replay`: batches, selection, exceptions, time-outs, and a process that dies."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import pytest

from gapwatch.scorers.scoring.scorer_host import BATCH_SPANS
from tests.gapwatch_command import Ran, gapwatch
from tests.reference.selection import position
from tests.streams.replayed import is_balanced, trace, written

#: Each scorer writes down what it was given, a line a batch.
SCORERS = """
import json, os, time
from gapwatch.scorers.scoring.python_scorer import Scored, scorer

def note(name, spans):
    with open({calls!r}, "a") as file:
        file.write(json.dumps([name, spans]) + "\\n")

@scorer(name="polite", fields=["output", "latency", "attributes.n"])
def polite(spans):
    print("this must not reach standard output")
    note("polite", spans)
    return [None if s["output"] is None else bool(s["output"]) for s in spans]

@scorer(name="moody", fields=["output"])
def moody(spans):
    note("moody", spans)
    if not all(s["output"] for s in spans):
        raise ValueError("secret " + str(spans[0]))
    return [True for _ in spans]

@scorer(name="slow", fields=["output"])
def slow(spans):
    note("slow", spans)
    time.sleep(3600)

@scorer(name="dying", fields=["output"])
def dying(spans):
    os._exit(9)

@scorer(name="short", fields=["output"])
def short(spans):
    return [True]
"""
TOP = """gapwatch: 1
portfolio: shop
version: 1
pipeline: shop
components:
- {id: agent, kind: llm}
- {id: search, kind: tool}
metrics:
- {name: answers, component: agent, claim: {form: check, field: output, present: true}}
"""
LINES = [trace(number) for number in range(700)]


def metric(scorer: str, more: str = "") -> str:
    return f"- {{name: m, component: agent, claim: {{form: python, scorer: {scorer}, fields: [output]}}{more}}}"


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    (tmp_path / "own.py").write_text(SCORERS.replace("{calls!r}", repr(str(tmp_path / "calls"))))
    return written(tmp_path / "t.jsonl", LINES)


def replay(traces: Path, *metrics: str, options: tuple[object, ...] = ()) -> Ran:
    folder = traces.parent
    portfolio = written(folder / "shop.yaml", [TOP + "\n".join(metrics)])
    return gapwatch(
        *("replay", traces, "--portfolio", portfolio, "--store", folder / "s.duckdb"),
        *("--scorers", folder / "own.py", "--json", *options),
    )


def outcomes(ran: Ran, name: str = "m") -> dict[str, int]:
    assert ran.status == 0, ran.err
    assert ran.json()["ledger_imbalance"] == 0
    found: dict[str, int] = ran.json()["outcomes"][name]
    return found


def batches(folder: Path) -> list[list[dict[str, Any]]]:
    return [json.loads(line)[1] for line in (folder / "calls").read_text().splitlines()]


def rows(folder: Path, what: str) -> list[tuple[Any, ...]]:
    with duckdb.connect(str(folder / "s.duckdb"), read_only=True) as con:
        return con.execute(f"SELECT {what} FROM gaps WHERE metric = 'm'").fetchall()


def agents(number: int) -> int:
    """How many spans of the component the trace of a number has."""
    return 2 if number % 3 == 2 else 1


def test_spans_come_in_batches_with_the_fields_of_the_claim_alone(traces: Path) -> None:
    two = "- {name: m, component: agent, claim: {form: python, scorer: polite, fields: [output, latency]}}"

    found = outcomes(ran := replay(traces, two))

    called = batches(traces.parent)
    spans = sum(agents(number) for number in range(700))
    assert [len(batch) for batch in called] == [BATCH_SPANS] * (spans // BATCH_SPANS) + [spans % BATCH_SPANS]
    assert {tuple(span) for batch in called for span in batch} == {("output", "latency")}
    assert Counter(bool(span["output"]) for batch in called for span in batch) == {
        True: found["pass"],
        False: found["fail"],
    }
    assert "must not reach" not in ran.out
    assert is_balanced(traces.parent / "s.duckdb")


def test_only_selected_spans_are_given_to_a_scorer_and_the_rest_is_counted(traces: Path) -> None:
    strata = "strata: [{name: small, when: {field: model, one_of: [small]}, rate: 1.0}]"
    sample = f", sample: {{rate: 0.25, {strata}, keep: {{pass: 1.0}}}}"

    found = outcomes(replay(traces, metric("polite", sample)))

    chosen = [n for n in range(700) if position(f"t{n}") < (1.0 if n % 7 == 0 else 0.25)]
    spans = sum(agents(number) for number in chosen)
    assert 0 < len(chosen) < 400
    assert sum(len(batch) for batch in batches(traces.parent)) == spans
    assert found["pass"] + found["fail"] == spans
    assert found["sampled_out"] == sum(agents(number) for number in range(700)) - spans
    assert set(rows(traces.parent, "stratum, p_evaluated")) == {("small", 1.0), (None, 0.25)}
    assert {trace_id for (trace_id,) in rows(traces.parent, "trace_id")} == {f"t{n}" for n in chosen}
    assert is_balanced(traces.parent / "s.duckdb")


def test_an_exception_is_an_error_of_its_batch_and_of_no_other(traces: Path) -> None:
    written(traces, [trace(number) for number in range(1, 600) if number >= 300 or number % 11])

    found = outcomes(ran := replay(traces, metric("moody")))

    called = batches(traces.parent)
    failed = sum(len(batch) for batch in called if not all(span["output"] for span in batch))
    assert 0 < failed < sum(map(len, called))
    assert found == {"error": failed, "pass": sum(map(len, called)) - failed}
    assert set(rows(traces.parent, "outcome, reason, score")) >= {("error", "exception: ValueError", None)}
    assert sum(ran.json()["outcomes"]["answers"].values()) == sum(map(len, called))  # the others are as ever
    assert "secret" not in ran.err + str(rows(traces.parent, "columns(*)::VARCHAR"))


def test_a_time_out_is_an_error_is_counted_and_does_not_hold_up_the_rest(traces: Path) -> None:
    written(traces, LINES[:40])

    found = outcomes(ran := replay(traces, metric("slow"), options=("--scorer-timeout", "1.5")))

    spans = sum(agents(number) for number in range(40))
    assert found == {"error": spans}
    assert set(rows(traces.parent, "outcome, reason")) == {("error", "timeout: no answer in 1.5 s")}
    assert sum(ran.json()["outcomes"]["answers"].values()) == spans
    ledger = gapwatch("ledger", "--store", traces.parent / "s.duckdb")
    assert ledger.status == 0 and "error" in ledger.out


@pytest.mark.parametrize(
    ("scorer", "reason"),
    [("dying", "exception: the scorer's process died"), ("short", "bad_result: 1 answers for")],
)
def test_a_scorer_that_dies_or_answers_too_little_costs_its_batches(traces: Path, scorer: str, reason: str) -> None:
    written(traces, LINES[:300])

    found = outcomes(replay(traces, metric(scorer)))

    assert found == {"error": sum(agents(number) for number in range(300))}
    assert all(text.startswith(reason) for (text,) in rows(traces.parent, "reason"))
    assert is_balanced(traces.parent / "s.duckdb")


@pytest.mark.parametrize(
    ("written_scorer", "module", "said"),
    [
        ("nobody", "own.py", "no scorer named 'nobody'"),
        ("polite", "none.py", "none.py cannot be loaded: ModuleNotFoundError"),
        ("polite", "broken.py", "broken.py cannot be loaded: SyntaxError"),
        ("polite", None, "name its module with --scorers"),
    ],
)
def test_a_scorer_that_is_not_there_is_refused_before_anything_is_read(
    traces: Path, written_scorer: str, module: str | None, said: str
) -> None:
    folder = traces.parent
    written(folder / "broken.py", ["def"])
    portfolio = written(folder / "shop.yaml", [TOP + metric(written_scorer)])
    options = [] if module is None else ["--scorers", folder / module]

    ran = gapwatch("replay", traces, "--portfolio", portfolio, "--store", folder / "s.duckdb", *options)

    assert (ran.status, ran.out) == (2, "")
    assert said in ran.err and "Traceback" not in ran.err
    assert not (folder / "s.duckdb").exists()


def test_a_field_that_the_scorer_does_not_read_is_refused(traces: Path) -> None:
    asked = "- {name: m, component: agent, claim: {form: python, scorer: moody, fields: [output, model]}}"

    ran = replay(traces, asked)

    assert ran.status == 2
    assert "the scorer 'moody' does not read model" in ran.err
