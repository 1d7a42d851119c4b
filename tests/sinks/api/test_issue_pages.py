"""Pages of triage, issues and runs: what they show, that texts cannot run in them, and who may decide."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from datetime import datetime

import pytest

from gapwatch.sinks.api.access import ApiOptions
from gapwatch.sinks.feedback.feedback import Feedback
from gapwatch.sinks.feedback.stored_intake import stored_intake
from tests.gapwatch_command import gapwatch
from tests.http_client import Got, get, post
from tests.live_alerts import KeptAlerts
from tests.paths import FOLDERS, ROOT
from tests.streams.alerting.breaking_stream import BROKEN, slices_after_calm
from tests.streams.alerting.builders import portfolio

WRITE = "write-token-0123456789"
EVIL = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KeptAlerts]:
    path = tmp_path_factory.mktemp("pages") / "s.duckdb"
    with KeptAlerts(path, portfolio(), ApiOptions(port=0, write_token=WRITE)) as opened:
        opened.keep_all(slices_after_calm(BROKEN))
        now = datetime(2026, 3, 2)
        said = [("f-1", "the answer about fares is plainly wrong"), ("f-2", "plainly wrong answer about the fares")]
        given = [{"trace_id": "t", "value": "down", "comment": text, "id": id_} for id_, text in said]
        stored_intake(opened.store).take([Feedback.read(one, now) for one in given], "file")
        ended = threading.Event()

        def write() -> None:
            while not ended.wait(0.02):
                if opened.decisions.waiting:
                    opened.decide()

        writer = threading.Thread(target=write)
        writer.start()
        seed = ROOT / "tests" / "data" / "grafite_seed"
        assert gapwatch("issue", "import", seed, "--store", path, "--by", "ann").status == 0
        assert gapwatch("issue", "new", EVIL, "--description", EVIL, "--store", path, "--by", "eve").status == 0
        yield opened
        ended.set()
        writer.join()


def text_of(kept: KeptAlerts, path: str, **query: str) -> str:
    got = get(kept.server.url, path, **query)
    assert got.status == 200, got.body
    assert got.headers["Content-Type"] == "text/html; charset=utf-8"
    assert "default-src 'none'" in got.headers["Content-Security-Policy"]
    return got.body.decode()


def decide(kept: KeptAlerts, path: str, **asked: object) -> Got:
    return post(kept.server.url, path, asked, {"Authorization": f"Bearer {WRITE}"})


def test_the_queue_shows_what_waits_and_takes_a_decision_with_the_write_token_alone(kept: KeptAlerts) -> None:
    queue = text_of(kept, "/triage", kind="alert")
    (item,) = re.findall(r'data-item="(alert:\w+)"', queue)
    assert "page: parses of agent moved up" in queue
    asked = {"item": item, "decision": "make", "title": "Answers break", "by": "maria"}
    assert post(kept.server.url, "/v1/triage", asked).status == 401

    made = decide(kept, "/v1/triage", **asked).json()
    assert (made["applied"], made["items"]) == (True, [item])
    page = text_of(kept, f"/issues/{made['issue']}")
    assert "Answers break" in page and item.partition(":")[2] in page and "maria" in page
    assert "nothing waits" in text_of(kept, "/triage", kind="alert")
    assert "no item" in decide(kept, "/v1/triage", **asked).json()["error"]

    changed = decide(kept, "/v1/issues/status", issue=made["issue"], status="open", why="three users", by="maria")
    assert changed.json()["said"] == f"{made['issue']} is open"
    assert "three users" in text_of(kept, f"/issues/{made['issue']}")
    for wrong in ({"status": "done"}, {"status": "open", "why": ""}, {"status": "open", "by": ""}):
        given = {"issue": made["issue"], "why": "x", "by": "maria", **wrong}
        assert decide(kept, "/v1/issues/status", **given).status == 400


def test_a_similar_issue_is_proposed_and_a_second_one_needs_to_be_asked_for(kept: KeptAlerts) -> None:
    first = decide(kept, "/v1/triage", item="feedback:f-1", decision="make", by="ann").json()
    assert f"issues/{first['issue']}" in text_of(kept, "/triage", kind="feedback")

    refused = decide(kept, "/v1/triage", item="feedback:f-2", decision="make", by="ann")
    assert (refused.status, refused.json()["similar"]) == (409, True)
    joined = decide(kept, "/v1/triage", item="feedback:f-2", decision="join", issue=first["issue"], by="ann").json()
    assert joined["said"] == f"feedback:f-2 joined {first['issue']}"
    assert "feedback:f-2" not in text_of(kept, "/triage", kind="feedback")


def test_issues_show_their_status_and_failure_rate_and_runs_their_verdicts(kept: KeptAlerts) -> None:
    issues = text_of(kept, "/issues")
    assert issues.count("100.0%<small>1 of 1") == 13 and issues.count("0.0%<small>0 of 1") == 7
    runs = text_of(kept, "/runs")
    (run,) = re.findall(r'href="(runs/\w+)"', runs)
    assert "35.0%<small>7 of 20" in runs
    page = text_of(kept, f"/{run}")
    assert page.count("<details>") == 20
    assert "7 tests pass in all judges, 9 fail in all, 4 split" in page
    name = run.partition("/")[2]
    assert "same outcome on all 20 tests" in text_of(kept, "/compare", baseline=name, candidate=name)
    assert get(kept.server.url, "/compare", baseline="nothing", candidate=name).status == 404
    assert get(kept.server.url, "/issues/nothing").status == 404


def test_no_text_runs_and_the_script_asks_nobody_else(kept: KeptAlerts) -> None:
    for path in ("/issues", "/triage", *re.findall(r'href="(issues/i-\w+)"', text_of(kept, "/issues"))):
        page = text_of(kept, path if path.startswith("/") else f"/{path}")
        assert EVIL not in page
        assert re.findall(r"<script[^>]*>", page) in (
            [],
            ['<script src="./triage.js">'],
            ['<script src="../triage.js">'],
        )
        assert " style=" not in page and " onclick" not in page
    script = next(FOLDERS["sinks"].rglob("triage.js")).read_text()
    for way in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "https://", "Storage"):
        assert way not in script
    assert get(kept.server.url, "/triage.js").headers["Content-Type"] == "text/javascript; charset=utf-8"


def test_a_page_of_another_origin_decides_nothing(kept: KeptAlerts) -> None:
    headers = {"Authorization": f"Bearer {WRITE}", "Origin": "https://elsewhere.example"}
    asked = {"item": "alert:x", "decision": "drop", "why": "x", "by": "eve"}
    assert post(kept.server.url, "/v1/triage", asked, headers).status == 403
    assert json.loads(decide(kept, "/v1/triage", **{**asked, "why": " "}).body)["error"] == "send `why` as a text"
