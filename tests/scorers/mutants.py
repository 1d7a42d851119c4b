"""Seeded faults of the claim compiler, each as a change of its source, and the case that must fail."""

from __future__ import annotations

from dataclasses import dataclass

#: In place of a case: the fault shows on made portfolios and records only, for no case asks about it.
READING = ""


@dataclass(frozen=True)
class Mutant:
    """Seeded fault.

    Attributes:
        id: Short name of the fault.
        module: File of `gapwatch.scorers` that has it, without `.py`.
        old: Source text that occurs there exactly once.
        new: Text that replaces it.
        killed_by: Id of a claim case that must fail, or `READING`.
    """

    id: str
    module: str
    old: str
    new: str
    killed_by: str


MUTANTS = [
    # ---- conditions under which a claim passes ----
    Mutant(
        "max-excludes-its-bound",
        "passing",
        "f\"<= {names.get('max', 'MOST')}\"",
        "f\"< {names.get('max', 'MOST')}\"",
        "range-max-inclusive",
    ),
    Mutant(
        "min-excludes-its-bound",
        "passing",
        "f\"{names.get('min', 'LEAST')} <=\"",
        "f\"{names.get('min', 'LEAST')} <\"",
        "range-min-inclusive",
    ),
    Mutant(
        "above-includes-its-bound",
        "passing",
        "f\"{names['above']} <\"",
        "f\"{names['above']} <=\"",
        "range-above-exclusive",
    ),
    Mutant(
        "below-includes-its-bound",
        "passing",
        "f\"< {names['below']}\"",
        "f\"<= {names['below']}\"",
        "range-below-at-the-bound",
    ),
    Mutant(
        "a-bound-too-large-is-exact",
        "passing",
        "abs(bound) >= _EXACT for bound",
        "abs(bound) < 0 for bound",
        "range-integer-beyond-2-53-is-a-double",
    ),
    Mutant(
        "length-in-bytes",
        "passing",
        "{lower}len({value}){upper}",
        "{lower}len({value}.encode()){upper}",
        "length-emoji-is-one",
    ),
    Mutant(
        "empty-text-is-present",
        "passing",
        "return self._text(field)\n        if field.pointer",
        'return f"{self._text(field)} is not None"\n        if field.pointer',
        "present-empty-text",
    ),
    Mutant(
        "other-need-not-be-present",
        "passing",
        "(not {this} or {other})",
        "(not {this} or not {other})",
        "sibling-other-missing",
    ),
    Mutant(
        "minimum-is-a-maximum",
        "passing",
        '{"max" if limit.max is not None else "min": inner_bound}',
        '{"max": inner_bound}',
        "measure-under-min",
    ),
    Mutant("time-runs-backwards", "passing", 'else {end} - {start}"', 'else {start} - {end}"', "measure-no-limit"),
    Mutant(
        "warn-is-not-looked-at",
        "passing",
        "[self.holds(predicate), self.holds(inner)]",
        "[self.holds(predicate)]",
        "range-warn-between",
    ),
    Mutant(
        "null-is-required",
        "passing",
        "{self._member(document, pointer_steps(pointer)[0])} is not None",
        "{self._member(document, pointer_steps(pointer)[0])} is None",
        "required-null-counts-as-absent",
    ),
    Mutant("any-number-is-an-integer", "passing", 'if name == "number" else ""', 'if name else ""', "type-not-integer"),
    Mutant("bad-labels-pass", "passing", "if name not in claim.bad)", "if name)", "label-bad"),
    Mutant("elements-need-not-be-inside", "passing", " or element not in haystack", "", "each-one-outside"),
    Mutant(
        "an-unknown-claim-fails",
        "passing",
        'return f"{self._hit(predicate.field, predicate.pattern)} is {isinstance(predicate, NotMatches)}"',
        'return "True"',
        "not-matches-absent",
    ),
    Mutant(
        "no-list-has-a-length",
        "passing",
        '{self._document(predicate.field)}.__class__ is listed"\n        if isinstance(predicate, Json)',
        '{self._document(predicate.field)} is not None"\n        if isinstance(predicate, Json)',
        "count-object-is-no-list",
    ),
    # ---- predicates ----
    Mutant("less-includes-equal", "truths", '"<": operator.lt', '"<": operator.le', "compares-lt-2-2"),
    Mutant("unequal-is-equal", "truths", '"!=": operator.ne', '"!=": operator.eq', "compares-ne-2-2"),
    Mutant(
        "all-of-is-any-of",
        "truths",
        "AllOf: lambda p: _joined([self.compile(part) for part in p.parts], deciding=False)",
        "AllOf: lambda p: _joined([self.compile(part) for part in p.parts], deciding=True)",
        "kleene-all-one-false",
    ),
    Mutant(
        "any-of-is-all-of",
        "truths",
        "AnyOf: lambda p: _joined([self.compile(part) for part in p.parts], deciding=True)",
        "AnyOf: lambda p: _joined([self.compile(part) for part in p.parts], deciding=False)",
        "kleene-any-false-and-unknown",
    ),
    Mutant(
        "reason-of-the-last-unknown-part",
        "truths",
        "if found.__class__ is int and reason.__class__ is bool:",
        "if found.__class__ is int:",
        "kleene-all-reason-of-the-first-unknown",
    ),
    Mutant(
        "not-does-nothing",
        "truths",
        "return not found if found.__class__ is bool else found",
        "return found",
        "kleene-not-true",
    ),
    Mutant(
        "not-of-unknown-is-true",
        "truths",
        "return not found if found.__class__ is bool else found",
        "return not found if found.__class__ is bool else True",
        "kleene-not-unknown-is-unknown",
    ),
    Mutant(
        "absent-text-is-no-json-but-fails",
        "truths",
        "if document is NO_TEXT:\n                return text(rows, i)  # type: ignore[return-value]\n"
        "            return (",
        "if document is None:\n                return text(rows, i)\n            return (",
        "required-absent-field",
    ),
    Mutant(
        "required-takes-null",
        "truths",
        "point(document, steps) is not None for",
        "point(document, steps) is not NO_TEXT for",
        "required-null-counts-as-absent",
    ),
    Mutant(
        "integers-are-spelled-without-point",
        "value_tests",
        "value == math.floor(value)",
        "value is None",
        "type-integer-accepts-1-point-0",
    ),
    Mutant(
        "one-element-may-lie-outside",
        "truths",
        "else not found\n\n            return test_each",
        "else len(found) <= 1\n\n            return test_each",
        "each-one-outside",
    ),
    Mutant(
        "text-is-not-lowered",
        "value_tests",
        "lower(needle) in lower(haystack)",
        "needle in lower(haystack)",
        "substring-case-insensitive",
    ),
    Mutant("nothing-is-lowered", "value_tests", "return text.lower()", "return text", "substring-case-insensitive"),
    Mutant(
        "no-list-is-no-json",
        "truths",
        "return NOT_JSON if document is NOT_JSON_TEXT else WRONG_TYPE",
        "return NOT_JSON",
        "count-object-is-no-list",
    ),
    Mutant(
        "reason-of-the-other-field-first",
        "truths",
        "one, two = this(rows, i), other(rows, i)",
        "two, one = this(rows, i), other(rows, i)",
        "compares-reason-of-this-field-first",
    ),
    Mutant(
        "source-in-any-case",
        "truths",
        'e.get("source") == "llm"',
        'str(e.get("source")).lower() == "llm"',
        "cited-source-word-is-exact",
    ),
    Mutant(
        "empty-source-span-is-inside",
        "value_tests",
        'text != "" and is_inside',
        "is_inside",
        "cited-span-empty-is-missing",
    ),
    Mutant(
        "own-name-is-a-member",
        "truths",
        "this if name == own else content.get(name)",
        "content.get(name)",
        "cited-whole-field-not-in-input",
    ),
    # ---- claims ----
    Mutant(
        "beyond-the-inner-bounds-fails",
        "passing",
        "return self.holds(claim.predicate) if claim.predicate.bounds.warn is not None else None",
        "return None",
        "range-warn-between",
    ),
    Mutant("optional-does-nothing", "claim_outcomes", "else truth + offset", "else truth", "kleene-optional-skips"),
    Mutant(
        "when-unknown-applies",
        "claim_outcomes",
        "if applies(rows, i) is True else",
        "if applies(rows, i) is not False else",
        "when-unknown-does-not-apply",
    ),
    Mutant("beyond-the-inner-limit-fails", "passing", 'update={"warn": None}', "update={}", "measure-warn"),
    Mutant("label-off-the-list-fails", "claim_outcomes", "else NOT_IN_LABELS", "else FAIL", "label-not-in-labels"),
    Mutant(
        "empty-text-is-a-label", "claim_outcomes", 'if found == "":', 'if found == "-":', "label-empty-text-is-no-label"
    ),
    Mutant("stratum-off-by-one", "claim_outcomes", "enumerate(truths, start=1)", "enumerate(truths, start=0)", READING),
    # ---- fields ----
    Mutant(
        "matches-the-whole-text",
        "row_values",
        "[_list(pc.match_substring_regex(texts, pattern)) for",
        '[_list(pc.match_substring_regex(texts, f"^(?:{pattern})$")) for',
        "matches-unanchored",
    ),
    Mutant(
        "pointed-null-is-no-json",
        "row_values",
        "return NOT_JSON if document is NOT_JSON_TEXT else ABSENT",
        "return NOT_JSON",
        "pointer-null-is-absent",
    ),
    Mutant(
        "embedding-needs-an-output",
        "row_values",
        'span.kind in ("embedding", "rerank")',
        'span.kind in ("rerank",)',
        "trace-tokens-embedding-has-no-output",
    ),
    Mutant(
        "overflow-of-a-time",
        "row_values",
        "else _finite(end - start)",
        "else end - start",
        "latency-too-large-for-a-double",
    ),
    Mutant(
        "overflow-of-tokens",
        "row_values",
        "else _finite(given + made)",
        "else given + made",
        "total-tokens-too-large-for-a-double",
    ),
    Mutant(
        "overflow-of-a-sum",
        "row_values",
        "return _finite(total) if",
        "return total if",
        "trace-cost-too-large-for-a-double",
    ),
    Mutant(
        "no-time-is-wrong-type",
        "row_values",
        "return NO_TIME if start is None or end is None else _finite(end - start)",
        "return WRONG_TYPE if start is None or end is None else _finite(end - start)",
        "latency-no-start",
    ),
    Mutant(
        "odd-usage-is-absent",
        "row_values",
        "return WRONG_TYPE if usage is wrong else",
        "return ABSENT if usage is wrong else",
        "range-usage-is-a-text",
    ),
    Mutant(
        "odd-attributes-are-absent",
        "row_values",
        "WRONG_TYPE if rows.owners[i].attributes is wrong else ABSENT",
        "ABSENT",
        "range-attributes-is-a-text",
    ),
    Mutant(
        "a-wrong-type-is-absent",
        "record_types",
        "return WRONG_NUMBER if number is None else number",
        "return number",
        "latency-wrong-type",
    ),
    Mutant(
        "white-space-in-a-number",
        "strict_json",
        '_NUMBER = re.compile(r"[+-]?(',
        '_NUMBER = re.compile(r" ?[+-]?(',
        "range-number-as-text-leading-space",
    ),
    Mutant(
        "the-first-of-equal-keys",
        "strict_json",
        "return json.loads(text, parse",
        "return json.loads(text, object_pairs_hook=lambda pairs: dict(reversed(pairs)), parse",
        READING,
    ),
    # ---- spans and traces ----
    Mutant(
        "span-index-from-one",
        "records",
        "in enumerate(trace.spans):",
        "in enumerate(trace.spans, 1):",
        "present-missing",
    ),
    Mutant(
        "errors-in-any-case",
        "row_values",
        'span.status == "error"',
        'str(span.status).lower() == "error"',
        "trace-error-count",
    ),
    Mutant(
        "agents-are-models",
        "row_values",
        '(None, "llm", "embedding", "rerank")',
        '(None, "llm", "embedding", "rerank", "agent")',
        "trace-cost-of-agent-spans-is-not-added",
    ),
    Mutant(
        "costs-elsewhere-are-not-seen",
        "row_values",
        "others = others or number.__class__ is float",
        "others = False",
        "trace-cost-only-an-agent-span-has-it",
    ),
    Mutant(
        "reason-of-the-last-span",
        "row_values",
        "for span in spans:\n        number",
        "for span in reversed(list(spans)):\n        number",
        "trace-cost-reason-of-the-first-span-that-lacks-it",
    ),
    # ---- units ----
    Mutant("one-failure-is-forgiven", "unit_folds", "_RANK[FAIL] = 4", "_RANK[FAIL] = 3", "unit-any-one-fails"),
    Mutant("warn-is-unknown", "unit_folds", "_RANK[[PASS, WARN]] = 3", "_RANK[[PASS]] = 3", "unit-any-warn-is-good"),
    Mutant(
        "max-is-min",
        "unit_folds",
        'np.fmax if fold == "max" else np.fmin',
        'np.fmin if fold == "max" else np.fmax',
        "unit-max",
    ),
    Mutant(
        "sum-leaves-unknown-out",
        "unit_folds",
        "(count > 0) & (lacking == 0)",
        "(count > 0)",
        "unit-sum-one-unknown",
    ),
    Mutant(
        "last-is-first",
        "unit_folds",
        "last = np.maximum.reduceat(position, units.starts)",
        "last = np.minimum.reduceat(position, units.starts)",
        "unit-last",
    ),
    Mutant("mean-is-sum", "unit_folds", "total / np.maximum(count, 1)", "total", "unit-mean-under-the-limit"),
    Mutant(
        "worst-is-best",
        "unit_folds",
        "worst = ranks if units.one_each else np.maximum.reduceat(ranks, units.starts)",
        "worst = ranks if units.one_each else np.minimum.reduceat(ranks, units.starts)",
        "unit-worst",
    ),
    # ---- composites ----
    Mutant("warn-counts-whole", "deferred", "= [1.0, 0.5, 0.0]", "= [1.0, 1.0, 0.0]", "composite-warn-counts-half"),
    Mutant(
        "pass-at-is-exclusive",
        "deferred",
        "total >= claim.pass_at - 1e-12",
        "total > claim.pass_at + 1e-12",
        "composite-warn-counts-half",
    ),
    Mutant(
        "part-that-does-not-apply-is-unknown",
        "deferred",
        'unknown("part_not_applicable")',
        'unknown("part_unknown")',
        "composite-part-not-applicable",
    ),
    Mutant(
        "parts-count-alike",
        "deferred",
        "total += weight * np.nan_to_num(worth)",
        "total += np.nan_to_num(worth) / len(claim.parts)",
        "composite-measure-part-by-its-score",
    ),
    # ---- selection and counts ----
    Mutant(
        "skips-are-kept-like-failures",
        "sampling",
        'outcome in ("fail", "unknown", "error")',
        'outcome in ("fail", "unknown", "error", "skip")',
        READING,
    ),
    Mutant("another-selection", "score", 'digest(b"gapwatch/1/" + t)', 'digest(b"gapwatch/2/" + t)', READING),
    Mutant("histogram-off-by-one", "value_histogram", "CELL_OFFSET = 2778", "CELL_OFFSET = 2777", READING),
]
