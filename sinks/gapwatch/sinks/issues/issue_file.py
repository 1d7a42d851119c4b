"""Reads files of issues and tests: what `gapwatch issue export` writes, promptfoo's test cases, and data sets."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
import yaml

from gapwatch.scorers.errors import UsageError
from gapwatch.sinks.issues.foreign_tests import ForeignTest, read_example, read_promptfoo
from gapwatch.sinks.issues.issue import Issue, IssueTest
from gapwatch.sinks.issues.trace_test import messages_of


def read_issue_file(file: Path, by: str) -> dict[str, list[dict[str, Any]]]:
    """Return the records of a file.

    An export has lines with `issue` or `test`. Lines of a data set (Langfuse, Phoenix, OpenAI, Gapwatch) become tests
    of one draft; so do the test cases of promptfoo's YAML.

    Raises:
        UsageError: The file cannot be read, or a line has none of these forms; the message names it.
    """
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} cannot be read: {error}") from error
    if file.suffix in (".yaml", ".yml"):
        return _promptfoo(file, text, by)
    rows: dict[str, list[dict[str, Any]]] = {"issues": [], "issue_tests": []}
    others: list[ForeignTest] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            read = orjson.loads(line)
            if "issue" in read:
                Issue(**{**read["issue"], "tags": tuple(orjson.loads(read["issue"]["tags"]))})
                rows["issues"].append({**read["issue"], "by": by})
            elif "test" in read:
                rows["issue_tests"].append({**read["test"], "by": by})
            else:
                others.append(read_example(read))
        except (orjson.JSONDecodeError, TypeError, KeyError, AttributeError) as error:
            raise UsageError(
                f"{file}, line {number}: neither an issue, a test, nor an example with `input` or `messages`: {error!r}"
            ) from error
    for table, some in _draft(file, others, "", by).items() if others else ():
        rows[table] += some
    return {table: some for table, some in rows.items() if some}


def _promptfoo(file: Path, text: str, by: str) -> dict[str, list[dict[str, Any]]]:
    try:
        tests, left_out = read_promptfoo(yaml.safe_load(text))
    except (yaml.YAMLError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(
            f"{file} does not have the form of promptfoo's test cases: {type(error).__name__}: {error}"
        ) from error
    return _draft(file, tests, left_out, by)


def _draft(file: Path, tests: Sequence[ForeignTest], said: str, by: str) -> dict[str, list[dict[str, Any]]]:
    """Return the records of a draft with tests."""
    issue = Issue(f"i-{secrets.token_hex(5)}", f"imported from {file.name}", said, "draft", "", (), 3, "", "", by)
    made = [
        IssueTest(
            f"t-{secrets.token_hex(5)}", issue.issue_id, messages_of(one.given), one.reference,
            1 if one.reference is not None else None, one.guideline,
            f"trace {one.trace_id}" if one.trace_id else file.name, one.is_active, by,
        )
        for one in tests
    ]  # fmt: skip
    return {"issues": [issue.row()], "issue_tests": [test.row() for test in made]}
