"""JSON Schemas of what people write, for their editors: `python -m scorers.json_schema deploy/schemas`.

They are made from the models and from the tables of predicates, so that they cannot say something else. What needs
more than one value to be seen, such as a name that does not exist, only `gapwatch check` sees.
"""

from __future__ import annotations

import inspect
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from scorers.portfolio import Portfolio
from scorers.predicate_arguments import FORMATS, JSON_TYPES, OPERATORS
from scorers.predicate_reading import COMPOSITIONS
from scorers.trace import envelope_schema
from scorers.written_model import WrittenModel

Schema = dict[str, Any]
_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_FIELD: Schema = {"type": "string", "minLength": 1, "description": "A field: output, attributes.<key>, output#/a/b."}
_EACH: Schema = {"type": "boolean", "description": "Of substring_of: every text of a JSON list, instead of the whole."}
_POINTER: Schema = {"type": "string", "pattern": "^(/([^~]|~[01])*)?$"}
_PREDICATE: Schema = {"$ref": "#/$defs/Predicate"}
_PART: Schema = {"$ref": "#/$defs/Part"}
_ATTRIBUTE = re.compile(r"^    (\w+): (.+(?:\n {8}.+)*)", re.MULTILINE)


def portfolio_schema() -> Schema:
    """Return the JSON Schema of a portfolio as it is written in YAML."""
    schema = Portfolio.model_json_schema(by_alias=True)
    definitions = schema["$defs"]
    for model in _models_of(Portfolio):
        _describe(schema if model is Portfolio else definitions[model.__name__], model)
    definitions["CheckClaim"] = _check_schema(definitions["CheckClaim"])
    definitions["Predicate"] = _predicate_schema(warn=False, needs_field=True, beside={})
    definitions["Part"] = _predicate_schema(warn=False, needs_field=False, beside={})
    plain: Schema = _plain(schema)
    return {"$schema": _DIALECT, "title": "Gapwatch portfolio, version 1", **plain}


def _check_schema(pydantic: Schema) -> Schema:
    beside = {key: pydantic["properties"][key] for key in ("form", "optional")}
    schema = _predicate_schema(warn=True, needs_field=True, beside=beside)
    return {**schema, "description": pydantic["description"], "required": ["form"]}


def _predicate_schema(warn: bool, needs_field: bool, beside: Schema) -> Schema:
    """Return the schema of a predicate.

    Args:
        warn: Whether its bounds may have a tighter `warn`: only a claim's own predicate.
        needs_field: Whether it must name its field; a part of a composition may have it from there.
        beside: Properties that stand beside the predicate.
    """
    predicates = _predicates(warn)
    one = [{"required": [name, "field"] if needs_field and name not in COMPOSITIONS else [name]} for name in predicates]
    return {
        "type": "object",
        "description": "A field, and one predicate on it.",
        "properties": {**beside, "field": _FIELD, **predicates, "each": _EACH},
        "additionalProperties": False,
        "oneOf": one,
        "dependentRequired": {"each": ["substring_of"]},
    }


def _predicates(warn: bool) -> Schema:
    pattern = {"type": "string", "description": "RE2, unanchored."}
    length = _bounds(("min", "max"), {"type": "integer", "minimum": 0}, warn)
    parts = {"type": "array", "items": _PART, "minItems": 1}
    compares = {"operator": {"enum": list(OPERATORS)}, "other": _FIELD}
    shape = {
        "required": {"type": "array", "items": _POINTER},
        "types": {
            "type": "object",
            "propertyNames": _POINTER,
            "additionalProperties": {"enum": list(JSON_TYPES)},
        },
    }
    described = {
        "present": ({"const": True}, "Neither null nor the empty text."),
        "absent": ({"const": True}, "Null or the empty text."),
        "sibling": (_FIELD, "The other field is present whenever this one is."),
        "one_of": ({"type": "array", "items": {"type": "string"}, "minItems": 1}, "Equals one of the texts."),
        "range": (_bounds(("min", "max", "above", "below"), {"type": "number"}, warn), "A number within bounds."),
        "length": (length, "Unicode characters."),
        "matches": (pattern, "RE2, unanchored."),
        "not_matches": (pattern, "RE2, unanchored; holds where it does not match."),
        "format": ({"enum": list(FORMATS)}, "The whole text is of this form."),
        "json": (_object(shape), "Is JSON, has these pointers, with values of these types."),
        "substring_of": (_FIELD, "Inside the other field, whatever the case."),
        "cited_in": (_FIELD, "Whatever a model wrote cites a span of the other field."),
        "compares": ({**_object(compares), "required": list(compares)}, "Two numbers."),
        "count": (length, "Elements of a JSON list."),
        "all_of": (parts, "Every part holds."),
        "any_of": (parts, "One part holds."),
        "not": (_PART, "The part does not hold."),
    }
    return {name: {**schema, "description": words} for name, (schema, words) in described.items()}


def _bounds(sides: tuple[str, ...], number: Schema, warn: bool) -> Schema:
    properties: Schema = dict.fromkeys(sides, number)
    if warn:
        properties["warn"] = {**_object(dict(properties)), "minProperties": 1}
    return {**_object(properties), "anyOf": [{"required": [side]} for side in sides]}


def _object(properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _describe(schema: Schema, model: type[BaseModel]) -> None:
    """Give a schema the first line of its model's docstring, and each property the words of its attribute."""
    schema["description"] = inspect.cleandoc(model.__doc__ or "").split("\n\n")[0].replace("\n", " ")
    text = "\n".join(inspect.cleandoc(base.__doc__ or "") for base in model.__mro__ if issubclass(base, WrittenModel))
    words = {name: " ".join(said.split()) for name, said in _ATTRIBUTE.findall(text)}
    for name, field in model.model_fields.items():
        if name in words:
            schema["properties"][field.alias or name]["description"] = words[name]


def _models_of(model: type[BaseModel]) -> set[type[BaseModel]]:
    found: set[type[BaseModel]] = set()
    waiting: list[object] = [model]
    while waiting:
        here = waiting.pop()
        if isinstance(here, type) and issubclass(here, BaseModel):
            if here not in found:
                found.add(here)
                waiting += [field.annotation for field in here.model_fields.values()]
        else:
            waiting += getattr(here, "__args__", ())
    return found


def _plain(node: Any) -> Any:
    """Take out what is of no use to a writer: pydantic's titles, and defaults that are nothing."""
    if isinstance(node, list):
        return [_plain(item) for item in node]
    if not isinstance(node, dict):
        return node
    if node.get("title") == "Predicate":
        return {key: value for key, value in {**_PREDICATE, **node}.items() if key != "title"}
    plain = {}
    for key, value in node.items():
        if key == "title" and isinstance(value, str):
            continue
        if key == "default" and value in (None, [], {}, ""):
            continue
        plain[key] = {name: _plain(part) for name, part in value.items()} if key == "properties" else _plain(value)
    return plain


#: Every schema that is kept in the repository, by file name.
SCHEMAS: dict[str, Callable[[], Schema]] = {
    "envelope.schema.json": envelope_schema,
    "portfolio.schema.json": portfolio_schema,
}


def schema_text(schema: Schema) -> str:
    """Return a schema as its file holds it."""
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def write_schemas(folder: Path) -> None:
    """Write every schema into a folder, which is made where it is missing."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, schema in SCHEMAS.items():
        (folder / name).write_text(schema_text(schema()), encoding="utf-8")


if __name__ == "__main__":
    write_schemas(Path(sys.argv[1]))
