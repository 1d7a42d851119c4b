"""The bundle of real conversations, and what its portfolios say of the bad release."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gapwatch.scorers.loading.load import load_portfolio
from tests.deploy.demo_traces import (
    AIRLINE,
    TRACES,
    bundled,
    envelope_faults,
    ledger_of,
    run_script,
    scored,
    units_of,
)

PORTFOLIO, RETAIL = AIRLINE / "portfolio.yaml", AIRLINE / "retail.yaml"
NAMES = sorted(path.name.removesuffix(".jsonl.gz") for path in TRACES.glob("*.jsonl.gz"))
GOOD = (
    "airline_claude-sonnet-4-5",
    "airline_gpt-4.1",
    "airline_ft-gpt-4.1-sft",
    "airline_gpt-4o-2024-11-20",
    "airline_two-tier_opus-4-6_sonnet-4-6",
)
BAD = "airline_qwen2.5-7b"


def test_the_bundle_has_at_most_two_megabytes() -> None:
    assert sum(path.stat().st_size for path in TRACES.iterdir()) <= 2_000_000


def test_the_bundle_holds_every_run_of_the_source() -> None:
    traces = [json.loads(record) for name in NAMES for record in bundled(name)]
    spans = [span for trace in traces for span in trace["spans"]]
    tools = [span for span in spans if span["component"] == "tools"]

    assert (len(NAMES), len(traces), len(spans)) == (13, 353, 9636)
    assert (len(tools), sum(span["status"] == "error" for span in tools)) == (2605, 131)
    assert len({trace["trace_id"] for trace in traces}) == 353


@pytest.mark.parametrize("name", NAMES)
def test_every_bundled_record_is_a_sound_envelope(name: str) -> None:
    assert [fault for record in bundled(name) for fault in envelope_faults(json.loads(record))] == []


@pytest.mark.parametrize(("portfolio", "prefix", "records"), [(PORTFOLIO, "airline_", 273), (RETAIL, "retail_", 80)])
def test_the_engine_reads_every_record_and_no_metric_errs(portfolio: Path, prefix: str, records: int) -> None:
    result = scored(portfolio, [record for name in NAMES if name.startswith(prefix) for record in bundled(name)])

    assert ledger_of(result, None) == {"read": records}
    assert result.tables["dead_letters"].num_rows == 0
    metrics = load_portfolio(portfolio).metrics
    assert [metric.name for metric in metrics if ledger_of(result, metric.name).get("error")] == []


# The figures that the portfolio gives as the reason of its thresholds: bad conversations, conversations with a step.
SEPARATE = {
    "ids_known": ((1, 182), (21, 47)),
    "tool_calls_succeed": ((8, 186), (26, 47)),
    "ends_by_customer": ((0, 188), (10, 50)),
    "same_call_again": ((0, 188), (10, 50)),
    "reply_or_call": ((0, 188), (9, 50)),
    "no_call_syntax_in_reply": ((0, 188), (8, 50)),
    "ids_said_known": ((1, 172), (12, 39)),
    "writes_confirmed": ((1, 105), (3, 31)),
    "errors_in_a_conversation": ((2, 188), (13, 50)),
    "conversation_seconds": ((0, 188), (3, 50)),
    "conversation_steps": ((0, 188), (2, 50)),
    "transfer_is_real": ((1, 42), (2, 8)),
}
DO_NOT_SEPARATE = {
    "arguments_are_json": ((0, 186), (0, 47)),
    "escalation_rate": ((58, 188), (9, 40)),
    "one_call_at_a_time": ((98, 186), (21, 47)),
    "no_text_beside_a_call": ((66, 186), (0, 47)),
    "reply_latency": ((13, 188), (10, 50)),
}


@pytest.mark.slow
def test_the_figures_behind_the_thresholds_are_those_of_the_engine() -> None:
    good = scored(PORTFOLIO, [record for name in GOOD for record in bundled(name)])
    bad = scored(PORTFOLIO, bundled(BAD))

    def bad_of(result: object, metric: str) -> tuple[int, int]:
        units = units_of(result, metric)  # type: ignore[arg-type]
        return units.get("bad", 0), units.get("bad", 0) + units.get("good", 0)

    expected = SEPARATE | DO_NOT_SEPARATE
    assert {name: (bad_of(good, name), bad_of(bad, name)) for name in expected} == expected


def test_an_unknown_price_and_an_unrecorded_rejection_are_unknown_and_no_failure() -> None:
    bad, gpt_4o = scored(PORTFOLIO, bundled(BAD)), scored(PORTFOLIO, bundled("airline_gpt-4o-2024-11-20"))

    assert ledger_of(bad, "agent_cost") == {"unknown": 732}
    assert ledger_of(gpt_4o, "agent_cost") == {"pass": 446}
    assert ledger_of(gpt_4o, "rejected_reply_rate") == {"unknown": 446}
    assert ledger_of(bad, "rejected_reply_rate") == {"fail": 128, "pass": 604}


def test_only_the_two_tier_release_has_a_fallback() -> None:
    two_tier = scored(PORTFOLIO, bundled("airline_two-tier_opus-4-6_sonnet-4-6"))

    assert units_of(two_tier, "fallback_rate") == {"good": 46, "bad": 2}
    assert ledger_of(scored(PORTFOLIO, bundled(BAD)), "fallback_rate") == {}


def test_the_judge_waits_and_sees_every_reply_that_claims_an_action() -> None:
    result = scored(PORTFOLIO, bundled(BAD))
    states = ledger_of(result, "reply_keeps_to_policy")

    assert set(states) == {"pending", "sampled_out"}
    assert result.tables["judge_requests"].num_rows == states["pending"] > 0


@pytest.mark.parametrize("portfolio", [PORTFOLIO, RETAIL], ids=lambda path: path.stem)
def test_every_threshold_says_where_its_number_comes_from(portfolio: Path) -> None:
    for metric in load_portfolio(portfolio).metrics:
        assert metric.threshold is None or metric.threshold.justification, metric.name


def test_the_next_release_of_the_shop_does_as_well_as_the_last() -> None:
    failed = [
        units_of(scored(RETAIL, bundled(name)), "task_done").get("bad")
        for name in ("retail_gpt-4.1", "retail_ft-gpt-4.1-sft")
    ]

    assert failed == [6, 6]


def test_playing_moves_the_clock_and_nothing_else() -> None:
    names = ("airline_gpt-4o-2024-11-20", BAD)
    files = [TRACES / f"{name}.jsonl.gz" for name in names]
    done = run_script(AIRLINE / "play.py", "--start", "2026-03-02T08:00:00Z", "--every", "30", *files)
    assert done.returncode == 0, done.stderr
    played = [json.loads(line) for line in done.stdout.splitlines()]
    recorded = [json.loads(record) for name in names for record in bundled(name)]

    assert [trace["started_at"] for trace in played] == [1772438400.0 + 30 * i for i in range(100)]
    for new, old in zip(played, recorded, strict=True):
        shift = new["started_at"] - old["started_at"]
        assert new["attributes"].pop("recorded_at") == old["started_at"]
        for moved, kept in [(new, old), *zip(new["spans"], old["spans"], strict=True)]:
            for key in ("started_at", "ended_at"):
                assert moved.pop(key) == pytest.approx(kept.pop(key) + shift, abs=2e-6)
        assert new == old


def test_playing_names_a_fallback_where_no_tier_is_recorded() -> None:
    two_tier = "two-tier_opus-4-6_sonnet-4-6"
    files = [TRACES / f"airline_{name}.jsonl.gz" for name in ("gpt-4.1", "qwen2.5-7b", two_tier)]
    done = run_script(AIRLINE / "play.py", "--fallback", "qwen2.5-7b", *files)
    assert done.returncode == 0, done.stderr
    tiers: dict[tuple[str, str | None], set[str | None]] = {}
    for trace in map(json.loads, done.stdout.splitlines()):
        said = (trace["release"].split("_")[0], trace["attributes"].get("tier_by"))
        tiers.setdefault(said, set()).update(s.get("tier") for s in trace["spans"] if s["component"] == "agent")
        assert not any(span.get("tier") for span in trace["spans"] if span["component"] != "agent")

    assert tiers.pop(("gpt-4.1", "play.py")) == {"primary"}
    assert tiers.pop(("qwen2.5-7b", "play.py")) == {"fallback"}
    assert list(tiers.values()) == [{"primary", "fallback"}]  # as recorded


def test_playing_needs_a_positive_distance() -> None:
    done = run_script(AIRLINE / "play.py", "--every", "0", TRACES / f"{BAD}.jsonl.gz")

    assert done.returncode == 2
    assert "--every: a positive number of seconds is expected" in done.stderr
