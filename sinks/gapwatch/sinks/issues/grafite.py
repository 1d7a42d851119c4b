"""Reads GRAFITE's files: issues, tests, runs and their verdicts (github.com/IBM/grafite, server/seed)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import orjson

from gapwatch.scorers.errors import UsageError
from gapwatch.sinks.issues.issue import Issue, IssueTest
from gapwatch.sinks.issues.records import as_json

#: GRAFITE writes a failed call as score 0 with the text of the exception; none of these is a verdict.
_FAILED = re.compile(r"^(Max number of retries|Failed to|Error code|Exception|Traceback)", re.IGNORECASE)


def read_grafite(folder: Path, by: str) -> dict[str, list[dict[str, Any]]]:
    """Return the records of a folder with issue.json, test.json, and perhaps run.json with run_<id>.json.

    Raises:
        UsageError: A file is missing or has another form.
    """
    issues, tests = _read(folder / "issue.json"), _read(folder / "test.json")
    try:
        rows = {
            "issues": [_issue(one, by).row() for one in issues],
            "issue_tests": [_test(one, by).row() for one in tests],
        }
        owners = {row["test_id"]: row["issue_id"] for row in rows["issue_tests"]}
        if (folder / "run.json").is_file():
            for run in _read(folder / "run.json"):
                rows.setdefault("test_runs", []).append(_run(run, by))
                results = _read(folder / f"{run['run_id']}.json")
                rows.setdefault("test_results", []).extend(_result(run["run_id"], one, owners) for one in results)
                rows.setdefault("test_verdicts", []).extend(_verdicts(run["run_id"], results))
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise UsageError(f"{folder} does not have the form of GRAFITE's files: {error!r}") from error
    return rows


def _read(file: Path) -> list[dict[str, Any]]:
    try:
        read = orjson.loads(file.read_bytes())
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}") from error
    except orjson.JSONDecodeError as error:
        raise UsageError(f"{file} is not JSON: {error}") from error
    if not isinstance(read, list):
        raise UsageError(f"{file} is not a list")
    return read


def _issue(one: dict[str, Any], by: str) -> Issue:
    triage = one.get("triage") or {}
    status = "draft"
    if triage.get("approved"):
        status = "fixed" if triage.get("resolved") else "open"
    if one.get("active") is False:
        status = "closed"
    domain = one["title"].split(" - ")[0]
    return Issue(
        one["_id"]["$oid"], one["title"], one.get("description") or "", status, domain, tuple(one.get("tags") or ()),
        1, "", "", by, why="imported from GRAFITE",
    )  # fmt: skip


def _test(one: dict[str, Any], by: str) -> IssueTest:
    validator = one["validators"][0]["parameters"]
    template = re.search(r"template (\d)", validator.get("judge_type") or "template 1")
    messages = tuple({"role": m["role"], "content": m["content"]} for m in one.get("messages") or ())
    return IssueTest(
        one["_id"]["$oid"], one["issue_id"], messages or ({"role": "user", "content": one.get("prompt") or ""},),
        one.get("desired_output"), int(template[1]) if template else 1, validator.get("judge_guidelines") or "",
        "GRAFITE", one.get("active") is not False, by,
    )  # fmt: skip


def _run(run: dict[str, Any], by: str) -> dict[str, Any]:
    return {
        "run_id": run["run_id"], "model": run["model_id"], "judges": as_json(run["judge_model_ids"]),
        "tests": as_json(run["tests"]), "settings": as_json({"from": "GRAFITE", "created_at": run.get("created_at")}),
        "by": by,
    }  # fmt: skip


def _result(run_id: str, one: dict[str, Any], owners: dict[str, str]) -> dict[str, Any]:
    return {
        "run_id": run_id, "test_id": one["test_id"], "issue_id": owners.get(one["test_id"]), "test_sha": None,
        "output": one.get("model_response"), "error": None if one.get("model_response") else "no output",
        "seconds": None,
    }  # fmt: skip


def _verdicts(run_id: str, results: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    rows = []
    for one in results:
        for said in one["judge_results"]:
            words = str(said.get("test_justification") or "")
            has_failed = said.get("test_score") not in (0, 1) or (said["test_score"] == 0 and _FAILED.match(words))
            outcome = "error" if has_failed else "pass" if said["test_score"] else "fail"
            rows.append(
                {
                    "run_id": run_id, "test_id": one["test_id"], "judge": said["model_id"], "outcome": outcome,
                    "score": None if has_failed else float(said["test_score"]),
                    "justification": None if has_failed else words, "reason": words[:300] if has_failed else None,
                }
            )  # fmt: skip
    return rows
