"""Starts a program under the watch of `gapwatch.design.emission.interpreter`, in place of this process."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import orjson

from gapwatch.scorers.errors import SourceError, UsageError

#: Folder whose `sitecustomize` Python runs at start.
_STARTUP = Path(__file__).resolve().parent / "interpreter" / "startup"


def start_program(plan: Path, command: Sequence[str], has_content: bool) -> NoReturn:
    """Replace this process by a program.

    Args:
        plan: The file `spans.json` of its design.
        command: The program with its arguments.
        has_content: Whether inputs and outputs are written.

    Raises:
        SourceError: The plan is missing or is none.
        UsageError: The program does not exist.
    """
    check_plan(plan)
    found = shutil.which(command[0])
    if found is None:
        raise UsageError(
            f"{command[0]}: no such program; write it after --, as in: gapwatch instrument -- python app.py"
        )
    environment = dict(os.environ)
    path = environment.get("PYTHONPATH")
    environment |= {
        "PYTHONPATH": str(_STARTUP) + (os.pathsep + path if path else ""),
        "GAPWATCH_SPANS": str(plan.resolve()),
        "GAPWATCH_CONTENT": "1" if has_content else "0",
        "GAPWATCH_INSTRUMENT_PID": str(os.getpid()),
    }
    os.execve(found, list(command), environment)  # noqa: S606  # the user's own program, in place of this one


def check_plan(plan: Path) -> None:
    """Check that a file holds the spans of a design.

    Args:
        plan: The file `spans.json`.

    Raises:
        SourceError: The file is missing, or is none.
    """
    try:
        data = orjson.loads(plan.read_bytes())
    except OSError as error:
        raise SourceError(
            f"{plan}: cannot be read: {error.strerror}; run gapwatch design REPO first, or name its folder by --design"
        ) from error
    except orjson.JSONDecodeError as error:
        raise SourceError(f"{plan}: not JSON: {error}; run gapwatch design REPO again") from error
    if not isinstance(data, dict) or data.get("gapwatch_spans") != 1:
        raise SourceError(f"{plan}: not the spans.json of a design; run gapwatch design REPO again")
