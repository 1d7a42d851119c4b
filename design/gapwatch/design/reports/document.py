"""A report as values (headings, paragraphs, tables, lists); a writer decides how they look.

Each writer escapes texts in its own way, so that text from the code never becomes markup.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from gapwatch.design.architecture.model import Architecture


@dataclass(frozen=True)
class Code:
    """A name, path or command of the code.

    Attributes:
        text: The name, unescaped.
    """

    text: str


@dataclass(frozen=True)
class Codes:
    """Several names or paths.

    Attributes:
        texts: All of them.
        most: Number that is shown; the rest is a count.
    """

    texts: tuple[str, ...]
    most: int


@dataclass(frozen=True)
class Strong:
    """An emphasised text.

    Attributes:
        text: The text, unescaped.
    """

    text: str


@dataclass(frozen=True)
class Badge:
    """A word that a screen also marks by colour or frame.

    Attributes:
        text: The word.
        look: Classes of the style sheet.
    """

    text: str
    look: str = "badge"


Inline: TypeAlias = str | Code | Codes | Strong | Badge
#: Pieces of one line or cell, joined without separators.
Words: TypeAlias = tuple[Inline, ...]


@dataclass(frozen=True)
class Heading:
    """A title.

    Attributes:
        level: 1 for the title of the report, 2 for a section, 3 below.
        words: The pieces, in order.
    """

    level: int
    words: Words


@dataclass(frozen=True)
class Paragraph:
    """Sentences.

    Attributes:
        words: The pieces, in order.
        look: Class of the style sheet.
    """

    words: Words
    look: str = ""


@dataclass(frozen=True)
class Table:
    """Rows of cells.

    Attributes:
        head: Titles of the columns; empty for a table of names (first column) and values.
        rows: Cells by row.
        look: Class of the style sheet.
    """

    head: tuple[str, ...]
    rows: tuple[tuple[Words, ...], ...]
    look: str = ""


@dataclass(frozen=True)
class Listing:
    """Items of one or more lines each.

    Attributes:
        items: Lines of each item.
        look: Class of the style sheet.
    """

    items: tuple[tuple[Words, ...], ...]
    look: str = ""


@dataclass(frozen=True)
class Tiles:
    """Key figures at the top of a screen. Text reports leave them out, because a table repeats them.

    Attributes:
        tiles: (number, what it counts, remark) of each.
    """

    tiles: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True)
class Graph:
    """A drawing of the components. Text reports leave it out, because the table of edges repeats it.

    Attributes:
        architecture: Components and edges to draw.
    """

    architecture: Architecture


@dataclass(frozen=True)
class Fold:
    """Blocks below a title that a screen opens on demand.

    Attributes:
        title: The title.
        blocks: Hidden until the title is clicked.
        anchor: Target of links; empty for none.
        aside: Pieces beside the title.
        look: Classes of the style sheet.
    """

    title: Heading
    blocks: tuple[Block, ...]
    anchor: str = ""
    aside: Words = ()
    look: str = ""


Block: TypeAlias = Heading | Paragraph | Table | Listing | Tiles | Graph | Fold


@dataclass(frozen=True)
class Document:
    """A report.

    Attributes:
        title: Title of the page.
        sections: Blocks of each section, from top to bottom.
    """

    title: str
    sections: tuple[tuple[Block, ...], ...]


def printable(text: str) -> str:
    """Return a text with a sign in place of each control character, so that none reaches a terminal; newlines stay."""
    return text if text.isprintable() else "".join(c if c.isprintable() or c == "\n" else "\ufffd" for c in text)
