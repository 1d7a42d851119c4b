"""Dashboards: valid by Grafana's own models, and every query returns data on a real Prometheus."""

from __future__ import annotations

import enum
import json
import re
import types
import typing
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from gapwatch.scorers.loading.load import load_portfolio
from gapwatch.sinks.metrics.families import FAMILIES
from gapwatch.sinks.store.decisions import Annotation
from tests.deploy.alerting_servers import PrometheusServer
from tests.gapwatch_command import gapwatch
from tests.live_alerts import KeptAlerts, played_slices
from tests.live_store import until
from tests.paths import AIRLINE, ROOT

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from grafana_foundation_sdk.cog.encoder import JSONEncoder
    from grafana_foundation_sdk.models import dashboard as models

PORTFOLIO = AIRLINE / "portfolio.yaml"
SHIPPED = ROOT / "deploy" / "monitoring" / "dashboards"
NAMES = ("overview", "airline-agent")
#: The last hour of event time holds a release with prices and one with tiers.
RELEASES = (
    "ft-gpt-4.1-sft", "claude-sonnet-4-5", "gpt-4o-2024-11-20", "qwen2.5-7b", "two-tier_opus-4-6_sonnet-4-6", "gpt-4.1",
)  # fmt: skip


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("dashboards")
    made = gapwatch("dashboards", PORTFOLIO, "--out", folder)
    assert made.status == 0, made.err
    assert yaml.safe_load((folder / "provider.yaml").read_text())["providers"][0]["type"] == "file"
    for name in NAMES:
        assert (folder / f"{name}.json").read_text() == (SHIPPED / f"{name}.json").read_text()
    return {name: json.loads((folder / f"{name}.json").read_text()) for name in NAMES}


def panels(document: dict[str, Any]) -> list[dict[str, Any]]:
    return [panel for panel in document["panels"] if panel["type"] != "row"]


