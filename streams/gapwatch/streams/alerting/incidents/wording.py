"""Wording of an alert: headline, subject, share and size. To change the text of an alert, start here."""

from __future__ import annotations

from gapwatch.scorers.printable import shown
from gapwatch.sinks.reading.alert_query import LifeStep
from gapwatch.sinks.reading.terminal_table import component_text, moment_text, share_text
from gapwatch.streams.alerting.incidents.alert_facts import AlertFacts
from gapwatch.streams.alerting.incidents.severity import told_severity
from gapwatch.streams.alerting.incidents.stored_alerts import StoredAlert
from gapwatch.streams.alerting.rules.bound import SHARE
from gapwatch.streams.alerting.rules.finding import Part

#: Kind of an alert or incident, as people read it. SHIFT: the share or the numbers of a metric differ from its
#: baseline. BOUND: a metric is surely beyond a limit of the portfolio. CASCADE: a step went from one way to another
#: (tier, fallback, retry, route), or a shift moved along edges of the graph. BLIND: more traces are undecided.
KIND_WORDS = {"cascade": "CASCADE", "shift": "SHIFT", "unknown": "BLIND", "bound": "BOUND"}
_SPANS = (("day", 86_400), ("hour", 3600), ("minute", 60), ("second", 1))
_POLARITIES = {"worse": "worse", "better": "better", "unknown": "polarity unknown"}


def headline(facts: AlertFacts) -> str:
    """Return the kind and polarity of an alert, such as `SHIFT worse`, or `CASCADE worse` of a fallback rate."""
    return kind_text(facts.kind, facts.polarity)


def kind_text(kind: str, polarity: str | None) -> str:
    """Return a kind with its polarity, as people read it: `CASCADE worse`, `BOUND broken`."""
    word = KIND_WORDS.get(kind, "")
    return f"{word} {'broken' if kind == 'bound' else _POLARITIES.get(polarity or '', '')}".strip()


def state_text(state: str, severity: str) -> str:
    """Return the state, with the severity of the messages where that is lower: `acknowledged (told as ticket)`."""
    told = told_severity(state, severity)
    return state if told == severity else f"{state} (told as {told})"


def metric_text(alert: StoredAlert) -> str:
    """Return the metric of an alert, and whether it is about its undecided traces: `ids_known (undecided)`."""
    return alert.row.metric + (" (undecided)" if alert.facts.kind == "unknown" else "")


def subject(alert: StoredAlert) -> str:
    """Return the metric and component of an alert: `ids_known of tools`."""
    return f"{metric_text(alert)} of {component_text(alert.row.component)}"


def life_text(step: LifeStep) -> str:
    """Return one line about a step in an alert's life; without a colon where nobody gave a reason."""
    why = f": {shown(step.why)}" if step.why else ""
    return f"{moment_text(step.at, 'seconds')} {step.state} ({step.severity}) by {shown(step.by)}{why}"


def span_text(seconds: int) -> str:
    """Return a length of time in its largest whole unit: `2 hours`."""
    name, unit = next(one for one in _SPANS if seconds % one[1] == 0)
    return f"{seconds // unit} {name}{'' if seconds == unit else 's'}"


def months_text(months: float) -> str:
    """Return a number of months; from 24 on as years."""
    return f"{months / 12:.3g} years" if months >= 24 else f"{months:.2g} months"


def judged_volume(facts: AlertFacts) -> float | None:
    """Return the units a day that set the threshold: those declared, or those of the busiest day; None without both."""
    return facts.busiest_day if facts.units_per_month is None else facts.units_per_month / 30.0


def volume_text(facts: AlertFacts) -> str:
    """Return the volume that set the threshold of an alert, and whether a person declared it."""
    volume = f"{judged_volume(facts) or 0.0:,.0f}"
    if facts.units_per_month is not None:
        return f"the declared volume of {volume} traces a day"
    return f"{volume} {'sessions' if facts.unit == 'session' else 'traces'} a day, its busiest day until then"


def share_name(facts: AlertFacts) -> str:
    """Return the units whose share moved: `failing traces`, `traces above 2.5 seconds`; or the bounded `p95`."""
    if facts.bound is not None and facts.bound.of != "failure_rate":
        return shown(facts.bound.of)
    if facts.part is not None:
        return _part_name(facts.part, facts.number_unit)
    unit = "sessions" if facts.unit == "session" else "traces"
    return f"{'undecided' if facts.kind == 'unknown' else 'failing'} {unit}"


def _part_name(part: Part, unit: str) -> str:
    if part.statistic is None:
        return f"traces labelled {shown(part.name)}"
    ends = [
        *([f"above {quantile_text(part.above)}"] if part.above is not None else []),
        *([f"up to {quantile_text(part.below)}"] if part.below is not None else []),
    ]
    return f"traces {' or '.join(ends)} {shown(unit)}".strip() if ends else f"traces {part.name}"


