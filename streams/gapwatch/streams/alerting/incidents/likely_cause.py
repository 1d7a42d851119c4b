"""Likely cause of an alert: the likeliest one in a sentence, and all parts and new values as lines of a page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from gapwatch.scorers.portfolio.metric import Metric
from gapwatch.scorers.printable import shown
from gapwatch.sinks.reading.recent_values import TICK
from gapwatch.sinks.reading.terminal_table import moment_text
from gapwatch.sinks.store.utc_text import utc_text
from gapwatch.streams.alerting.incidents.alert_cause import Cause, CountedShare, MeanShare
from gapwatch.streams.alerting.incidents.attribution import LOOK_BACK
from gapwatch.streams.alerting.incidents.restatement import without_restatement
from gapwatch.streams.alerting.incidents.stored_alerts import StoredAlert
from gapwatch.streams.alerting.incidents.wording import span_text

_LEAST_SHARE = 0.05
_MOST_PARTS = 3
# Share of the excess from which a release, model or tier is named as the likeliest cause.
_MOST_OF_IT = 0.5
# So many times its share of the units a part must hold of the excess, unless it is new.
_MORE_THAN_ITS_SHARE = 1.2
_SHARE_FACETS = ("release", "model", "tier", "stratum")


def likeliest_cause(alert: StoredAlert, metric: Metric | None) -> str:
    """Return the likeliest cause in one sentence: a part with most of the excess, else what was new, else a note.

    Everything that names one cause of an incident uses this rule: messages, Prometheus, `explain`, reports.

    Args:
        alert: The alert whose facts stand for the incident.
        metric: Its metric; None where it is not known. A part that only repeats its claim is no cause.

    Returns:
        The sentence; empty where no cause was looked for.
    """
    if alert.facts.cause is None:
        return ""
    cause = without_restatement(alert.facts.cause, metric, is_rate=alert.facts.part is None)
    new = {(one.facet, one.value): one.at for one in cause.new}
    for facet in _SHARE_FACETS:
        parts = cause.shares.get(facet, ())
        at = new.get((facet, parts[0].value)) if parts else None
        if parts and parts[0].share >= _MOST_OF_IT and (at is not None or _is_telling(parts)):
            since = "" if at is None else f", first seen at {utc_text(at)}"
            return f"{facet} {shown(parts[0].value)}: {min(parts[0].share, 1.0):.0%} of the excess{since}"
    if cause.new:
        return f"{cause.new[0].facet} {shown(cause.new[0].value)}, first seen at {utc_text(cause.new[0].at)}"
    if cause.notes:
        return f"{utc_text(cause.notes[0].at)} {shown(cause.notes[0].text)}"
    return "no release, model or tier holds most of it, and none is new"


def _is_telling(parts: Sequence[CountedShare | MeanShare]) -> bool:
    """Return True where the first part holds more of the excess than of the units: nearly all units say little."""
    units = sum(part.units for part in parts)
    return min(parts[0].share, 1.0) >= _MORE_THAN_ITS_SHARE * parts[0].units / max(units, 1)


def shares_and_labels(alert: StoredAlert, metric: Metric | None) -> Iterator[str]:
    """Yield the parts that hold the excess, the time in which they were counted, and the labels that moved."""
    if alert.facts.cause is None:
        return
    cause = without_restatement(alert.facts.cause, metric, is_rate=alert.facts.part is None)
    shares = list(_shares(cause, is_bound=alert.facts.kind == "bound"))
    yield from shares
    for label in cause.labels[:_MOST_PARTS]:
        yield f"label {shown(label.value)}: {label.before:.1%} of the spans before, {label.after:.1%} since"
    if shares or cause.labels:
        yield _counted_when(alert)


def _shares(cause: Cause, *, is_bound: bool) -> Iterator[str]:
    for facet, parts in cause.shares.items():
        # Releases are counted in traces, the others in spans, because a trace may have several.
        noun = "traces" if facet == "release" else "spans"
        for part in parts[:_MOST_PARTS]:
            if part.share >= _LEAST_SHARE:
                counts = _counts(part, noun, is_bound=is_bound)
                yield f"{facet} {shown(part.value)}: {min(part.share, 1.0):.0%} of the excess ({counts})"


def _counts(part: CountedShare | MeanShare, noun: str, *, is_bound: bool) -> str:
    if isinstance(part, MeanShare):
        before = f", before {part.before_mean:.3g} of {part.before_units:,}" if part.before_units else ""
        return f"mean {part.mean:.3g} of {part.units:,} {noun}{before}"
    text = f"{part.moved:,} of {part.units:,} {noun}"
    if is_bound:
        return text
    return text + (f", before {part.before_moved:,} of {part.before_units:,}" if part.before_units else ", none before")


def _counted_when(alert: StoredAlert) -> str:
    found, began, bound = moment_text(alert.row.found_at, "seconds"), alert.began_at, alert.facts.bound
    if began is None:
        window = "in the window" if bound is None else f"in the window of {span_text(bound.window_seconds)}"
        return f"counted {window} that ended {found}"
    before = f"before: the {span_text(int(LOOK_BACK.total_seconds()))} until then"
    return f"counted from {moment_text(began, 'seconds')} until it was found, {found}; {before}"


def new_values(alert: StoredAlert) -> Iterator[str]:
    """Yield releases and models that were new near the change, and what people noted then."""
    cause, change = alert.facts.cause, alert.began_at
    if cause is None:
        return
    for entry in cause.new:
        first = f"{moment_text(entry.at, 'seconds')} and {moment_text(entry.at + TICK, 'seconds')[11:]}"
        yield f"{entry.facet} {shown(entry.value)}, its first trace between {first}{_before(entry.at, change)}"
    for note in cause.notes:
        yield f"{moment_text(note.at)} {shown(note.text)}"


def _before(at: datetime, change: datetime | None) -> str:
    """Return how long before or after the likely begin of the change a value came."""
    if change is None:
        return ""
    minutes = (change - at).total_seconds() / 60
    if not minutes:
        return ", at the likely begin of the change"
    many = f"{abs(minutes):g} minute{'' if abs(minutes) == 1 else 's'}"
    return f", {many} {'before' if minutes > 0 else 'after'} the likely begin of the change"
