"""JSON Schemas of portfolios and trace records, for editors.

Write the files with `python -m gapwatch.scorers.checking.json_schema deploy/schemas`. The schemas are generated from
the models that read portfolios, so the two always agree. A schema checks one value at a time; mistakes that involve
several values, such as a name that does not exist, are found by `gapwatch check` only.
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
from pydantic.json_schema import models_json_schema

from gapwatch.scorers.portfolio.envelope import envelope_schema
from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.scorers.portfolio.predicate import PREDICATE_KINDS, SubstringOf
from gapwatch.scorers.portfolio.schema_types import WrittenModel

Schema = dict[str, Any]
_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_ATTRIBUTE = re.compile(r"^    (\w+): (.+(?:\n {8}.+)*)", re.MULTILINE)


def portfolio_schema() -> Schema:
    """Return the JSON Schema of a portfolio's YAML."""
    schema = Portfolio.model_json_schema(by_alias=True)
    definitions = schema["$defs"]
    of_kinds = models_json_schema([(kind, "validation") for kind in PREDICATE_KINDS.values()])[1]["$defs"]
    models = sorted(_models_of(Portfolio), key=lambda model: model.__name__)
    definitions.update({model.__name__: of_kinds[model.__name__] for model in models if model.__name__ in of_kinds})
    for model in models:
        _describe(schema if model is Portfolio else definitions[model.__name__], model)
    for bounds in (definitions[name] for name in definitions if name.endswith("Bounds")):
        _need_a_bound(bounds)
    kinds = {name: definitions.pop(kind.__name__) for name, kind in PREDICATE_KINDS.items()}
    definitions["CheckClaim"] = _check_schema(definitions["CheckClaim"], kinds)
    # Only a claim's own predicate may warn.
    plain_kinds = json.loads(json.dumps(kinds).replace("#/$defs/Warned", "#/$defs/"))
    definitions["Predicate"] = _predicate_schema(plain_kinds, needs_field=True)
    definitions["Part"] = _predicate_schema(plain_kinds, needs_field=False)
    plain: Schema = _plain(schema)
    return {"$schema": _DIALECT, "title": "Gapwatch portfolio, version 1", **plain}


def _need_a_bound(schema: Schema) -> None:
    schema["anyOf"] = [{"required": [side]} for side in schema["properties"] if side != "warn"]
    if "warn" in schema["properties"]:  # where it is written, it is a map
        warn = schema["properties"]["warn"]
        schema["properties"]["warn"] = {**warn.pop("anyOf")[0], **warn}


def _check_schema(pydantic: Schema, kinds: dict[str, Schema]) -> Schema:
    schema = _predicate_schema(kinds, needs_field=True)
    beside = {key: pydantic["properties"][key] for key in ("form", "optional")}
    properties = {**beside, **schema["properties"]}
    return {**schema, "description": pydantic["description"], "properties": properties, "required": ["form"]}


def _predicate_schema(kinds: dict[str, Schema], needs_field: bool) -> Schema:
    """Return the schema of a predicate: one map with the keys of every kind, exactly one of them used.

    Args:
        kinds: Schema of each kind by its name, with the kind's own key among the properties.
        needs_field: Whether the predicate must name its field; a part of a composition may inherit the field.
    """
    properties: Schema = {}
    for name, kind in kinds.items():
        properties |= kind["properties"]
        properties[name] = {**properties[name], "description": kind["description"]}
    one = [{"required": sorted({name, *kind["required"]} if needs_field else {name})} for name, kind in kinds.items()]
    return {
        "type": "object",
        "description": "A field and one predicate on it.",
        "properties": properties,
        "additionalProperties": False,
        "oneOf": one,
        "dependentRequired": {"each": [SubstringOf.name]},
    }


def _describe(schema: Schema, model: type[BaseModel]) -> None:
    """Describe a schema by its model's docstring: the first line, and the text of each attribute."""
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
    """Remove what does not help an author: pydantic's titles and empty defaults."""
    if isinstance(node, list):
        return [_plain(item) for item in node]
    if not isinstance(node, dict):
        return node
    if node.get("title") in ("Predicate", "Part"):
        return {"$ref": f"#/$defs/{node['title']}", **{key: value for key, value in node.items() if key != "title"}}
    plain = {}
    for key, value in node.items():
        if key == "title" and isinstance(value, str):
            continue
        if key == "default" and value in (None, [], {}, ""):
            continue
        plain[key] = {name: _plain(part) for name, part in value.items()} if key == "properties" else _plain(value)
    return plain


#: Every schema in the repository, by file name.
SCHEMAS: dict[str, Callable[[], Schema]] = {
    "envelope.schema.json": envelope_schema,
    "portfolio.schema.json": portfolio_schema,
}


def schema_text(schema: Schema) -> str:
    """Return the text of a schema's file."""
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def write_schemas(folder: Path) -> None:
    """Write every schema into a folder; create the folder where it is missing."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, schema in SCHEMAS.items():
        (folder / name).write_text(schema_text(schema()), encoding="utf-8")


if __name__ == "__main__":
    write_schemas(Path(sys.argv[1]))
