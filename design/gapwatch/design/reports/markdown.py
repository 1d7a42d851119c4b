"""Writes a report as Markdown."""

from __future__ import annotations

import re

from gapwatch.design.reports.document import (
    Badge,
    Block,
    Code,
    Codes,
    Document,
    Fold,
    Heading,
    Inline,
    Listing,
    Paragraph,
    Table,
    Words,
    printable,
)

_SIGNS = re.compile(r"[\\`*_{}\[\]|#]")


def report_markdown(document: Document) -> str:
    """Return a document as Markdown; drawings and tiles are left out, because tables repeat them."""
    blocks = (_block(block) for section in document.sections for block in section)
    return "\n\n".join(text for text in blocks if text) + "\n"


def _plain(text: str) -> str:
    """Return a text escaped so that Markdown shows it as it is."""
    marked = _SIGNS.sub(r"\\\g<0>", printable(re.sub(r"\s+", " ", text)))
    return marked.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _code(text: str) -> str:
    plain = printable(" ".join(text.split())).replace("`", "'").replace("|", "¦")
    return f"`{plain}`" if plain else ""


def _inline(piece: Inline) -> str:
    if isinstance(piece, str):
        return _plain(piece)
    if isinstance(piece, Code):
        return _code(piece.text)
    if isinstance(piece, Codes):
        more = len(piece.texts) - piece.most
        return ", ".join(map(_code, piece.texts[: piece.most])) + (f" and {more} more" if more > 0 else "")
    return _plain(piece.text) if isinstance(piece, Badge) else f"**{_plain(piece.text)}**"


def _line(words: Words) -> str:
    return "".join(map(_inline, words)).strip()


def _block(block: Block) -> str:
    if isinstance(block, Heading):
        return f"{'#' * block.level} {_line(block.words)}"
    if isinstance(block, Paragraph):
        return _line(block.words)
    if isinstance(block, Table):
        return _table(block)
    if isinstance(block, Listing):
        return "\n".join("- " + "  \n  ".join(map(_line, item)) for item in block.items)
    if isinstance(block, Fold):
        aside = ", ".join(text for piece in block.aside if (text := _inline(piece)))
        return "\n\n".join(text for text in (_block(block.title), aside, *map(_block, block.blocks)) if text)
    return ""


def _table(table: Table) -> str:
    titles = table.head or ("", "")
    rows = [titles, ("---",) * len(titles), *(tuple(map(_line, row)) for row in table.rows)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)
