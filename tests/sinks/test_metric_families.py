"""The table of `/metrics` itself, and the text that is made of it."""

from __future__ import annotations

import math
import subprocess
import sys

import pytest

from sinks.exposition import Page, histogram_samples, label_text, number_text, sample
from sinks.metric_families import FAMILIES, Family
from tests.paths import ROOT


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
        (0, "0"), (3.0, "3"), (-0.0, "0"), (0.1, "0.1"), (1e300, "1e+300"), (2**60, str(2**60)),
        (2.0**60, "1.152921504606847e+18"),
        (math.inf, "+Inf"), (-math.inf, "-Inf"), (math.nan, "NaN"), (1e-320, "1e-320"),
    ],
)  # fmt: skip
def test_numbers_are_written_as_prometheus_reads_them(value: float, text: str) -> None:
    assert number_text(value) == text


def test_labels_are_escaped_and_empty_ones_left_out() -> None:
    assert label_text(("a", "b", "c"), ('x"y', "", "1\\2\n3")) == r'a="x\"y",c="1\\2\n3"'
    assert sample("up", "", 1) == "up 1\n"
    assert sample("up", 'a="b"', 0.5) == 'up{a="b"} 0.5\n'


def test_a_histogram_adds_up_to_infinity() -> None:
    assert histogram_samples("h", "", (0.5, 1), (1, 0, 2), 7.25) == [
        'h_bucket{le="0.5"} 1\n',
        'h_bucket{le="1"} 1\n',
        'h_bucket{le="+Inf"} 3\n',
        "h_sum 7.25\n",
        "h_count 3\n",
    ]


def test_a_page_keeps_families_together_whatever_the_order_of_adding() -> None:
    page = Page()
    page.add("gapwatch_lag_records", {("t", "0"): 1})
    page.add_one("gapwatch_ledger_imbalance", 0)
    page.add("gapwatch_lag_records", {("t", "1"): 2})
    lines = page.text().splitlines()

    assert [line.split()[2] for line in lines if line.startswith("# TYPE")] == [
        "gapwatch_ledger_imbalance",
        "gapwatch_lag_records",
    ]
    assert lines[-2:] == [
        'gapwatch_lag_records{topic="t",partition="0"} 1',
        'gapwatch_lag_records{topic="t",partition="1"} 2',
    ]


def test_what_is_not_in_the_table_is_not_told() -> None:
    with pytest.raises(KeyError):
        Page().add_one("gapwatch_invented", 1)
