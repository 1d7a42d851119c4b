"""Hook of MkDocs: adds READMEs and linked files of the repository to the site, and checks every link.

A page of the repository outside of `docs` becomes `source/<path>`, as do linked files that are no pages. Links work in
the repository and on the site, without a second way to write them.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
#: Pages outside of `docs` that are no README.
_FURTHER_PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "deploy/metrics.md")
_FOLDERS = ("scorers", "sinks", "streams", "design", "deploy", "tests")
#: A link's target: what is between `](` and `)`, with its anchor.
_LINK = re.compile(r"\]\(([^)\s#]*)(#[^)\s]*)?\)")
#: Code in a table with an escaped bar. A Git host shows the bar; the site's Markdown would show the backslash, too.
_CODE_WITH_BAR = re.compile(r"(?m)(?<=[ |])`([^`\n]*\\\|[^`\n]*)`(?=[^\n]*\|$)")
_LIST_ITEM = re.compile(r"\s*([-*]|\d+\.) ")


def repository_pages() -> list[Path]:
    """Return the pages of the repository that lie outside of `docs`."""
    found = [ROOT / name for name in _FURTHER_PAGES]
    for folder in _FOLDERS:
        found += sorted((ROOT / folder).rglob("README.md"))
    return found


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the pages outside of `docs`, and every other file that a page links to."""
    add = _adder(files, config)
    pages = repository_pages()
    for page in (*pages, Path(__file__).with_name("site.css")):
        add(page)
    for page in (*pages, *sorted(DOCS.rglob("*.md"))):
        for target in _targets(page):
            if target.is_file() and target.suffix != ".md" and not target.is_relative_to(DOCS):
                add(target)
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Point the links of a page to where their targets are on the site."""
    here = _real_path(page.file.src_uri)

    def replaced(found: re.Match[str]) -> str:
        link, anchor = found[1], found[2] or ""
        if not link or "://" in link or link.startswith("mailto:"):
            return found[0]
        target = (here.parent / unquote(link)).resolve()
        if target.is_dir():
            target /= "README.md"
            if not target.is_file():  # a folder has no page: its link would lead to a listing, which no server has
                return "]()" if target.parent.is_dir() else found[0]
        if not target.exists():
            return found[0]  # MkDocs warns of it, which ends a strict build
        start = posixpath.dirname(page.file.src_uri) or "."
        return f"]({posixpath.relpath(_site_path(target), start)}{anchor})"

    linked = _outside_of_code(markdown, lambda text: _LINK.sub(replaced, text))
    return _with_lists_apart(_CODE_WITH_BAR.sub(_as_html, linked))


def on_page_content(html: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Leave the text of links to folders without their link."""
    return re.sub(r'<a href="">(.*?)</a>', r"\1", html)


def _adder(files: Files, config: MkDocsConfig) -> Callable[[Path], None]:
    def add(path: Path) -> None:
        uri = _site_path(path)
        if files.get_file_from_path(uri) is None:
            inclusion = InclusionLevel.UNDEFINED if path.suffix == ".md" else InclusionLevel.NOT_IN_NAV
            files.append(File.generated(config, uri, abs_src_path=str(path), inclusion=inclusion))

    return add


def _site_path(path: Path) -> str:
    if path.is_relative_to(DOCS):
        return path.relative_to(DOCS).as_posix()
    return f"source/{path.relative_to(ROOT).as_posix()}"


def _real_path(uri: str) -> Path:
    return ROOT / uri.removeprefix("source/") if uri.startswith("source/") else DOCS / uri


def _targets(page: Path) -> list[Path]:
    found: list[Path] = []

    def note(text: str) -> str:
        links = [match[1] for match in _LINK.finditer(text)]
        found.extend((page.parent / unquote(link)).resolve() for link in links if link and "://" not in link)
        return text

    _outside_of_code(page.read_text(encoding="utf-8"), note)
    return [target for target in found if target.is_relative_to(ROOT)]


def _outside_of_code(markdown: str, change: Callable[[str], Any]) -> str:
    """Apply a change to all text outside of fenced blocks, indented blocks and code in a line."""
    lines, fence = [], ""
    for line in markdown.split("\n"):
        mark = re.match(r"\s*(```+|~~~+)", line)
        if mark and (not fence or mark[1].startswith(fence)):
            fence = "" if fence else mark[1]
        if fence or mark or line.startswith("    "):
            lines.append(line)
        else:
            lines.append("".join(p if p.startswith("`") else change(p) for p in re.split(r"(`[^`]*`)", line)))
    return "\n".join(lines)


def _as_html(found: re.Match[str]) -> str:
    """Return code as HTML, with entities for all that Markdown would read as markup."""
    code = found[1].replace("\\|", "|")
    return f"<code>{re.sub(r'[^A-Za-z0-9 ]', lambda mark: f'&#{ord(mark[0])};', code)}</code>"


def _with_lists_apart(markdown: str) -> str:
    """Put a blank line before each list: the site's Markdown wants one where that of a Git host does not."""
    lines, before, fence = [], "", False
    for line in markdown.split("\n"):
        if line.lstrip().startswith("```"):
            fence = not fence
        begins = not fence and re.match(r"([-*]|\d+\.) ", line)
        if begins and before.strip() and not _LIST_ITEM.match(before) and not before.startswith(" "):
            lines.append("")
        lines.append(line)
        before = line
    return "\n".join(lines)
