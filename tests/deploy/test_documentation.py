"""The documents: generated pages say what the code says, and the site is built without a network or a broken link."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.documentation.pages import PAGES, stale_pages
from gapwatch.scorers.command_line import discover_commands
from gapwatch.sinks.api.query import QueryLimits
from tests.paths import FOLDERS, ROOT, SOURCE_ROOTS

#: Anything that a page would load while it is shown; links that a reader may follow are no such thing.
_LOADED = re.compile(r"<(?:script|img|iframe|link)\b[^>]*?\b(?:src|href)=[\"']?((?:https?:)?//[^\"'\s>]*)")


def _build(repository: Path, site: Path) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(str(repository / root.relative_to(ROOT)) for root in (ROOT, *SOURCE_ROOTS))
    environment = {**os.environ, "PYTHONPATH": path, "NO_MKDOCS_2_WARNING": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(site)],
        cwd=repository, env=environment, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip


def test_generated_pages_say_what_the_code_says() -> None:
    assert stale_pages() == [], "run: deploy/docs --write"


def test_every_command_has_its_section() -> None:
    heads = re.findall(r"^## gapwatch ([\w-]+)$", PAGES["docs/command_line.md"](), re.MULTILINE)

    assert heads == sorted(discover_commands())


def test_every_path_of_the_api_stands_on_its_page() -> None:
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    written = re.compile(r"\"(/(?:v1|alerts)/[a-z_/{}]+[a-z}]|/login|/logout|/metrics|/healthz|/readyz)\"")
    in_code = {
        re.sub(r"{\w+}", "ID", path)
        for folder in (FOLDERS["sinks"], FOLDERS["streams"])
        for module in folder.rglob("*.py")
        for path in written.findall(module.read_text(encoding="utf-8"))
    }

    assert {"/alerts/ID", "/v1/query"} < in_code
    assert [path for path in sorted(in_code) if not re.search(rf"[ /]{re.escape(path)}[`?]", page)] == []


def test_the_page_of_the_api_names_the_limits_in_force() -> None:
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    limits = QueryLimits()
    shown = (
        f"{limits.rows:,} as JSON or CSV, {limits.arrow_rows:,} as Arrow", f"| {limits.bytes >> 20} MiB |",
        f"| {limits.seconds:g} s |", f"| {limits.memory_bytes >> 20} MiB |", f"| {limits.at_once} queries |",
    )  # fmt: skip
    assert [text for text in shown if text not in page] == []


@pytest.mark.slow
def test_the_site_is_built_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    done = _build(ROOT, tmp_path / "site")

    assert done.returncode == 0, done.stdout + done.stderr
    pages = sorted((tmp_path / "site").rglob("*.html"))
    assert {"index.html", "command_line.html", "source/deploy/metrics.html"} <= {
        page.relative_to(tmp_path / "site").as_posix() for page in pages
    }
    loaded = {url for page in pages for url in _LOADED.findall(page.read_text(encoding="utf-8"))}
    assert loaded == set()


@pytest.mark.slow
def test_a_link_that_leads_nowhere_stops_the_build(tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    clone.mkdir()
    ignored = shutil.ignore_patterns("__pycache__", "*.gz")
    for name in ("mkdocs.yml", "README.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE", "pyproject.toml"):
        shutil.copy(ROOT / name, clone)
    for name in (*FOLDERS, "deploy", "docs", "tests"):
        shutil.copytree(ROOT / name, clone / name, ignore=ignored)
    for name in (".ci", ".pre-commit-config.yaml"):
        source = ROOT / name
        (shutil.copytree if source.is_dir() else shutil.copy)(source, clone / name)
    with (clone / "docs" / "README.md").open("a") as page:
        page.write("\n[a](no_page.md) [b](../no_file.py) [c](command_line.md#no-heading) [d](command_line.md)\n")

    done = _build(clone, tmp_path / "site")

    said = done.stdout + done.stderr
    assert done.returncode == 1, said
    assert [name for name in ("no_page.md", "no_file.py", "#no-heading") if name not in said] == []
    assert said.count("WARNING") == 3, said
