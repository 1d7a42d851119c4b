"""Places of the project: its root, the sources of each package, the example portfolios."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parent.parent
#: The folder of each package, with its README and the source root of the package in it.
FOLDERS = {name: ROOT / name for name in ("scorers", "sinks", "streams", "design")}
#: Folders from which the import name `gapwatch` begins.
SOURCE_ROOTS = (*FOLDERS.values(), ROOT / "streams" / "publisher")
#: What the bundled demo is made of.
AIRLINE = ROOT / "deploy" / "airline"
#: A portfolio that uses all that a portfolio may hold.
EXAMPLE_PORTFOLIO = ROOT / "tests" / "scorers" / "example_portfolio.yaml"
