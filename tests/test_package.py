"""The wheel and the source distribution: all of the product, nothing else, and it works in an empty environment."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path, PurePosixPath

import pytest

from tests.deploy.demo_traces import TRACES
from tests.paths import AIRLINE, ROOT

PACKAGES = ("design", "scorers", "sinks", "streams")
DATA = (".sql", ".yaml", ".json", ".toml", ".css", ".html", ".js", ".txt")

_NO_INDEX = re.compile(r"connection broken|Failed to establish|Name or service not known|timed out", re.IGNORECASE)


def _run(*command: str | Path, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    return subprocess.run(
        [str(part) for part in command], cwd=folder, env={**clean, **environment}, capture_output=True, text=True,
        check=False, timeout=500,
    )  # fmt: skip


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with both distributions, the wheel built from the source distribution, as an index would get them."""
    out = tmp_path_factory.mktemp("dist")
    done = _run(sys.executable, "-m", "build", "--no-isolation", "--outdir", out, ROOT, folder=out)
    assert done.returncode == 0, done.stdout + done.stderr
    return out


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    (found,) = built.glob("*.whl")
    return found


def _product_files() -> set[str]:
    """Every file of the packages that the program needs: code, and data that it reads."""
    return {
        str(path.relative_to(ROOT))
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.is_file() and (path.suffix in (".py", *DATA)) and "__pycache__" not in path.parts
    }


def test_the_wheel_holds_the_four_packages_with_their_data_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if not name.endswith("/")}
    packaged = {name for name in names if ".dist-info" not in PurePosixPath(name).parts[0]}

    assert {PurePosixPath(name).parts[0] for name in packaged} == set(PACKAGES)
    assert packaged == _product_files()
    assert [name for name in names if "test" in PurePosixPath(name).parts[0] or name.endswith(".md")] == []
    assert {"design/libraries.toml", "design/report.css"} <= packaged


def test_the_source_distribution_holds_what_a_wheel_is_built_from(built: Path) -> None:
    (source,) = built.glob("*.tar.gz")
    with tarfile.open(source) as archive:
        names = {str(PurePosixPath(*PurePosixPath(name).parts[1:])) for name in archive.getnames()}

    assert _product_files() <= names
    assert {"LICENSE", "README.md", "CHANGELOG.md", "pyproject.toml"} <= names
    assert [name for name in names if name.startswith(("tests", "deploy", ".venv"))] == []


def test_the_wheel_says_its_licence_its_commands_and_what_it_needs(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        told = {PurePosixPath(name).name: archive.read(name).decode() for name in archive.namelist() if "dist-" in name}

    assert "License-Expression: Apache-2.0" in told["METADATA"]
    assert "LICENSE" in told
    assert "gapwatch = scorers.command_line:main" in told["entry_points.txt"]
    assert [
        extra for extra in ("stream", "publisher", "design") if f"Provides-Extra: {extra}\n" not in told["METADATA"]
    ] == []
    assert "Requires-Dist: duckdb" in told["METADATA"]


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty environment into which the wheel was installed, with the extra that `gapwatch design` needs."""
    target = tmp_path_factory.mktemp("empty") / "venv"
    venv.create(target, with_pip=True)
    done = _run(target / "bin" / "python", "-m", "pip", "install", "--quiet", f"{wheel}[design]", folder=target)
    if done.returncode != 0 and _NO_INDEX.search(done.stderr):
        pytest.skip(f"the wheel is installed nowhere, for no package index answers: {done.stderr.strip()[-200:]}")
    assert done.returncode == 0, done.stderr
    return target / "bin"


@pytest.mark.slow
def test_what_is_installed_works_in_another_folder(installed: Path, tmp_path: Path) -> None:
    store = tmp_path / "S.duckdb"
    bad_release = TRACES / "airline_qwen2.5-7b.jsonl.gz"
    replay = (
        installed / "gapwatch",
        "replay",
        bad_release,
        "--portfolio",
        AIRLINE / "portfolio.yaml",
        "--store",
        store,
    )

    first = _run(*replay, "--json", folder=tmp_path)
    again = _run(*replay, "--json", folder=tmp_path)
    report = _run(*replay, folder=tmp_path)
    rates = _run(installed / "gapwatch", "rates", "--store", store, "--format", "json", "--per", "all", folder=tmp_path)

    assert (first.returncode, again.returncode, report.returncode, rates.returncode) == (0, 0, 0, 0), first.stderr
    assert (json.loads(first.stdout)["records"], json.loads(again.stdout)["records"]) == (50, 0)
    of = {row["metric"]: row for row in json.loads(rates.stdout)}
    assert (of["ids_known"]["units"], of["ids_known"]["bad"]) == (47, 21)
    # What it proposes to type is where the program lies, for it is not on the path.
    assert f"{installed / 'gapwatch'} rates --store S.duckdb" in report.stdout
    where = _run(installed / "python", "-c", "import scorers, sinks; print(scorers.__file__)", folder=tmp_path)
    assert where.stdout.startswith(str(installed.parent))


@pytest.mark.slow
def test_what_is_installed_designs_a_portfolio_that_it_accepts(installed: Path, tmp_path: Path) -> None:
    app = ROOT / "tests" / "design" / "rag_app"
    design = _run(installed / "gapwatch", "design", app, "--out", tmp_path / "out", "--quiet", folder=tmp_path)
    check = _run(installed / "gapwatch", "check", tmp_path / "out" / "portfolio.yaml", folder=tmp_path)

    assert (design.returncode, check.returncode) == (0, 0), design.stderr + check.stderr


@pytest.mark.slow
def test_a_command_without_its_extra_says_what_to_install(installed: Path, tmp_path: Path) -> None:
    publish = _run(installed / "gapwatch", "publish", "x.jsonl", "--brokers", "127.0.0.1:1", folder=tmp_path)

    assert publish.returncode == 2
    assert "gapwatch[stream]" in publish.stderr
    assert "Traceback" not in publish.stderr
