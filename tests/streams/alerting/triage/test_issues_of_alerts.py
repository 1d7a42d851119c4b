"""From an alert to an issue, and back: failing traces are grouped, and a fixed issue that returns is told."""

from __future__ import annotations

import json
import random
from pathlib import Path

import duckdb
import pytest

from tests.gapwatch_command import gapwatch

PORTFOLIO = """gapwatch: 1
portfolio: shop
version: 1
pipeline: shop
volume: {traces_per_day: 100}
components: [{id: agent, kind: llm}]
metrics:
- name: parses
  component: agent
  claim: {form: check, field: output, format: json}
  alert: {severity: page}
- {name: short, component: agent, claim: {form: check, field: output, length: {max: 40}}}
- {name: polite, component: agent, claim: {form: check, field: "attributes.polite", one_of: ["yes"]}}
"""
GOOD, ALL = 3_000, 3_600
PLANTED = "Traceback (most recent call last): the fare service answered with a page of HTML"


def conversation(number: int, draw: random.Random) -> tuple[str, bool]:
    """Return a trace, and whether the planted fault of the bad release made it fail."""
    is_bad_release = number >= GOOD
    planted = is_bad_release and draw.random() < 0.3
    output, polite = '{"answer": "on Tuesday"}', "yes"
    if planted:
        output = f"{PLANTED} {number}"
    elif draw.random() < 0.02:  # what always fails now and then
        output, polite = "sorry", draw.choice(["yes", "no"])
    at = 1_774_166_400 + 30 * number
    span = {"span_id": "s", "component": "agent", "kind": "llm", "input": f"When is flight {number}?", "output": output,
            "started_at": at, "ended_at": at + 1, "attributes": {"polite": polite}}  # fmt: skip
    record = {
        "trace_id": f"t{number}",
        "pipeline": "shop",
        "release": "v2" if is_bad_release else "v1",
        "ended_at": at + 1,
    }
    return json.dumps({**record, "spans": [span]}), planted


@pytest.mark.slow
def test_a_bad_release_becomes_one_draft_and_a_fixed_issue_regresses(tmp_path: Path) -> None:
    store, draw = tmp_path / "s.duckdb", random.Random(7)
    (tmp_path / "p.yaml").write_text(PORTFOLIO)
    made = [conversation(number, draw) for number in range(ALL)]
    (tmp_path / "t.jsonl").write_text("".join(f"{line}\n" for line, _ in made))
    old = gapwatch("issue", "new", "HTML instead of JSON", "--metric", "parses", "--status", "fixed", "--store", store)
    other = gapwatch("issue", "new", "Rude", "--metric", "polite", "--status", "fixed", "--store", store)
    ran = gapwatch(
        "replay", tmp_path / "t.jsonl", "--portfolio", tmp_path / "p.yaml", "--store", store, "--alerts", "--quiet"
    )
    assert ran.status == 0, ran.err

    said = gapwatch("triage", "check", "--store", store)
    assert said.out.startswith(f"{old.out.strip()} has regressed: alert ")
    assert other.out.strip() not in said.out
    assert (
        "no fixed issue has returned"
        in gapwatch("triage", "check", "--store", store).err + gapwatch("triage", "check", "--store", store).out
    )
    shown = gapwatch("issue", "show", old.out.strip(), "--store", store, "--format", "json").json()
    assert [(one["status"], one["by"]) for one in shown["changes"]][-1] == ("regressed", "gapwatch")

    (item,) = gapwatch("triage", "list", "--kind", "alert", "--store", store, "--format", "json").json()
    draft = gapwatch("triage", "make", item["key"], "--force", "--store", store, "--by", "ann")
    assert draft.status == 0, draft.err
    issue = gapwatch("issue", "show", draft.out.strip(), "--store", store, "--format", "json").json()
    assert issue["status"] == "draft"
    assert "fail parses, short; releases: v2" in issue["description"]
    from gapwatch.sinks.issues.alert_group import alert_group

    with duckdb.connect(str(store), read_only=True) as con:
        group = alert_group(con, item["item"])
    assert group is not None
    truth = {f"t{n}" for n, (_, planted) in enumerate(made) if planted}
    pure = sum(trace in truth for trace in group.traces) / len(group.traces)
    found = len(set(group.traces) & truth) / len(truth)
    assert pure >= 0.9 and found >= 0.9, (pure, found)
    inputs = [json.loads(test["inputs"])[0]["content"] for test in issue["tests"]]
    assert len(inputs) == 5 and all(text.startswith("When is flight") for text in inputs)
    assert gapwatch("triage", "list", "--kind", "alert", "--store", store, "--format", "json").json() == []


def test_a_fault_that_returns_before_its_alert_has_ended_is_told(tmp_path: Path) -> None:
    store, traces, draw = tmp_path / "s.duckdb", tmp_path / "t.jsonl", random.Random(3)
    (tmp_path / "p.yaml").write_text(PORTFOLIO)
    written = 0

    def go_on(number: int, *, failing: float) -> None:
        nonlocal written
        with traces.open("a") as file:
            for _ in range(number):
                line, _ = conversation(written, random.Random(0))
                trace = json.loads(line)
                trace["spans"][0]["output"] = PLANTED if draw.random() < failing else "{}"
                file.write(json.dumps(trace) + "\n")
                written += 1
        ran = gapwatch(
            "replay", traces, "--portfolio", tmp_path / "p.yaml", "--store", store, "--alerts", "--quiet"
        )  # fmt: skip
        assert ran.status == 0, ran.err

    def check() -> str:
        done = gapwatch("triage", "check", "--store", store)
        return done.out + done.err

    go_on(600, failing=0.02)
    go_on(100, failing=0.4)
    (alert,) = gapwatch("alerts", "--store", store, "--format", "json").json()
    issue = gapwatch("issue", "new", "HTML", "--metric", "parses", "--status", "fixed", "--store", store).out.strip()
    go_on(40, failing=0.4)
    assert "no fixed issue has returned" in check(), "it never went"
    go_on(40, failing=0.02)
    assert "no fixed issue has returned" in check()
    go_on(40, failing=0.4)

    (still,) = gapwatch("alerts", "--store", store, "--format", "json").json()
    assert still["alert_id"] == alert["alert_id"], "the first alert had not ended"
    assert (
        check()
        == f"{issue} has regressed: it was gone and is back, behind the open alert {alert['alert_id']} of parses\n"
    )
    assert "no fixed issue has returned" in check()


def test_a_metric_of_an_issue_loads_in_a_portfolio(tmp_path: Path) -> None:
    store = tmp_path / "s.duckdb"
    words = ("Invents fare rules!", "--guideline", "Names only rules of the policy: all.")
    id_ = gapwatch("issue", "new", *words, "--store", store).out.strip()
    printed = gapwatch(
        "issue", "metric", id_, "--component", "agent", "--judge", "openai/gpt-4.1-mini", "--store", store
    )
    (tmp_path / "p.yaml").write_text(PORTFOLIO + printed.out)

    checked = gapwatch("check", tmp_path / "p.yaml")
    assert checked.status == 0, checked.err
    assert "no_invents_fare_rules" in printed.out
    shown = gapwatch("issue", "show", id_, "--store", store, "--format", "json").json()
    assert shown["metric"] == "no_invents_fare_rules"
