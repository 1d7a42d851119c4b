"""Watches the listed functions by events of the interpreter (`sys.monitoring`, PEP 669)."""

from __future__ import annotations

import hashlib
import inspect
import json
import logging
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from opentelemetry import context as contexts

from gapwatch.design.emission.interpreter.span_writer import (
    SpanWriter,
    WatchedCall,
    begin_client,
    end_client,
    innermost_call,
    innermost_with,
)

_log = logging.getLogger("gapwatch.instrument")
#: Absent from the types of Python 3.11, under which the checks of form run.
_monitoring: Any = vars(sys).get("monitoring")
_GENERATORS = inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR
#: Functions that parse a text that is their first argument.
_PARSERS = frozenset(
    [
        *("loads", "load", "decode", "model_validate_json", "validate_json", "parse_raw", "parse_json_markdown"),
        *("repair_json", "parse_partial_json", "parse", "invoke", "literal_eval"),
    ]
)
#: Functions of the standard library that hand work to another thread: end of the file, function, and what to do there.
_THREADS = (
    ("threading.py", "Thread.start", "keep"),
    ("threading.py", "Thread._bootstrap_inner", "take"),
    ("concurrent/futures/thread.py", "_WorkItem.__init__", "keep"),
    ("concurrent/futures/thread.py", "_WorkItem.run", "take"),
)
_KEPT = "_gapwatch_context"
#: References to the frame of a generator that is gone: the entry of it, a variable, and an argument.
_HOLDERS = 3


