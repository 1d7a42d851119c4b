"""Note beside a store in use: the address of its API and the tokens.

`s.duckdb` has `s.duckdb.api`, readable by its owner only, while a process writes the store. A note that a killed
process left is recognised by its pid, and by the store, which can then be opened.
"""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

from gapwatch.scorers.errors import JobError
from gapwatch.sinks.store.running_process import is_running


@dataclass(frozen=True)
class ApiNote:
    """Address and tokens of the API of a store.

    Attributes:
        url: URL, such as `http://127.0.0.1:9464`.
        pid: Id of the process that writes the store.
        read_token: Token for reading, if the address needs one.
        write_token: Token for requests that change the store.
    """

    url: str
    pid: int
    read_token: str
    write_token: str


def note_path(store: Path) -> Path:
    """Return the path of the note of a store."""
    return store.with_name(store.name + ".api")


def write_note(store: Path, note: ApiNote) -> None:
    """Write the note in one step, readable by its owner only.

    Raises:
        JobError: The note could not be written.
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
    """Return the note of a store; None if there is none or the caller may not read it."""
    path = note_path(store)
    try:
        written = json.loads(path.read_text(encoding="utf-8"))
        note = ApiNote(**written)
    except (OSError, ValueError, TypeError):
        return None
    return note if is_running(note.pid) else None


def remove_note(store: Path, note: ApiNote) -> None:
    """Remove the note, unless another process has replaced it."""
    if read_note(store) == note:
        note_path(store).unlink(missing_ok=True)