def queries(document: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Every PromQL of a dashboard, with what it belongs to."""
    for panel in panels(document):
        for target in panel["targets"]:
            yield panel["title"], target["expr"]
    for note in document["annotations"].get("list", []):
        if note["datasource"]["type"] == "prometheus":
            yield note["name"], note["expr"]


def misfits(value: Any, hint: Any, where: str) -> Iterator[str]:
    """Yield where a value is not of the type that Grafana's model declares."""
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any or isinstance(hint, typing.TypeVar) or hint is object:
        return
    if origin in (typing.Union, types.UnionType):
        found = [list(misfits(value, part, where)) for part in parts]
        if all(found):
            yield min(found, key=len)[0]
    elif origin is typing.Literal:
        if value not in parts:
            yield f"{where}: {value!r} is none of {parts}"
    elif origin is list:
        if not isinstance(value, list):
            yield f"{where}: no list"
            return
        for i, one in enumerate(value):
            yield from misfits(one, parts[0], f"{where}[{i}]")
    elif origin is dict:
        if not isinstance(value, dict):
            yield f"{where}: no map"
            return
        for key, one in value.items():
            yield from misfits(one, parts[1], f"{where}.{key}")
    elif isinstance(hint, type) and issubclass(hint, enum.Enum):
        if value not in [member.value for member in hint]:
            yield f"{where}: {value!r} is no {hint.__name__}"
    elif hint is float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            yield f"{where}: {value!r} is no number"
    elif hint in (int, str, bool, type(None)):
        plain = value.value if isinstance(value, enum.Enum) else value
        if type(plain) is not hint:
            yield f"{where}: {value!r} is no {hint.__name__}"
    elif isinstance(hint, type):
        if not isinstance(value, hint):
            yield f"{where}: {type(value).__name__} is no {hint.__name__}"
        else:
            hints = typing.get_type_hints(hint)
            for name, one in vars(value).items():
                yield from misfits(one, hints.get(name, Any), f"{where}.{name}")


@pytest.mark.parametrize("name", NAMES)
class TestEachDashboard:
    def test_it_is_a_dashboard_by_grafanas_own_model(self, documents: dict[str, Any], name: str) -> None:
        read = models.Dashboard.from_json(json.loads(json.dumps(documents[name])))

        assert json.loads(JSONEncoder(sort_keys=True).encode(read)) == documents[name]
        assert list(misfits(read, models.Dashboard, "dashboard")) == []

    def test_each_panel_says_what_it_is_and_why_it_may_be_empty(self, documents: dict[str, Any], name: str) -> None:
        for panel in panels(documents[name]):
            defaults = panel["fieldConfig"]["defaults"]
            assert panel["title"] and panel["description"] and defaults["unit"], panel["title"]
            assert defaults["noValue"].startswith("no "), panel["title"]
            assert all(target["legendFormat"] and target["datasource"]["uid"] == "${datasource}"
                       for target in panel["targets"])  # fmt: skip

    def test_variables_are_there_and_used(self, documents: dict[str, Any], name: str) -> None:
        there = {variable["name"]: variable for variable in documents[name]["templating"]["list"]}
        used = {word for _, expr in queries(documents[name]) for word in re.findall(r"\$(\w+)", expr)}

        assert used - {"__rate_interval"} <= set(there) and "datasource" in there
        assert all(variable["label"] for variable in there.values())

    def test_each_name_is_one_that_is_exposed(self, documents: dict[str, Any], name: str) -> None:
        variables = [str(v.get("query", "")) for v in documents[name]["templating"]["list"]]
        exprs = [expr for _, expr in queries(documents[name])] + variables
        names = {word for expr in exprs for word in re.findall(r"\bgapwatch_\w+", expr)}

        assert names
        assert {re.sub(r"_(bucket|sum|count)$", "", word) if word not in FAMILIES else word for word in names} <= set(
            FAMILIES
        )


def test_components_come_in_the_order_of_their_graph(documents: dict[str, Any]) -> None:
    rows = [panel["title"] for panel in documents["airline-agent"]["panels"] if panel["type"] == "row"]
    portfolio = load_portfolio(PORTFOLIO)
    names = {component.id: component.name or component.id for component in portfolio.components}
    for edge in portfolio.edges:
        first, then = names[edge.from_], names[edge.to]
        if (
            first in rows
            and then in rows
            and not any(e.from_ == edge.to and e.to == edge.from_ for e in portfolio.edges)
        ):
            assert rows.index(first) < rows.index(then)


def test_the_model_would_find_a_wrong_type(documents: dict[str, Any]) -> None:
    """So that the test above can fail."""
    read = models.Dashboard.from_json(json.loads(json.dumps(documents["overview"])))
    read.panels[0].grid_pos.h = "high"
    assert list(misfits(read, models.Dashboard, "dashboard")) == ["dashboard.panels[0].grid_pos.h: 'high' is no int"]


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrometheusServer]:
    """A server that scrapes the airline's releases while they come, and a note of a deployment.

    There are as many conversations as the baseline of numbers needs: 500 with a price.
    """
    folder = tmp_path_factory.mktemp("airline")
    portfolio = load_portfolio(PORTFOLIO)
    made = list(played_slices(folder, portfolio, RELEASES, records=50, every=5, draw=200))
    with (
        KeptAlerts(folder / "s.duckdb", portfolio) as kept,
        PrometheusServer(folder, kept.server.url.removeprefix("http://")) as server,
    ):
        kept.keep_all(made[:2])
        until(lambda: bool(server.ask("gapwatch_value_sum")))
        kept.decisions.submit(Annotation.read("deploy qwen", portfolio.pipeline, "maria", "2026-03-02T10:00Z"))
        kept.decisions.apply(kept.store)
        kept.keep_all(made[2:])
        total = made[-1].to_offset
        read = 'sum(gapwatch_records_total{state="read"})'
        until(lambda: [value for _, value in server.ask(read)] == [total])
        until(lambda: bool(server.ask("rate(gapwatch_value_sum[1m]) > 0")))
        # The cost comes from the first releases only, and a rate needs two scrapes.
        until(lambda: bool(server.ask('rate(gapwatch_value_sum{metric="agent_cost"}[1m])')))
        until(lambda: bool(server.ask("gapwatch_alert_state")))
        yield server


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_every_query_returns_data_on_a_real_prometheus(
    documents: dict[str, Any], prometheus: PrometheusServer, name: str
) -> None:
    empty = []
    for title, expr in queries(documents[name]):
        asked = re.sub(r"\$(pipeline|environment)", ".*", expr).replace("$__rate_interval", "1m")
        if not prometheus.ask(asked):
            empty.append((title, asked))

    # Nobody judges here: its panels say so.
    assert {title for title, _ in empty} <= {"reply_keeps_to_policy: failing", "reply_keeps_to_policy: values"}
