"""Errors of Gapwatch, one type for each reaction that a caller needs.

    GapwatchError
    ├── UsageError          stop, exit status 2: the user must change the request
    │   ├── PortfolioError  a portfolio with mistakes; lists every one of them
    │   ├── SourceError     a source of records that is missing, unreadable, or has changed
    │   └── StoreError      a store that is missing, made by another program, or newer
    │       └── StoreHeldError   a store that another process has open; read it over that process's API
    └── JobError            stop, exit status 1: the job could not be finished (disk full, imbalance)

Bad records raise no error: they become dead letters (`gapwatch.scorers.scoring.records`), which are counted.
"""

from __future__ import annotations

from dataclasses import dataclass


class GapwatchError(Exception):
    """Error that Gapwatch raises on purpose; its text says what was wrong, where, and what to do next."""

    exit_status = 1


class UsageError(GapwatchError):
    """The request cannot be carried out; Gapwatch has read and written nothing."""

    exit_status = 2


class SourceError(UsageError):
    """A source of records is missing, unreadable, or has changed since it was last read."""


class StoreError(UsageError):
    """A store is missing, is not a Gapwatch store, is newer than this program, or is open in another process."""


class JobError(GapwatchError):
    """The job stopped before its end; committed work stays, and the next run continues from there."""


class StoreHeldError(StoreError):
    """A store is open in another process, or already in this one; read it over that process's API."""


@dataclass(frozen=True)
class Problem:
    """One mistake in a file that a person wrote.

    Attributes:
        file: Path as it was given.
        line: 1-based; None for the file as a whole.
        key: Dotted path of the key, such as `metrics[2].claim.range`; empty for the whole file.
        message: What is wrong.
        expected: The values that are allowed there; empty where `message` says it.
        suggestion: Text to write there, ready to copy; empty where there is no suggestion.
        fact: Fact that would settle it, as one item of a YAML list with places to fill in; empty where none would.
        facts_line: Line of the key `facts` of the file; None where it has none.
    """

    file: str
    line: int | None
    key: str
    message: str
    expected: str = ""
    suggestion: str = ""
    fact: str = ""
    facts_line: int | None = None

    def __str__(self) -> str:
        where = self.file if self.line is None else f"{self.file}:{self.line}"
        text = f"{where}: {self.key + ': ' if self.key else ''}{self.message}"
        if self.expected:
            text += f"; expected {self.expected}"
        if self.suggestion:
            text += f"; write {self.suggestion}"
        return text


class PortfolioError(UsageError):
    """A portfolio was refused; `problems` lists every mistake in it, in the order of the file."""

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = problems
        super().__init__("\n".join([*map(str, problems), *facts_to_paste(problems)]))


def facts_to_paste(problems: list[Problem]) -> list[str]:
    """Return lines with the facts that would settle the problems of a file, ready to paste; empty without any."""
    needed = [problem for problem in problems if problem.fact]
    if not needed:
        return []
    first = needed[0]
    if first.facts_line is None:
        where, head = f"at the end of {first.file}", ["facts:"]
    else:
        where, head = f"under facts, {first.file}:{first.facts_line}, with the indentation of its neighbours", []
    ask = "To page, let somebody who knows say which way is better: fill in the capitals and paste"
    return [f"{ask} {where}:", *head, *(f"  {one.fact}" for one in needed)]
