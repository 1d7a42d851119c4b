"""Options that several subcommands of `gapwatch design` share."""

from __future__ import annotations

from pathlib import Path

import click

from gapwatch.design.design_folder import DESIGN_FOLDER

CACHE_OPTION = click.option(
    "--cache",
    type=click.Path(path_type=Path, file_okay=False),
    default=None,
    metavar="DIR",
    help="Folder of the cache. Default: gapwatch below XDG_CACHE_HOME or ~/.cache.",
)
NO_CACHE_OPTION = click.option("--no-cache", is_flag=True, help="Neither read nor write the cache.")
QUIET_OPTION = click.option("--quiet", is_flag=True, help="Show no progress.")
FACTS_OPTION = click.option(
    "--facts",
    type=click.Path(path_type=Path, dir_okay=False),
    default=None,
    metavar="YAML",
    help="File with your answers and the metrics that you added. Default: facts.yaml in the folder of --out.",
)
FOLDER_OPTION = click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=DESIGN_FOLDER,
    show_default=True,
    metavar="DIR",
    help="Folder of the design, as for `gapwatch design REPO`.",
)
