"""Runs the design stage for subcommands of `gapwatch design`, and prints what it found as JSON."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gapwatch.scorers.errors import SourceError

if TYPE_CHECKING:
    from gapwatch.design.source.scan import Scan


def scan_of(repo: Path) -> Scan:
    """Return the Python files of a repository.

    Raises:
        SourceError: The folder does not exist, or holds no Python file.
    """
    from gapwatch.design.source.scan import scan_repository

    scan = scan_repository(repo)
    if not scan.files:
        raise SourceError(f"{repo}: no Python file in this folder; give the folder of the pipeline's source code")
    return scan


def cache_of(cache: Path | None, no_cache: bool) -> Path | None:
    """Return the folder of the cache: the one that is named, else the usual one; None where no cache is wanted."""
    from gapwatch.scorers.cache_files import cache_folder

    return None if no_cache else cache or cache_folder()


def print_data(data: Any) -> None:
    """Print plain data as indented JSON."""
    import orjson

    sys.stdout.buffer.write(orjson.dumps(data, option=orjson.OPT_INDENT_2) + b"\n")
    sys.stdout.flush()


def designed(
    repo: Path,
    goal: str,
    facts: Path | None,
    judge_model: str | None,
    catalog: Path | None,
    quiet: bool,
    must_exist: bool,
    is_bounded: bool = True,
) -> Any:
    """Return the design of a repository, with a judge's model that an answer names.

    Raises:
        SourceError: The repository cannot be read, or a file of facts that must exist is missing.
        PortfolioError: The facts are invalid.
    """
    from gapwatch.design.patterns.libraries import load_catalog
    from gapwatch.design.progress import DesignProgress
    from gapwatch.design.reports.output import facts_from
    from gapwatch.design.stage import run_design

    known = facts_from(facts, must_exist) if facts is not None else ()
    model = judge_model or next((str(f.value) for f in known if f.question == "q-pipeline-judge-model"), None)
    with DesignProgress(enabled=not quiet) as progress:
        return run_design(
            scan_of(repo), goal, known, model, load_catalog(catalog), progress=progress.update, is_bounded=is_bounded
        )
