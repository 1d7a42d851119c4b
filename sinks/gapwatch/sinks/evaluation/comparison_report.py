"""Report of the comparison of runs of an evaluation, in Markdown and as JSON."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from gapwatch.sinks.evaluation.markdown_table import markdown_table
from gapwatch.sinks.evaluation.paired_difference import PairedNumbers
from gapwatch.sinks.evaluation.run_pairs import MATCH, OUTPERFORM, UNDERPERFORM, MetricPairs, RunPairs

_WORDS = (OUTPERFORM, UNDERPERFORM, MATCH)
#: Most changed examples that a report shows.
_SHOWN = 20


def pairs_markdown(found: RunPairs, level: int = 1) -> str:
    """Return the report of a comparison: by metric, by tag, and each example that differs.

    Args:
        found: The comparison.
        level: Level of its heading.
    """
    one, other = found.baseline, found.candidate
    parts = [f"{'#' * level} {_named(other.name, other.run_id)} against {_named(one.name, one.run_id)}\n"]
    parts.append(" ".join(_size_sentences(found)) + "\n")
    if found.metrics:
        titles = ("metric", "baseline", "candidate", "difference", "95 % interval", "examples", *_WORDS, "candidate is")
        parts.append(markdown_table(titles, [_metric_cells(metric) for metric in found.metrics]))
    for metric in found.metrics:
        notes = "".join(f" {note}" for note in metric.notes)
        parts.append(f"- `{metric.metric.name}`: **{metric.word}**. {metric.sentence}{notes}")
    parts.append("")
    tags = found.tags()
    rows = [
        (tag, metric.metric.name, len(ids), *(metric.count(word, ids) for word in _WORDS))
        for tag, ids in tags.items()
        for metric in found.metrics
    ]
    if rows:
        parts.append(markdown_table(("tag", "metric", "examples", *_WORDS), rows))
    changed = [
        (id_, metric.metric.name, word, metric.before[id_], metric.after[id_])
        for metric in found.metrics
        for id_, word in metric.words.items()
        if word != MATCH and not isinstance(metric.pairs, PairedNumbers)
    ]
    if changed:
        parts.append(markdown_table(("example", "metric", "candidate", "before", "now"), changed[:_SHOWN]))
        if len(changed) > _SHOWN:
            parts.append(f"{len(changed) - _SHOWN} more are in the JSON.\n")
    return "\n".join(parts)


def side_by_side(comparisons: Sequence[RunPairs]) -> str:
    """Return a table of several candidates beside one baseline: the score by metric, and the word for each."""
    baseline = comparisons[0].baseline
    names = dict.fromkeys(pair.metric.name for found in comparisons for pair in found.metrics)
    rows = []
    for name in names:
        found = [next((pair for pair in one.metrics if pair.metric.name == name), None) for one in comparisons]
        first = next(pair for pair in found if pair is not None)
        cells = ["-" if pair is None else f"{_values(pair)[1]} ({pair.word})" for pair in found]
        rows.append((name, _values(first)[0], *cells))
    titles = ("metric", baseline.name, *(one.candidate.name for one in comparisons))
    return markdown_table(titles, rows)


def pairs_json(found: RunPairs) -> dict[str, Any]:
    """Return a comparison as JSON has it."""
    return {
        "baseline": found.baseline.run_id,
        "candidate": found.candidate.run_id,
        "examples": len(found.shared),
        "only_baseline": found.alone[0],
        "only_candidate": found.alone[1],
        "changed_examples": list(found.changed),
        "metrics": [_metric_json(metric, found.tags()) for metric in found.metrics],
    }


def _metric_json(found: MetricPairs, tags: dict[str, list[str]]) -> dict[str, Any]:
    low, high = found.pairs.interval
    return {
        "metric": found.metric.name, "outcome": found.word, "sentence": found.sentence, "notes": list(found.notes),
        "n": found.pairs.n, "difference": _finite(found.pairs.difference), "lower": _finite(low),
        "upper": _finite(high), "p_value": found.pairs.p_value, **{word: found.count(word) for word in _WORDS},
        "tags": {tag: {word: found.count(word, ids) for word in _WORDS} for tag, ids in tags.items()},
        "by_example": dict(found.words), "undecided": list(found.undecided),
    }  # fmt: skip


def _size_sentences(found: RunPairs) -> Iterable[str]:
    yield f"{len(found.shared)} examples are in both runs."
    for count, name in zip(found.alone, (found.baseline.name, found.candidate.name), strict=True):
        if count:
            yield f"{count} only in that of {name}: left out."
    if found.changed:
        yield f"{len(found.changed)} have other inputs or another reference now: left out."
    undecided = {id_ for metric in found.metrics for id_ in metric.undecided}
    if undecided:
        yield f"{len(undecided)} are undecided in one of the runs by some metric."


def _metric_cells(found: MetricPairs) -> tuple[object, ...]:
    low, high = found.pairs.interval
    interval = "-" if math.isnan(low) else f"{_signed(found, low)} to {_signed(found, high)}"
    difference = "-" if not found.pairs.n else _signed(found, found.pairs.difference)
    counts = (found.count(word) for word in _WORDS)
    return (found.metric.name, *_values(found), difference, interval, found.pairs.n, *counts, found.word)


def _values(found: MetricPairs) -> tuple[str, str]:
    """Return the value of the baseline and of the candidate over the pairs."""
    pairs = found.pairs
    if not pairs.n:
        return "-", "-"
    if isinstance(pairs, PairedNumbers):
        values = [[float(told) for told in side.values()] for side in (found.before, found.after)]
        return f"{math.fsum(values[0]) / pairs.n:.4g}", f"{math.fsum(values[1]) / pairs.n:.4g}"
    return f"{(pairs.both_pass + pairs.worse) / pairs.n:.1%}", f"{(pairs.both_pass + pairs.better) / pairs.n:.1%}"


def _signed(found: MetricPairs, value: float) -> str:
    return f"{value:+.4g}" if isinstance(found.pairs, PairedNumbers) else f"{value:+.1%}"


def _finite(value: float) -> float | None:
    return None if math.isnan(value) else value


def _named(name: str, run_id: str) -> str:
    return run_id if name == run_id else f"{name} ({run_id})"
