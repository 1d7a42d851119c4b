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
    # ---- predicates ----
    Mutant("max-excludes-its-bound", "predicate_sql", '"max": "<="', '"max": "<"', "range-max-inclusive"),
    Mutant("min-excludes-its-bound", "predicate_sql", '"min": ">="', '"min": ">"', "range-min-inclusive"),
    Mutant("above-includes-its-bound", "predicate_sql", '"above": ">"', '"above": ">="', "range-above-exclusive"),
    Mutant("below-includes-its-bound", "predicate_sql", '"below": "<"', '"below": "<="', "range-below-at-the-bound"),
    Mutant("less-includes-equal", "predicate_sql", '{"<": "<",', '{"<": "<=",', "compares-lt-2-2"),
    Mutant("unequal-is-equal", "predicate_sql", '"!=": "<>"', '"!=": "="', "compares-ne-2-2"),
    Mutant(
        "all-of-is-any-of",
        "predicate_sql",
        'operator = " AND " if predicate.name == "all_of" else " OR "',
        'operator = " OR "',
        "kleene-all-one-false",
    ),
    Mutant(
        "any-of-is-all-of",
        "predicate_sql",
        'operator = " AND " if predicate.name == "all_of" else " OR "',
        'operator = " AND "',
        "kleene-any-true-beats-unknown",
    ),
    Mutant(
        "reason-of-the-last-unknown-part",
        "predicate_sql",
        "for part in parts if part.reason is not None)",
        "for part in reversed(parts) if part.reason is not None)",
        "kleene-all-reason-of-the-first-unknown",
    ),
    Mutant(
        "not-does-nothing",
        "predicate_sql",
        'PredicateSql(f"(NOT {part.truth})", part.reason)',
        "PredicateSql(part.truth, part.reason)",
        "kleene-not-true",
    ),
    Mutant(
        "not-of-unknown-is-true",
        "predicate_sql",
        'PredicateSql(f"(NOT {part.truth})", part.reason)',
        'PredicateSql(f"(NOT coalesce({part.truth}, false))", part.reason)',
        "kleene-not-unknown-is-unknown",
    ),
    Mutant(
        "sibling-needs-both",
        "predicate_sql",
        "(NOT {this} OR {other})",
        "({this} AND {other})",
        "sibling-this-missing",
    ),
    Mutant(
        "length-in-bytes",
        "predicate_sql",
        'f"length({sql.readable_text})"',
        'f"strlen({sql.readable_text})"',
        "length-emoji-is-one",
    ),
    Mutant(
        "not-matches-matches",
        "predicate_sql",
        'truth if predicate.name == "matches" else f"(NOT {truth})"',
        "truth",
        "not-matches-clean",
    ),
    Mutant(
        "matches-the-whole-text",
        "predicate_sql",
        "regexp_matches({sql.readable_text}, {literal(predicate.pattern)})",
        "regexp_full_match({sql.readable_text}, {literal(predicate.pattern)})",
        "matches-unanchored",
    ),
    Mutant(
        "absent-text-is-no-json-but-fails",
        "predicate_sql",
        "truth = f\"CASE WHEN {sql.readable_text} IS NOT NULL THEN {' AND '.join(conditions)} END\"",
        "truth = '(' + ' AND '.join(conditions) + ')'",
        "required-absent-field",
    ),
    Mutant(
        "required-takes-null",
        "predicate_sql",
        "coalesce({found} <> 'NULL', false)",
        "{found} IS NOT NULL",
        "required-null-counts-as-absent",
    ),
    Mutant(
        "types-check-null",
        "predicate_sql",
        "coalesce({found} = 'NULL' OR ",
        "coalesce(",
        "type-of-null-is-not-checked",
    ),
    Mutant(
        "integers-are-spelled-without-point",
        "predicate_sql",
        "OR ({found} = 'DOUBLE' AND {value} = trunc({value})))",
        "OR ({found} = 'DOUBLE' AND {value} IS NULL))",
        "type-integer-accepts-1-point-0",
    ),
    Mutant(
        "one-element-may-lie-outside",
        "predicate_sql",
        "len({outside}) = 0 END",
        "len({outside}) <= 1 END",
        "each-one-outside",
    ),
    Mutant(
        "elements-are-not-lowered",
        "predicate_sql",
        "contains({haystack}, lower(e))",
        "contains({haystack}, e)",
        "each-all-inside",
    ),
    Mutant(
        "no-list-is-no-json",
        "predicate_sql",
        '{NOT_JSON} "\n            f"ELSE {WRONG_TYPE} END"\n        )\n        return column',
        '{NOT_JSON} "\n            f"ELSE {NOT_JSON} END"\n        )\n        return column',
        "count-object-is-no-list",
    ),
    Mutant(
        "reason-of-the-other-field-first",
        "predicate_sql",
        'f"CASE WHEN {value} IS NULL THEN {reason} ELSE {other_reason} END"',
        'f"CASE WHEN {value} IS NULL THEN {other_reason} ELSE {reason} END"',
        "compares-reason-of-this-field-first",
    ),
    Mutant(
        "source-in-any-case",
        "predicate_sql",
        "|| '/source') = 'llm'",
        "|| '/source') ILIKE 'llm'",
        "cited-source-word-is-exact",
    ),
    Mutant(
        "empty-source-span-is-inside",
        "predicate_sql",
        "coalesce({span} <> '' AND contains(",
        "coalesce(contains(",
        "cited-span-empty-is-missing",
    ),
    Mutant(
        "own-name-is-a-member",
        "predicate_sql",
        "CASE WHEN k = {own} THEN {this.text} WHEN",
        "CASE WHEN",
        "cited-whole-field-not-in-input",
    ),
    # ---- claims ----
    Mutant(
        "warn-inside-out",
        "claim_sql",
        "THEN {PASS} ELSE {WARN} END",
        "THEN {WARN} ELSE {PASS} END",
        "range-warn-inside",
    ),
    Mutant(
        "optional-does-nothing",
        "claim_sql",
        'return f"({reason}) + {SKIP_OFFSET}" if optional else',
        'return f"({reason})" if optional else',
        "kleene-optional-skips",
    ),
    Mutant(
        "when-unknown-applies",
        "claim_sql",
        "CASE WHEN {self._predicates.compile(metric.when).truth} THEN",
        "CASE WHEN coalesce({self._predicates.compile(metric.when).truth}, true) THEN",
        "when-unknown-does-not-apply",
    ),
    Mutant(
        "the-last-part-names-the-reason",
        "deferred",
        "for name, weight in claim.parts.items():",
        "for name, weight in reversed(claim.parts.items()):",
        "composite-first-part-names-the-reason",
    ),
    Mutant(
        "limit-excludes-its-bound",
        "claim_sql",
        'operator = "<=" if maximum is not None else ">="',
        'operator = "<" if maximum is not None else ">"',
        "measure-at-its-maximum",
    ),
    Mutant(
        "minimum-is-a-maximum",
        "claim_sql",
        'operator = "<=" if maximum is not None else ">="',
        'operator = "<="',
        "measure-under-min",
    ),
    Mutant(
        "label-off-the-list-fails",
        "claim_sql",
        "THEN {PASS} WHEN {text} <> '' THEN {NOT_IN_LABELS}",
        "THEN {PASS} WHEN {text} <> '' THEN {FAIL}",
        "label-not-in-labels",
    ),
    Mutant(
        "empty-text-is-a-label",
        "claim_sql",
        "good = f\"WHEN {text} <> '' THEN {PASS}\"",
        'good = f"WHEN {text} IS NOT NULL THEN {PASS}"',
        "label-empty-text-is-no-label",
    ),
    Mutant(
        "stratum-off-by-one", "claim_sql", "metric.sample.strata, start=1", "metric.sample.strata, start=0", READING
    ),
    # ---- fields ----
    Mutant(
        "empty-text-is-present",
        "field_sql",
        "coalesce({sql.text} <> '', false)",
        "({sql.text} IS NOT NULL)",
        "present-empty-text",
    ),
    Mutant("nothing-is-lowered", "field_sql", 'f"lower({sql.text})"', 'f"({sql.text})"', "substring-case-insensitive"),
    Mutant(
        "pointed-null-is-no-json",
        "field_sql",
        "WHEN {text} IS NULL THEN {ABSENT} ELSE {WRONG_TYPE} END",
        "WHEN {text} IS NULL THEN {NOT_JSON} ELSE {WRONG_TYPE} END",
        "pointer-null-is-absent",
    ),
    Mutant(
        "embedding-needs-an-output",
        "field_sql",
        "kind IN ('embedding', 'rerank') AND",
        "kind IN ('rerank') AND",
        "trace-tokens-embedding-has-no-output",
    ),
    Mutant(
        "overflow-of-a-time",
        "field_sql",
        '"finite({end} - {start})"',
        '"({end} - {start})"',
        "latency-too-large-for-a-double",
    ),
    Mutant(
        "overflow-of-tokens",
        "field_sql",
        "finite({given.number} + {output})",
        "({given.number} + {output})",
        "total-tokens-too-large-for-a-double",
    ),
    Mutant("overflow-of-a-sum", "field_sql", "finite({name}_sum)", "{name}_sum", "trace-cost-too-large-for-a-double"),
    Mutant(
        "overflow-has-no-model-span",
        "field_sql",
        "CASE WHEN model_spans > 0 THEN {WRONG_TYPE} ELSE {NO_MODEL_SPAN} END",
        "{NO_MODEL_SPAN}",
        "trace-tokens-too-large-for-a-double",
    ),
    Mutant(
        "time-runs-backwards", "field_sql", '"finite({end} - {start})"', '"finite({start} - {end})"', "measure-no-limit"
    ),
    Mutant(
        "no-time-is-wrong-type",
        "field_sql",
        "THEN {NO_TIME} ELSE {WRONG_TYPE} END",
        "THEN {WRONG_TYPE} ELSE {WRONG_TYPE} END",
        "latency-no-start",
    ),
    Mutant(
        "odd-usage-is-absent",
        "field_sql",
        'THEN {WRONG_TYPE} ELSE {ABSENT} END"\n    return',
        'THEN {ABSENT} ELSE {ABSENT} END"\n    return',
        "range-usage-is-a-text",
    ),
    # ---- spans and traces ----
    Mutant(
        "span-index-from-one",
        "record_sql",
        "generate_subscripts({listed}, 1) - 1",
        "generate_subscripts({listed}, 1)",
        "present-missing",
    ),
    Mutant(
        "errors-in-any-case",
        "plan",
        "coalesce(status = 'error', false)",
        "coalesce(status ILIKE 'error', false)",
        "trace-error-count",
    ),
    Mutant(
        "agents-are-models",
        "plan",
        "kind IN ('llm', 'embedding', 'rerank')",
        "kind IN ('llm', 'embedding', 'rerank', 'agent')",
        "trace-cost-of-agent-spans-is-not-added",
    ),
    Mutant(
        "costs-elsewhere-are-not-seen",
        "plan",
        "coalesce(bool_or(is_span AND NOT",
        "coalesce(bool_or(false AND NOT",
        "trace-cost-only-an-agent-span-has-it",
    ),
    Mutant(
        "reason-of-the-last-span",
        "plan",
        "min(span_index * 256 + {reason})",
        "max(span_index * 256 + {reason})",
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
