"""Prompts of DSPy: what a module tells its model is its signature, and what it is called with are data."""

from __future__ import annotations

from pathlib import Path

from gapwatch.design.architecture.prompts import Prompt
from gapwatch.design.source.scan import scan_repository
from gapwatch.design.stage import run_design
from tests.design.source_tree import write_tree

_SIGNATURES = """import dspy


class Digest(dspy.Signature):
    \"\"\"Summarise the rows of a table in at most three sentences.\"\"\"

    rows = dspy.InputField(desc="Some of the rows; say nothing of those that are not shown.")
    size = dspy.InputField(description="How many rows there are.")
    digest: str = dspy.OutputField(desc="Plain sentences without a number.")
"""

_DIRECT = """import dspy

from app.signatures import Digest


def digest(rows):
    write = dspy.ChainOfThought(Digest)
    return write(rows=rows, size=f"You see {len(rows)} rows of all the rows that are in this table.").digest
"""

_HANDED = """import dspy

from app.signatures import Digest


def digest(write: dspy.Module, rows):
    return write.forward(rows=rows, size=f"You see {len(rows)} rows of all the rows that are in this table.").digest


def run(rows):
    writer = dspy.Predict(Digest)
    return digest(writer, rows)
"""

_OTHER = """import openai


class Digest:
    \"\"\"Summarise the rows of a table in at most three sentences.\"\"\"


def digest(rows):
    kind = Digest
    asked = f"You see {len(rows)} rows of all the rows that are in this table. Describe them."
    return openai.chat.completions.create(model="m", messages=[{"role": "user", "content": asked}], user=kind)
"""


def _prompts(root: Path, code: str) -> list[Prompt]:
    files = {"app/__init__.py": "", "app/signatures.py": _SIGNATURES, "app/work.py": code}
    made = run_design(scan_repository(write_tree(root, files)))
    return [p for found in made.prompts.values() for p in found if p.symbol.startswith("app.work.")]


def test_the_prompt_of_a_module_is_its_signature_with_the_descriptions_of_its_fields(tmp_path: Path) -> None:
    (found,) = _prompts(tmp_path, _DIRECT)

    assert found.text == (
        "Summarise the rows of a table in at most three sentences.\n\n"
        "Inputs:\n- rows: Some of the rows; say nothing of those that are not shown.\n- size: How many rows there are."
        "\n\nOutputs:\n- digest: Plain sentences without a number."
    )
    assert (found.fields, str(found.place)) == (("rows", "size"), "app/signatures.py:4-9")


def test_a_module_that_a_function_is_handed_brings_its_signature(tmp_path: Path) -> None:
    found = _prompts(tmp_path, _HANDED)

    assert ("app.work.digest", "Digest") in {(p.symbol, p.name) for p in found}
    assert not any(p.text.startswith("You see") for p in found)


def test_the_docstring_of_another_class_is_no_prompt(tmp_path: Path) -> None:
    (found,) = _prompts(tmp_path, _OTHER)

    assert found.text.startswith("You see {rows}") or found.text.startswith("You see {len")
