"""`gapwatch design`: from a repository to a portfolio, and the steps on the way for themselves."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

#: Options that every step takes.
_CACHE = click.option(
    "--cache", type=click.Path(path_type=Path, file_okay=False), default=None, metavar="DIR",
    help="Folder of the cache. Default: gapwatch below XDG_CACHE_HOME or ~/.cache.",
)  # fmt: skip
_NO_CACHE = click.option("--no-cache", is_flag=True, help="Work everything out anew, and keep nothing.")
_QUIET = click.option("--quiet", is_flag=True, help="Show no progress.")


class _DesignGroup(click.Group):
    """A group whose first argument may be a repository: `gapwatch design REPO` is `gapwatch design portfolio REPO`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        wants_help = bool(args) and args[0] in ("--help", "-h")
        if args and not wants_help and args[0] not in self.commands:
            args = ["portfolio", *args]
        return super().parse_args(ctx, args)


@click.group("design", cls=_DesignGroup)
def design() -> None:
    """Read the source code of an LLM pipeline and write the portfolio that watches it.

    `gapwatch design REPO` writes portfolio.yaml, report.md, report.html and design.duckdb. The code is read as data:
    nothing of it is imported or run, and nothing is sent anywhere.
    """


@design.command("graph")
@click.argument("repo", type=click.Path(path_type=Path))
@click.option("--format", "form", type=click.Choice(["json", "pycg"]), default="json", show_default=True,
              help="json: symbols, edges with kind and lines, externals, unresolved; pycg: caller to callees.")  # fmt: skip
@_CACHE
@_NO_CACHE
@_QUIET
def graph_command(repo: Path, form: str, cache: Path | None, no_cache: bool, quiet: bool) -> None:
    """Print the call graph of REPO as JSON; names are relative to REPO."""
    from design.analysis import graph_of
    from design.graph_formats import graph_json, graph_pycg
    from design.progress import DesignProgress
    from design.scan import scan_repository

    with DesignProgress(enabled=not quiet) as progress:
        graph = graph_of(scan_repository(repo), _cache_of(cache, no_cache), progress.update)
    _print(graph_json(graph) if form == "json" else graph_pycg(graph))


@design.command("patterns")
@click.argument("repo", type=click.Path(path_type=Path))
@click.option("--format", "form", type=click.Choice(["json"]), default="json", show_default=True, help="How to print.")
@click.option("--catalog", type=click.Path(path_type=Path, dir_okay=False), default=None, metavar="TOML",
              help="Library catalog to use in place of the shipped one.")  # fmt: skip
@_CACHE
@_NO_CACHE
@_QUIET
def patterns_command(
    repo: Path, form: str, catalog: Path | None, cache: Path | None, no_cache: bool, quiet: bool
) -> None:
    """Print where the eleven code patterns stand in REPO, with lines and evidence."""
    from design.analysis import patterns_of
    from design.graph_formats import patterns_json
    from design.libraries import load_catalog
    from design.progress import DesignProgress
    from design.scan import scan_repository

    del form
    chosen = load_catalog(catalog) if catalog is not None else None
    with DesignProgress(enabled=not quiet) as progress:
        hits = patterns_of(scan_repository(repo), _cache_of(cache, no_cache), progress.update, chosen)
    _print(patterns_json(hits))


def _cache_of(cache: Path | None, no_cache: bool) -> Path | None:
    from design.analysis import default_cache

    return None if no_cache else cache or default_cache()


def _print(data: Any) -> None:
    import orjson

    sys.stdout.buffer.write(orjson.dumps(data, option=orjson.OPT_INDENT_2) + b"\n")
    sys.stdout.flush()
