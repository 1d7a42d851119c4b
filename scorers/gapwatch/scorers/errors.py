"""The errors of Gapwatch, one type for each answer that a caller must give.

    GapwatchError
    ├── UsageError          stop, exit status 2: the caller must change what was asked for
    │   ├── PortfolioError  a portfolio that says something wrong, with every problem in it
    │   ├── SourceError     a source of records that is missing, unreadable or not the one it was
    │   └── StoreError      a store that is missing, foreign or newer
    │       └── StoreHeldError   a store that another process keeps; it may be asked over its API
    └── JobError            stop, exit status 1: the job could not be finished (disk full, imbalance)

Bad records are no errors: they are values (`gapwatch.scorers.scoring.dead_letter`), counted and set aside.
"""

from __future__ import annotations

from dataclasses import dataclass


class GapwatchError(Exception):
    """Any error that Gapwatch raises on purpose; its text says what was wrong, where, and what to do next."""

    exit_status = 1


class UsageError(GapwatchError):
    """What was asked for cannot be done as asked; nothing was read or written."""

    exit_status = 2


class SourceError(UsageError):
    """A source of records is missing, unreadable, or no longer what was read before."""


class StoreError(UsageError):
    """A store is missing, is no store, is newer than this program, or is held by another process."""


class JobError(GapwatchError):
    """The job stopped before its end; what was committed stays, and the next run goes on from there."""


class StoreHeldError(StoreError):
    """A store is being kept by another process, or already by this one; its API answers for it."""


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong in a file that a person wrote.

    Attributes:
        file: Path as it was given.
        line: 1-based line, or None where the file as a whole is meant.
        key: Dotted path of the key, such as `metrics[2].claim.range`; empty for the whole file.
        message: What is wrong.
        expected: What may stand there instead; empty where `message` says it.
        suggestion: What to write, ready to copy; empty where there is none.
    """

    file: str
    line: int | None
    key: str
    message: str
    expected: str = ""
    suggestion: str = ""

    def __str__(self) -> str:
        where = self.file if self.line is None else f"{self.file}:{self.line}"
        text = f"{where}: {self.key + ': ' if self.key else ''}{self.message}"
        if self.expected:
            text += f"; expected {self.expected}"
        if self.suggestion:
            text += f"; write {self.suggestion}"
        return text


class PortfolioError(UsageError):
    """A portfolio was refused; `problems` holds every reason that was found, in the order of the file."""

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = problems
        super().__init__("\n".join(str(problem) for problem in problems))
