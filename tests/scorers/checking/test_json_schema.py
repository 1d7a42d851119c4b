"""JSON Schemas in the repository are up to date and agree with the loader where a schema can."""

from __future__ import annotations

from typing import get_args

import jsonschema
import pytest

from gapwatch.scorers.checking.json_schema import SCHEMAS, portfolio_schema, schema_text, write_schemas
from gapwatch.scorers.loading.yaml_reader import read_yaml
from gapwatch.scorers.portfolio.claim import CLAIM_FORMS
from gapwatch.scorers.portfolio.component import Component
from gapwatch.scorers.portfolio.envelope import KINDS
from gapwatch.scorers.portfolio.predicate import PREDICATE_KINDS
from tests.contracts.load_cases import CASES, portfolio_of
from tests.paths import EXAMPLE_PORTFOLIO, ROOT

PORTFOLIOS = [EXAMPLE_PORTFOLIO, *sorted(ROOT.glob("deploy/**/portfolio.yaml"))]
VALIDATOR = jsonschema.Draft202012Validator(portfolio_schema())

# Whole classes of mistakes that an editor marks while one writes.
SEEN_BY_THE_SCHEMA = [
    "unknown-key-in-metric",
    "unknown-key-in-claim",
    "unknown-key-at-the-top",
    "unknown-form",
    "no-predicate",
    "field-missing",
    "field-empty",
    "field-not-a-text",
    "predicate-two-predicates",
    "predicate-unknown-predicate",
    "predicate-unknown-format",
    "predicate-present-false",
    "predicate-one-of-empty",
    "predicate-one-of-boolean",
    "predicate-empty-length",
    "predicate-length-fraction",
    "predicate-negative-length",
    "predicate-json-unknown-type",
    "predicate-json-pointer-without-slash",
    "predicate-all-of-empty",
    "predicate-each-without-substring-of",
    "warn-inside-a-composition",
    "range-text-bound",
    "when-without-predicate",
    "judge-without-judges",
    "composite-no-parts",
    "metric-name-spaces",
    "metric-name-sql",
    "metric-name-digit-first",
    "keep-over-one",
    "rate-negative",
    "per-trace-unknown",
    "severity-unknown",
    "schema-version-2",
    "schema-version-text",
    "metrics-missing",
    "reference-key",
]


@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS.keys())
def test_a_schema_is_itself_a_schema(schema):
    jsonschema.Draft202012Validator.check_schema(schema())


def test_a_component_is_of_one_of_the_kinds_of_its_spans():
    assert get_args(Component.model_fields["kind"].annotation) == KINDS


def test_the_record_of_the_documentation_is_a_valid_envelope():
    span = {
        "span_id": "00f067aa0ba902b7",
        "parent_id": None,
        "component": "agent",
        "name": "chat",
        "kind": "llm",
        "started_at": 1774166401.25,
        "ended_at": 1774166403.9,
        "status": "ok",
        "error_type": None,
        "model": "gpt-4.1",
        "tier": "primary",
        "input": "...",
        "output": {"answer": "..."},
        "usage": {"input_tokens": 1503, "output_tokens": 88, "cost_usd": 0.0041},
        "attributes": {"a.b": "stop"},
    }
    record = {
        "trace_id": "4bf92f3577b34da6",
        "pipeline": "airline-agent",
        "environment": "production",
        "spans": [span],
        "session_id": "s-81",
        "started_at": 1774166401.25,
        "sampling_probability": 1.0,
        "attributes": {},
    }
    validator = jsonschema.Draft202012Validator(SCHEMAS["envelope.schema.json"]())

    assert validator.is_valid(record)
    assert not validator.is_valid({**record, "trace_id": None})
    assert not validator.is_valid({**record, "spans": [{"span_id": "x"}]})


@pytest.mark.parametrize("name", SCHEMAS)
def test_the_file_in_the_repository_is_up_to_date(name):
    kept = (ROOT / "deploy" / "schemas" / name).read_text(encoding="utf-8")

    assert kept == schema_text(SCHEMAS[name]()), "run: python -m gapwatch.scorers.checking.json_schema deploy/schemas"


def test_the_schemas_are_written_into_a_folder(tmp_path):
    write_schemas(tmp_path / "new")

    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == sorted(SCHEMAS)


@pytest.mark.parametrize("path", PORTFOLIOS, ids=lambda path: path.parent.name)
def test_real_portfolios_are_valid(path):
    VALIDATOR.validate(read_yaml(path.read_bytes(), str(path))[0].value)


@pytest.mark.parametrize("case", [case for case in CASES if case["expect"]["status"] == 0], ids=lambda case: case["id"])
def test_what_loads_is_valid(case):
    VALIDATOR.validate(read_yaml(portfolio_of(case), case["id"])[0].value)


@pytest.mark.parametrize(
    "case", [case for case in CASES if case["id"] in SEEN_BY_THE_SCHEMA], ids=lambda case: case["id"]
)
def test_what_one_value_shows_to_be_wrong_is_invalid(case):
    assert not VALIDATOR.is_valid(read_yaml(portfolio_of(case), case["id"])[0].value)


def test_all_the_cases_above_exist():
    assert set(SEEN_BY_THE_SCHEMA) <= {case["id"] for case in CASES}


def test_every_form_and_every_predicate_is_in_it():
    definitions = portfolio_schema()["$defs"]
    mapping = definitions["Metric"]["properties"]["claim"]["discriminator"]["mapping"]

    assert sorted(mapping) == sorted(CLAIM_FORMS)
    for name in ("Predicate", "Part", "CheckClaim"):
        assert set(PREDICATE_KINDS) <= set(definitions[name]["properties"])


def test_every_key_is_explained():
    schema = portfolio_schema()
    silent = [
        f"{name}.{key}"
        for name, definition in {"Portfolio": schema, **schema["$defs"]}.items()
        for key, property_ in definition["properties"].items()
        if "description" not in property_ and key != "form"
    ]

    assert silent == []