@dataclass(slots=True)
class _Target:
    """A code object that is watched.

    Attributes:
        code: It; held, so that its id stays its own.
        what: span, marks, llm, retrieval, keep or take.
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


class CodeEvents:
    """Callbacks of the interpreter.

    Args:
        plan: Content of `spans.json`.
        writer: Writes the spans.

    Attributes:
        tool: Number of the tool.
    """

    def __init__(self, plan: dict[str, Any], writer: SpanWriter) -> None:
        self._writer = writer
        self._shas: dict[str, str] = plan.get("files", {})
        #: Function's last name to (end of the path, qualified name, line, what, planned span, its function).
        self._listed: dict[str, list[tuple[str, str, str, dict[str, Any], dict[str, Any]]]] = {}
        for span in plan.get("emit", ()):
            for position, function in enumerate(span["functions"]):
                self._list(span["path"], function["name"], "marks" if position else "span", span, function)
        for client in plan.get("clients", ()):
            for name in client["functions"]:
                self._list(client["file"], name, client["kind"], {}, {})
        for path, name, what in _THREADS:
            self._list(path, name, what, {}, {})
        self._targets: dict[int, _Target] = {}
        self._calls: dict[int, WatchedCall] = {}
        self._clients: dict[int, Any] = {}
        #: Generators under way. One that nobody takes from any more may end without any event.
        self._streams: dict[int, tuple[FrameType, WatchedCall]] = {}
        self._changed: set[str] = set()
        self.tool = -1
        writer.before_exit = self._end_streams

    def _list(self, path: str, name: str, what: str, span: dict[str, Any], function: dict[str, Any]) -> None:
        self._listed.setdefault(name.rpartition(".")[2], []).append((path, name, what, span, function))

    def begin(self) -> None:
        """Take a free tool and begin to watch."""
        self.tool = next((n for n in (4, 3, 2, 1) if _monitoring.get_tool(n) is None), -1)
        if self.tool < 0:
            _log.warning("all tools of sys.monitoring are taken; no span is emitted")
            return
        _monitoring.use_tool_id(self.tool, "gapwatch")
        events = _monitoring.events
        for event, callback in (
            (events.PY_START, self._on_start),
            (events.PY_RETURN, self._on_return),
            (events.PY_UNWIND, self._on_unwind),
            (events.PY_YIELD, self._on_yield),
            (events.PY_RESUME, self._on_resume),
            (events.LINE, self._on_line),
            (events.CALL, self._on_call),
        ):
            _monitoring.register_callback(self.tool, event, callback)
        # The first call of a code object that is not listed turns its own event off. Exceptions have no local events.
        _monitoring.set_events(self.tool, events.PY_START | events.PY_UNWIND)

    # -- callbacks: each must leave the program as it is -----------------------------------------------------------

    def _on_start(self, code: CodeType, offset: int) -> Any:
        target = self._targets.get(id(code))
        if target is None:
            if code.co_name not in self._listed:
                return _monitoring.DISABLE
            try:
                target = self._find(code)
            except Exception:
                _log.exception("a listed function cannot be watched")
            if target is None:
                return _monitoring.DISABLE
        try:
            self._started(target, sys._getframe(1))
        except Exception:
            _log.exception("the span of %s is lost", code.co_qualname)
        return None

    def _started(self, target: _Target, frame: FrameType) -> None:
        what = target.what
        if what == "span":
            code, values = target.code, frame.f_locals
            count = code.co_argcount + code.co_kwonlyargcount
            count += bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
            names = [n for n in code.co_varnames[:count] if n not in ("self", "cls") and n in values]
            if self._streams:
                self._end_streams()
            call = self._writer.begin(target.plan, {n: values[n] for n in names})
            self._calls[id(frame)] = call
            if target.is_stream:
                self._streams[id(frame)] = frame, call
        elif what in ("llm", "retrieval"):
            if (before := begin_client()) is not None:
                self._clients[id(frame)] = before
        elif what == "keep":
            if innermost_call() is not None:
                setattr(frame.f_locals["self"], _KEPT, contexts.get_current())
        elif what == "take":
            kept = getattr(frame.f_locals["self"], _KEPT, None)
            if kept is not None:
                self._clients[id(frame)] = contexts.get_current()
                contexts.attach(kept)

    def _on_return(self, code: CodeType, offset: int, result: Any) -> Any:
        self._ended(code, result, None)

    def _on_unwind(self, code: CodeType, offset: int, error: BaseException) -> Any:
        if id(code) in self._targets:
            self._ended(code, None, error)

    def _ended(self, code: CodeType, result: Any, error: BaseException | None) -> None:
        frame = sys._getframe(2)
        target = self._targets.get(id(code))
        if target is None:
            return
        try:
            if target.what == "span":
                call = self._calls.pop(id(frame), None)
                self._streams.pop(id(frame), None)
                if call is not None:
                    if call.notes.get("rows_written") == "of_cursor":
                        call.notes["rows_written"] = _rows_written(frame)
                    self._writer.end(call, result, error, target.is_stream)
            elif target.what == "take":
                if (before := self._clients.pop(id(frame), None)) is not None:
                    contexts.attach(before)
            elif (before := self._clients.pop(id(frame), None)) is not None:
                end_client(before, target.what, result)
        except Exception:
            _log.exception("the span of %s is lost", code.co_qualname)

    def _end_streams(self) -> None:
        """End the spans of generators that are gone: only this object holds their frames."""
        for key in list(self._streams):
            frame, call = self._streams[key]
            if sys.getrefcount(frame) <= _HOLDERS:
                del self._streams[key]
                self._calls.pop(key, None)
                self._writer.end(call, None, GeneratorExit(), is_stream=True)

    def _on_yield(self, code: CodeType, offset: int, value: Any) -> Any:
        call = self._calls.get(id(sys._getframe(1)))
        if call is None:
            return
        try:
            self._writer.leave(call)
            # An `await` in an asynchronous generator suspends it, too; its own chunks come wrapped.
            is_async = bool(code.co_flags & inspect.CO_ASYNC_GENERATOR)
            if not is_async:
                self._writer.chunk(call, value)
            elif type(value).__name__ == "async_generator_wrapped_value":
                self._writer.chunk(call, None)
        except Exception:
            _log.exception("the span of %s is lost", code.co_qualname)

    def _on_resume(self, code: CodeType, offset: int) -> Any:
        call = self._calls.get(id(sys._getframe(1)))
        if call is not None:
            self._writer.enter(call)

    def _on_line(self, code: CodeType, line: int) -> Any:
        target = self._targets.get(id(code))
        marks = target.marks.get(line) if target is not None else None
        if target is None or not marks:
            return _monitoring.DISABLE
        frame = sys._getframe(1)
        own = self._calls.get(id(frame)) if target.what == "span" else innermost_call()
        if own is None:
            return None
        for _, action, name, value in marks:
            if action == "add":
                own.notes[name] = own.notes.get(name, 0) + 1
            elif action == "set":
                own.notes[name] = value
            elif (call := innermost_with(name, own)) is not None:
                is_said = action == "ends"
                call.notes[name] = value if is_said else next((v for n, v in value if frame.f_locals.get(n)), None)
        return None

    def _on_call(self, code: CodeType, offset: int, function: Any, argument: Any) -> Any:
        target = self._targets.get(id(code))
        name = target.texts.get(offset) if target is not None else None
        if target is None or name is None:
            return _monitoring.DISABLE
        called = getattr(function, "__name__", "")
        text = argument
        if called == "json":
            text = getattr(argument, "text", None)
        elif called not in _PARSERS:
            return None
        if isinstance(text, bytes | bytearray):
            text = bytes(text).decode("utf-8", "replace")
        call = self._calls.get(id(sys._getframe(1))) if target.what == "span" else innermost_call()
        if call is not None and type(text) is str:
            call.notes[name] = text
        return None

    # -- the listed functions --------------------------------------------------------------------------------------

    def _find(self, code: CodeType) -> _Target | None:
        """Return the target of a code object that runs for the first time, with its local events set."""
        name = code.co_qualname.replace(".<locals>", "")
        path = code.co_filename.replace("\\", "/")
        for end, listed, what, span, function in self._listed[code.co_name]:
            if listed != name or not (path == end or path.endswith("/" + end)):
                continue
            target = _Target(code, what, span, is_stream=bool(code.co_flags & _GENERATORS))
            if function.get("marks") and self._is_unchanged(end, path):
                for mark in function["marks"]:
                    if mark[1] in ("add", "set", "ends", "choose"):
                        target.marks.setdefault(mark[0], []).append(mark)
                target.texts = _call_offsets(code, {m[0]: m[2] for m in function["marks"] if m[1] == "text"})
            events = _monitoring.events
            wanted = 0 if what in ("marks", "keep") else events.PY_RETURN
            if what == "span" and target.is_stream:
                wanted |= events.PY_YIELD | events.PY_RESUME
            wanted |= (events.LINE if target.marks else 0) | (events.CALL if target.texts else 0)
            self._targets[id(code)] = target
            _monitoring.set_local_events(self.tool, code, wanted)
            return target
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


def _rows_written(frame: FrameType) -> int | None:
    """Return the number of rows that a cursor among the variables of a function reports."""
    for value in frame.f_locals.values():
        count = getattr(value, "rowcount", None)
        if type(count) is int and count >= 0:
            return count
    return None


def watch(path: Path, has_content: bool) -> None:
    """Begin to emit the spans of a design.

    Args:
        path: The file `spans.json`.
        has_content: Whether inputs and outputs are written.
    """
    plan = json.loads(path.read_text(encoding="utf-8"))
    CodeEvents(plan, SpanWriter(plan["pipeline"], has_content)).begin()
