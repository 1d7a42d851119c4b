"""Functions that are watched, by the name and the file of their code object."""

from __future__ import annotations

import hashlib
import inspect
import logging
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType
from typing import Any

_log = logging.getLogger("gapwatch.instrument")
_GENERATORS = inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR
#: Functions of the standard library that hand work to another thread: end of the file, function, and what to do there.
_THREADS = (
    ("threading.py", "Thread.start", "keep"),
    ("threading.py", "Thread._bootstrap_inner", "take"),
    ("concurrent/futures/thread.py", "_WorkItem.__init__", "keep"),
    ("concurrent/futures/thread.py", "_WorkItem.run", "take"),
)


#: Note of a function that asks a model at known lines: whether one was reached.
MODEL_ASKED = "model_asked"


@dataclass(slots=True)
class WatchedCode:
    """A code object that is watched.

    Attributes:
        code: It; held, so that its id stays its own.
        what: `span`, `marks` (of a function inside one), `sent` (a generator that a watched function handed on), `keep`
            and `take` (of a thread), or a kind of `client_calls.toml`.
        plan: The planned span; empty for other functions.
        marks: Marks by line.
        texts: Offsets of the calls whose first argument is a text to note, with the field.
        is_stream: Whether it is a generator.
    """

    code: CodeType
    what: str
    plan: dict[str, Any] = field(default_factory=dict)
    marks: dict[int, list[list[Any]]] = field(default_factory=dict)
    texts: dict[int, str] = field(default_factory=dict)
    is_stream: bool = False


class ListedFunctions:
    """The functions of a plan, of the clients and of threads.

    Args:
        plan: Content of `spans.json`.

    Attributes:
        names: Last parts of their names.
    """

    def __init__(self, plan: dict[str, Any]) -> None:
        self._shas: dict[str, str] = plan.get("files", {})
        self._changed: set[str] = set()
        #: Last part of the name to (end of the path, qualified name, what, planned span, its function).
        self.names: dict[str, list[tuple[str, str, str, dict[str, Any], dict[str, Any]]]] = {}
        for span in plan.get("emit", ()):
            for position, function in enumerate(span["functions"]):
                self._list(span["path"], function["name"], "marks" if position else "span", span, function)
        for client in plan.get("clients", ()):
            for name in client["functions"]:
                self._list(client["file"], name, client["kind"], {}, {})
        for path, name, what in _THREADS:
            self._list(path, name, what, {}, {})

    def _list(self, path: str, name: str, what: str, span: dict[str, Any], function: dict[str, Any]) -> None:
        self.names.setdefault(name.rpartition(".")[2], []).append((path, name, what, span, function))

    def find(self, code: CodeType) -> WatchedCode | None:
        """Return what is watched of a code object; None if it is not listed."""
        name = code.co_qualname.replace(".<locals>", "")
        path = code.co_filename.replace("\\", "/")
        for end, listed, what, span, function in self.names.get(code.co_name, ()):
            if listed != name or not (path == end or path.endswith("/" + end)):
                continue
            found = WatchedCode(code, what, span, is_stream=bool(code.co_flags & _GENERATORS))
            if function.get("marks") and self._is_unchanged(end, path):
                for mark in function["marks"]:
                    if mark[1] in ("add", "set", "ends", "choose"):
                        found.marks.setdefault(mark[0], []).append(mark)
                    elif mark[1] == "reply":
                        found.marks.setdefault(mark[0], []).append([mark[0], "set", MODEL_ASKED, 1])
                found.texts = _call_offsets(code, {m[0]: m[2] for m in function["marks"] if m[1] == "text"})
            return found
        return None

    def _is_unchanged(self, listed: str, path: str) -> bool:
        """Return whether a file is the one that was designed for; lines of another one mean nothing."""
        sha = self._shas.get(listed)
        if sha is None:
            return True
        try:
            same = hashlib.sha256(Path(path).read_bytes()).hexdigest() == sha
        except OSError:
            same = False
        if not same and listed not in self._changed:
            self._changed.add(listed)
            _log.warning("%s has changed since the design: its spans have no marks; run gapwatch design again", listed)
        return same


def _call_offsets(code: CodeType, lines: dict[int, str]) -> dict[int, str]:
    """Return the offsets of the instructions of some lines, with the field of the line."""
    found: dict[int, str] = {}
    for position, places in enumerate(code.co_positions()):
        first, last = places[0], places[1]
        for line, name in lines.items():
            if first is not None and first <= line <= (last or first):
                found[2 * position] = name
    return found
