"""The pages `docs/claims.md` and `docs/cookbook_claims.md`, from the types of claims and examples that tests score."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import yaml

from deploy.documentation.claim_examples import SECTIONS, Case, ClaimExample, Recipe, read_examples, read_recipes
from gapwatch.scorers.checking.claim_words import expected_words
from gapwatch.scorers.checking.json_schema import portfolio_schema
from gapwatch.scorers.loading.load import parse_portfolio
from gapwatch.scorers.plan.codes import REASONS
from gapwatch.scorers.plan.value_tests import FORMATS
from gapwatch.scorers.portfolio.envelope import Level, fields_of
from gapwatch.scorers.portfolio.field import SPAN_TEXT_FIELDS, TRACE_TEXT_FIELDS

_INTRODUCTION = """# Writing claims

Made from the types that read a portfolio, and from examples that the tests score, by `deploy/docs --write`.
Claims for common needs: [the cookbook](cookbook_claims.md).

A **metric** watches one component, or the whole trace. Its **claim** states what holds of each span. Gapwatch evaluates
the claim on every span of the component to which `when` applies:

```yaml
metrics:
  - name: answer_parses            # stable: a metric with another meaning needs a new name
    component: answer              # or scope: trace
    purpose: "the caller reads /answer"
    when: {field: kind, one_of: [llm]}
    claim: {form: check, field: output, json: {required: [/answer]}}
```

`gapwatch check P` says every mistake of a portfolio with its line and what to write instead; `--against FILE` tries it
on real traces, `--explain` prints each claim in words.
"""

_OUTCOMES = """## Outcomes

| outcome | meaning | in rates |
| --- | --- | --- |
| `pass` | the claim holds | good |
| `warn` | it holds, but a tighter bound does not | good |
| `fail` | it does not hold | bad |
| `unknown` | it cannot be decided; the row says why | left out, counted as unknown |
| `skip` | the value is missing and the claim is `optional: true` | left out |
| `error` | a scorer or a judge failed | left out |
| `pending` | a judge has not answered yet | left out until it has |

Rates count traces, not spans. A trace is bad if any span fails (`per_trace: any`, the default), good if one passes or
warns and none fails. A missing value is never a pass and never a 0.

A predicate on an absent field is unknown, except `present`, `absent` and `sibling`, which are always decided. `all_of`,
`any_of` and `not` follow three-valued logic: an unknown part decides nothing, the other parts may. A `when` that is
unknown does not apply."""

_REASONS = {
    "absent": "the field is absent or null",
    "wrong_type": "the value has another type than the claim needs",
    "not_json": "a pointer or a list needs JSON, and the text is none",
    "no_time": "the start or the end is missing",
    "not_in_labels": "the label is not in `labels`",
    "no_model_span": "no span of the trace is by a model",
    "part_unknown": "a part of a composite is unknown",
    "part_not_applicable": "a part of a composite does not apply to the span",
    "exception": "a Python scorer raised",
    "timeout": "a Python scorer took too long",
    "bad_result": "a Python scorer returned something else than it may",
    "unscored": "a Python scorer gave no result",
}

_MEMBERS = """
A component with `members` stands for several: `{id: model_calls, kind: llm, members: [plan, answer]}`. Its metrics read
the spans of all members, and break down by member where others break down by tier: `gapwatch rates --by tier`, the
facet `tier` of ticks and alerts. The `tier` that a claim reads stays that of the span.
"""

_FIELDS = """## Fields

Fields that begin with `trace.` are those of metrics with `scope: trace`; all others are of a span. A text field takes
any JSON value; what is not a string is read as its JSON text. A number field takes a finite number, or a text that is
one."""

_COOKBOOK = """# Cookbook of claims

{count} needs that pipelines have, each with a metric to copy into the list `metrics` of a portfolio. The components are
`answer` (kind llm), `retrieve` (retrieval) and `tools` (tool); put yours in their place. Tests load each metric and
score the spans below it. Every form and predicate: [writing claims](claims.md).

