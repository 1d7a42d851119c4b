"""A report as values: headings, paragraphs, tables, lists. What it looks like is up to who writes it.

A text stands for itself; each writer escapes it in its own way, so that nothing from the code becomes markup.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from gapwatch.design.architecture.model import Architecture


@dataclass(frozen=True)
class Code:
    """A name, path or command, as it stands in the code."""

    text: str


@dataclass(frozen=True)
class Codes:
    """Several names or paths; after `most` of them only how many more there are."""

    texts: tuple[str, ...]
    most: int


@dataclass(frozen=True)
class Strong:
    """A text that stands out."""

    text: str


@dataclass(frozen=True)
class Badge:
    """A word that a screen shows by colour or frame, too.

    Attributes:
        look: Classes of the style sheet.
    """

    text: str
    look: str = "badge"


Inline: TypeAlias = str | Code | Codes | Strong | Badge
#: What stands in one line or one cell; the pieces follow each other as they are.
Words: TypeAlias = tuple[Inline, ...]


@dataclass(frozen=True)
class Heading:
    """A title; level 1 is the report's own."""

    level: int
    words: Words


@dataclass(frozen=True)
class Paragraph:
    """Sentences; `look` is a class of the style sheet."""

    words: Words
    look: str = ""


@dataclass(frozen=True)
class Table:
    """Rows of cells; without a head the first column names what the second says."""

    head: tuple[str, ...]
    rows: tuple[tuple[Words, ...], ...]
    look: str = ""


@dataclass(frozen=True)
class Listing:
    """Items of one or more lines each."""

    items: tuple[tuple[Words, ...], ...]
    look: str = ""


@dataclass(frozen=True)
class Tiles:
    """Numbers to see first: each with what it counts and a remark. A text leaves them out: a table has them, too."""

    tiles: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True)
class Graph:
    """A picture of the components. A text leaves it out: the table of edges says the same."""

    architecture: Architecture


@dataclass(frozen=True)
class Fold:
    """Blocks below a title that a screen opens on demand.

    Attributes:
        anchor: What links lead to; empty for none.
        aside: Beside the title.
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
    """A report: its title, and its sections from top to bottom."""

    title: str
    sections: tuple[tuple[Block, ...], ...]
