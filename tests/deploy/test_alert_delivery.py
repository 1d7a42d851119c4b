"""Delivery of a page from a stream that breaks, through a real Prometheus and a real Alertmanager."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from gapwatch.scorers.loading.load import parse_portfolio
from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.scorers.slices.slices import ScoredSlice
from gapwatch.streams.alerting.triage.decision_reader import read_decision
from gapwatch.streams.monitoring.alertmanager_routes import alertmanager_document
from tests.deploy.alerting_servers import AlertmanagerServer, OnCall, PrometheusServer
from tests.gapwatch_command import gapwatch
from tests.http_client import get
from tests.live_alerts import KeptAlerts
from tests.live_store import until
from tests.paths import AIRLINE, ROOT
from tests.prometheus import prometheus_folder
from tests.streams.alerting.breaking_stream import BEFORE, BROKEN, DAY, HOURS, slices_after_calm, stream
from tests.streams.alerting.builders import FALLBACK_IS_BAD, portfolio, units_slice
from tests.streams.alerting.builders import PORTFOLIO as PORTFOLIO_TEXT

MONITORING = ROOT / "deploy" / "monitoring"
PORTFOLIO = AIRLINE / "portfolio.yaml"


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(one) for one in arguments], capture_output=True, text=True, check=False)


@dataclass(frozen=True)
class Delivery:
    """A store whose alert a real Prometheus and a real Alertmanager deliver."""

    kept: KeptAlerts
    on_call: OnCall
    manager: AlertmanagerServer

    def said(self, path: str, status: str) -> list[dict[str, Any]]:
        """Return the alerts of this status that were posted to a path."""
        bodies = [body for at, body in list(self.on_call.received) if at == path]
        return [alert for body in bodies for alert in body["alerts"] if alert["status"] == status]


@contextlib.contextmanager
def delivering(
    folder: Path, said: Portfolio | None = None, made: list[ScoredSlice] | None = None
) -> Iterator[Delivery]:
    said = said or portfolio()
    (folder / "p.yaml").write_text(said.text)
    with KeptAlerts(folder / "s.duckdb", said) as kept, OnCall() as on_call:
        written = gapwatch(
            "rules", folder / "p.yaml", "--out", folder, "--pages-to", f"{on_call.url}/pages",
            "--tickets-to", f"{on_call.url}/tickets",
        )  # fmt: skip
        assert written.status == 0, written.err
        config = yaml.safe_load((folder / "alertmanager.yml").read_text())
        config["route"] |= {"group_wait": "1s", "group_interval": "2s"}  # minutes, where people are told
        (folder / "alertmanager.yml").write_text(yaml.safe_dump(config))
        rules = yaml.safe_load((folder / "rules.yml").read_text())
        for rule in rules["groups"][0]["rules"]:
            rule.pop("keep_firing_for", None)  # two minutes, to bridge gaps of scrapes
        (folder / "rules.yml").write_text(yaml.safe_dump(rules))
        kept.keep_all(made or slices_after_calm(BROKEN))
        (folder / "p").mkdir()
        (folder / "a").mkdir()
        target = kept.server.url.removeprefix("http://")
        with (
            AlertmanagerServer(folder / "a", folder / "alertmanager.yml") as manager,
            PrometheusServer(folder / "p", target, (folder / "rules.yml",), manager.address),
        ):
            yield Delivery(kept, on_call, manager)


def test_a_page_reaches_who_is_on_call(tmp_path: Path) -> None:
    with delivering(tmp_path) as delivery:
        until(lambda: bool(delivery.said("/pages", "firing")))
        page = delivery.said("/pages", "firing")[0]
        shown = get(delivery.kept.server.url, f"/alerts/{page['labels']['incident_id']}")

    assert page["labels"]["alertname"] == "GapwatchPage"
    assert set(page["labels"]) == {"alertname", "incident_id", "pipeline", "environment", "severity", "job"} | {
        "instance"
    } & set(page["labels"])
    said = page["annotations"]
    assert said["summary"].startswith("SHIFT worse: parses of agent: failing traces 1.93% -> 25.0% [")
    assert said["command"] == f"gapwatch explain {page['labels']['incident_id']} --store {tmp_path / 's.duckdb'}"
    assert said["page"] == f"{delivery.kept.server.url}/alerts/{page['labels']['incident_id']}"
    assert all(
        said[name] for name in ("before", "after", "ratio", "interval", "since", "units", "first", "found", "store")
    )
    assert shown.status == 200
    assert "failing traces" in shown.body.decode()


def two_components() -> tuple[Portfolio, list[ScoredSlice]]:
    """A router that falls back to another model, and behind it an agent whose answers break five minutes later."""
    text = PORTFOLIO_TEXT.format(facts=FALLBACK_IS_BAD.replace("agent", "router"), threshold="")
    text = text.replace("  - {id: agent,", "  - {id: router, role: ai_core, kind: llm}\n  - {id: agent,")
    text = text.replace("questions:", "edges: [{from: router, to: agent}]\nquestions:").replace(
        "{id: q-fallback, component: agent", "{id: q-fallback, component: router"
    )
    text = text.replace("name: fallback_rate\n    component: agent", "name: fallback_rate\n    component: router")
    router = stream([(BEFORE - 1, 0.05), (HOURS + 1, 0.6)], seed=2)
    made = []
    for number, (begin, end) in enumerate(((0, DAY), (DAY, DAY + HOURS), (DAY + HOURS, len(BROKEN)))):
        made.append(units_slice(number, router[begin:end], metric="fallback_rate", component="router"))
        made.append(units_slice(number, BROKEN[begin:end], partition=1))
    return parse_portfolio(text), made


@pytest.mark.slow
def test_two_components_that_break_together_are_one_page_that_names_the_first(tmp_path: Path) -> None:
    with delivering(tmp_path, *two_components()) as delivery:
        until(lambda: bool(delivery.said("/pages", "firing")))
        time.sleep(5)  # more than two group intervals: a second call would have come
        pages = delivery.said("/pages", "firing")
        tickets = delivery.said("/tickets", "firing")

    assert {one["labels"]["incident_id"] for one in pages} == {pages[0]["labels"]["incident_id"]}
    assert [one for one in tickets if one["labels"]["alertname"] == "GapwatchTicket"] == []
    said = pages[-1]["annotations"]
    assert said["first"] == "router" and said["summary"].startswith("CASCADE worse: fallback_rate of router and 1 more")


@pytest.mark.slow
def test_an_acknowledged_page_is_not_resolved_until_it_is_over(tmp_path: Path) -> None:
    with delivering(tmp_path) as delivery:
        kept = delivery.kept
        until(lambda: bool(delivery.said("/pages", "firing")))
        alert = delivery.said("/pages", "firing")[0]["labels"]["incident_id"]
        watches = kept.alerts
        kept.decisions.submit(read_decision("ack", {"alert": alert, "by": "ana", "why": ""}, watches))
        until(lambda: bool(kept.decide() or delivery.said("/tickets", "firing")))
        acknowledged = delivery.said("/tickets", "firing")[0]
        kept.decisions.submit(read_decision("silence", {"alert": alert, "for": "8h", "by": "bo", "why": ""}, watches))
        until(lambda: bool(kept.decide() or delivery.said("/tickets", "resolved")))
        while_it_lasts = delivery.said("/pages", "resolved")
        kept.decisions.submit(read_decision("accept", {"alert": alert, "by": "ana", "why": ""}, watches))
        until(lambda: bool(kept.decide() or delivery.said("/pages", "resolved")))

    assert (acknowledged["labels"]["severity"], acknowledged["labels"]["acknowledged"]) == ("ticket", "true")
    assert acknowledged["annotations"]["by"] == "ana"
    assert while_it_lasts == []


class TestWhatIsShipped:
    def test_it_is_what_the_command_makes(self, tmp_path: Path) -> None:
        assert gapwatch("rules", PORTFOLIO, "--out", tmp_path).status == 0
        for name in ("rules.yml", "alertmanager.yml"):
            assert (MONITORING / name).read_text() == (tmp_path / name).read_text()

    def test_promtool_finds_the_rules_sound(self) -> None:
        done = run(prometheus_folder() / "promtool", "check", "rules", MONITORING / "rules.yml")
        assert (done.returncode, "20 rules found" in done.stdout) == (0, True), done.stdout + done.stderr

    def test_promtool_sees_them_fire_when_they_should_and_not_else(self) -> None:
        done = run(prometheus_folder() / "promtool", "test", "rules", MONITORING / "rules_test.yml")
        assert done.returncode == 0, done.stdout + done.stderr

    def test_amtool_finds_the_settings_sound(self) -> None:
        done = run(prometheus_folder("alertmanager") / "amtool", "check-config", MONITORING / "alertmanager.yml")
        assert done.returncode == 0, done.stdout + done.stderr

    @pytest.mark.parametrize(
        ("severity", "receiver"), [("page", "pages"), ("ticket", "tickets"), ("note", "nobody"), ("other", "tickets")]
    )
    def test_amtool_routes_by_severity(self, severity: str, receiver: str) -> None:
        tool = prometheus_folder("alertmanager") / "amtool"
        done = run(tool, "config", "routes", "test", f"--config.file={MONITORING / 'alertmanager.yml'}",
                   f"--verify.receivers={receiver}", f"severity={severity}", "alertname=GapwatchPage")  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr


def test_a_hostile_name_of_a_pipeline_is_a_text_in_the_rules(tmp_path: Path) -> None:
    name = 'x"} or vector(1) #{{ $value }}'
    text = portfolio().text.replace("pipeline: shop", f"pipeline: '{name}'")
    (tmp_path / "p.yaml").write_text(text)
    assert gapwatch("rules", tmp_path / "p.yaml", "--out", tmp_path).status == 0
    done = run(prometheus_folder() / "promtool", "check", "rules", tmp_path / "rules.yml")
    assert done.returncode == 0, done.stdout + done.stderr
    rules = yaml.safe_load((tmp_path / "rules.yml").read_text())["groups"][0]["rules"]
    assert all('pipeline="x\\"} or' in rule["expr"] for rule in rules)


def test_an_invalid_address_is_refused(tmp_path: Path) -> None:
    done = gapwatch("rules", PORTFOLIO, "--out", tmp_path, "--pages-to", "file:///etc/passwd")
    assert (done.status, list(tmp_path.iterdir())) == (2, [])
    assert alertmanager_document()["receivers"] == [{"name": "pages"}, {"name": "tickets"}, {"name": "nobody"}]
