"""The truths are well formed: known keys, unique names, references that lead somewhere."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.paths import ROOT

FOLDER = Path(__file__).parent
APPLICATIONS = sorted(
    path
    for path in FOLDER.glob("*.yaml")
    if path.name
    not in (
        "layouts.yaml",
        "mutations.yaml",
        "routes_and_breakers.yaml",
        "instrumented.yaml",
        "recorded_runs.yaml",
        "promises.yaml",
        "portfolio_readings.yaml",
    )
)
#: Keys of each list, those that may be missing after a question mark.
FORM = {
    "components": "id kind what holds ?calls_model",
    "prompts": "id at used_by inputs evidence",
    "routes": "id kind in arms goes_on sure ?why ?reached",
    "not_routes": "at looks_like why",
    "breakers": "id at gate fails reopens reached why",
    "retries": "at what ?sure",
    "failures_as_answers": "at what ?sure",
    "promises": "id at says shows",
    "wants": "id component what better",
    "unwanted": "what why",
}
#: A prompt may stand in a template of its own.
LINE = re.compile(r"[\w./-]+\.(?:py|jinja2?|j2|toml|md):[1-9]\d*")
#: A route may stand in no function.
SYMBOL = re.compile(r"[\w./-]+\.py::(?:[A-Za-z_][\w.]*|<module>)")


def _read(path: Path) -> dict[str, Any]:
    truth: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return truth


def _lines(truth: dict[str, Any]) -> list[str]:
    """Return everything that must be `path:line`."""
    found: list[str] = []
    for kind in ("prompts", "not_routes", "breakers", "retries", "failures_as_answers", "promises"):
        for entry in truth[kind]:
            found += entry["at"] if isinstance(entry["at"], list) else [entry["at"]]
    found += [line for prompt in truth["prompts"] for line in (*prompt["used_by"], *prompt["evidence"])]
    found += [line for part in truth["components"] for line in part.get("calls_model", [])]
    found += [arm["at"] for route in truth["routes"] for arm in route["arms"]]
    return found + [breaker[key] for breaker in truth["breakers"] for key in ("gate", "fails", "reopens")]


@pytest.mark.parametrize("path", APPLICATIONS, ids=lambda path: path.stem)
def test_a_truth_keeps_its_form(path: Path) -> None:
    truth = _read(path)
    ids = [component["id"] for component in truth["components"]]

    assert re.fullmatch(r"[0-9a-f]{40}", truth["commit"]) and re.fullmatch(r"[\w.-]+/[\w.-]+", truth["repository"])
    assert path.stem == truth["repository"].split("/")[1]
    for kind, keys in FORM.items():
        known = {key.strip("?") for key in keys.split()}
        needed = {key for key in keys.split() if key[0] != "?"}
        wrong = [entry for entry in truth[kind] if not needed <= set(entry) <= known]
        assert wrong == [], kind
        named = [entry["id"] for entry in truth[kind] if "id" in entry]
        assert len(named) == len(set(named)), kind
    edges = [tuple(edge) for edge in truth["edges"]]
    assert len(edges) == len(set(edges)) and {end for edge in edges for end in edge} <= set(ids)
    assert {tuple(edge) for edge in truth.get("open_edges", [])} <= set(edges)
    assert {want["component"] for want in truth["wants"]} <= set(ids)
    assert {want["better"] for want in truth["wants"]} <= {"higher", "lower", "none"}
    assert [line for line in _lines(truth) if not LINE.fullmatch(line)] == []
    held = [symbol for component in truth["components"] for symbol in component["holds"]]
    assert [
        symbol for symbol in held + [route["in"] for route in truth["routes"]] if not SYMBOL.fullmatch(symbol)
    ] == []
    assert len(held) == len(set(held))
    assert all(len(route["arms"]) >= 2 for route in truth["routes"])


def test_the_labels_of_further_applications_keep_the_same_form() -> None:
    labels = _read(FOLDER / "routes_and_breakers.yaml")["applications"]

    for label in labels:
        assert re.fullmatch(r"[0-9a-f]{40}", label["commit"])
        for kind in ("routes", "not_routes", "breakers", "retries", "failures_as_answers"):
            known = {key.strip("?") for key in FORM[kind].split()}
            needed = {key for key in FORM[kind].split() if key[0] != "?"}
            assert [entry for entry in label[kind] if not needed <= set(entry) <= known] == [], kind
        full = {"components": [], "prompts": [], "promises": [], **label}
        assert [line for line in _lines(full) if not LINE.fullmatch(line)] == []
        assert all(len(route["arms"]) >= 2 and SYMBOL.fullmatch(route["in"]) for route in label["routes"])
    assert sum(len(label["breakers"]) for label in labels) >= 3


def test_promises_keep_their_form() -> None:
    for application in _read(FOLDER / "promises.yaml"):
        promises = application["promises"]

        assert re.fullmatch(r"[0-9a-f]{40}", application["commit"])
        assert all(set(promise) == {"id", "at", "says", "shows"} for promise in promises)
        assert all(LINE.fullmatch(promise["at"]) for promise in promises)
        assert 10 <= len({promise["id"] for promise in promises}) == len(promises) <= 15


def test_readings_keep_their_form_and_name_promises_that_there_are() -> None:
    readings = _read(FOLDER / "portfolio_readings.yaml") or []
    promises = {one["repository"]: one["promises"] for one in _read(FOLDER / "promises.yaml")}
    promises |= {truth["repository"]: truth["promises"] for truth in map(_read, APPLICATIONS)}
    read = [(one["repository"], one["product"], one["metric"]) for one in readings]

    needed = {"repository", "commit", "product", "metric", "verdict", "why"}
    assert [one for one in readings if not needed <= set(one) <= needed | {"covers"}] == []
    assert {one["verdict"] for one in readings} <= {"right", "useless", "wrong"}
    assert len(read) == len(set(read))
    for one in readings:
        known = {promise["id"] for promise in promises.get(one["repository"], [])}
        assert set(one.get("covers", [])) <= known, one["metric"]


def test_there_are_truths_to_judge_by() -> None:
    truths = [_read(path) for path in APPLICATIONS]

    assert len(truths) >= 6
    assert all(len(truth["promises"]) >= 5 and len(truth["unwanted"]) >= 5 for truth in truths)
    assert all(10 <= len(truth["wants"]) <= 15 for truth in truths)


def test_the_readme_names_every_file() -> None:
    told = (FOLDER / "README.md").read_text(encoding="utf-8")
    kept = [path.name for path in FOLDER.iterdir() if path.name not in ("README.md", "__init__.py", "__pycache__")]

    assert [name for name in kept if f"`{name}" not in told] == []
    assert (ROOT / "tests/design/truths").samefile(FOLDER)


# ---- the metrics for the critic ----

MUTATIONS = yaml.safe_load((FOLDER / "mutations.yaml").read_text(encoding="utf-8"))


def _named_code(tree: ast.Module, text: str) -> dict[str, list[str]]:
    """Return the lines of each function or class by its name with dots; `<module>` holds those outside."""
    lines = text.splitlines()
    found: dict[str, list[str]] = {}
    inside: set[int] = set()

    def walk(node: ast.AST, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                assert child.end_lineno is not None
                found[prefix + child.name] = lines[child.lineno - 1 : child.end_lineno]
                inside.update(range(child.lineno - 1, child.end_lineno))
                walk(child, f"{prefix}{child.name}.")

    walk(tree, "")
    found["<module>"] = [line for number, line in enumerate(lines) if number not in inside]
    return found


@pytest.mark.parametrize("kind", MUTATIONS["kinds"], ids=lambda kind: kind["id"])
def test_a_bad_metric_and_its_good_twin_lie_in_the_code(kind: dict[str, Any]) -> None:
    text = (FOLDER / "critic" / kind["file"]).read_text(encoding="utf-8")
    code = _named_code(ast.parse(text), text)
    for case in kind["cases"]:
        bad, good = case["bad"], case["good"]
        assert bad != good, case["id"]
        places = [
            metric[key]
            for metric in (bad, good)
            for key in ("at", "beside", "prompt", "evidence", "direction")
            if metric.get(key)
        ]
        places += [case["metric"]["limit_from"]] if "limit_from" in case["metric"] else []
        for name, words in places:
            assert sum(words in line for line in code[name]) == 1, (case["id"], name, words)
        for name in [
            *bad.get("over", []),
            *good.get("over", []),
            *([case["metric"].get("counts")] if "counts" in case["metric"] else []),
        ]:
            assert name in code, (case["id"], name)


def test_cases_and_variations_make_two_hundred_bad_and_a_hundred_good_metrics() -> None:
    cases = [case["id"] for kind in MUTATIONS["kinds"] for case in kind["cases"]]
    files = {kind["file"] for kind in MUTATIONS["kinds"]}

    assert len(cases) == len(set(cases)) >= 30
    assert len(cases) * len(MUTATIONS["variations"]) >= 200
    assert files == {path.name for path in (FOLDER / "critic").glob("*.py")}
