"""Reads files of issues and tests: what `gapwatch issue export` writes, promptfoo's test cases, and data sets."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any

import orjson
import yaml

from gapwatch.scorers.errors import UsageError
from gapwatch.sinks.issues.issue import Issue, IssueTest
from gapwatch.sinks.issues.trace_test import messages_of


def read_issue_file(file: Path, by: str) -> dict[str, list[dict[str, Any]]]:
    """Return the records of a file.

    An export has lines with `issue` or `test`. Lines of a data set (Langfuse, Phoenix, Gapwatch) have `input` or
    `inputs`, and `expected_output`, `output` or `reference`: they become tests of one draft. So do the `tests` of
    promptfoo's YAML, whose assertion `llm-rubric` is the guideline.

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
    others: list[tuple[Any, str | None]] = []
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
                given = next(read[name] for name in ("input", "inputs") if name in read)
                right = next((read[name] for name in ("expected_output", "reference", "output") if name in read), None)
                others.append(
                    (given, right if right is None or isinstance(right, str) else orjson.dumps(right).decode())
                )
        except (orjson.JSONDecodeError, TypeError, KeyError, StopIteration) as error:
            raise UsageError(
                f"{file}, line {number}: neither an issue, a test, nor an example with `input`: {error!r}"
            ) from error
    if others:
        issue = _draft(f"imported from {file.name}", by)
        rows["issues"].append(issue.row())
        rows["issue_tests"] += [_test(issue, given, right, None, file.name, by).row() for given, right in others]
    return {table: some for table, some in rows.items() if some}


def _promptfoo(file: Path, text: str, by: str) -> dict[str, list[dict[str, Any]]]:
    try:
        read = yaml.safe_load(text)
        cases = read["tests"] if isinstance(read, dict) else read
        issue = _draft(f"imported from {file.name}", by)
        tests = []
        for case in cases:
            asserts = case.get("assert") or []
            rubric = next((one["value"] for one in asserts if one.get("type") == "llm-rubric"), None)
            right = next((one["value"] for one in asserts if one.get("type") in ("equals", "contains")), None)
            given = case.get("vars") or {}
            only = next(iter(given.values())) if len(given) == 1 else given
            tests.append(_test(issue, only, None if right is None else str(right), rubric, file.name, by).row())
    except (yaml.YAMLError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(
            f"{file} does not have the form of promptfoo's test cases: {type(error).__name__}: {error}"
        ) from error
    return {"issues": [issue.row()], "issue_tests": tests}


def _draft(title: str, by: str) -> Issue:
    return Issue(f"i-{secrets.token_hex(5)}", title, "", "draft", "", (), 3, "", "", by)


def _test(issue: Issue, given: Any, right: str | None, guideline: str | None, origin: str, by: str) -> IssueTest:
    template = 1 if right is not None else None
    return IssueTest(
        f"t-{secrets.token_hex(5)}", issue.issue_id, messages_of(given), right, template, guideline, origin, True, by
    )