To be told of a shift, add `alert: {{severity: page}}` (or `ticket`, `note`) to a metric. Where nothing says which way
is worse, Gapwatch refuses a page and prints the fact to paste."""


def claims_page() -> str:
    """Return the text of the page."""
    examples = read_examples()
    definitions = portfolio_schema()["$defs"]
    parts = [_INTRODUCTION, _OUTCOMES]
    parts.append("Reasons of `unknown`, `skip` and `error`:\n\n" + _table(("reason", "meaning"), _reason_rows()))
    parts.append("## Keys of a metric\n\n" + _arguments(definitions["Metric"]) + "\n\n" + _MEMBERS.strip())
    parts.append("## Forms")
    for name in SECTIONS["forms"]:
        parts += _section(examples["forms"][name], _form_arguments(name, definitions))
    parts.append("## Predicates\n\nA check has one predicate beside its `field`; so has a `when`.")
    for name in SECTIONS["predicates"]:
        said = definitions["Predicate"]["properties"][name]["description"]
        parts += _section(examples["predicates"][name], "", said)
    parts.append("## Arguments of predicates")
    for title, kind in (
        ("Bounds: `range`, `length`, `count`", "WarnedNumberBounds"),
        ("Shape: `json`", "JsonShape"),
        ("Comparison: `compares`", "Comparison"),
    ):
        parts.append(f"### {title}\n\n{_arguments(definitions[kind])}")
    parts.append("`length` and `count` take `min` and `max` alone. `warn` stands only in a claim's own predicate.")
    parts.append(_formats(definitions))
    parts.append("## Direction, threshold, alert and sampling")
    for title, kind in (
        ("`direction`", "Direction"),
        ("`threshold`", "Threshold"),
        ("`alert`", "Alert"),
        ("`sample`", "Sample"),
        ("`sample.keep`", "Keep"),
        ("A stratum of `sample.strata`", "Stratum"),
    ):
        parts.append(f"### {title}\n\n{definitions[kind]['description']}\n\n{_arguments(definitions[kind])}")
    parts.append(_fields(examples["fields"]))
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def claim_cookbook_page() -> str:
    """Return the text of the cookbook of claims."""
    recipes = read_recipes()
    parts = [_COOKBOOK.format(count=sum(map(len, recipes.values())))]
    for title, of in recipes.items():
        parts.append(f"## {title}")
        for recipe in of:
            parts.append(f"### {recipe.need}\n\n```yaml\n{recipe.metrics}\n```")
            parts.append(f"In words: {_words(recipe, 0)}.")
            if recipe.cases:
                parts.append(_cases(recipe.cases))
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def _section(example: ClaimExample, arguments: str, said: str = "") -> Iterator[str]:
    yield f"### `{example.name}`"
    if said:
        yield said
    if example.note:
        yield example.note
    if example.metrics:
        yield f"With these metrics of the same component:\n\n```yaml\n{example.metrics}\n```"
    if example.scorer:
        yield f"```python\n{example.scorer}\n```"
    claim = f"claim: {example.claim}" if example.claim.startswith("{") else "claim:\n" + _indented(example.claim)
    yield f"```yaml\n{claim}\n```"
    yield f"In words: {_words(example)}."
    yield _cases(example.cases)
    yield "Never unknown." if example.unknown == "Never." else f"Unknown when: {_lowered(example.unknown)}"
    if arguments:
        yield arguments


def _cases(cases: tuple[Case, ...]) -> str:
    rows = [(f"`{json.dumps(case.shown, ensure_ascii=False)}`", _outcome(case)) for case in cases]
    return _table(("trace" if cases[0].is_trace else "span", "outcome"), rows)


def _outcome(case: Case) -> str:
    return f"{case.outcome}: {case.reason}" if case.reason else case.outcome


def _words(example: ClaimExample | Recipe, position: int = -1) -> str:
    portfolio = parse_portfolio(yaml.safe_dump(example.portfolio(), allow_unicode=True, sort_keys=False))
    return expected_words(portfolio.metrics[position])


#: What the page says of conversations.
_TURNS = """With `transcript`, an input that is a JSON list of messages (`role` and `content`, as of OpenAI, Anthropic
and LangChain, or `role` and `parts`, as of OpenTelemetry) is shown turn by turn: each text, each call of a tool and
each result of a tool between lines of its own, with the number of the turn and who speaks. `input#/messages` reads
the list of a request body. A metric with `scope: trace` can show the whole trace: `inputs: [trace.transcript]`.
Pipelines that send the history of a session with each call thereby show the session so far.

