"""Writes the spans of a design into the program, as a patch for `git apply` with plain OpenTelemetry."""

from __future__ import annotations

import ast
import difflib
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gapwatch.design.emission.planned_span import MarkedFunction, PlannedSpan, SpanMark
from gapwatch.design.emission.recorder_place import AbsoluteImports, recorder_of
from gapwatch.design.emission.recording_module import recording_module
from gapwatch.design.emission.reply_places import (
    FUNCTIONS,
    assigned_name,
    entered_name,
    entering,
    function_of,
    gone_through,
    hides_prompt,
    is_whole,
    names_file,
    reader_of,
    reading_loops,
    reply_call,
    stands_at_its_place,
    statements_by_line,
    streams,
    told_of,
    with_calls,
)
from gapwatch.design.source.lower import RECORDER as HELPER
from gapwatch.design.source.regular_file import read_regular
from gapwatch.design.source.scan import MAX_FILE_BYTES
from gapwatch.scorers.errors import JobError

#: Fields that events of the interpreter see and no line of the program does.
UNSEEN = {
    "unseen_attempts": "no line says the attempts of a library or of a function that calls itself",
}


@dataclass(frozen=True, order=True)
class Insertion:
    """A line to write into a file.

    Attributes:
        path: The file, relative to the root.
        line: The line above which it stands, 1-based.
        text: The line without its end.
        why: Field or span that it is for.
    """

    path: str
    line: int
    text: str
    why: str


@dataclass
class ProgramPatch:
    """Lines that make a program emit the spans of its design.

    Attributes:
        tells_prompts: Whether a span has what a model was sent.
        insertions: The lines, by file and place.
        wrapped: Place of each call inside of an expression around which the patch writes a function, and both of them.
        helpers: Paths of the module that they import.
        left_out: Place and reason of what cannot be written.
        text: The patch.
    """

    tells_prompts: bool = False
    insertions: list[Insertion] = field(default_factory=list)
    wrapped: list[tuple[str, str]] = field(default_factory=list)
    helpers: list[str] = field(default_factory=list)
    left_out: list[tuple[str, str]] = field(default_factory=list)
    text: str = ""


def make_patch(root: Path, planned: Sequence[PlannedSpan], paths: Iterable[str]) -> ProgramPatch:
    """Return the patch of a program.

    Args:
        root: The repository.
        planned: Spans to emit.
        paths: All files of the program, relative to it: how they import each other says how they find the helper.
    """
    made, imported = ProgramPatch(any("model_prompt" in s.start for s in planned)), AbsoluteImports(root, paths)
    by_path: dict[str, list[PlannedSpan]] = defaultdict(list)
    for span in planned:
        by_path[span.path].append(span)
    parts: list[str] = []
    for path, spans in sorted(by_path.items()):
        try:
            source = read_regular(root / path, MAX_FILE_BYTES).decode("utf-8")
            tree = ast.parse(source)
        except (OSError, SyntaxError, ValueError) as error:
            made.left_out.append((path, f"cannot be read by this Python: {error}"))
            continue
        lines = source.splitlines(keepends=True)
        found = _File(path, tree, lines, spans, made)
        inserted = found.insertions()
        if not inserted:
            continue
        helper, statement = recorder_of(root, path, tree, imported)
        inserted.append(Insertion(path, _first_line(tree), statement, HELPER))
        after = _with_lines(with_calls(lines, found.wrapped), inserted)
        try:
            ast.parse("".join(after))
        except SyntaxError as error:
            made.left_out.append((path, f"would not be Python any more: {error}"))
            continue
        made.insertions += inserted
        made.wrapped += [(f"{path}:{e.lineno}", f"{by}({told_of(e)})") for e, by in found.wrapped]
        if helper not in made.helpers:
            made.helpers.append(helper)
        parts.append(_diff(path, lines, after))
    for helper in sorted(made.helpers):
        if not (root / helper).exists():
            text = recording_module(HELPER)
            parts.append(_diff(helper, [], text.splitlines(keepends=True)))
    made.insertions.sort()
    made.text = "".join(parts)
    return made


def patch_program(root: Path, planned: Sequence[PlannedSpan], paths: Iterable[str], folder: Path) -> str:
    """Write the patch of a program as `instrument.patch`; return what was done, in words.

    Args:
        root: The repository.
        planned: Spans to emit.
        paths: All files of the program, relative to it.
        folder: Folder of the patch, created if missing.

    Raises:
        JobError: The folder cannot be written.
    """
    patch, path = make_patch(root, planned, paths), folder / "instrument.patch"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path.write_bytes(patch.text.encode("utf-8"))
    except OSError as error:
        raise JobError(f"{path}: cannot be written: {error.strerror}; give another folder") from error
    files, lines = len({i.path for i in patch.insertions}), len(patch.insertions) + len(patch.wrapped)
    left = len(patch.left_out) + sum(len(p.by_hand) for p in planned)
    return (
        f"{path}: {lines} lines in {files} files, with OpenTelemetry alone; apply it in {root} with"
        f" git apply. {left} fields cannot be written by it; the report names them."
    )


