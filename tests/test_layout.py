"""The house: four packages, files and folders of a size to read, imports that lead one way."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.paths import FOLDERS, ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PACKAGES = list(FOLDERS)
#: Names that say nothing of what a file gives.
EMPTY_NAMES = re.compile(r"(^|_)(utils?|helpers?|commons?|base|misc|manager|stuff)(_|$)")
#: Modules of a folder that is taken in at a glance.
MOST_MODULES = 22
#: Lines of a file that is read in one sitting; tests are lists of cases.
LONGEST, LONGEST_TEST = 400, 600
#: Longer ones that parting would tear apart: one short function a kind of node, expression, statement or metric, or
#: one object whose parts share its state.
LONG = {
    "components.py",
    "expressions.py",
    "faust_slices.py",
    "lower.py",
    "metric_catalog.py",
    "metric_critic.py",
    "pattern_failure.py",
    "publisher.py",
    "score.py",
    "statements.py",
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


def test_the_product_is_four_packages() -> None:
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"tests"}

    assert packages == set(PACKAGES)
    assert set(PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]) == set(PACKAGES)
    assert set(PROJECT["tool"]["importlinter"]["root_packages"]) == set(PACKAGES)


def test_a_file_is_named_for_what_it_gives() -> None:
    assert [_name(path) for path in python_files() if EMPTY_NAMES.search(path.stem)] == []


def test_an_init_holds_a_docstring_and_nothing_else() -> None:
    for path in product_modules():
        if path.name == "__init__.py":
            body = _tree(path).body
            assert len(body) == 1, path
            assert isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant), path
    # Without one, two tests of the same name are one module to mypy and pytest.
    folders = {path.parent for path in (ROOT / "tests").rglob("test_*.py")}
    assert [_name(folder) for folder in folders if not (folder / "__init__.py").is_file()] == []


def test_every_module_says_why_it_is_there() -> None:
    assert [_name(path) for path in product_modules() if not ast.get_docstring(_tree(path))] == []


def test_a_file_can_be_read_in_one_sitting() -> None:
    lengths = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in python_files()}
    allowed = {path: LONGEST_TEST if path.is_relative_to(ROOT / "tests") else LONGEST for path in lengths}

    assert {_name(path): n for path, n in lengths.items() if n > allowed[path] and path.name not in LONG} == {}


@pytest.mark.xfail(reason="the packages are flat", strict=True)
def test_a_folder_can_be_taken_in_at_a_glance() -> None:
    folders = Counter(path.parent for path in product_modules() if path.name != "__init__.py")

    assert {_name(folder): n for folder, n in folders.items() if n > MOST_MODULES} == {}


def test_a_commit_is_held_to_the_checks_of_form_that_the_tests_begin_with() -> None:
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    script = (ROOT / "tests" / "run").read_text(encoding="utf-8")
    run = ["".join(found) for found in re.findall(r'^"\$bin/([a-z-]+)"( format| check)?', script, re.MULTILINE)]
    hooks = [hook for repo in config["repos"] for hook in repo["hooks"]]

    entries = [hook["entry"].removeprefix(".venv/bin/").split(" --")[0] for hook in hooks]
    assert sorted(entries) == sorted(run)
    assert {repo["repo"] for repo in config["repos"]} == {"local"}, "nothing is fetched to make a commit"


# ---- the contracts of import-linter, which `tests/run` checks, would find what they are for ----

#: What a new module of each folder must not import.
WRONG = {
    "scorers": ("sinks", "duckdb", "litellm", "tests"),
    "sinks": ("design", "aiohttp", "faust"),
    "streams": ("design", "mode", "aiokafka", "grafana_foundation_sdk"),
    "streams/detectors": ("scorers", "time"),
    "design": ("streams", "tree_sitter"),
}


@pytest.mark.slow
def test_an_import_in_the_wrong_place_is_found(tmp_path: Path) -> None:
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for package, folder in FOLDERS.items():
        shutil.copytree(folder, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    for folder_name, names in WRONG.items():
        # Where nobody looks: in a function.
        lines = ["def hidden() -> None:", *(f"    import {name}" for name in names)]
        (tmp_path / folder_name / "misplaced.py").write_text("\n".join(lines), encoding="utf-8")

    code = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env={"PYTHONPATH": str(tmp_path), "PATH": ""}, capture_output=True,
        text=True, check=False,
    )  # fmt: skip

    told = " ".join(done.stdout.split())
    wrong = [f"{folder.replace('/', '.')}.misplaced -> {name}" for folder, names in WRONG.items() for name in names]
    assert done.returncode == 1, done.stdout
    assert "Contracts: 0 kept" in told, done.stdout
    assert [line for line in wrong if line not in told] == []
