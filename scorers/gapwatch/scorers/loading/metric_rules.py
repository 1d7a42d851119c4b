"""Cross-field checks of one metric, and checks against the other parts of the portfolio."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import unquote

from gapwatch.scorers.judges.prompt import transcript_rule
from gapwatch.scorers.loading.draft import Draft
from gapwatch.scorers.loading.feedback_rules import check_feedback
from gapwatch.scorers.loading.predicate_reader import UNREADABLE
from gapwatch.scorers.loading.problems import KeyPath, nearest, one_of
from gapwatch.scorers.loading.schema_reader import REFERENCE_NAMES
from gapwatch.scorers.portfolio.claim import (
    REFERENCE_TEMPLATES,
    TEMPLATES,
    CheckClaim,
    CompareClaim,
    CompositeClaim,
    FeedbackClaim,
    JudgedClaim,
    LabelClaim,
    MeasureClaim,
    RatioClaim,
)
from gapwatch.scorers.portfolio.field import Field, FieldKind, pointer_steps
from gapwatch.scorers.portfolio.metric import Metric
from gapwatch.scorers.portfolio.predicate import (
    Compares,
    FieldPredicate,
    Matches,
    NotMatches,
    OneOf,
    Predicate,
    Sibling,
    field_predicates,
    other_field,
)
from gapwatch.scorers.printable import shown

_PER_TRACE = {"measure": ("any", "max", "sum", "mean", "last"), "label": ("any", "worst")}
_INSTEAD = "what holds of every good answer: a prefix, an enumeration of two or more, a range or a judge"
_ANCHORED = re.compile(r"(?:\(\?[imsU-]+\))?(?:\^|\\A)(.*)(?:\$|\\z)", re.DOTALL)
_GROUP = re.compile(r"\((?:\?[imsU-]*:|\?P?<\w+>)?(.*)\)", re.DOTALL)
_LITERAL = re.compile(r"\\Q((?:[^\\]|\\(?!E))*)\\E|((?:[^\\^$.|?*+()\[\]{}]|\\[^\w])*)", re.DOTALL)
_SECRET = re.compile(r"(^|[_-])(key|apikey|secret|password|token|authorization)$", re.IGNORECASE)


def check_metric(draft: Draft, metric: Metric, path: KeyPath) -> None:
    """Note every problem of a metric at its place in the file."""
    _check_owner(draft, metric, path)
    _check_per_trace(draft, metric, path)
    claim, claim_path = metric.claim, (*path, "claim")
    if isinstance(claim, CheckClaim):
        _check_fixed_texts(draft, metric, claim.predicate, claim_path)
    elif isinstance(claim, MeasureClaim):
        _check_measure(draft, claim, claim_path)
    elif isinstance(claim, LabelClaim):
        _check_label(draft, claim, claim_path)
    elif isinstance(claim, JudgedClaim):
        _check_judged(draft, metric, claim, path)
    elif isinstance(claim, CompositeClaim):
        _check_composite(draft, metric, claim, (*claim_path, "parts"))
    elif isinstance(claim, RatioClaim):
        _check_ratio(draft, metric, claim, claim_path)
    elif isinstance(claim, FeedbackClaim):
        check_feedback(draft, metric, path)
    for predicate, where in _predicates(metric, path):
        _check_references(draft, metric, predicate, where)
    _check_strata(draft, metric, (*path, "sample", "strata"))


def _predicates(metric: Metric, path: KeyPath) -> Iterator[tuple[Predicate, KeyPath]]:
    if isinstance(metric.claim, CheckClaim):
        yield metric.claim.predicate, (*path, "claim")
    if metric.when is not None:
        yield metric.when, (*path, "when")
    for position, stratum in enumerate(metric.sample.strata):
        yield stratum.when, (*path, "sample", "strata", position, "when")


def _check_strata(draft: Draft, metric: Metric, path: KeyPath) -> None:
    names = [stratum.name for stratum in metric.sample.strata]
    for position, name in enumerate(names):
        if name in names[:position]:
            draft.problems.add((*path, position, "name"), f"the stratum {shown(name)} is defined twice")


def _check_owner(draft: Draft, metric: Metric, path: KeyPath) -> None:
    if metric.is_trace and metric.component is not None:
        draft.problems.add((*path, "component"), "a metric of the trace has no component", "component or scope: trace")
    elif not metric.is_trace and metric.component is None:
        draft.problems.add((*path, "component"), "is required", "component or scope: trace")
    else:
        draft.know_component(metric.component, (*path, "component"))


def _check_per_trace(draft: Draft, metric: Metric, path: KeyPath) -> None:
    claim = metric.claim
    if isinstance(claim, CheckClaim) and claim.predicate is UNREADABLE:  # perhaps no check at all
        return
    allowed = _PER_TRACE.get(claim.form, ("any",))
    if metric.per_trace not in allowed:
        message = f"a {claim.form} cannot use {metric.per_trace}"
        draft.problems.add((*path, "per_trace"), message, one_of(allowed))
    elif metric.per_trace == "worst" and isinstance(claim, LabelClaim) and claim.labels is None:
        draft.problems.add((*path, "per_trace"), "worst needs an order of the labels", "claim.labels, best first")


def _check_fixed_texts(draft: Draft, metric: Metric, predicate: Predicate, path: KeyPath) -> None:
    for part, where, asserted in field_predicates(predicate, path):
        if not asserted or not draft.written_by_llm.holds(metric.component, part.field):
            continue
        text = _only_text(part)
        if text is not None and not draft.problems.touches(where):
            message = f"equality with a fixed text, {shown(text)!r}, on a field written by a model ({part.field.text})"
            draft.problems.add(where, message, _INSTEAD)


def _only_text(predicate: FieldPredicate) -> str | None:
    """Return the one text that a predicate accepts (or rejects), or None where it names several."""
    if isinstance(predicate, OneOf):
        return predicate.texts[0] if len(set(predicate.texts)) == 1 else None
    return fixed_text(predicate.pattern) if isinstance(predicate, Matches | NotMatches) else None


def fixed_text(pattern: str) -> str | None:
    r"""Return the one text that an anchored pattern matches (ignoring case), or None where this cannot be seen.

    It recognises a literal between anchors, with escaped punctuation or in `\Q...\E`, also after flags or in one group,
    and a group of alternatives that are all the same literal.

    Args:
        pattern: A regular expression of RE2.
    """
    anchored = _ANCHORED.fullmatch(pattern)
    if anchored is None:
        return None
    group = _GROUP.fullmatch(anchored[1])
    # Outside a group `^a|a$` is a prefix or a suffix.
    texts = {_literal(part) for part in (group[1].split("|") if group is not None else [anchored[1]])}
    return texts.pop() if len(texts) == 1 else None


def _literal(pattern: str) -> str | None:
    literal = _LITERAL.fullmatch(pattern)
    if literal is None:
        return None
    return literal[1] if literal[1] is not None else re.sub(r"\\(\W)", r"\1", literal[2])


def _check_references(draft: Draft, metric: Metric, predicate: Predicate, path: KeyPath) -> None:
    for part, where, _ in field_predicates(predicate, path):
        other = other_field(part)
        if other is None or isinstance(part, Sibling):
            continue
        where = (*where, "other") if isinstance(part, Compares) else where
        if _is_reference(other):
            _note_reference(draft, other, where)
        elif _is_reference(part.field) and draft.written_by_llm.holds(metric.component, other):
            # The same comparison with its two fields exchanged.
            _note_reference(draft, part.field, where)


def _note_reference(draft: Draft, field: Field, path: KeyPath) -> None:
    if draft.with_references:
        return
    draft.problems.add(
        path,
        f"{shown(field.text)} is a reference answer; those belong to offline evaluation: "
        "name this portfolio in the configuration of gapwatch eval",
        "another field, or a judge",
    )


def _is_reference(field: Field) -> bool:
    if field.key is None:
        return False
    last_steps = [re.split(r"[./]", field.key)[-1]]
    if field.pointer:
        last_steps.append(pointer_steps(unquote(field.pointer))[-1])
    return any(step.strip().lower().replace("-", "_") in REFERENCE_NAMES for step in last_steps)


def _check_measure(draft: Draft, claim: MeasureClaim, path: KeyPath) -> None:
    if claim.field.kind is FieldKind.TEXT:
        message = f"a measure needs a number, but {claim.field.text} is a text"
        draft.problems.add(
            (*path, "field"), message, "a number field, an attribute or a pointer", f"{claim.field.text}#"
        )
    limit = claim.limit
    if limit is None:
        return
    path = (*path, "limit")
    if limit.max is not None and limit.min is not None:
        draft.problems.add(path, "both max and min", "max or min, not both")
    elif limit.max is None and limit.min is None:
        draft.problems.add(path, "neither max nor min", "max or min")
    elif limit.warn is not None:
        too_large = limit.max is not None and limit.warn > limit.max
        too_small = limit.min is not None and limit.warn < limit.min
        if too_large or too_small:
            draft.problems.add((*path, "warn"), f"{limit.warn:g} is beyond the limit, so it never warns")


def _check_label(draft: Draft, claim: LabelClaim, path: KeyPath) -> None:
    if claim.field.kind is FieldKind.NUMBER:
        message = f"a label needs a text, but {claim.field.text} is a number"
        draft.problems.add((*path, "field"), message, "a text field, an attribute or a pointer; or a measure")
    for key, labels in (("labels", claim.labels or ()), ("bad", claim.bad)):
        for position, label in enumerate(labels):
            if label in labels[:position]:
                draft.problems.add((*path, key, position), f"the label {shown(label)} is listed twice")
            elif key == "bad" and claim.labels is not None and label not in claim.labels:
                draft.problems.add(
                    (*path, key, position),
                    f"{shown(label)} is not in labels",
                    one_of(claim.labels),
                    nearest(label, claim.labels),
                )


def _check_judged(draft: Draft, metric: Metric, claim: JudgedClaim, path: KeyPath) -> None:
    rubric = (*path, "claim", "rubric")
    for position, field in enumerate(claim.rubric.inputs):
        if _is_reference(field):
            _note_reference(draft, field, (*rubric, "inputs", position))
    if isinstance(claim, CompareClaim) and len(claim.rubric.inputs) < 2:
        words = f"{len(claim.rubric.inputs)} inputs, but a comparison needs two"
        message = "what both outputs answer, if the judge needs it, and then the two fields that hold the outputs"
        draft.problems.add((*rubric, "inputs"), words, message)
    _check_scale(draft, claim, rubric)
    _check_template(draft, claim, rubric)
    _check_items(draft, claim, rubric)
    judges = (*path, "claim", "judges")
    names = [judge.name or judge.model for judge in claim.judges]
    for position, judge in enumerate(claim.judges):
        if names[position] in names[:position]:
            key = "name" if judge.name else "model"
            draft.problems.add(
                (*judges, position, key), f"two judges are named {shown(names[position])}", "a unique name"
            )
        for parameter in judge.params:
            if _SECRET.search(parameter):
                where = (*judges, position, "params", parameter)
                message = "a portfolio must not hold a secret"
                draft.problems.add(where, message, "the secret in the environment of the process that judges")
    _check_members(draft, claim, judges)
    if claim.quorum is not None and claim.quorum > len(claim.judges):
        draft.problems.add((*path, "claim", "quorum"), f"{claim.quorum} is more than the {len(claim.judges)} judges")
    _check_tier(draft, metric, path)


def _check_members(draft: Draft, claim: JudgedClaim, path: KeyPath) -> None:
    """Refuse equal judges that do not sample: they repeat one answer, so their agreement measures nothing."""
    for position, judge in enumerate(claim.judges):
        temperature = judge.params.get("temperature")
        if isinstance(temperature, int | float) and temperature > 0:
            continue
        for earlier in claim.judges[:position]:
            is_equal = (earlier.model, earlier.params) == (judge.model, judge.params)
            if is_equal and (earlier.name or earlier.model) != (judge.name or judge.model):
                message = (
                    f"{shown(judge.name or judge.model)} asks the same model with the same params as "
                    f"{shown(earlier.name or earlier.model)}, without a temperature above 0: both give one answer"
                )
                draft.problems.add((*path, position), message, "another model, or a temperature above 0 for both")
                break


def _check_template(draft: Draft, claim: JudgedClaim, path: KeyPath) -> None:
    rubric = claim.rubric
    if rubric.template in REFERENCE_TEMPLATES:
        draft.problems.add(
            (*path, "template"),
            f"{rubric.template} compares with a reference answer, which production does not have",
            "rubric or grafite_input_output; use this template in an offline evaluation, such as a test of GRAFITE",
        )
    elif rubric.template not in TEMPLATES:
        near = nearest(rubric.template, TEMPLATES)
        draft.problems.add((*path, "template"), f"no template {shown(rubric.template)}", one_of(TEMPLATES), near)
    elif rubric.template == "grafite_input_output":
        if rubric.scale != (1.0, 0.0):
            draft.problems.add(
                (*path, "scale"), "the template grafite_input_output needs a binary scale", "[1, 0]", "[1, 0]"
            )
        if len(rubric.inputs) != 2:
            count = len(rubric.inputs)
            draft.problems.add(
                (*path, "inputs"), f"{count} inputs, but the template has two", "the model's input and its output"
            )


def _check_items(draft: Draft, claim: JudgedClaim, path: KeyPath) -> None:
    """Refuse several spans a call where the answers must be independent, or where they do not fit."""
    rubric = claim.rubric
    refused = {
        "a comparison has two outputs for each span, whose order would count": isinstance(claim, CompareClaim),
        "several judges are for independent answers, and the answers of one call are not": len(claim.judges) > 1,
        "a conversation fills a call by itself": transcript_rule(rubric) is not None,
        f"the template {rubric.template} asks about one span": rubric.template != "rubric",
    }
    why = next((why for why, holds in refused.items() if holds and rubric.items_per_call > 1), None)
    if why is not None:
        draft.problems.add((*path, "items_per_call"), f"{rubric.items_per_call} spans a call: {why}", "1", "1")


def _check_scale(draft: Draft, claim: JudgedClaim, path: KeyPath) -> None:
    scale, pass_at = claim.rubric.scale, claim.rubric.pass_at
    bands = list(scale)
    are_texts = [isinstance(band, str) for band in bands]
    if any(are_texts) and not all(are_texts):
        draft.problems.add((*path, "scale"), "the scale mixes words and numbers", "words only, or numbers only")
        return
    if len(set(bands)) < len(bands):
        draft.problems.add((*path, "scale"), "a band is listed twice", "distinct bands")
    words = [band for band in bands if isinstance(band, str)]
    if isinstance(pass_at, str) and pass_at not in words:
        draft.problems.add((*path, "pass_at"), f"{shown(pass_at)} is not on the scale", one_of(map(str, bands)))
    elif isinstance(pass_at, float):
        numbers = [float(n) for n in (scale.values() if isinstance(scale, dict) else bands) if not isinstance(n, str)]
        if not numbers or not min(numbers) <= pass_at <= max(numbers):
            draft.problems.add((*path, "pass_at"), f"{pass_at:g} is not on the scale", one_of(map(str, bands)))


def _check_tier(draft: Draft, metric: Metric, path: KeyPath) -> None:
    component = draft.by_id.get(metric.component or "")
    if component is None or not component.tiers:
        return
    by_rule = {tier.id for tier in component.tiers if tier.by == "rule"}
    if len(by_rule) == len(component.tiers):
        message = f"every tier of {shown(component.id)} is by: rule, so this judge would not measure a model"
        draft.problems.add((*path, "component"), message, "a check or a measure")
    elif metric.when is not None:
        for tier in sorted(by_rule & set(asked_tiers(metric.when))):
            message = f"the tier {shown(tier)} is by: rule, so this judge would not measure a model"
            draft.problems.add((*path, "when"), message, "tiers that are by: llm")


def asked_tiers(predicate: Predicate) -> Iterator[str]:
    """Yield the tiers that a filter selects by name."""
    for part, _, asserted in field_predicates(predicate):
        if not asserted or part.field.text != "tier":
            continue
        if isinstance(part, OneOf):
            yield from part.texts
        elif (text := _only_text(part)) is not None:
            yield text


def _check_composite(draft: Draft, metric: Metric, claim: CompositeClaim, path: KeyPath) -> None:
    parts: list[Metric] = []
    for name, weight in claim.parts.items():
        if weight <= 0:
            draft.problems.add((*path, name), f"the weight {weight:g} is not positive", "a weight above 0")
        if name == metric.name:
            draft.problems.add((*path, name), "the composite is a part of itself")
            continue
        part = draft.know_metric(name, (*path, name))
        if part is None:
            continue
        if isinstance(part.claim, CompositeClaim | RatioClaim):
            draft.problems.add(
                (*path, name), f"{name} is a {part.claim.form}", "a check, measure, label, judge or python"
            )
        elif (part.component, part.is_trace) != (metric.component, metric.is_trace):
            draft.problems.add(
                (*path, name), f"{name} is about another component", f"metrics of {metric.component or 'the trace'}"
            )
        else:
            parts.append(part)
    total = sum(claim.parts.values())
    if not draft.problems.touches(path):
        if abs(total - 1) > 1e-9:
            draft.problems.add(path, f"the weights sum to {total:.12g}", "a sum of 1")
        concerns = {part.concern for part in (*parts, metric)} - {None}
        if len(concerns) > 1:
            message = f"the parts have different concerns: {', '.join(sorted(map(str, concerns)))}"
            draft.problems.add(path, message, "metrics of one concern, that of the composite")


def _check_ratio(draft: Draft, metric: Metric, claim: RatioClaim, path: KeyPath) -> None:
    for key, name in (("numerator", claim.numerator), ("denominator", claim.denominator)):
        part = draft.know_metric(name, (*path, key))
        if part is None:
            continue
        if part.claim.form not in ("measure", "check"):
            draft.problems.add(
                (*path, key), f"{name} is a {part.claim.form}, which cannot be summed", "a measure or a check"
            )
        elif (part.component, part.is_trace) != (metric.component, metric.is_trace):
            message = f"{name} is about another component"
            draft.problems.add((*path, key), message, f"a metric of {metric.component or 'the trace'}")