class _File:
    def __init__(
        self, path: str, tree: ast.Module, lines: list[str], spans: list[PlannedSpan], made: ProgramPatch
    ) -> None:
        self.path, self.lines, self.spans, self.made = path, lines, spans, made
        self.functions = dict(_functions(tree))
        self._statements: dict[str, dict[int, ast.stmt]] = {}
        self.wrapped: list[tuple[ast.expr, str]] = []
        #: Whether the function at hand reads a stream where a patch cannot see that it breaks.
        self.is_unseen = False

    def insertions(self) -> list[Insertion]:
        out: list[Insertion] = []
        for span in self.spans:
            function = self.functions.get(name := span.function.name)
            if function is None:
                why = "a page has no decorator" if name == "<module>" else f"no function {name}"
                self.made.left_out.append((f"{self.path}:{span.function.line}", why))
                continue
            unseen = [why for name, why in UNSEEN.items() if name in span.start and not span.above]
            self.made.left_out += [(f"{self.path}:{function.lineno}", why) for why in unseen]
            indent = " " * function.col_offset
            self.is_unseen = False
            for marked in (span.function, *span.inner):
                out += self._marks(marked, "model_errors" in span.start)
            text = f"{indent}{_decorator(span, self.is_unseen)}"
            out.append(Insertion(self.path, span.above or function.lineno, text, span.span))
        return sorted(set(out))

    def _marks(self, marked: MarkedFunction, counts: bool) -> Iterator[Insertion]:
        function = self.functions.get(marked.name)
        for mark in marked.marks:
            place = f"{self.path}:{mark.line}"
            if function is not None and marked.name not in self._statements:
                self._statements[marked.name] = statements_by_line(function)
            statement = self._statements[marked.name].get(mark.line) if function is not None else None
            if statement is None or self.lines[statement.lineno - 1][: statement.col_offset].strip():
                self.made.left_out.append((place, f"no statement of its own stands there, for {mark.field}"))
                continue
            if mark.action == "reply" and function is not None:
                yield from self._reply(mark, statement, function, counts)
                continue
            call = _note(mark, statement)
            if call is None:
                self.made.left_out.append((place, f"the value of {mark.field} has no name"))
                continue
            yield Insertion(self.path, statement.lineno, " " * statement.col_offset + call, mark.field)

    def _reply(self, mark: SpanMark, statement: ast.stmt, function: ast.AST, counts: bool) -> Iterator[Insertion]:
        """Yield the lines that read the reply of a model, or note the call that a function is to be around."""
        call = reply_call(statement, mark.line, str(mark.value))
        name, entered = assigned_name(statement, call), entered_name(statement, call)
        loops = list(reading_loops(statement, function, name or entered))
        if call is not None and self.made.tells_prompts and not hides_prompt(call):
            self._wrap(function_of(call), "asked")
        elif counts and call is not None and not names_file(call):
            self._wrap(function_of(call), "counted")
        elif counts:
            why = "a library looks at who calls it" if call is not None else "the call of the model is not found"
            self.made.left_out.append((f"{self.path}:{mark.line}", f"{why}, for model_errors"))
        if counts and call is not None:
            self._count(statement, function, call, {name, entered})
        for loop in loops:
            text = f"{' ' * loop.body[0].col_offset}{HELPER}.piece({ast.unparse(loop.target)})"
            yield Insertion(self.path, loop.body[0].lineno, text, mark.field)
        if name is not None and statement.end_lineno is not None:
            text = f"{' ' * statement.col_offset}{HELPER}.reply({name})"
            yield Insertion(self.path, statement.end_lineno + 1, text, mark.field)
        elif entered is not None and isinstance(statement, ast.With | ast.AsyncWith) and call is not None:
            first = statement.body[0]
            if first.lineno > (call.end_lineno or 0):
                yield Insertion(
                    self.path, first.lineno, f"{' ' * first.col_offset}{HELPER}.reply({entered})", mark.field
                )
        elif call is not None and not is_whole(statement, call):
            self._wrap(call, reader_of(statement, call))
        elif not isinstance(statement, ast.Return) and not loops:
            self.made.left_out.append((f"{self.path}:{mark.line}", "the reply of the model has no name"))

    def _wrap(self, e: ast.expr, function: str) -> None:
        text = f"{HELPER}.{function}"
        if not stands_at_its_place(e, self.lines):
            self.made.left_out.append((f"{self.path}:{e.lineno}", f"an expression inside of a text, for {text}"))
        elif (e, text) not in self.wrapped:
            self.wrapped.append((e, text))

    def _count(self, statement: ast.stmt, function: ast.AST, call: ast.expr, names: set[str | None]) -> None:
        """Count what is raised after the call of a model: where it is waited for, entered or gone through."""
        inside = call.value if isinstance(call, ast.Await) else call
        if inside is not call:
            self._wrap(inside, "waited_for")
        for item in entering(statement, function, call, assigned_name(statement, call)):
            self._wrap(item, "entered")
        loops = list(gone_through(statement, function, call, names))
        for one in loops:
            self._wrap(one, "chunks")
        if not loops and streams(inside) and not isinstance(statement, ast.Return):
            self.is_unseen = True
            place = f"{self.path}:{statement.lineno}"
            self.made.left_out.append((place, "a stream that breaks is not seen, for model_errors"))


