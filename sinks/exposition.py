"""Prometheus' text format 0.0.4: families with their help and type, samples line by line."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sinks.metric_families import FAMILIES, Family

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


def label_text(names: Sequence[str], values: Sequence[str]) -> str:
    """Return labels as they stand within the braces; an empty value is no label at all.

    Args:
        names: From the table of families.
        values: Anything; as many as names.
    """
    return ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in zip(names, values, strict=True) if value)


def number_text(value: float) -> str:
    """Return a number in Prometheus' spelling; whole ones without a point."""
    if isinstance(value, int):
        return str(value)
    if math.isfinite(value):
        return str(int(value)) if value.is_integer() and abs(value) < 2**53 else repr(value)
    if math.isnan(value):
        return "NaN"
    return "+Inf" if value > 0 else "-Inf"


def sample(name: str, labels: str, value: float) -> str:
    """Return one line.

    Args:
        name: Of the family, or a histogram's with its suffix.
        labels: From `label_text`.
        value: Any number.
    """
    return f"{name}{{{labels}}} {number_text(value)}\n" if labels else f"{name} {number_text(value)}\n"


def histogram_samples(
    name: str, labels: str, bounds: Sequence[float], counts: Sequence[int], total: float
) -> list[str]:
    """Return the lines of one histogram.

    Args:
        name: Of the family.
        labels: From `label_text`.
        bounds: Upper bounds of the buckets, ascending, without infinity.
        counts: Values in each bucket, not added up; one more than bounds.
        total: Sum of all values.
    """
    joint = f"{labels}," if labels else ""
    lines, below = [], 0
    for bound, count in zip([*bounds, math.inf], counts, strict=True):
        below += int(count)
        lines.append(f'{name}_bucket{{{joint}le="{number_text(bound)}"}} {below}\n')
    lines.append(sample(f"{name}_sum", labels, total))
    lines.append(sample(f"{name}_count", labels, below))
    return lines


class Page:
    """One answer to a scrape: lines by family, written in the order of the table."""

    def __init__(self) -> None:
        self._lines: dict[str, list[str]] = {}

    def add(self, name: str, values: Mapping[Any, float]) -> None:
        """Add samples of a family.

        Args:
            name: In the table.
            values: By the values of its labels, a tuple in their order.
        """
        labels = FAMILIES[name].labels
        self.add_lines(name, (sample(name, label_text(labels, key), value) for key, value in values.items()))

    def add_one(self, name: str, value: float) -> None:
        """Add the only sample of a family without labels."""
        self.add(name, {(): value})

    def add_lines(self, name: str, lines: Iterable[str]) -> None:
        """Add lines that are written already."""
        self._lines.setdefault(name, []).extend(lines)

    def text(self) -> str:
        """Return the page; families without a sample are left out."""
        parts: list[str] = []
        for family in FAMILIES.values():
            if lines := self._lines.get(family.name):
                parts.append(_head(family))
                parts += lines
        return "".join(parts)


def _head(family: Family) -> str:
    meaning = family.meaning.replace("\\", r"\\").replace("\n", r"\n")
    return f"# HELP {family.name} {meaning}\n# TYPE {family.name} {family.kind}\n"
