"""Prints tables for people: columns aligned, numbers on the right; with lines on a terminal, plain into a pipe."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from gapwatch.scorers.printable import shown

#: Largest number of characters of a cell; longer ones are cut. `--format json` gives all.
CELL_LIMIT = 300

#: Smallest width of a folded column, in characters.
_FOLDED = 14

#: Styles of outcomes on a terminal.
OUTCOME_STYLES = {
    "fail": "bold red",
    "bad": "bold red",
    "error": "bold magenta",
    "warn": "yellow",
    "unknown": "cyan",
    "pass": "green",
    "good": "green",
}


@dataclass(frozen=True)
class Column:
    """One column of a table.

    Attributes:
        title: Text of the header.
        right: Whether cells are aligned to the right, for numbers.
        whole: Whether cells are never wrapped or cut on a terminal, for names and times that people copy.
    """

    title: str
    right: bool = False
    whole: bool = False


def print_table(
    columns: Sequence[Column], rows: Sequence[Sequence[Any]], *, title: str | None = None, upright: bool = False
) -> None:
    """Print rows to standard output, with control characters escaped.

    Args:
        columns: One column for each value of a row.
        rows: Values of any type.
        title: Line above the table.
        upright: Print each row as a block, instead of folding cells, if the terminal is too narrow for all columns.
    """
    cells = [[cell_text(value) for value in row] for row in rows]
    if not sys.stdout.isatty():
        _print_plain(columns, cells, title)
    elif not upright or _fits(columns, cells):
        _print_rich(columns, cells, title)
    else:
        _print_upright(columns, cells, title)


def cell_text(value: Any, limit: int = CELL_LIMIT) -> str:
    """Return the text of a value in a table: one line, cut at `limit` characters; a dash for null."""
    if value is None:
        return "-"
    if isinstance(value, datetime):
        return moment_text(value)
    if isinstance(value, float):
        return six_digit_text(value)
    if isinstance(value, timedelta):
        return str(value)
    if isinstance(value, bytes):
        return shown(value.hex(), limit)
    return shown(value if isinstance(value, str | bool) else str(value), limit)


def moment_text(moment: datetime, precision: str = "milliseconds") -> str:
    """Return the text of a UTC time; `precision` as in `datetime.isoformat`, seconds if nothing is lost by that."""
    naive = moment.replace(tzinfo=None)
    return naive.isoformat(" ", precision if naive.microsecond else "seconds") + "Z"


def component_text(component: str | None) -> str:
    """Return the text of a component's id; metrics of the whole trace have none."""
    return component or "the trace"


def six_digit_text(value: float) -> str:
    """Return a number with six digits; whole numbers have no decimal point."""
    if not math.isfinite(value):
        return str(value)
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else f"{value:.6g}"


def share_text(share: float | None) -> str:
    """Return a share (0 to 1) as a percentage, with enough digits that a small share does not read as 0."""
    if share is None:
        return "-"
    if share == 0 or share == 1:
        return f"{share:.0%}"
    percent = share * 100
    digits = 1 if percent >= 10 else 2 if percent >= 0.1 else min(1 - math.floor(math.log10(percent)), 8)
    # A share below 1 must not read as 100 %.
    return f"{min(percent, 99.9 if digits == 1 else 100):.{digits}f}%"


def print_note(text: str) -> None:
    """Print a note about the result, on standard error."""
    sys.stdout.flush()
    sys.stderr.write(text + "\n")


def _fits(columns: Sequence[Column], cells: Sequence[Sequence[str]]) -> bool:
    """Return whether the terminal has room for all columns, folded ones at `_FOLDED` characters; rich drops others."""
    needed = 0
    for i, column in enumerate(columns):
        longest = max(len(column.title), *(len(row[i]) for row in cells)) if cells else len(column.title)
        needed += 2 + (longest if column.right or column.whole else min(longest, _FOLDED))
    return needed <= Console().width


def _print_upright(columns: Sequence[Column], cells: Sequence[Sequence[str]], title: str | None) -> None:
    """Print each row as a block with one column on each line, for a terminal narrower than the table."""
    console = Console(highlight=False)
    if title:
        console.print(Text(title, "italic"))
    width = max((len(column.title) for column in columns), default=0)
    for number, row in enumerate(cells, 1):
        console.print(Text(f"row {number}", "bold"))
        for column, cell in zip(columns, row, strict=True):
            console.print(Text(f"  {column.title.ljust(width)}  ").append(cell, OUTCOME_STYLES.get(cell, "")))


def _print_rich(columns: Sequence[Column], cells: Sequence[Sequence[str]], title: str | None) -> None:
    table = Table(title=Text(title) if title else None, title_justify="left", header_style="bold", box=None)
    for column in columns:
        table.add_column(
            Text(column.title),
            justify="right" if column.right else "left",
            no_wrap=column.right or column.whole,
            overflow="fold",
        )
    for row in cells:
        table.add_row(*(Text(cell, style=OUTCOME_STYLES.get(cell, "")) for cell in row))
    Console(highlight=False).print(table)


def _print_plain(columns: Sequence[Column], cells: Sequence[Sequence[str]], title: str | None) -> None:
    heads = [column.title for column in columns]
    widths = [max(len(row[i]) for row in [heads, *cells]) for i in range(len(columns))]
    lines = [] if title is None else [title]
    for row in [heads, *cells]:
        texts = (
            cell.rjust(width) if column.right else cell.ljust(width)
            for column, cell, width in zip(columns, row, widths, strict=True)
        )
        lines.append("  ".join(texts).rstrip())
    sys.stdout.write("\n".join(lines) + "\n")