def _functions(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            name = f"{prefix}{node.name}"
            if not isinstance(node, ast.ClassDef):
                yield name, node
            yield from _functions(node, f"{name}.")
        else:
            yield from _functions(node, prefix)


def _decorator(span: PlannedSpan, has_unseen_stream: bool) -> str:
    words = [_literal(span.span)]
    if span.is_there:
        words.append("is_there=True")
    else:
        words += [f"component={_literal(span.component)}", f"kind={_literal(span.kind)}"]
    words += [f"{n}={_literal(v)}" for n, v in sorted(span.start.items()) if n not in UNSEEN]
    words += ["is_around_attempts=1"] if span.above else []
    words += ["has_unseen_stream=1"] if has_unseen_stream else []
    return f"@{HELPER}.recorded({', '.join(words)})"


def _literal(value: str | int | None) -> str:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


def _note(mark: SpanMark, statement: ast.stmt) -> str | None:
    if mark.action == "add":
        return f'{HELPER}.count("{mark.field}")'
    if isinstance(mark.value, tuple):
        chosen = " else ".join(f"{_literal(value)} if {name or True}" for name, value in mark.value)
        return f"{HELPER}.ends({chosen} else None)"
    if mark.action == "ends":
        return f"{HELPER}.ends({_literal(mark.value)})"
    if mark.action == "set":
        return f'{HELPER}.note("{mark.field}", {_literal(mark.value)})'
    for node in ast.walk(statement):
        if not isinstance(node, ast.Call) or not node.lineno <= mark.line <= (node.end_lineno or 0):
            continue
        text: ast.expr | None = node.args[0] if node.args else None
        member = ""
        if isinstance(node.func, ast.Attribute) and node.func.attr == "json" and not node.args:
            # Not every object with that method has a text, and some raise where it is asked for.
            text, member = node.func.value, ', "text"'
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        is_parser = any(word in name.lower() for word in ("load", "json", "parse", "decode", "valid", "invoke"))
        if is_parser and text is not None and not any(isinstance(n, ast.Call | ast.Await) for n in ast.walk(text)):
            return f'{HELPER}.note("{mark.field}", {ast.unparse(text)}{member})'
    return None


def _first_line(tree: ast.Module) -> int:
    """Return the line of the first statement behind the docstring and the imports from `__future__`."""
    for position, node in enumerate(tree.body):
        is_text = position == 0 and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        is_future = isinstance(node, ast.ImportFrom) and node.module == "__future__"
        if not is_text and not is_future:
            decorators: list[ast.expr] = getattr(node, "decorator_list", [])
            return min(node.lineno, *(d.lineno for d in decorators), node.lineno)
    return 1


def _with_lines(lines: list[str], insertions: Iterable[Insertion]) -> list[str]:
    by_line: dict[int, list[str]] = defaultdict(list)
    end = "\r\n" if lines and lines[0].endswith("\r\n") else "\n"
    for insertion in sorted(insertions, key=lambda i: (i.line, i.why != HELPER, i)):
        by_line[insertion.line].append(insertion.text + end)
    return [text for number, line in enumerate(lines, 1) for text in (*by_line.get(number, ()), line)]


def _diff(path: str, before: list[str], after: list[str]) -> str:
    old, new = (_quoted(f"{side}/{path}") for side in "ab")
    head = f"diff --git {old} {new}\n" + ("new file mode 100644\n" if not before else "")
    body = ""
    for line in difflib.unified_diff(before, after, old if before else "/dev/null", new, n=3):
        body += line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
    return head + body


def _quoted(path: str) -> str:
    """Return a path as git spells it: in quotes where it holds a quote, a backslash or a control character."""
    signs = "".join(f"\\{ord(c):03o}" if c < " " or c in '"\\\x7f' else c for c in path)
    return path if signs == path else f'"{signs}"'
