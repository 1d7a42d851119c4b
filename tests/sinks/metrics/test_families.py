"""The table of metrics, and the text generated from it."""

from __future__ import annotations

import math
import subprocess
import sys

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from gapwatch.sinks.metric_families.family import Family
from gapwatch.sinks.metrics.families import FAMILIES
from gapwatch.sinks.metrics.family_samples import FamilySamples, make_registry
from tests.paths import ROOT


class FamilySamplesOf(Collector):
    """Collector of finished samples."""

    def __init__(self, samples: FamilySamples) -> None:
        self._samples = samples

    def collect(self) -> list[Metric]:
        return self._samples.metrics()


def text(samples: FamilySamples) -> str:
    """Return the page of these samples alone."""
    registry = CollectorRegistry()
    registry.register(FamilySamplesOf(samples))
    return generate_latest(registry).decode()


def page(*families: tuple[str, dict[tuple[str, ...], float]]) -> str:
    """Return the page of some families."""
    samples = FamilySamples()
    for name, values in families:
        samples.add(name, values)
    return text(samples)


def test_the_documentation_is_current() -> None:
    made = subprocess.run([sys.executable, ROOT / "deploy" / "metrics"], capture_output=True, text=True, check=True)
    assert (ROOT / "deploy" / "metrics.md").read_text() == made.stdout, "deploy/metrics > deploy/metrics.md"


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_a_family_is_named_as_prometheus_has_it(family: Family) -> None:
    assert family.name.endswith("_total") == (family.kind == "counter")
    assert "seconds" not in family.unit or "seconds" in family.name
    assert family.unit != "bytes" or family.name.endswith("_bytes")
    assert not {"le", "quantile", "job", "instance"} & set(family.labels)
    assert not {"trace_id", "span_id", "session_id", "release", "text"} & set(family.labels)
    assert family.meaning.endswith(".")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0.0"), (3.0, "3.0"), (-0.0, "-0.0"), (0.1, "0.1"), (1e300, "1e+300"), (2**53, "9.007199254740992e+15"),
        (math.inf, "+Inf"), (-math.inf, "-Inf"), (math.nan, "NaN"), (1e-320, "1e-320"),
    ],
)  # fmt: skip
def test_numbers_are_written_as_prometheus_reads_them(value: float, text: str) -> None:
    lines = page(("gapwatch_ledger_imbalance", {(): value})).splitlines()
    assert lines[-1] == f"gapwatch_ledger_imbalance {text}"


def test_labels_are_escaped_and_empty_ones_left_out() -> None:
    key = ('x"y', "", "1\\2\n3", "ä\ud800")
    lines = page(("gapwatch_portfolio_info", {key: 1})).splitlines()
    assert lines[-1] == r'gapwatch_portfolio_info{pipeline="x\"y",sha="ä?",version="1\\2\n3"} 1.0'


def test_a_histogram_adds_up_to_infinity() -> None:
    samples = FamilySamples()
    samples.add_histogram("gapwatch_slice_seconds", (0.5, 1), [(("score",), (1, 0, 2), 7.25)])
    assert text(samples).splitlines()[1:] == [
        "# TYPE gapwatch_slice_seconds histogram",
        'gapwatch_slice_seconds_bucket{le="0.5",stage="score"} 1.0',
        'gapwatch_slice_seconds_bucket{le="1",stage="score"} 1.0',
        'gapwatch_slice_seconds_bucket{le="+Inf",stage="score"} 3.0',
        'gapwatch_slice_seconds_sum{stage="score"} 7.25',
        'gapwatch_slice_seconds_count{stage="score"} 3.0',
    ]


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_name_type_and_help_on_the_page_are_those_of_the_table(family: Family) -> None:
    if family.kind == "histogram":
        samples = FamilySamples()
        samples.add_histogram(family.name, (1,), [(("x",) * len(family.labels), (1, 0), 1)])
        written = text(samples)
    else:
        written = page((family.name, {("x",) * len(family.labels): 1}))
    head = [f"# HELP {family.name} {family.meaning}", f"# TYPE {family.name} {family.kind}"]
    assert written.splitlines()[:2] == head
    assert "_created" not in written
    assert all(line.startswith(family.name) for line in written.splitlines()[2:])


def test_the_process_is_told_as_the_table_says() -> None:
    found = {metric.name: metric for metric in make_registry(FamilySamplesOf(FamilySamples())).collect()}
    for name, metric in found.items():
        family = FAMILIES.get(name) or FAMILIES[f"{name}_total"]
        assert (metric.documentation, metric.type) == (family.meaning, family.kind)
    assert found.keys() == {name.removesuffix("_total") for name in FAMILIES if name.startswith("process_")}


def test_a_page_keeps_families_together_whatever_the_order_of_adding() -> None:
    lines = page(
        ("gapwatch_lag_records", {("t", "0"): 1}),
        ("gapwatch_ledger_imbalance", {(): 0}),
        ("gapwatch_lag_records", {("t", "1"): 2}),
    ).splitlines()

    assert [line.split()[2] for line in lines if line.startswith("# TYPE")] == [
        "gapwatch_ledger_imbalance",
        "gapwatch_lag_records",
    ]
    assert lines[-2:] == [
        'gapwatch_lag_records{partition="0",topic="t"} 1.0',
        'gapwatch_lag_records{partition="1",topic="t"} 2.0',
    ]


def test_what_is_not_in_the_table_is_not_told() -> None:
    with pytest.raises(KeyError):
        FamilySamples().add_one("gapwatch_invented", 1)
