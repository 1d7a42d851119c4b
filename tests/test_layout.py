"""The house: four packages, files and folders of a size to read, imports that lead one way."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import pytest
import yaml

from tests.paths import FOLDERS, ROOT, SOURCE_ROOTS

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PACKAGES = [*FOLDERS, "publisher"]
#: Names that say nothing of what a file gives.
EMPTY_NAMES = re.compile(r"(^|_)(utils?|helpers?|commons?|base|misc|manager|stuff)(_|$)")
#: First words of a docstring that leave its subject to the end of the sentence.
RIDDLES = {
    "What",
    "Which",
    "How",
    "When",
    "Where",
    "Who",
    "Whom",
    "Whose",
    "Whether",
    "As",
    "That",
    "If",
    "Let",
    "Lest",
}
#: Modules of a folder that is taken in at a glance.
MOST_MODULES = 22
#: Lines of a file that is read in one sitting; tests are lists of cases.
LONGEST, LONGEST_TEST = 400, 600
#: Longer ones that parting would tear apart: one short function a kind of node, expression, statement or metric, or
#: one object whose parts share its state.
LONG = {
    "catalog.py",
    "components.py",
    "critic.py",
    "expressions.py",
    "failures.py",
    "faust_slices.py",
    "lower.py",
    "score.py",
    "statements.py",
    "trace_publisher.py",
}


def product_modules() -> list[Path]:
    return [path for folder in FOLDERS.values() for path in sorted(folder.rglob("*.py"))]


def python_files() -> Iterator[Path]:
    for folder in (*FOLDERS.values(), ROOT / "deploy", ROOT / "tests"):
        yield from sorted(folder.rglob("*.py"))


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def test_the_product_is_one_import_name_in_two_distributions() -> None:
    found = {path.parent.name for root in SOURCE_ROOTS for path in root.glob("gapwatch/*/__init__.py")}
    wheel = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]

    assert found == set(PACKAGES)
    assert {ROOT / path for path in wheel} == {folder / "gapwatch" for folder in FOLDERS.values()}
    assert set(PROJECT["tool"]["importlinter"]["root_packages"]) == {f"gapwatch.{name}" for name in PACKAGES}
    assert {ROOT / path for path in PROJECT["tool"]["mypy"]["mypy_path"].split(":")} == set(SOURCE_ROOTS)
    # `gapwatch` itself is a namespace package: with a file of its own, one distribution would hide the other.
    # A module hides nothing; users import `gapwatch.eval`.
    modules = [_name(path) for root in SOURCE_ROOTS for path in root.glob("gapwatch/*.py")]
    assert modules == ["streams/gapwatch/eval.py"]


def test_a_file_is_named_for_what_it_gives() -> None:
    assert [_name(path) for path in python_files() if EMPTY_NAMES.search(path.stem)] == []


def test_an_init_holds_a_docstring_and_nothing_else() -> None:
    for path in product_modules():
        if path.name == "__init__.py" and path.parent.name != "publisher":  # users import from that one
            body = _tree(path).body
            assert len(body) == 1, path
            assert isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant), path
    # Without one, two tests of the same name are one module to mypy and pytest.
    folders = {path.parent for path in (ROOT / "tests").rglob("test_*.py")}
    assert [_name(folder) for folder in folders if not (folder / "__init__.py").is_file()] == []


def test_every_module_says_why_it_is_there() -> None:
    assert [_name(path) for path in product_modules() if not ast.get_docstring(_tree(path))] == []


def test_a_docstring_begins_with_a_subject_or_a_verb() -> None:
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    first_words = [
        (f"{_name(path)}: {text.splitlines()[0]}", text.split()[0])
        for path in product_modules()
        for node in ast.walk(_tree(path))
        if isinstance(node, documented) and (text := ast.get_docstring(node))
    ]

    assert [line for line, word in first_words if word in RIDDLES] == []


def test_a_file_can_be_read_in_one_sitting() -> None:
    lengths = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in python_files()}
    allowed = {path: LONGEST_TEST if path.is_relative_to(ROOT / "tests") else LONGEST for path in lengths}

    assert {_name(path): n for path, n in lengths.items() if n > allowed[path] and path.name not in LONG} == {}


def test_a_folder_can_be_taken_in_at_a_glance() -> None:
    folders = Counter(path.parent for path in product_modules() if path.name != "__init__.py")

    assert {_name(folder): n for folder, n in folders.items() if n > MOST_MODULES} == {}
    assert median(folders.values()) < 10


def test_a_public_name_means_one_thing() -> None:
    owners: dict[str, list[str]] = {}
    for path in product_modules():
        for node in _tree(path).body:
            if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and node.name[0] != "_":
                owners.setdefault(node.name, []).append(_name(path))

    assert {name: places for name, places in owners.items() if len(places) > 1} == {}


def test_a_commit_is_held_to_the_checks_of_form_that_the_tests_begin_with() -> None:
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    script = (ROOT / "tests" / "run").read_text(encoding="utf-8")
    run = [
        "".join(found) for found in re.findall(r'^ +(?:\{ )?"\$bin/([a-z-]+)"( format| check)?', script, re.MULTILINE)
    ]
    hooks = [hook for repo in config["repos"] for hook in repo["hooks"]]

    entries = [hook["entry"].removeprefix(".venv/bin/").split(" --")[0] for hook in hooks]
    assert sorted(entries) == sorted(run)
    assert {repo["repo"] for repo in config["repos"]} == {"local"}, "nothing is fetched to make a commit"


# ---- the contracts of import-linter, which `tests/run` checks, would find what they are for ----

#: What a new module of each folder must not import.
WRONG = {
    "scorers/gapwatch/scorers": ("gapwatch.sinks", "duckdb", "google", "litellm", "tests"),
    "sinks/gapwatch/sinks": ("gapwatch.design", "gapwatch.publisher", "aiohttp", "faust"),
    "streams/gapwatch/streams": (
        "gapwatch.design",
        "mode",
        "aiokafka",
        "grpc",
        "grafana_foundation_sdk",
        "prometheus_client",
    ),
    "streams/gapwatch/streams/detectors": ("gapwatch.scorers", "time"),
    "streams/publisher/gapwatch/publisher": ("gapwatch.scorers", "gapwatch.streams", "pydantic"),
    "design/gapwatch/design": ("gapwatch.streams", "tree_sitter"),
}


@pytest.mark.slow
def test_an_import_in_the_wrong_place_is_found(tmp_path: Path) -> None:
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for folder in FOLDERS.values():
        shutil.copytree(folder, tmp_path / folder.name, ignore=shutil.ignore_patterns("__pycache__"))
    for folder_name, names in WRONG.items():
        # Where nobody looks: in a function.
        lines = ["def hidden() -> None:", *(f"    import {name}" for name in names)]
        (tmp_path / folder_name / "misplaced.py").write_text("\n".join(lines), encoding="utf-8")

    code = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True))"
    # The copies come before an editable install of the tree itself.
    path = os.pathsep.join(str(tmp_path / root.relative_to(ROOT)) for root in (ROOT, *SOURCE_ROOTS))
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env={"PYTHONPATH": path, "PATH": ""}, capture_output=True,
        text=True, check=False,
    )  # fmt: skip

    told = " ".join(done.stdout.split())
    modules = {folder: "gapwatch." + folder.split("/gapwatch/")[1].replace("/", ".") for folder in WRONG}
    wrong = [f"{modules[folder]}.misplaced -> {name}" for folder, names in WRONG.items() for name in names]
    assert done.returncode == 1, done.stdout
    assert "Contracts: 0 kept" in told, done.stdout
    assert [line for line in wrong if line not in told] == []
