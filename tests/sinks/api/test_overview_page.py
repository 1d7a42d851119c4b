"""The page at `/`: its queries are answered, and texts from records cannot run in it."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from gapwatch.sinks.metrics.families import FAMILIES
from tests.http_client import get
from tests.live_alerts import KeptAlerts
from tests.paths import FOLDERS
from tests.streams.alerting.breaking_stream import BROKEN, slices_after_calm
from tests.streams.alerting.builders import portfolio

(SOURCE,) = FOLDERS["sinks"].rglob("overview.js")
SCRIPT = SOURCE.read_text()


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KeptAlerts]:
    with KeptAlerts(tmp_path_factory.mktemp("page") / "s.duckdb", portfolio()) as opened:
        opened.keep_all(slices_after_calm(BROKEN))
        yield opened


@pytest.mark.parametrize(
    ("path", "kind"),
    [("/", "text/html"), ("/overview.css", "text/css"), ("/overview.js", "text/javascript")],
)
def test_its_files_are_served_and_confined(kept: KeptAlerts, path: str, kind: str) -> None:
    got = get(kept.server.url, path)

    assert (got.status, got.headers["Content-Type"]) == (200, f"{kind}; charset=utf-8")
    policy = got.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "script-src 'self';" in policy and "unsafe" not in policy
    assert get(kept.server.url, path, {"Origin": "https://elsewhere.example"}).status == 403


def test_its_question_about_alerts_is_answered(kept: KeptAlerts) -> None:
    (sql,) = re.findall(r"const ALERTS = `(.*?)`;", SCRIPT, re.DOTALL)
    (alert,) = get(kept.server.url, "/v1/query", sql=sql).json()

    assert (alert["metric"], alert["severity"], alert["state"]) == ("parses", "page", "open")
    assert (alert["kind"], alert["verdict"]) == ("shift", "worse")
    assert 0 < float(alert["before"]) < float(alert["lower"]) < float(alert["after"]) < float(alert["upper"]) < 1


def test_its_question_about_incidents_is_answered(kept: KeptAlerts) -> None:
    (sql,) = re.findall(r"const INCIDENTS = `(.*?)`;", SCRIPT, re.DOTALL)
    (incident,) = get(kept.server.url, "/v1/query", sql=sql).json()

    assert (incident["name"], incident["severity"], incident["state"]) == ("parses of agent", "page", "open")
    assert (incident["what"], incident["component"], int(incident["alerts"])) == ("SHIFT worse", "agent", 1)
    assert get(kept.server.url, f"/alerts/{incident['incident_id']}").status == 200


def test_each_name_that_it_looks_for_is_exposed(kept: KeptAlerts) -> None:
    names = set(re.findall(r'"(gapwatch_\w+)"', SCRIPT))

    assert len(names) > 15
    assert names <= set(FAMILIES)
    for name in ("gapwatch_alert_state", "gapwatch_evidence_log10", "gapwatch_series"):
        assert name in get(kept.server.url, "/metrics").body.decode()


def test_nothing_is_put_in_as_markup_and_nobody_else_is_asked() -> None:
    for way in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function(", "https://"):
        assert way not in SCRIPT
    page = SOURCE.with_name("overview.html").read_text()
    assert re.findall(r'(?:src|href)="([^"]+)"', page) == [
        "data:,", "overview.css", "triage", "issues", "runs", "metrics", "overview.js",
    ]  # fmt: skip


def test_an_alert_has_a_page_of_its_own_without_script(kept: KeptAlerts) -> None:
    (alert_id,) = {row[0] for row in kept.store.query("SELECT alert_id FROM alerts WHERE severity = 'page'")}
    got = get(kept.server.url, f"/alerts/{alert_id}")
    text = got.body.decode()

    assert (got.status, got.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert "default-src 'none'" in got.headers["Content-Security-Policy"]
    assert alert_id in text and "parses of agent" in text and "gapwatch ack" in text
    assert "<script" not in text
    assert get(kept.server.url, "/alerts/nothing").status == 404


def test_the_page_of_an_incident_leads_to_those_of_its_alerts(kept: KeptAlerts) -> None:
    ((alert_id, incident_id),) = {
        tuple(row) for row in kept.store.query("SELECT alert_id, incident_id FROM alerts WHERE severity = 'page'")
    }
    page = get(kept.server.url, f"/alerts/{incident_id}").body.decode()

    assert re.findall(r'<a href="([^"./]+)">', page) == [alert_id, alert_id]


def test_a_link_from_another_site_leads_to_a_page_but_to_no_data(kept: KeptAlerts) -> None:
    followed = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}

    assert get(kept.server.url, "/", followed).status == 200
    assert get(kept.server.url, "/alerts/nothing", followed).status == 404
    assert get(kept.server.url, "/v1/query", followed, sql="SELECT 1").status == 403
    assert get(kept.server.url, "/", {**followed, "Sec-Fetch-Dest": "iframe"}).status == 403
