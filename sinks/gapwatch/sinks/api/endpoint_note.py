"""The note beside a store that is being kept: where its API listens, and the tokens to use it.

`s.duckdb` has `s.duckdb.api`, readable by its owner only, from the start of the process that keeps it to its end. What
a killed process left is told by the pid, and by the store, which can be opened then.
"""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

from gapwatch.scorers.errors import JobError
from gapwatch.sinks.store.liveness import is_running


@dataclass(frozen=True)
class ApiNote:
    """How to reach the API of a store.

    Attributes:
        url: Such as `http://127.0.0.1:9464`.
        pid: Of the process that keeps the store.
        read_token: For reading, where it is asked for.
        write_token: For all that changes something.
    """

    url: str
    pid: int
    read_token: str
    write_token: str


def note_path(store: Path) -> Path:
    """Return where the note of a store lies."""
    return store.with_name(store.name + ".api")


def write_note(store: Path, note: ApiNote) -> None:
    """Put the note in place, whole, readable by its owner only.

    Raises:
        JobError: It could not be written.
    """
    path = note_path(store)
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name[:100]}.", dir=path.parent)  # mode 0600
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(asdict(note), file)
        Path(name).replace(path)
    except OSError as error:
        raise JobError(f"{path} cannot be written: {error.strerror or error}") from error


def read_note(store: Path) -> ApiNote | None:
    """Return the note of a store, or None where there is none, or it is not the caller's to read."""
    path = note_path(store)
    try:
        written = json.loads(path.read_text(encoding="utf-8"))
        note = ApiNote(**written)
    except (OSError, ValueError, TypeError):
        return None
    return note if is_running(note.pid) else None


def remove_note(store: Path, note: ApiNote) -> None:
    """Take the note away, unless another process has put its own there since."""
    if read_note(store) == note:
        note_path(store).unlink(missing_ok=True)
