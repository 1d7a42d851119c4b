"""Both distributions hold all of the product and nothing else, and work in empty environments beside a user's code."""

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

from tests.deploy.demo_traces import AIRLINE, TRACES

ROOT = Path(__file__).parent.parent
PACKAGES = ("design", "scorers", "sinks", "streams")
PUBLISHER = ROOT / "streams" / "publisher"
DATA = (".sql", ".yaml", ".json", ".toml", ".css", ".html", ".js", ".txt")

_NO_INDEX = re.compile(r"connection broken|Failed to establish|Name or service not known|timed out", re.IGNORECASE)

pytestmark = pytest.mark.slow


def _run(*command: str | Path, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    return subprocess.run(
        [str(part) for part in command], cwd=folder, env={**clean, **environment}, capture_output=True, text=True,
        check=False, timeout=500,
    )  # fmt: skip


def _build(source: Path, out: Path) -> Path:
    """Build the wheel from the source distribution, as an index would get them, and return the folder of both."""
    done = _run(sys.executable, "-m", "build", "--no-isolation", "--outdir", out, source, folder=out)
    assert done.returncode == 0, done.stdout + done.stderr
    return out


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with wheel and source distribution of `gapwatch`."""
    return _build(ROOT, tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    (found,) = built.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def publisher_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    (found,) = _build(PUBLISHER, tmp_path_factory.mktemp("publisher-dist")).glob("*.whl")
    return found


def _product_files(*roots: Path) -> set[str]:
    """Every file that the program needs, code and data, as it lies in a wheel: below `gapwatch/`."""
    return {
        str(path.relative_to(root))
        for root in roots
        for path in (root / "gapwatch").rglob("*")
        if path.is_file() and (path.suffix in (".py", *DATA)) and "__pycache__" not in path.parts
    }


def _packaged(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if not name.endswith("/")}
    return {name for name in names if ".dist-info" not in PurePosixPath(name).parts[0]}


def test_the_wheel_holds_the_four_packages_with_their_data_and_nothing_else(wheel: Path) -> None:
    packaged = _packaged(wheel)

    assert packaged == _product_files(*(ROOT / package for package in PACKAGES))
    tops = {("gapwatch", name) for name in (*PACKAGES, "eval.py")}
    assert {PurePosixPath(name).parts[:2] for name in packaged} == tops
    assert {"gapwatch/design/patterns/libraries.toml", "gapwatch/design/reports/report.css"} <= packaged


def test_the_publisher_wheel_holds_the_publisher_alone(publisher_wheel: Path) -> None:
    packaged = _packaged(publisher_wheel)

    assert packaged == _product_files(PUBLISHER)
    assert {PurePosixPath(name).parts[:2] for name in packaged} == {("gapwatch", "publisher")}


def test_the_source_distribution_holds_what_a_wheel_is_built_from(built: Path) -> None:
    (source,) = built.glob("*.tar.gz")
    with tarfile.open(source) as archive:
        names = {str(PurePosixPath(*PurePosixPath(name).parts[1:])) for name in archive.getnames()}

    product = {f"{package}/{name}" for package in PACKAGES for name in _product_files(ROOT / package)}
    assert product <= names
    assert {"LICENSE", "README.md", "CHANGELOG.md", "pyproject.toml"} <= names
    assert [name for name in names if name.startswith(("tests", "deploy", ".venv", "streams/publisher"))] == []


def test_the_publisher_wheel_holds_the_licence(publisher_wheel: Path) -> None:
    with zipfile.ZipFile(publisher_wheel) as archive:
        told = {PurePosixPath(name).name: archive.read(name).decode() for name in archive.namelist() if "dist-" in name}

    assert "License-Expression: Apache-2.0" in told["METADATA"]
    assert told["LICENSE"] == (ROOT / "LICENSE").read_text(encoding="utf-8")


def test_the_wheel_says_its_licence_its_commands_and_what_it_needs(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        told = {PurePosixPath(name).name: archive.read(name).decode() for name in archive.namelist() if "dist-" in name}

    assert "License-Expression: Apache-2.0" in told["METADATA"]
    assert "LICENSE" in told
    assert "gapwatch = gapwatch.scorers.command_line:main" in told["entry_points.txt"]
    assert [extra for extra in ("stream", "design") if f"Provides-Extra: {extra}\n" not in told["METADATA"]] == []
    assert "Requires-Dist: duckdb" in told["METADATA"]


def _environment(target: Path, *what: str | Path) -> Path:
    """Make an empty environment, install there, and return its folder of programs."""
    venv.create(target, with_pip=True)
    done = _run(target / "bin" / "python", "-m", "pip", "install", "--quiet", *what, folder=target)
    if done.returncode != 0 and _NO_INDEX.search(done.stderr):
        pytest.skip(f"the wheel is installed nowhere, for no package index answers: {done.stderr.strip()[-200:]}")
    assert done.returncode == 0, done.stderr
    return target / "bin"


@pytest.fixture(scope="module")
def installed(wheel: Path, publisher_wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty environment with both wheels, and the extra that `gapwatch design` needs."""
    return _environment(tmp_path_factory.mktemp("empty") / "venv", f"{wheel}[design]", publisher_wheel)


@pytest.fixture(scope="module")
def publisher_alone(publisher_wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty environment with the publisher's wheel and what it needs."""
    return _environment(tmp_path_factory.mktemp("publisher") / "venv", publisher_wheel)


@pytest.fixture
def application(tmp_path: Path) -> Path:
    """A user's application whose modules bear the names of our folders, and fail when somebody else imports them."""
    for name in ("streams", "sinks"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(f"OWNER = 'the application, {name}'\n", encoding="utf-8")
    for name in ("design", "scorers", "publisher"):
        (tmp_path / f"{name}.py").write_text(f"OWNER = 'the application, {name}'\n", encoding="utf-8")
    (tmp_path / "app.py").write_text(
        "import design, publisher, scorers, sinks, streams\n"
        "print([module.OWNER for module in (design, publisher, scorers, sinks, streams)])\n",
        encoding="utf-8",
    )
    return tmp_path


def test_a_pipeline_publishes_with_the_publisher_alone_beside_modules_of_our_names(
    publisher_alone: Path, application: Path
) -> None:
    with (application / "app.py").open("a", encoding="utf-8") as file:
        file.write("import sys\nfrom gapwatch.publisher import TracePublisher\nprint(TracePublisher.__module__)\n")
        file.write("print([name for name in ('numpy', 'pyarrow', 'duckdb', 'pydantic') if name in sys.modules])\n")

    done = _run(publisher_alone / "python", "app.py", folder=application)
    listed = _run(publisher_alone / "python", "-m", "pip", "list", "--format", "json", folder=application)

    assert done.returncode == 0, done.stderr
    owners, module, heavy = done.stdout.splitlines()
    assert owners.count("the application") == 5
    assert (module.startswith("gapwatch.publisher"), heavy) == (True, "[]")
    names = {package["name"] for package in json.loads(listed.stdout)} - {"pip", "setuptools"}
    assert names == {"gapwatch-publisher", "aiokafka", "orjson", "async-timeout", "packaging", "typing_extensions"}


def test_both_distributions_work_beside_modules_of_our_names(installed: Path, application: Path) -> None:
    both = "import app, gapwatch.scorers as s, gapwatch.publisher as p; print(s.__file__, p.__file__)"
    done = _run(installed / "python", "-c", both, folder=application)
    program = _run(installed / "gapwatch", "check", AIRLINE / "portfolio.yaml", folder=application)

    assert (done.returncode, program.returncode) == (0, 0), done.stderr + program.stderr
    owners, where = done.stdout.splitlines()
    assert owners.count("the application") == 5
    assert where.count(str(installed.parent)) == 2


def test_the_publisher_leaves_and_the_program_stays_and_says_what_it_lacks(
    wheel: Path, publisher_wheel: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    programs = _environment(tmp_path_factory.mktemp("both") / "venv", wheel, publisher_wheel)
    python = programs / "python"
    gone = _run(python, "-m", "pip", "uninstall", "--yes", "gapwatch-publisher", folder=programs)
    check = _run(programs / "gapwatch", "check", AIRLINE / "portfolio.yaml", folder=programs)
    publisher = _run(python, "-c", "import gapwatch.publisher", folder=programs)

    assert (gone.returncode, check.returncode) == (0, 0), check.stderr
    assert "No module named 'gapwatch.publisher'" in publisher.stderr
    # What needs Kafka says what to install, and its help answers all the same.
    for command in (("publish", "x.jsonl", "--brokers", "127.0.0.1:1"), ("run", "--brokers", "127.0.0.1:1")):
        refused = _run(programs / "gapwatch", *command, folder=programs)
        helped = _run(programs / "gapwatch", command[0], "--help", folder=programs)
        assert (refused.returncode, helped.returncode) == (2, 0), refused.stderr + helped.stderr
        assert "gapwatch[stream]" in refused.stderr
        assert "Traceback" not in refused.stderr


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
    where = _run(installed / "python", "-c", "import gapwatch.scorers as s; print(s.__file__)", folder=tmp_path)
    assert where.stdout.startswith(str(installed.parent))


def test_what_is_installed_designs_a_portfolio_that_it_accepts(installed: Path, tmp_path: Path) -> None:
    app = ROOT / "tests" / "design" / "rag_app"
    design = _run(installed / "gapwatch", "design", app, "--out", tmp_path / "out", "--quiet", folder=tmp_path)
    check = _run(installed / "gapwatch", "check", tmp_path / "out" / "portfolio.yaml", folder=tmp_path)

    assert (design.returncode, check.returncode) == (0, 0), design.stderr + check.stderr
