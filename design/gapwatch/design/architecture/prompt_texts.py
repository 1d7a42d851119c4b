"""Finds the texts that an expression stands for: constants, files and their entries, through names and functions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from gapwatch.design.architecture.attributes import AssignedAttributes, HeldObjects
from gapwatch.design.architecture.claimed_code import ClaimedCode
from gapwatch.design.architecture.constants import Constants
from gapwatch.design.architecture.prompt_flow import (
    Carried,
    carried,
    flowing_into,
    possible_texts,
    prompts_given,
    results_of,
)
from gapwatch.design.architecture.text_shapes import (
    MAKES_AGENT,
    MAKES_MODEL,
    NAMES_MODEL,
    TELLS_PEOPLE,
    entries_below,
    files_chosen,
    gives_prompt,
    is_path,
    is_prompt,
    is_signature,
    paths_in,
    peeled,
    signature_text,
    template_fields,
    text_and_fields,
    without_descriptions,
    written_path,
)
from gapwatch.design.patterns.code_walk import arguments_of, own_expressions, target_names, text_of, walk
from gapwatch.design.patterns.hit import Subject
from gapwatch.design.patterns.library_uses import CodePlace
from gapwatch.design.source.ir import (
    Expr,
    Stmt,
    constant_of,
    docstring,
    index_of,
    is_call,
    is_member,
    is_name,
    is_text,
    line_of,
    member_of,
    name_of,
    owner_of,
    targets_of,
    value_of,
)
from gapwatch.design.source.program import last_name
from gapwatch.design.source.text_files import FileText

MIN_TASK = 80  # characters of a text that can be the task of a prompt by itself
#: Most texts of one expression.
_MOST = 6
#: Most names and functions in a row that an expression is followed through.
_MAX_DEPTH = 5
#: Most keys in a row, most data files that one value holds, most lines from a statement's first to a text in it.
_MAX_KEYS, _MAX_DATA, _FAR = 4, 60, 60


@dataclass(frozen=True)
class PromptText:
    """A text that looks like a prompt.

    Attributes:
        name: Variable, constant or key that holds it; may be empty.
        text: Its constant parts, with `{name}` for the variable ones.
        fields: Names of the variable parts.
        place: Its lines.
    """

    name: str
    text: str
    fields: list[str]
    place: CodePlace
    is_signature: bool = False  # of a class of DSPy


Found = dict[str, PromptText]


class PromptTexts:
    """The texts of expressions.

    Args:
        code: The functions.
    """

    def __init__(self, code: ClaimedCode) -> None:
        self.code = code
        self.by_name: dict[str, dict[tuple[str, int], list[PromptText]]] = {}  # filled by `prompts`
        self._program = code.material.program
        self._constants = Constants(self._program)
        self._files = self._program.texts
        self._lines: dict[str, list[str]] = {}
        self._prompts: dict[str, list[tuple[tuple[str, ...], FileText]]] = {}
        self._below: dict[tuple[str, tuple[frozenset[str], ...], frozenset[str], bool], list[FileText]] = {}
        self._data: dict[tuple[str, str, int], list[str]] = {}
        self._attributes = AssignedAttributes(self._program, code.material.sites)
        self._objects = HeldObjects(self._program, code.material.sites, self._constants, self._attributes)

    def note(
        self, e: Expr, subject: Subject, name: str, line: int, out: Found, given: frozenset[str] = frozenset()
    ) -> None:
        """Add the texts that an expression of a function stands for.

        Args:
            e: The expression.
            subject: Its function, or the code of its module.
            name: Variable that it is assigned to; may be empty.
            line: Its line.
            out: Texts by themselves.
            given: Constant texts that the caller passes; they say which of several files or entries is meant.
        """
        self._note(e, subject, name, line, out, given, 0, set())

    def _note(
        self,
        e: Expr,
        subject: Subject,
        name: str,
        line: int,
        out: Found,
        given: frozenset[str],
        depth: int,
        seen: set[tuple[str, str]],
    ) -> None:
        place = CodePlace(subject.program.path(subject.info), line)
        pending = [(e, False)]
        calls: list[Expr] = []
        while pending and len(out) < _MOST:
            current, is_part = pending.pop()
            if is_call(current) and last_name(current) in TELLS_PEOPLE:
                continue
            if self._note_signature(current, subject, out):
                continue
            if self._note_entries(current, subject, out, given) or self._note_files(current, subject, out, given):
                continue
            self._note_text(current, name, place, subject, out, is_part)
            if depth < _MAX_DEPTH:
                made = list(self._objects.made_entries(current, subject))
                for value, holder, label, at in made or self._behind(current, subject):
                    step = (holder.symbol, f"{at} {label}")
                    if step not in seen:
                        seen.add(step)
                        for s, inner in flowing_into(holder, [value], at if made else 0):
                            where = line_of(s) if s is not None else at
                            self._note(inner, holder, label, where, out, given, depth + 1, seen)
                if made:
                    continue
                if is_call(current):
                    calls.append(current)
            is_part = current[0] in ("l", "t", "o")
            # What describes a tool or a setting is no task of who uses it.
            pending.extend((inner, is_part) for inner in reversed(without_descriptions(current)))
        for call in calls:
            self._note_built(call, subject, out, depth, seen)

    def _behind(self, e: Expr, subject: Subject) -> Iterator[tuple[Expr, Subject, str, int]]:
        """Yield what a name, member or entry was given: (value, function, name, line)."""
        if e[0] not in "nas":
            return
        found = self._constants.find(e, subject.info.module, subject.info.owner)
        if found is not None:
            value, place = found
            if last_name(e).isupper() and NAMES_MODEL.search(last_name(e)):
                # What a registry of models says of one is written for people.
                return
            holder = self._objects.body(place.path)
            # Of a dictionary of prompts only the entries count whose keys are read.
            if holder is not None and value[0] != "d":
                yield value, holder, str(index_of(e)[1]) if e[0] == "s" else last_name(e), place.line
            return
        if is_member(e) and owner_of(e) in (("n", "self"), ("n", "cls")) and subject.info.owner >= 0:
            for holder, value, line in self._attributes.of(subject.info.owner, member_of(e)):
                yield value, holder, member_of(e), line
        elif is_member(e):
            for holder, value, line in self._objects.field(owner_of(e), member_of(e), subject):
                if value[0] != "d":
                    yield value, holder, member_of(e), line
        elif is_name(e):
            for holder, line, value in prompts_given(self.code, subject, name_of(e)):
                yield value, holder, name_of(e), line
            yield from self._nested_function(e, subject)

    def _nested_function(self, e: Expr, subject: Subject) -> Iterator[tuple[Expr, Subject, str, int]]:
        """Yield what a function inside this one returns, where it is handed on as a value."""
        for s in subject.statements:
            if s[0] == "def":
                number = self._program.first_function[subject.info.module] + s[2]
                inner = Subject(subject.program, subject.sites, self._program.functions[number])
                if inner.ir.name == e[1]:
                    for at in inner.statements:
                        if at[0] == "return" and (value := value_of(at)) is not None:
                            yield value, inner, inner.ir.name, line_of(at)

    def _note_built(self, call: Expr, subject: Subject, out: Found, depth: int, seen: set[tuple[str, str]]) -> None:
        """Note the texts of a function that makes the prompt: `self._messages(question)`."""
        given = frozenset(constant_of(a) for a in arguments_of(call) if is_text(a))
        edges = subject.inside(call)
        name = last_name(call).lower()
        is_answer = any(edge.dst in self.code.reaching(_MODELS) for edge in edges) and not MAKES_AGENT.search(name)
        if is_answer or MAKES_MODEL.search(name):
            return
        for edge in edges:
            builder = self.code.subject(edge.dst)
            if builder is None:
                continue
            if (step := (edge.dst, " ".join(sorted(given)))) in seen:
                continue
            seen.add(step)
            has_task = any(len(text.text) >= MIN_TASK for text in out.values())
            if not gives_prompt(builder.ir.name.lower(), has_task):
                continue
            flows = [(f or s, e) for s, value in results_of(builder) for f, e in flowing_into(builder, [value])]
            for s, inner in flows or _all_of(builder):
                self._note(inner, builder, target_name(s), line_of(s), out, given, depth + 1, seen)

    def _note_signature(self, e: Expr, subject: Subject, out: Found) -> bool:
        """Note what a class of DSPy tells a model, where an expression is its name; return whether it is one."""
        number = self._objects.class_named(e, subject)
        cls = self._program.classes[number] if number is not None else None
        if cls is None or not is_signature(cls.ir):
            return False
        text, fields = signature_text(cls.ir)
        if text and is_prompt(text):
            place = CodePlace(self._program.index.modules[cls.module].path, cls.ir.line, cls.ir.end)
            out[text] = PromptText(cls.ir.name, text, fields, place, True)
        return True

    def _note_text(self, e: Expr, name: str, place: CodePlace, subject: Subject, out: Found, is_part: bool) -> None:
        found = text_and_fields(e)
        if found is not None and found[0] not in out and is_prompt(found[0]):
            fields = list(dict.fromkeys([*found[1], *template_fields(found[0])]))
            at = self._located(found[0], place, subject)
            # Of a text that is put together, the place begins with its first part.
            at = CodePlace(at.path, place.line, max(at.end, at.line)) if is_part else at
            out[found[0]] = PromptText(name, found[0], fields, at)

    def _located(self, text: str, place: CodePlace, subject: Subject) -> CodePlace:
        """Return the lines of a text that begins in a statement or a little below its first line."""
        file = self._program.files[subject.info.module]
        head = next((line.strip() for line in text.split("\n") if line.strip()), "").partition("{")[0][:40]
        if file is None or len(head) < 5:
            return place
        lines = self._lines.get(file.path)
        if lines is None:
            lines = self._lines[file.path] = file.source.decode("utf-8", "replace").split("\n")
        for number in range(place.line, min(place.line + _FAR, len(lines)) + 1):
            if head in lines[number - 1]:
                first = number - (1 if text.startswith("\n") and number > place.line else 0)
                return CodePlace(place.path, first, first + text.rstrip().count("\n"))
        return place

    # -- files -------------------------------------------------------------------------------------------------

    def _note_files(self, e: Expr, subject: Subject, out: Found, given: frozenset[str]) -> bool:
        """Note the plain text files that a path names; return whether the expression is such a path."""
        near = subject.program.path(subject.info)
        for written, is_stem in paths_in(e, bool(is_call(e) and subject.inside(e))):
            found = [p for p in self._files.named(written, near, is_stem) if not self._files.is_keyed(p)]
            if "*" in written:
                found = files_chosen(found, given)
            for text in (whole := [text for path in found if (text := self._files.text(path)) is not None]):
                self._note_file(text, text.path.rpartition("/")[2].partition(".")[0], out)
            if whole:
                return not is_stem
        return False

    def _note_file(self, text: FileText, name: str, out: Found) -> None:
        if is_prompt(text.text):
            place = CodePlace(text.path, text.line, text.end)
            out.setdefault(text.text, PromptText(name, text.text, template_fields(text.text), place))

    def _note_entries(self, e: Expr, subject: Subject, out: Found, given: frozenset[str]) -> bool:
        """Note the entries of a data file that keys lead to: `prompts["system"]`, `settings.review.system`."""
        keys: list[frozenset[str]] = []
        root = e
        steps: list[tuple[Expr, list[frozenset[str]]]] = []
        while len(keys) < _MAX_KEYS and (inner := peeled(root)) is not None:
            root, key = inner
            keys = [possible_texts(self.code, subject, key, given), *keys]
            steps.append((root, keys))
        # The longest chain of keys says most.
        for held, wanted in reversed(steps):
            found = [t for path in self._data_files(held, subject, 0) for t in self._entries(path, wanted, given)]
            if not found and len(wanted) > 1 and all(wanted):
                found = [t for path in self._settings for t in self._entries(path, wanted, given, is_whole=True)]
            if found and len(found) <= _MOST:
                for text in found:
                    self._note_file(text, max(wanted[-1], default=""), out)
                return True
            if self._note_fields(held, wanted, subject, out, given):
                return True
        return False

    def _note_fields(
        self, held: Expr, wanted: list[frozenset[str]], subject: Subject, out: Found, given: frozenset[str]
    ) -> bool:
        """Note the texts of an object's fields, and of dictionaries in them: `settings.prompts["rag"]`."""
        every = list(self._objects.entries(held, subject))
        found = entries_below(
            [(keys, (holder, e, line)) for keys, holder, e, line in every], wanted, given, is_whole=True
        )
        before = len(out)
        for holder, e, line in found if len(found) <= _MOST else ():
            place = CodePlace(holder.program.path(holder.info), line)
            self._note_text(e, max(wanted[-1], default=""), place, holder, out, False)
        return len(out) > before

    def _entries(
        self, path: str, keys: list[frozenset[str]], given: frozenset[str], is_whole: bool = False
    ) -> list[FileText]:
        """Return the prompts of a file below some keys, at most `_MOST`, else none."""
        asked = path, tuple(keys), given, is_whole
        if asked not in self._below:
            if path not in self._prompts:
                self._prompts[path] = [(k, t) for k, t in self._files.entries(path).items() if is_prompt(t.text)]
            out = entries_below(self._prompts[path], keys, given, is_whole)
            self._below[asked] = out if len(out) <= _MOST else []
        return self._below[asked]

    def _data_files(self, e: Expr, subject: Subject, depth: int) -> list[str]:
        """Return the data files whose contents an expression holds."""
        # What is found from here depends on the steps that are left.
        key = (subject.symbol, text_of(e), depth)
        if key in self._data or depth > _MAX_DEPTH:
            return self._data.get(key, [])
        self._data[key] = []
        near = subject.program.path(subject.info)
        out: dict[str, None] = {}
        for _, value in flowing_into(subject, [e]):
            for inner in walk(value):
                written = written_path(inner)
                if written is not None and is_path(written):
                    out.update(dict.fromkeys(p for p in self._files.named(written, near) if self._files.is_keyed(p)))
                if is_member(inner) and member_of(inner) in _CREWS:
                    # What crewAI reads where the class does not say otherwise.
                    out.update(dict.fromkeys(self._files.named(_CREWS[member_of(inner)], near)))
                for behind, holder, _, _ in self._behind(inner, subject):
                    out.update(dict.fromkeys(self._data_files(behind, holder, depth + 1)))
                for edge in subject.inside(inner) if is_call(inner) else ():
                    builder = self.code.subject(edge.dst)
                    for given in self.code.returned(builder) if builder is not None else ():
                        if builder is not None:
                            out.update(dict.fromkeys(self._data_files(given, builder, depth + 1)))
        self._data[key] = list(out)[:_MAX_DATA]
        return self._data[key]

    @cached_property
    def carried(self) -> dict[str, list[Carried]]:
        """Prompts that are handed to frameworks, by file."""
        out: dict[str, list[Carried]] = {}
        for one in carried(self.code.material):
            out.setdefault(self._program.path(one.holder.info), []).append(one)
        return out

    @cached_property
    def _settings(self) -> list[str]:
        """Data files that some code names, whose entries a settings library gives as members."""
        out: dict[str, None] = {}
        for file in self._program.files:
            if file is None or file.tags:
                continue
            for written in _DATA_NAME.findall(file.source):
                out.update(dict.fromkeys(self._files.named(written.decode("utf-8", "replace"), file.path)))
        return list(out)


_MODELS = frozenset({"llm_chat"})
#: Attributes of a crew that hold the files of its agents and tasks.
_CREWS = {"agents_config": "config/agents.yaml", "tasks_config": "config/tasks.yaml"}
_DATA_NAME = re.compile(rb"[\"']([\w./-]{1,150}\.(?:ya?ml|toml|json))[\"']")


def _all_of(subject: Subject) -> list[tuple[Stmt, Expr]]:
    skip = ("k", docstring(subject.ir.body))
    kept = (s for s in subject.statements if s[0] not in ("raise", "assert"))
    return [(s, e) for s in kept for e in own_expressions(s) if e != skip]


def target_name(s: Stmt) -> str:
    """Return the first name that a statement assigns to; empty for other statements."""
    return next(iter(target_names(targets_of(s)[0])), "") if s[0] == "assign" else ""
