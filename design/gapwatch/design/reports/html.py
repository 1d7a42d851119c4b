"""Writes a report as one self-contained HTML file: no script, no font, no network."""

from __future__ import annotations

import re
from html import escape
from pathlib import Path

from gapwatch.design.reports.document import (
    Badge,
    Block,
    Code,
    Codes,
    Document,
    Fold,
    Graph,
    Heading,
    Inline,
    Listing,
    Paragraph,
    Table,
    Tiles,
    Words,
    printable,
)
from gapwatch.design.reports.graph_drawing import draw

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
#: Characters from which a name may be broken over two lines.
_LONG = 24
_LEGEND = (
    '<p class="legend"><span class="key ai_core"></span>AI core <span class="key supporting"></span>supporting'
    ' <span class="key operational"></span>operational <span class="key folded"></span>several of a folder'
    ' <span class="line"></span>verified call'
    ' <span class="line dashed"></span>inferred</p>'
)


def report_html(document: Document) -> str:
    """Return a document as HTML."""
    style = Path(__file__).with_name("report.css").read_text(encoding="utf-8")
    body = "\n".join(f"<section>{''.join(map(_block, section))}</section>" for section in document.sections)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        f"<title>{_plain(document.title)}</title>\n<style>\n{style}</style>\n</head>\n"
        f"<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


def _plain(text: str) -> str:
    return escape(printable(text))


def _tag(name: str, inside: str, look: str = "") -> str:
    return f'<{name} class="{_plain(look)}">{inside}</{name}>' if look else f"<{name}>{inside}</{name}>"


def _code(text: str) -> str:
    """Return a name or path as code; a browser may break a long one, behind its separators only."""
    plain = _plain(text)
    return _tag("code", re.sub(r"(?<=[_./:])(?=\w)", "<wbr>", plain) if len(text) > _LONG else plain)


def _inline(piece: Inline) -> str:
    if isinstance(piece, str):
        return _plain(piece)
    if isinstance(piece, Code):
        return _code(piece.text) if piece.text else ""
    if isinstance(piece, Codes):
        more = len(piece.texts) - piece.most
        shown = " ".join(map(_code, piece.texts[: piece.most]))
        return shown + (" " + _tag("span", f"and {more} more", "more") if more > 0 else "")
    return _tag("span", _plain(piece.text), piece.look) if isinstance(piece, Badge) else _tag("b", _plain(piece.text))


def _line(words: Words) -> str:
    return "".join(map(_inline, words))


def _block(block: Block) -> str:
    if isinstance(block, Heading):
        return _tag(f"h{block.level}", _line(block.words))
    if isinstance(block, Paragraph):
        return _tag("p", _line(block.words), block.look)
    if isinstance(block, Table):
        return _table(block)
    if isinstance(block, Listing):
        items = (_tag("li", "".join(_tag("p", _line(line)) for line in item)) for item in block.items)
        return _tag("ul", "".join(items), block.look)
    if isinstance(block, Tiles):
        return _tiles(block)
    if isinstance(block, Graph):
        return _LEGEND + _tag("div", draw(block.architecture), "wide graph")
    return _fold(block)


def _table(table: Table) -> str:
    if not table.head:
        rows = (
            "".join((_tag("th", _line(name)), *(_tag("td", _line(c)) for c in cells))) for name, *cells in table.rows
        )
        return _tag("table", "".join(_tag("tr", row) for row in rows), table.look)
    head = _tag("thead", _tag("tr", "".join(_tag("th", _plain(title)) for title in table.head)))
    lines = (_tag("tr", "".join(_tag("td", _line(cell)) for cell in row)) for row in table.rows)
    return _tag("div", _tag("table", head + _tag("tbody", "\n".join(lines)), table.look), "wide")


def _tiles(block: Tiles) -> str:
    tiles = ("".join(map(_tag, ("b", "span", "small"), map(_plain, tile))) for tile in block.tiles)
    return _tag("div", "".join(_tag("div", tile, "tile") for tile in tiles), "tiles")


def _fold(fold: Fold) -> str:
    title = " ".join((_tag("b", _line(fold.title.words)), *map(_inline, fold.aside)))
    inside = _tag("summary", title) + "".join(map(_block, fold.blocks))
    anchor = f' id="{_plain(fold.anchor)}"' if fold.anchor else ""
    return f'<details{anchor} class="{_plain(fold.look)}">{inside}</details>'
