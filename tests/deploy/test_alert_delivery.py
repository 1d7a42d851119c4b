"""Delivery of a page from a stream that breaks, through a real Prometheus and a real Alertmanager."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import yaml

from gapwatch.streams.monitoring.alertmanager_routes import alertmanager_document
from tests.deploy.alerting_servers import AlertmanagerServer, OnCall, PrometheusServer
from tests.gapwatch_command import gapwatch
from tests.live_alerts import KeptAlerts
from tests.live_store import until
from tests.paths import AIRLINE, ROOT
from tests.prometheus import prometheus_folder
from tests.streams.alerting.breaking_stream import BROKEN, slices_after_calm
from tests.streams.alerting.builders import portfolio

MONITORING = ROOT / "deploy" / "monitoring"
PORTFOLIO = AIRLINE / "portfolio.yaml"


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(one) for one in arguments], capture_output=True, text=True, check=False)


def test_a_page_reaches_who_is_on_call(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(portfolio().text)
    with KeptAlerts(tmp_path / "s.duckdb", portfolio()) as kept, OnCall() as on_call:
        made = gapwatch(
            "rules", tmp_path / "p.yaml", "--out", tmp_path, "--pages-to", f"{on_call.url}/pages",
            "--tickets-to", f"{on_call.url}/tickets",
        )  # fmt: skip
        assert made.status == 0, made.err
        config = yaml.safe_load((tmp_path / "alertmanager.yml").read_text())
        config["route"] |= {"group_wait": "1s", "group_interval": "2s"}  # minutes, where people are told
        (tmp_path / "alertmanager.yml").write_text(yaml.safe_dump(config))
        kept.keep_all(slices_after_calm(BROKEN))
        (tmp_path / "p").mkdir()
        (tmp_path / "a").mkdir()
        target = kept.server.url.removeprefix("http://")
        with (
            AlertmanagerServer(tmp_path / "a", tmp_path / "alertmanager.yml") as manager,
            PrometheusServer(tmp_path / "p", target, (tmp_path / "rules.yml",), manager.address),
        ):
            until(lambda: any(path == "/pages" for path, _ in on_call.received))
            (page,) = [alert for _, body in pages(on_call)[:1] for alert in body["alerts"]]

    assert page["labels"]["alertname"] == "GapwatchPage"
    assert page["labels"]["metric"] == "parses"
    assert page["annotations"]["summary"] == "parses of agent moved in the bad direction (cascade), shop in production"


def pages(on_call: OnCall) -> list[tuple[str, dict]]:  # type: ignore[type-arg]
    return [(path, body) for path, body in on_call.received if path == "/pages"]


class TestWhatIsShipped:
    def test_it_is_what_the_command_makes(self, tmp_path: Path) -> None:
        assert gapwatch("rules", PORTFOLIO, "--out", tmp_path).status == 0
        for name in ("rules.yml", "alertmanager.yml"):
            assert (MONITORING / name).read_text() == (tmp_path / name).read_text()

    def test_promtool_finds_the_rules_sound(self) -> None:
        done = run(prometheus_folder() / "promtool", "check", "rules", MONITORING / "rules.yml")
        assert (done.returncode, "14 rules found" in done.stdout) == (0, True), done.stdout + done.stderr

    def test_promtool_sees_them_fire_when_they_should_and_not_else(self) -> None:
        done = run(prometheus_folder() / "promtool", "test", "rules", MONITORING / "rules_test.yml")
        assert done.returncode == 0, done.stdout + done.stderr

    def test_amtool_finds_the_settings_sound(self) -> None:
        done = run(prometheus_folder("alertmanager") / "amtool", "check-config", MONITORING / "alertmanager.yml")
        assert done.returncode == 0, done.stdout + done.stderr

    @pytest.mark.parametrize(("severity", "receiver"), [("page", "pages"), ("ticket", "tickets"), ("other", "tickets")])
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
    assert alertmanager_document()["receivers"] == [{"name": "pages"}, {"name": "tickets"}]
