"""Pages of `docs` that are made from the code: `python -m deploy.documentation.pages [--write]`.

Without `--write` it compares the pages with the code: status 1 names those that differ. `deploy/docs` calls it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from deploy.documentation.claims_page import claim_cookbook_page, claims_page
from deploy.documentation.command_line_page import command_line_page
from deploy.documentation.store_page import store_page
from gapwatch.sinks.metrics.metrics_reference import documentation

ROOT = Path(__file__).parents[2]
#: Each generated page, from the root of the repository, and the function that makes it.
PAGES: dict[str, Callable[[], str]] = {
    "docs/claims.md": claims_page,
    "docs/cookbook_claims.md": claim_cookbook_page,
    "docs/command_line.md": command_line_page,
    "docs/store.md": store_page,
    "deploy/metrics.md": documentation,
}


def stale_pages() -> list[str]:
    """Return the generated pages that differ from what the code says."""
    return [name for name, made in PAGES.items() if _text(ROOT / name) != made()]


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


def main() -> int:
    """Write the pages, or compare them; return the exit status."""
    stale = stale_pages()
    if sys.argv[1:] == ["--write"]:
        for name in stale:
            (ROOT / name).write_text(PAGES[name](), encoding="utf-8")
            print(f"wrote {name}")
        return 0
    if stale:
        print(f"not what the code says: {', '.join(stale)}. Run: deploy/docs --write", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
