"""Watches the listed functions by events of the interpreter (`sys.monitoring`, PEP 669)."""

from __future__ import annotations

import atexit
import gc
import inspect
import json
import logging
import os
import sys
from pathlib import Path
from types import AsyncGeneratorType, CodeType, FrameType, GeneratorType
from typing import Any

from opentelemetry import context as contexts

from gapwatch.design.emission.interpreter.asked_calls import is_of_http
from gapwatch.design.emission.interpreter.client_call import ClientCall, begin_client
from gapwatch.design.emission.interpreter.listed_code import ListedFunctions, WatchedCode
from gapwatch.design.emission.interpreter.model_replies import is_response, member
from gapwatch.design.emission.interpreter.span_writer import SpanWriter
from gapwatch.design.emission.interpreter.waiting_root import WaitingRoot, begin_entry
from gapwatch.design.emission.interpreter.watched_call import WatchedCall, innermost_call, innermost_with

_log = logging.getLogger("gapwatch.instrument")
#: Absent from the types of Python 3.11, under which the checks of form run.
_monitoring: Any = vars(sys).get("monitoring")
#: Functions that parse a text that is their first argument.
_PARSERS = frozenset(
    [
        *("loads", "load", "decode", "model_validate_json", "validate_json", "parse_raw", "parse_json_markdown"),
        *("repair_json", "parse_partial_json", "parse", "invoke", "literal_eval"),
    ]
)
_KEPT = "_gapwatch_context"
#: References to the frame of a generator that is gone: the entry of it, a variable, and an argument.
_HOLDERS = 3
#: Most responses that are held until they are sent.
_MOST_HELD = 1_000
_CLIENTS = ("llm", "retrieval", "body", "chunk", "lines", "line", "pieces")
#: Something that ends with a frame, and whose context is the current one while the frame runs.
Running = WatchedCall | ClientCall | WaitingRoot


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
        self._listed = ListedFunctions(plan)
        self._targets: dict[int, WatchedCode] = {}
        #: By the id of their frame: calls of listed functions, of clients, and entries of frameworks.
        self._calls: dict[int, Running] = {}
        #: Watched calls whose result is a stream that another function sends, by the frame of its generator.
        self._sent: dict[int, WatchedCall] = {}
        self._threads: dict[int, Any] = {}
        #: Generators under way. One that nobody takes from any more may end without any event.
        self._streams: dict[int, tuple[FrameType, WatchedCall]] = {}
        self._told: set[int] = set()
        #: Responses that were not sent yet, with the calls that gave them.
        self._held: dict[int, tuple[Any, WatchedCall]] = {}
        self.tool = -1
        writer.before_exit = self._end_streams

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
            (events.RAISE, self._on_raise),
        ):
            _monitoring.register_callback(self.tool, event, callback)
        # The first call of a code object that is not listed turns its own event off. Exceptions have no local events.
        _monitoring.set_events(self.tool, events.PY_START | events.PY_UNWIND | (events.RAISE * self._listed.counts))

    def tell_if_blind(self) -> None:
        """Say on standard error that no listed function was entered, and what to do."""
        planned, process = self._listed.planned, os.getpid()
        if self._listed.found or not planned or os.environ.get("GAPWATCH_INSTRUMENT_PID") != str(process):
            return
        path, name = planned[0]
        print(  # noqa: T201
            "gapwatch instrument: no span was written. The program entered none of the"
            f" {len(planned)} functions of its design, such as {name} of {path}. Send it a request that runs one."
            " If one ran, the design is of other code: run gapwatch design on the folder that the program imports,"
            " and name the folder of that design by --design.",
            file=sys.stderr,
        )

    # -- callbacks: each must leave the program as it is -----------------------------------------------------------

    def _on_start(self, code: CodeType, offset: int) -> Any:
        target = self._targets.get(id(code))
        if target is None:
            if code.co_name not in self._listed.names:
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
            self._tell(code)
        return None

    def _tell(self, code: CodeType) -> None:
        """Log that a span of a function is lost, once for each function."""
        if id(code) not in self._told:
            self._told.add(id(code))
            _log.exception("a span of %s is lost; the program goes on", code.co_qualname)

    def _started(self, target: WatchedCode, frame: FrameType) -> None:
        what, key = target.what, id(frame)
        if self._streams:
            self._end_streams()
        if (sent := self._sent.get(key)) is not None:
            sent.enter()
        if what == "span":
            self._begin_span(target, frame)
        elif what in _CLIENTS:
            if (client := begin_client(what, frame.f_locals)) is not None:
                self._calls[key] = client
        elif what == "entry":
            if (entry := begin_entry(frame.f_locals, self._writer.own_tracer())) is not None:
                self._calls[key] = entry
        elif what == "wrapper":
            self._begin_wrapped(frame)
        elif what == "response":
            if (held := self._held.pop(id(frame.f_locals["self"]), None)) is not None:
                self._sent[key] = held[1]
                held[1].enter()
        elif what in ("failed", "repeats", "succeeded"):
            if (around := innermost_call()) is not None:
                around.note_attempt(what)
        elif what == "keep":
            if innermost_call() is not None:
                setattr(frame.f_locals["self"], _KEPT, contexts.get_current())
        elif what == "take":
            kept = getattr(frame.f_locals["self"], _KEPT, None)
            if kept is not None:
                self._threads[key] = contexts.get_current()
                contexts.attach(kept)

    def _begin_span(self, target: WatchedCode, frame: FrameType) -> None:
        around = innermost_call()
        if around is not None and around.wrapped is target.code:
            return  # An attempt of a function whose span is around all of its attempts.
        if around is not None and around.plan is target.plan:
            around.repeats += 1  # The function calls itself.
        code, values = target.code, frame.f_locals
        count = code.co_argcount + code.co_kwonlyargcount
        count += bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
        names = [n for n in code.co_varnames[:count] if n not in ("self", "cls") and n in values]
        call = self._writer.begin(target.plan, {n: values[n] for n in names})
        self._calls[id(frame)] = call
        if target.is_stream:
            self._streams[id(frame)] = frame, call

    def _begin_wrapped(self, frame: FrameType) -> None:
        """Begin the span of a listed function at the function that repeats it: one span is around all attempts."""
        values = frame.f_locals
        wrapped = next((f for n in ("f", "fn", "func", "target") if (f := values.get(n)) is not None), None)
        code = getattr(wrapped, "__code__", None)
        if not isinstance(code, CodeType) or code.co_name not in self._listed.names:
            return
        target = self._targets.get(id(code)) or self._find(code)
        if target is not None and target.what == "span" and not target.is_stream:
            args = values.get("args") or values.get("fargs") or ()
            given = dict(zip(code.co_varnames[: code.co_argcount], args, strict=False))
            given |= values.get("kwargs") or values.get("kw") or values.get("fkwargs") or {}
            call = self._writer.begin(target.plan, {n: v for n, v in given.items() if n not in ("self", "cls")})
            call.wrapped = code
            self._calls[id(frame)] = call

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
        key = id(frame)
        try:
            call = self._calls.pop(key, None)
            self._streams.pop(key, None)
            if isinstance(call, WatchedCall):
                if call.notes.get("rows_written") == "of_cursor":
                    call.notes["rows_written"] = _rows_written(frame)
                if error is not None or not self._hand_on(call, result):
                    self._writer.end(call, result, error, target.is_stream)
            elif call is not None:
                call.end(result, error)
                if isinstance(call, ClientCall) and call.is_hidden_search:
                    self._writer.write_search(call, code.co_qualname, result, error)
            elif (before := self._threads.pop(key, None)) is not None:
                contexts.attach(before)
            if target.what == "last":
                self._writer.flush()
            elif target.what == "status" and error is None and (around := innermost_call()) is not None:
                around.came(result)
            if (sent := self._sent.pop(key, None)) is not None:
                self._streams.pop(-key, None)
                self._writer.end(sent, None, error, is_stream=True)
        except Exception:
            self._tell(code)

    def _hand_on(self, call: WatchedCall, result: Any) -> bool:
        """Return whether the result is a stream that is sent after the function; then the span ends with the stream."""
        if "of_response" not in call.notes.values():
            return self._hold(call, result)
        source = member(result, "body_iterator") or member(result, "response") or result
        frame: FrameType | None = None
        if isinstance(source, AsyncGeneratorType):
            frame = source.ag_frame
        elif isinstance(source, GeneratorType):
            frame = source.gi_frame
        if frame is None:
            return False
        code = frame.f_code  # It may have a span of its own, which begins with its first piece.
        target = self._targets.get(id(code)) or (self._find(code) if code.co_name in self._listed.names else None)
        if target is None:
            target = self._targets[id(code)] = WatchedCode(code, "sent", is_stream=True)
            self._watch(target)
        call.leave()
        self._sent[id(frame)] = call
        self._streams[-id(frame)] = frame, call
        return True

    def _hold(self, call: WatchedCall, result: Any) -> bool:
        """Return whether the result is a response that asks a model when it is sent; then the span ends with that."""
        is_told = call.notes.get("model_prompt", call) is None
        is_counted = "model_errors" in call.notes and not call.is_answered and call.question is None
        if not (is_told or is_counted) or not is_response(result):
            return False
        call.leave()
        self._held[id(result)] = result, call
        while len(self._held) > _MOST_HELD:
            # A response that is never sent has said nothing.
            given, lost = self._held.pop(next(iter(self._held)))
            self._writer.end(lost, given, None, is_stream=False)
        return True

    def _end_streams(self) -> None:
        """End the spans of generators that are gone: only this object holds their frames."""
        for key in list(self._streams):
            frame, call = self._streams[key]
            if sys.getrefcount(frame) <= _HOLDERS:
                del self._streams[key]
                self._calls.pop(key, None)
                self._sent.pop(-key, None)
                self._writer.end(call, None, GeneratorExit(), is_stream=True)

    def _on_yield(self, code: CodeType, offset: int, value: Any) -> Any:
        key = id(sys._getframe(1))
        call, sent = self._calls.get(key), self._sent.get(key)
        if call is None and sent is None:
            return
        try:
            # An `await` in an asynchronous generator suspends it, too; its own chunks come wrapped.
            is_async = bool(code.co_flags & inspect.CO_ASYNC_GENERATOR)
            is_chunk = not is_async or type(value).__name__ == "async_generator_wrapped_value"
            for running in (call, sent):
                if running is not None:
                    running.leave()
                    if is_chunk:
                        running.chunk(gc.get_referents(value)[0] if is_async else value)
        except Exception:
            self._tell(code)

    def _on_resume(self, code: CodeType, offset: int) -> Any:
        key = id(sys._getframe(1))
        for running in (self._sent.get(key), self._calls.get(key)):
            if running is not None:
                running.enter()

    def _on_line(self, code: CodeType, line: int) -> Any:
        target = self._targets.get(id(code))
        marks = target.marks.get(line) if target is not None else None
        if target is None or not marks:
            return _monitoring.DISABLE
        own = self._call_of(target)
        if own is None:
            return None
        for _, action, name, value in marks:
            if action == "add":
                own.notes[name] = own.notes.get(name, 0) + 1
            elif action == "set":
                own.notes[name] = value
            elif (call := innermost_with(name, own)) is not None:
                values, is_said = sys._getframe(1).f_locals, action == "ends"
                call.notes[name] = value if is_said else next((v for n, v in value if not n or values.get(n)), None)
        return None

    def _call_of(self, target: WatchedCode) -> WatchedCall | None:
        """Return the call of the frame that the event is of."""
        found = self._calls.get(id(sys._getframe(2))) if target.what == "span" else None
        return found if isinstance(found, WatchedCall) else innermost_call()

    def _on_call(self, code: CodeType, offset: int, function: Any, argument: Any) -> Any:
        target = self._targets.get(id(code))
        if target is not None and offset in target.asking.calls and (asking := self._call_of(target)) is not None:
            asking.begin_asking(is_of_http(function))
            return None
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
        if (call := self._call_of(target)) is not None and type(text) is str:
            call.notes[name] = text
        return None

    def _on_raise(self, code: CodeType, offset: int, error: BaseException) -> Any:
        target = self._targets.get(id(code))
        if target is None or offset not in target.asking.raising:
            return
        try:
            if (call := self._call_of(target)) is not None:
                call.raised(error)
        except Exception:
            self._tell(code)

    # -- the listed functions --------------------------------------------------------------------------------------

    def _find(self, code: CodeType) -> WatchedCode | None:
        """Return the target of a code object that runs for the first time, with its local events set."""
        target = self._listed.find(code)
        if target is not None:
            self._targets[id(code)] = target
            self._watch(target)
        return target

    def _watch(self, target: WatchedCode) -> None:
        events, what = _monitoring.events, target.what
        wanted = 0 if what in ("marks", "keep", "failed", "repeats", "succeeded") else events.PY_RETURN
        if target.is_stream and what in ("span", "sent", "entry", *_CLIENTS):
            wanted |= events.PY_YIELD | events.PY_RESUME
        wanted |= (events.LINE if target.marks else 0) | (events.CALL if target.texts or target.asking.calls else 0)
        _monitoring.set_local_events(self.tool, target.code, wanted)


def _rows_written(frame: FrameType) -> int | None:
    """Return the number of rows that a cursor among the variables of a function reports."""
    for value in frame.f_locals.values():
        # An object that makes up its attributes is no cursor, and would run code of the program.
        is_cursor = inspect.getattr_static(value, "rowcount", None) is not None
        count = getattr(value, "rowcount", None) if is_cursor else None
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
    events = CodeEvents(plan, SpanWriter(plan["pipeline"], has_content))
    events.begin()
    if os.environ.get("GAPWATCH_INSTRUMENT_PID") == str(os.getpid()):
        atexit.register(events.tell_if_blind)
