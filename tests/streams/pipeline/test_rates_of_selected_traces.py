"""Published rates through the whole way: the publisher thins, a stratum selects by trace id, and `rates` tells."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

from tests.gapwatch_command import gapwatch
from tests.streams.replayed import is_balanced, written

PORTFOLIO = """gapwatch: 1
portfolio: shop
version: 1
pipeline: shop
components: [{id: agent, kind: llm}]
metrics:
- name: good
  component: agent
  claim: {form: python, scorer: good, fields: [output]}
  sample: {rate: 0.6, strata: [{name: errors, when: {field: status, one_of: [error]}, rate: 1.0}], keep: {pass: 0}}
- {name: seen, component: agent, claim: {form: check, field: output, one_of: [good, fine]}, sample: {keep: {pass: 0}}}
"""
SCORER = """
from gapwatch.scorers.scoring.python_scorer import scorer

@scorer(name="good", fields=["output"])
def good(spans):
    return [span["output"] == "good" for span in spans]
"""
#: One environment is one draw from the process: a rate of its own.
DRAWS, TRACES = 150, 300
#: Of the traces that are errors 7 in 10 fail, of all others 2 in 10; of those the publisher keeps one in two.
ERRORS, BAD_ERRORS, BAD_OTHERS, PUBLISHED = 0.2, 0.7, 0.2, 0.5
RATE = ERRORS * BAD_ERRORS + (1 - ERRORS) * BAD_OTHERS


def process() -> Iterator[str]:
    """Make the traces of all draws and publish them, each with the probability it was kept with."""
    chance = random.Random(20261121)
    for draw in range(DRAWS):
        for number in range(TRACES):
            is_error = chance.random() < ERRORS
            bad = chance.random() < (BAD_ERRORS if is_error else BAD_OTHERS)
            p = 1.0 if is_error else PUBLISHED
            if chance.random() >= p:
                continue
            span = {
                "span_id": "s", "component": "agent", "status": "error" if is_error else "ok",
                "output": "bad" if bad else "good",
            }  # fmt: skip
            yield json.dumps(
                {
                    "trace_id": f"{draw}-{number}", "pipeline": "shop", "environment": f"e{draw}",
                    "sampling_probability": p, "ended_at": 1_774_166_400, "spans": [span],
                }
            )  # fmt: skip


def test_the_intervals_of_selected_traces_cover_the_rate_of_the_process(tmp_path: Path) -> None:
    traces = written(tmp_path / "t.jsonl", process())
    (tmp_path / "own.py").write_text(SCORER)
    portfolio, store = written(tmp_path / "shop.yaml", [PORTFOLIO]), tmp_path / "s.duckdb"

    ran = gapwatch(
        "replay", traces, "--portfolio", portfolio, "--store", store, "--scorers", tmp_path / "own.py", "--quiet"
    )

    assert (ran.status, ran.err) == (0, "")
    assert is_balanced(store)
    rates = gapwatch("rates", "--store", store, "--per", "all", "--format", "json").json()
    for metric, share in (("good", 0.6), ("seen", 1.0)):
        found = [rate for rate in rates if rate["metric"] == metric]
        assert len(found) == DRAWS
        assert min(rate["effective_units"] for rate in found) * RATE >= 10
        covered = sum(rate["lower"] <= RATE <= rate["upper"] for rate in found) / DRAWS
        assert 0.92 <= covered <= 0.985  # 95 % within two standard errors of so many draws
        mean = sum(rate["rate"] for rate in found) / DRAWS
        assert abs(mean - RATE) < 0.01
        # Unweighted it would be far off: the failing kind is selected most.
        plain = sum(rate["bad"] for rate in found) / sum(rate["units"] for rate in found)
        errors, others = ERRORS, (1 - ERRORS) * PUBLISHED * share
        assert abs(plain - (errors * BAD_ERRORS + others * BAD_OTHERS) / (errors + others)) < 0.02
        assert plain - RATE > 0.05
