"""Collects the samples of one scrape by family. prometheus_client writes them as text."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import Metric, Sample
from prometheus_client.registry import Collector

from gapwatch.sinks.metrics.families import FAMILIES

Labels = dict[str, str]
#: One histogram of a family: label values; counts by bucket, the last for values beyond all bounds; sum.
Cells = tuple[tuple[str, ...], Sequence[int], float]


def label_values(names: Sequence[str], values: Sequence[str]) -> Labels:
    """Return label values by name. An empty value leaves out its label.

    Args:
        names: Label names of the family.
        values: One text for each name. An unpaired surrogate becomes a question mark.
    """
    return {name: _encodable(value) for name, value in zip(names, values, strict=True) if value}


def histogram_samples(
    name: str, labels: Labels, bounds: Sequence[float], counts: Sequence[int], total: float
) -> list[Sample]:
    """Return the samples of one histogram.

    Args:
        name: Name of the family.
        labels: Label values by name, as from `label_values`.
        bounds: Upper bounds of the buckets, ascending, without infinity.
        counts: Number of values in each bucket, not cumulative; one more than bounds.
        total: Sum of all values.
    """
    below = list(itertools.accumulate(int(count) for count in counts))
    buckets = [
        Sample(f"{name}_bucket", {**labels, "le": _bound_text(bound)}, count)
        for bound, count in zip([*bounds, math.inf], below, strict=True)
    ]
    return [*buckets, Sample(f"{name}_sum", labels, total), Sample(f"{name}_count", labels, below[-1])]


class FamilySamples:
    """Samples of one scrape. Add them in any order; they are collected in the order of the table."""

    def __init__(self) -> None:
        self._samples: dict[str, list[Sample]] = {}

    def add(self, name: str, values: Mapping[Any, float]) -> None:
        """Add samples of a family.

        Args:
            name: Name in the table.
            values: Samples by label values, a tuple in the order of the family's labels.
        """
        labels = FAMILIES[name].labels
        self.add_samples(name, (Sample(name, label_values(labels, key), value) for key, value in values.items()))

    def add_one(self, name: str, value: float) -> None:
        """Add the only sample of a family without labels."""
        self.add(name, {(): value})

    def add_histogram(self, name: str, bounds: Sequence[float], values: Iterable[Cells]) -> None:
        """Add histograms of a family.

        Args:
            name: Name in the table.
            bounds: Upper bounds of the buckets, ascending, without infinity.
            values: One histogram for each tuple of label values.
        """
        labels = FAMILIES[name].labels
        for key, counts, total in values:
            self.add_samples(name, histogram_samples(name, label_values(labels, key), bounds, counts, total))

    def add_samples(self, name: str, samples: Iterable[Sample]) -> None:
        """Add finished samples."""
        self._samples.setdefault(name, []).extend(samples)

    def metrics(self) -> list[Metric]:
        """Return the families that have samples."""
        return [_metric(name, samples) for name in FAMILIES if (samples := self._samples.get(name))]


def make_registry(collector: Collector) -> CollectorRegistry:
    """Return the registry of one page: the families of `collector`, then those of the process."""
    registry = CollectorRegistry()
    registry.register(collector)
    ProcessCollector(registry=registry)
    return registry


def _metric(name: str, samples: list[Sample]) -> Metric:
    family = FAMILIES[name]
    # prometheus_client appends `_total` to the name of every counter.
    metric = Metric(name.removesuffix("_total") if family.kind == "counter" else name, family.meaning, family.kind)
    metric.samples = samples
    return metric


def _bound_text(bound: float) -> str:
    """Return the label text of a bucket's bound; whole numbers have no decimal point, so that series stay the same."""
    if math.isinf(bound):
        return "+Inf" if bound > 0 else "-Inf"
    return str(int(bound)) if float(bound).is_integer() and abs(bound) < 2**53 else repr(bound)


def _encodable(value: str) -> str:
    return value if value.isascii() else value.encode("utf-8", "replace").decode()
