"""Runs the command line in this process and catches what it says."""

from __future__ import annotations

import contextlib
import io
import json
from dataclasses import dataclass
from typing import Any

from gapwatch.scorers.command_line import run


@dataclass(frozen=True)
class Ran:
    """Result of a command: its exit status, standard output and standard error."""

    status: int
    out: str
    err: str

    def json(self) -> Any:
        """Return standard output as JSON."""
        return json.loads(self.out)


def gapwatch(*arguments: object) -> Ran:
    """Run `gapwatch` with these arguments, its output no terminal."""
    raw, err = io.BytesIO(), io.StringIO()
    out = io.TextIOWrapper(raw, encoding="utf-8")
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = run([str(argument) for argument in arguments])
        out.flush()
    return Ran(status, raw.getvalue().decode("utf-8"), err.getvalue())