A long conversation loses its middle: the first `first_turns` turns stay, as far as they fit in a third of
`characters`, then as many of the last turns as fit in the rest; a line says how many turns with how many characters
are left out. `gapwatch check PORTFOLIO --prompts --against FILE` prints the prompt of a real trace.

A request that would not fit into the context window of its model is cut further by the same rule before it is sent,
and ends as an `error` with the reason `over_window` where even the beginnings and ends do not fit. The window is
`context_tokens` of the judge settings, else that of litellm's list."""


def _form_arguments(name: str, definitions: dict[str, Any]) -> str:
    if name == "check":
        return ""
    text = _arguments(definitions[f"{name.capitalize()}Claim"])
    if name == "measure":
        text += "\n\nKeys of `limit`:\n\n" + _arguments(definitions["Limit"])
    if name == "judge":
        text += "\n\nKeys of `rubric`:\n\n" + _arguments(definitions["Rubric"])
        text += "\n\nKeys of `transcript`:\n\n" + _arguments(definitions["TranscriptRule"]) + f"\n\n{_TURNS}"
        text += "\n\nKeys of a judge:\n\n" + _arguments(definitions["Judge"])
    return text


def _arguments(definition: dict[str, Any]) -> str:
    required = definition.get("required", ())
    rows = [
        (f"`{name}`", "required" if name in required else _default(said), said.get("description", ""))
        for name, said in definition["properties"].items()
        if name != "form"
    ]
    return _table(("key", "default", "meaning"), rows)


def _default(said: dict[str, Any]) -> str:
    default = said.get("default")
    return "" if default is None or isinstance(default, dict | list) else f"`{json.dumps(default)}`"


def _formats(definitions: dict[str, Any]) -> str:
    names = definitions["Predicate"]["properties"]["format"]["enum"]
    rows = [(f"`{name}`", f"`{FORMATS[name]}`" if name in FORMATS else "JSON by RFC 8259") for name in names]
    return "### Formats: `format`\n\nThe whole text must match:\n\n" + _table(("format", "RE2"), rows)


def _fields(examples: dict[str, ClaimExample]) -> str:
    meanings = {
        **{field.name: field.meaning for field in fields_of(Level.SPAN)},
        **{f"usage.{field.name}": field.meaning for field in fields_of(Level.USAGE)},
    }
    rows = []
    for name in SECTIONS["fields"]:
        example = examples[name]
        kind = (
            "text"
            if name in (*SPAN_TEXT_FIELDS, *TRACE_TEXT_FIELDS)
            else "either"
            if "#" in name or "<key>" in name
            else "number"
        )
        meaning = example.meaning or meanings[name]
        rows.append((f"`{name}`", kind, meaning, f"`{example.claim}`", example.unknown))
    head = ("field", "kind", "meaning", "example", "unknown when")
    return f"{_FIELDS}\n\n{_table(head, rows)}"


def _reason_rows() -> list[tuple[str, ...]]:
    return [(f"`{reason}`", _REASONS[reason]) for reason in REASONS]


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join("| " + " | ".join(_cell(cell) for cell in line) + " |" for line in lines)


def _cell(text: str) -> str:
    """Escape the bars of a cell: a table would end at them, also inside of code."""
    return " ".join(text.replace("|", "\\|").split())


def _lowered(sentence: str) -> str:
    return sentence[0].lower() + sentence[1:]


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())
