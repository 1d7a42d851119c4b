"""Page on an alert: rate now, reasons in texts, rows with text, author of the direction, short commands."""

from __future__ import annotations

import json
import random
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from gapwatch.streams.alerting.incidents.alert_facts import AlertFacts
from gapwatch.streams.alerting.incidents.wording import volume_text
from tests.gapwatch_command import gapwatch

_BEGIN = 1_772_600_000  # 2026-03-04T04:53:20Z
_SHIFT = 1_500

PORTFOLIO = """
gapwatch: 1
portfolio: bot
version: 1
pipeline: bot
volume: {traces_per_day: 2000}
components:
  - {id: answer, role: ai_core, kind: llm}
  - {id: retrieve, role: supporting, kind: retrieval}
facts:
  - {id: f-1, kind: direction, component: answer, metric: answered, better: lower, value: x, by: maria, at: 2026-03-01}
metrics:
  - name: answered
    component: answer
    claim: {form: check, field: output, present: true}
    alert: {severity: page}
"""


def trace(number: int, draw: random.Random) -> dict[str, Any]:
    """One trace every five seconds; from the shift on a third fails, most by a rate limit, in the region eu only."""
    at, is_late = _BEGIN + 5 * number, number >= _SHIFT
    fails = draw.random() < (0.33 if is_late else 0.02)
    span = {
        "span_id": "1", "component": "answer", "kind": "llm", "name": "chat", "model": "m1", "started_at": at,
        "ended_at": at + 1, "output": "" if fails else "yes",
        "error_type": "RateLimitError" if fails and is_late else None,
        "attributes": {"gen_ai.response.finish_reasons": "stop"},
    }  # fmt: skip
    region = "eu" if fails and is_late else draw.choice(["eu", "us"])
    return {
        "trace_id": f"t{number}", "pipeline": "bot", "release": "r2" if is_late else "r1",
        "session_id": f"s{number // 3}",
        "started_at": at, "ended_at": at + 1, "attributes": {"region": region, "user": f"u{number}"}, "spans": [span],
    }  # fmt: skip


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("explain")
    draw = random.Random(1)
    (folder / "t.jsonl").write_text("".join(json.dumps(trace(n, draw)) + "\n" for n in range(_SHIFT + 400)))
    (folder / "p.yaml").write_text(PORTFOLIO)
    made = gapwatch(
        "replay", folder / "t.jsonl", "--portfolio", folder / "p.yaml", "--store", folder / "s.duckdb", "--alerts"
    )
    assert made.status == 0, made.err
    return folder / "s.duckdb"


@pytest.fixture(scope="module")
def page(store: Path) -> str:
    (alert,) = gapwatch("alerts", "--store", store, "--format", "json").json()
    return gapwatch("explain", alert["alert_id"], "--store", store).out


def test_a_shift_in_sessions_is_dated_and_told_by_three_times(page: str) -> None:
    assert "began 2026-03-04 06:5" in page
    assert "found in the data at 2026-03-04 07:" in page
    assert "told at 20" in page and "when they were stored" in " ".join(page.split())
    assert page.startswith("PAGE open  SHIFT worse")


def test_it_says_the_rate_now_and_until_when(page: str) -> None:
    assert "last 10 minutes: 40.5% [31.8%, 49.7%] failing, of 116 traces" in page
    assert "34.5 minutes since the change: 36.1%" in page
    assert "until 2026-03-04 07:32:00Z, the newest trace" in page


def test_it_says_why_where_there_is_more_than_one_value(page: str) -> None:
    why = page[page.index("Why") : page.index("New then")]

    assert "release r2: 100% of the excess" in why
    assert "error type RateLimitError" in why and "dimension region eu" in why
    assert "model m1" not in why and "finish reason" not in why and "user" not in why


def test_it_says_when_the_excess_was_counted_and_between_which_times_a_release_came(page: str) -> None:
    said = " ".join(page.split())
    (counted,) = re.findall(
        r"counted from (\S+ \S+) until it was found, (\S+ \S+); before: the 7 days until then", said
    )

    assert f"began {counted[0]} (95 %" in said and f"found in the data at {counted[1]}," in said
    # The first trace of r2 starts at 06:58:20.
    assert "release r2, its first trace between 2026-03-04 06:58:00Z and 06:58:30Z" in said


def test_rows_with_text_come_first_and_their_text_is_there(store: Path, page: str) -> None:
    rows = page[page.index("Rows") : page.index("See rows")]
    first = rows.split("--trace ")[1].split()[0]

    assert "# its text" in rows.splitlines()[1]
    assert "RateLimitError" in gapwatch("gaps", "--trace", first, "--store", store).out


def test_it_says_who_verified_the_direction_and_how_sure_it_is_in_plain_words(page: str) -> None:
    said = " ".join(page.split())
    assert "verified by f-1 (maria, 2026-03-01)" in said
    assert "chance opens such an alert on this series at most once every" in said
    assert "10^" not in page


def test_commands_are_short_and_work(store: Path, page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (alert,) = gapwatch("alerts", "--store", store, "--format", "json").json()
    short = alert["alert_id"][:4]
    rows = gapwatch("explain", short, "--store", store, "--rows")
    monkeypatch.setenv("GAPWATCH_STORE", str(store))
    at_home = gapwatch("explain", short)

    assert f"explain {short} --store {store} --rows" in page
    assert rows.status == 0 and "trace" in rows.out and "t15" in rows.out
    assert "--store" not in at_home.out
    assert f"ack {short} --by YOU" in at_home.out


def test_a_component_without_a_metric_is_named_as_that(store: Path) -> None:
    assert "component retrieve (no metric is about it)" in gapwatch("alerts", "--store", store).out


def test_an_acknowledged_alert_says_as_what_it_is_told_and_offers_no_second_ack(store: Path, tmp_path: Path) -> None:
    mine = shutil.copy(store, tmp_path / "acknowledged.duckdb")
    (alert,) = gapwatch("alerts", "--store", mine, "--format", "json").json()
    assert gapwatch("ack", alert["alert_id"], "--store", mine, "--by", "ana").status == 0
    page = gapwatch("explain", alert["alert_id"], "--store", mine).out

    assert "acknowledged (told as ticket)" in gapwatch("alerts", "--store", mine).out
    assert page.startswith("PAGE acknowledged (told as ticket)  SHIFT worse")
    assert "acknowledged (page) by ana\n" in page
    assert " ack " not in page and " accept " in page


def test_a_declared_volume_is_told_from_that_of_the_busiest_day(page: str) -> None:
    facts = AlertFacts.from_json({"unit": "trace", "units_per_month": None, "busiest_day": 2880.0})

    assert volume_text(facts) == "2,880 traces a day, its busiest day until then"
    assert "at the declared volume of 2,000 traces a day" in " ".join(page.split())


def test_an_estimate_is_not_said_to_be_too_large(page: str) -> None:
    said = " ".join(page.split())
    assert "the rate that lasts may differ, because it rests on the first traces since the change" in said
