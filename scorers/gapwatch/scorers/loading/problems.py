"""Collects the problems of one file, so that a person sees all of them at once."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, field

from gapwatch.scorers.errors import PortfolioError, Problem
from gapwatch.scorers.printable import shown

#: Place of a value in a file: keys of maps and positions in lists, from the top.
KeyPath = tuple[str | int, ...]

# A file may hold a hundred thousand mistakes; nobody reads more than this.
MAX_PROBLEMS = 200
# Longest suggestion, in characters; a message may have twice as many.
_MAX_WORDS = 400


@dataclass
class Place:
    """Value as it was read, with the line of its key; an aliased value has one place and several paths.

    Attributes:
        value: Plain Python: dict, list, str, int, float, bool, None.
        line: 1-based.
        parts: Places of the members, by key or position.
        size: Number of values in it, itself included, with every alias written out.
    """

    value: object
    line: int
    parts: dict[str | int, Place] = field(default_factory=dict)
    size: int = 1


def dotted(path: KeyPath) -> str:
    """Return a path in the usual notation: `metrics[2].claim.range`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{shown(part)}" if text else shown(part)
    return text


def nearest(word: object, words: Iterable[str]) -> str:
    """Return the one of `words` that was most likely meant, or "" where none is similar."""
    text, known = str(word)[:80], list(words)
    # The same characters in another order: `=<` means `<=`, though `<` is as similar.
    swapped = [one for one in known if sorted(one) == sorted(text)]
    close = swapped or difflib.get_close_matches(text, known, n=1, cutoff=0.6)
    return close[0] if close else ""


def one_of(words: Iterable[str]) -> str:
    """List words for the `expected` of a problem: `a, b or c`."""
    *first, last = list(words)
    return f"{', '.join(first)} or {last}" if first else last


class ProblemList:
    """Problems of one file, each with the line of its key.

    Args:
        file: Path as it was given.
        root: The values of the file with their lines; set once they are read.
    """

    def __init__(self, file: str, root: Place | None = None) -> None:
        self.file = file
        self.root = root
        self._problems: list[Problem] = []
        self._paths: set[KeyPath] = set()

    def add(
        self,
        path: KeyPath,
        message: str,
        expected: str = "",
        suggestion: str = "",
        line: int | None = None,
        fact: str = "",
    ) -> None:
        """Note one problem.

        A value that has a problem gets no second one, neither for itself nor for its members: each mistake is reported
        once.

        Args:
            path: Place of the value; () for the whole file.
            message: What is wrong.
            expected: The values that are allowed there.
            suggestion: Text to write there, ready to copy.
            line: 1-based; by default that of the longest part of the path that is in the file.
            fact: Fact that would settle it, as one item of a YAML list.
        """
        if any(path[:length] in self._paths for length in range(1, len(path) + 1)):
            return
        self._paths.add(path)
        where = line or self._line_of(path)
        # A suggested or listed name may itself be a megabyte long.
        short = suggestion if len(suggestion) <= _MAX_WORDS else ""
        words = (shown(message, 2 * _MAX_WORDS), shown(expected, 2 * _MAX_WORDS), short)
        facts_line = self.root.parts["facts"].line if self.root is not None and "facts" in self.root.parts else None
        self._problems.append(Problem(self.file, where, dotted(path), *words, fact, facts_line))

    def touches(self, path: KeyPath) -> bool:
        """Return whether there is a problem at `path` or inside it."""
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
        """Raise all problems as one error.

        Raises:
            PortfolioError: There is at least one problem.
        """
        if self:
            raise PortfolioError(self.sorted())
