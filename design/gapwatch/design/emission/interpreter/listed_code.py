"""Functions that are watched, by the name and the file of their code object."""

from __future__ import annotations

import hashlib
import inspect
import logging
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType
from typing import Any

from gapwatch.design.emission.interpreter.asked_calls import AskingCode, find_asking

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
        asking: Where it asks models.
        is_stream: Whether it is a generator.
    """

    code: CodeType
    what: str
    plan: dict[str, Any] = field(default_factory=dict)
    marks: dict[int, list[list[Any]]] = field(default_factory=dict)
    texts: dict[int, str] = field(default_factory=dict)
    asking: AskingCode = field(default_factory=AskingCode)
    is_stream: bool = False


class ListedFunctions:
    """The functions of a plan, of the clients and of threads.

    Args:
        plan: Content of `spans.json`.

    Attributes:
        names: Last parts of their names.
        found: Number of listed functions with a span that were entered.
        counts: Whether a span has the number of calls of models without a reply.
    """

    def __init__(self, plan: dict[str, Any]) -> None:
        self._shas: dict[str, str] = plan.get("files", {})
        self._changed: set[str] = set()
        self.found = 0
        self.counts = any("model_errors" in span["start"] for span in plan.get("emit", ()))
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

    @property
    def planned(self) -> list[tuple[str, str]]:
        """File and name of each function with a span."""
        return sorted({(e, n) for some in self.names.values() for e, n, what, _, _ in some if what == "span"})

    def _list(self, path: str, name: str, what: str, span: dict[str, Any], function: dict[str, Any]) -> None:
        self.names.setdefault(name.rpartition(".")[2], []).append((path, name, what, span, function))

    def find(self, code: CodeType) -> WatchedCode | None:
        """Return what is watched of a code object; None if it is not listed."""
        name = code.co_qualname.replace(".<locals>", "")
        path = code.co_filename.replace("\\", "/")
        named = [one for one in self.names.get(code.co_name, ()) if one[1] == name]
        for end, _, what, span, function in [one for one in named if is_below(path, one[0])] or self._copied(
            named, path
        ):
            self.found += what == "span"
            found = WatchedCode(code, what, span, is_stream=bool(code.co_flags & _GENERATORS))
            if function.get("marks") and self._is_unchanged(end, path):
                for mark in function["marks"]:
                    if mark[1] in ("add", "set", "ends", "choose"):
                        found.marks.setdefault(mark[0], []).append(mark)
                    elif mark[1] == "reply":
                        found.marks.setdefault(mark[0], []).append([mark[0], "set", MODEL_ASKED, 1])
                if "model_errors" in span["start"]:
                    found.asking = find_asking(code, function["marks"])
                found.texts = _call_offsets(code, {m[0]: m[2] for m in function["marks"] if m[1] == "text"})
            return found
        return None

    def _copied(self, named: list[Any], path: str) -> list[Any]:
        """Return those of some functions whose module a file is a copy of, as `pip install` and images make them.

        Of several modules of one name the one with the same content counts, else none.
        """
        planned = [one for one in named if one[3]]
        module = imported_path(Path(path)) if planned else ""
        fitting = [one for one in planned if is_below(one[0], module)]
        same = [one for one in fitting if self._is_same(one[0], path)]
        # A file beside no other of its package may be any: `app.py`.
        return same or (fitting if "/" in module and len({one[0] for one in fitting}) == 1 else [])

    def _is_same(self, listed: str, path: str) -> bool:
        try:
            return hashlib.sha256(Path(path).read_bytes()).hexdigest() == self._shas.get(listed)
        except OSError:
            return False

    def _is_unchanged(self, listed: str, path: str) -> bool:
        """Return whether a file is the one that was designed for; lines of another one mean nothing."""
        if listed not in self._shas:
            return True
        same = self._is_same(listed, path)
        if not same and listed not in self._changed:
            self._changed.add(listed)
            _log.warning("%s has changed since the design: its spans have no marks; run gapwatch design again", listed)
        return same


def is_below(path: str, end: str) -> bool:
    """Return whether a path is another one, or ends with it."""
    return path == end or (bool(end) and path.endswith("/" + end))


def imported_path(file: Path) -> str:
    """Return the path of a module from the folder that it is imported from: `shop/answers.py`."""
    folder = file.parent
    while (folder / "__init__.py").exists() and folder != folder.parent:
        folder = folder.parent
    # Packages without `__init__.py` begin where libraries are installed.
    installed = [p for p in file.parents if p.name in ("site-packages", "dist-packages")]
    return file.relative_to(installed[0] if installed else folder).as_posix()


def _call_offsets(code: CodeType, lines: dict[int, str]) -> dict[int, str]:
    """Return the offsets of the instructions of some lines, with the field of the line."""
    found: dict[int, str] = {}
    for position, places in enumerate(code.co_positions()):
        first, last = places[0], places[1]
        for line, name in lines.items():
            if first is not None and first <= line <= (last or first):
                found[2 * position] = name
    return found
