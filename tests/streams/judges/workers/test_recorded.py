"""Verdicts of real judges, served again: the figures that come out are those that the recordings hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.paths import ROOT
from tests.streams.judges.judged_store import imbalance_of, query
from tests.streams.judges.recorded import agreements_in, judge_recorded, read_sample

DATA = ROOT / "tests" / "data" / "judges"


def test_one_judge_under_four_prompts_against_what_the_program_found(tmp_path: Path) -> None:
    recorded = read_sample(DATA / "tau2_airline.jsonl.gz")
    path, result = judge_recorded(tmp_path, recorded, ["pass", "fail"])
    found = {(one.first, one.second): one for one in agreements_in(path)}

    # As its authors count them: right pass, wrong pass, wrong fail, right fail.
    confusions = {
        "quick_triage": (22, 24, 1, 3), "policy_conversation": (18, 11, 5, 16), "customer_outcome": (14, 21, 9, 6),
    }  # fmt: skip
    for judge, (right, wrong, false_fail, fail) in confusions.items():
        one = found[judge, "human"]
        n = right + wrong + false_fail + fail
        assert one.same.value == pytest.approx((right + fail) / n)
        assert one.f1 is not None
        assert one.f1.value == pytest.approx(2 * fail / (2 * fail + wrong + false_fail))
        chance = ((right + wrong) * (right + false_fail) + (false_fail + fail) * (wrong + fail)) / n**2
        assert one.kappa.value == pytest.approx(((right + fail) / n - chance) / (1 - chance))
    # The fourth prompt let the judge choose its words; what is not on the scale is an error, and asked for once more.
    free = sum(one.judge == "policy_chain_of_thought" and one.said not in ("pass", "fail") for one in recorded)
    assert result.errors == {"off_scale": free}
    assert found["policy_chain_of_thought", "human"].same.n == 50 - free
    assert result.calls == 200 + free
    assert imbalance_of(path) == 0


def test_a_panel_leaves_out_the_judge_whose_call_failed(tmp_path: Path) -> None:
    recorded = read_sample(DATA / "grafite.jsonl.gz")
    path, result = judge_recorded(tmp_path, recorded, [1, 0], "grafite_input_output")
    found = {(one.first, one.second): one for one in agreements_in(path)}

    # The run that recorded them counted the failed call as a 0.
    assert [one.judge for one in recorded if one.said is None] == ["phi-4"]
    assert result.errors == {"bad_request": 1}
    left_out = "SELECT evidence->>'left_out' FROM gaps WHERE judge = 'ensemble' AND evidence->>'left_out' IS NOT NULL"
    assert query(path, left_out) == [('["phi-4"]',)]
    by_hand: dict[str, list[int | None]] = {}
    for one in recorded:
        by_hand.setdefault(one.item, []).append(None if one.said is None else int(one.said))
    outcomes = [
        "pass" if sum(v := [s for s in said if s is not None]) / len(v) > 0.5 else "fail" for said in by_hand.values()
    ]
    assert [
        o for (o,) in query(path, "SELECT outcome FROM gaps WHERE judge = 'ensemble' ORDER BY source_offset")
    ] == outcomes
    assert found["gpt-oss:120b", "phi-4"].same.n == 19
    assert found["gpt-oss:120b", "llama-3.3:70b"].same.value == pytest.approx(19 / 20)