def quantile_move(facts: AlertFacts) -> str | None:
    """Return the move of a quantile of the numbers: `median 2.1 -> 4.3 seconds`; None where it is not known."""
    name, ends = _quantile(facts)
    return None if ends is None else f"{name} {ends[0]} -> {ends[1]} {shown(facts.number_unit)}".strip()


def quantile_ends(facts: AlertFacts) -> tuple[str, str] | None:
    """Return a quantile of the numbers before and since: `median 2.1 seconds`; None where it is not known."""
    name, ends = _quantile(facts)
    if ends is None:
        return None
    before, after = (f"{name} {end} {shown(facts.number_unit)}".strip() for end in ends)
    return before, after


def _quantile(facts: AlertFacts) -> tuple[str, tuple[str, str] | None]:
    move = None if facts.cause is None else facts.cause.quantile
    if move is None or move.before is None or move.after is None:
        return "", None
    q = shown_quantile(facts)
    if q is None:
        return "", None
    return quantile_name(q), (quantile_text(move.before), quantile_text(move.after))


def shown_quantile(facts: AlertFacts) -> float | None:
    """Return the quantile of the numbers that an alert shows, in (0, 1); None for an alert that is not on numbers."""
    move = None if facts.cause is None else facts.cause.quantile
    if move is not None and move.q is not None:
        return move.q
    return None if facts.part is None else facts.part.statistic


def quantile_name(q: float) -> str:
    """Return the name of a quantile: `median`, `p95`."""
    return "median" if 100 * q == 50 else f"p{100 * q:g}"


def quantile_text(value: float) -> str:
    """Return a number that is known to half a percent; one that is as near to a whole number is shown as that."""
    nearest = round(value)
    if nearest and abs(value - nearest) <= 0.006 * abs(nearest) and abs(nearest) < 100:
        return str(nearest)
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def before_text(facts: AlertFacts) -> str:
    """Return the share before: `0.99%`, or `0.99% at these hours` where the hours of the day differ; "" without one."""
    if facts.before is None:
        return ""
    return share_text(facts.before.value) + (" at these hours" if facts.is_of_hours else "")


def compared_with(facts: AlertFacts) -> str:
    """Return the size of the baseline, and its share with the interval: `compared with 1,565 traces before ...`."""
    learned, before = 0 if facts.change is None else facts.change.learned, facts.before
    text = f"compared with {learned:,} {facts.unit}{'' if learned == 1 else 's'} before the change"
    if before is None:
        return text
    text += f": {share_text(before.value)} [{share_text(before.lower)}, {share_text(before.upper)}]"
    return f"{text} for these hours of the day, which differ from the others" if facts.is_of_hours else text


def size(facts: AlertFacts) -> str:
    """Return the size of the move: a quantile, or the share as `share_move` gives it; for a bound its quantity."""
    return (None if facts.bound is not None else quantile_move(facts)) or share_move(facts)


def share_move(facts: AlertFacts) -> str:
    """Return the move of the share: `0.99% -> 47% [14%, 82%]`; for a bound its quantity, with the bound."""
    before, after, bound = facts.before, facts.after, facts.bound
    if after is None:
        return "-"
    now = f"{amount_text(facts, after.value)} [{limits_text(facts)}]"
    if bound is not None:
        return f"{now}, bound {bound.operator} {amount_text(facts, bound.value)}"
    return now if before is None else f"{before_text(facts)} -> {now}"


def amount_text(facts: AlertFacts, value: float | None, *, with_unit: bool = True) -> str:
    """Return a value of the quantity that an alert is about: `12.3%`, or for other bounds `2.46 seconds`."""
    bound = facts.bound
    if value is None or bound is None or bound.unit == SHARE:
        return share_text(value)
    return number_text(value, bound.unit if with_unit else "")


def limits_text(facts: AlertFacts, between: str = ", ") -> str:
    """Return the ends of the interval of the quantity: `1.9, 3.1`; an end that cannot be given is named."""
    after, bound = facts.after, facts.bound
    if after is None:
        return ""
    missing = ("no lower limit", "no upper limit") if bound is not None else ("-", "-")
    ends = zip((after.lower, after.upper), missing, strict=True)
    return between.join(word if end is None else amount_text(facts, end, with_unit=False) for end, word in ends)


def number_text(value: float, unit: str) -> str:
    """Return a number with three digits, and its unit: `2.46 seconds`, `1,230 tokens`."""
    number = f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{number} {shown(unit)}".strip()


def counted_text(facts: AlertFacts) -> str:
    """Return the units that an alert counted: `12 of 50 traces`; `50 traces` for the bound of a mean, sum or ratio."""
    counts, part = facts.counts, facts.part
    if counts is None:
        return ""
    units = f"{counts.units:,} {facts.unit}{'' if counts.units == 1 else 's'}"
    if counts.moved is None:
        return units
    is_of_numbers = facts.bound is not None and part is not None and part.statistic is not None
    return f"{counts.moved:,} of {units}{' beyond the bound' if is_of_numbers else ''}"
