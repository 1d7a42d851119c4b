"""Collects what is wrong in one file, so that a person reads every problem of it at once."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, field

from gapwatch.scorers.errors import PortfolioError, Problem
from gapwatch.scorers.printable import shown

#: Where a value stands in a file: keys of maps and positions in lists, from the top.
KeyPath = tuple[str | int, ...]

# A portfolio of a stranger may hold a hundred thousand mistakes; nobody reads more than this.
MAX_PROBLEMS = 200
# Characters of a suggestion, and half of those of a message.
_MAX_WORDS = 400


@dataclass
class Place:
    """A value as it was read, with the line of its key; an aliased value has one place and several paths.

    Attributes:
        value: Plain Python: dict, list, str, int, float, bool, None.
        line: 1-based.
        parts: The places of the members, by key or position.
        size: How many values it is, itself included, with every alias written out.
    """

    value: object
    line: int
    parts: dict[str | int, Place] = field(default_factory=dict)
    size: int = 1


def dotted(path: KeyPath) -> str:
    """Write a path as people do: `metrics[2].claim.range`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{shown(part)}" if text else shown(part)
    return text


def nearest(word: object, words: Iterable[str]) -> str:
    """Return the one of `words` that was most likely meant, or "" where none is like it."""
    close = difflib.get_close_matches(str(word)[:80], list(words), n=1, cutoff=0.6)
    return close[0] if close else ""


def one_of(words: Iterable[str]) -> str:
    """List words for the `expected` of a problem: `a, b or c`."""
    *first, last = list(words)
    return f"{', '.join(first)} or {last}" if first else last


class ProblemList:
    """The problems of one file, each with the line of its key.

    Args:
        file: Path as it was given.
        root: What was read, for the lines; set when it is known.
    """

    def __init__(self, file: str, root: Place | None = None) -> None:
        self.file = file
        self.root = root
        self._problems: list[Problem] = []
        self._paths: set[KeyPath] = set()

    def add(
        self, path: KeyPath, message: str, expected: str = "", suggestion: str = "", line: int | None = None
    ) -> None:
        """Note one problem.

        A value with a problem gets no second one for what it is, or for what it holds: one mistake is told once.

        Args:
            path: Where; () for the whole file.
            message: What is wrong.
            expected: What may stand there instead.
            suggestion: What to write, ready to copy.
            line: 1-based; by default that of the path's last part that is in the file.
        """
        if any(path[:length] in self._paths for length in range(1, len(path) + 1)):
            return
        self._paths.add(path)
        where = line or self._line_of(path)
        # A name that is proposed, or listed, may be a megabyte long itself.
        short = suggestion if len(suggestion) <= _MAX_WORDS else ""
        words = (shown(message, 2 * _MAX_WORDS), shown(expected, 2 * _MAX_WORDS), short)
        self._problems.append(Problem(self.file, where, dotted(path), *words))

    def touches(self, path: KeyPath) -> bool:
        """Say whether there is a problem at `path` or inside it."""
        return any(known[: len(path)] == path for known in self._paths)

    def _line_of(self, path: KeyPath) -> int | None:
        place = self.root
        if place is None or not path:
            return None
        for part in path:
            if part not in place.parts:
                break
            place = place.parts[part]
        return place.line

    def __bool__(self) -> bool:
        return bool(self._problems)

    def sorted(self) -> list[Problem]:
        """Return the problems in the order of the file, at most `MAX_PROBLEMS`."""
        ordered = sorted(self._problems, key=lambda problem: problem.line or 0)
        if len(ordered) > MAX_PROBLEMS:
            rest = len(ordered) - MAX_PROBLEMS
            ordered = [*ordered[:MAX_PROBLEMS], Problem(self.file, None, "", f"and {rest} more problems")]
        return ordered

    def raise_if_any(self) -> None:
        """Raise what was found.

        Raises:
            PortfolioError: There is at least one problem.
        """
        if self:
            raise PortfolioError(self.sorted())
