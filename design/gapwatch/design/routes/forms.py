"""Classifies values that are given back: result of a call, fixed text, argument, nothing, error."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from gapwatch.design.patterns.code_walk import arguments_of, callee_text, names_in, target_names, text_of, unwrapped
from gapwatch.design.routes.reaches import is_producer
from gapwatch.design.source.ir import (
    Expr,
    Stmt,
    callee_of,
    constant_of,
    is_call,
    is_text,
    keywords_of,
    members_in,
    operand_of,
    operands_of,
    pairs_in,
    positional_of,
    target_of,
    targets_of,
    text_parts,
    value_of,
)
from gapwatch.design.source.program import last_name

#: Values inside values that are read.
_FORM_DEPTH = 10
ERROR_NAME = re.compile(r"error|exception|failure|failed|abort|reject|empty|abstain|unavailable|not_found", re.I)
#: Most texts in a row that may stand for a failure.
_MOST_TEXTS = 4
_ERROR_TEXT = re.compile(
    r"^\W*(?!(no|zero|without|if|when|how|the|fix|handle)\b)(\w+ ){0,2}"
    r"(error|exception|fail(ed|ure|s)?|traceback|could not|couldn't|unable to|invalid|timed out|timeout)\b",
    re.I,
)
#: Names of constants that stand in for an answer, whatever they say.
_STANDS_IN = re.compile(r"FALLBACK|DEFAULT|CANNED")
_BEFORE = re.compile(r"prior|previous|attempt|retry")
#: Two words and more.
SENTENCE = re.compile(r"\w\W*\s+\w")
#: Functions that put an answer into another shape.
WRAPS = frozenset({"dumps", "format", "join", "encode", "jsonify", "format_sse", "str", "dict", "list", "tuple"})
#: What a library runs next: nodes of a graph.
STEPS = frozenset({"Command", "Send"})
#: Arguments that say who or what a message is of, and not what it says.
_LABELS = frozenset({"name", "role", "id", "tool_call_id", "goto", "author", "source", "sender"})
_FAILED_FIELD = re.compile(r"^(error|errors|error_message|exception|err)$", re.I)
_FAILED_WORD = re.compile(r"\w*(error|failed|failure)\w*|fail|invalid|timed_?out|timeout", re.I)
#: Fields that say how something went by a word, and by yes or no.
STATUS_FIELDS = frozenset({"status", "type", "event"})
_SUCCESS_FIELDS = frozenset({"success", "ok", "succeeded", "completed"})
_FAILURE_FIELDS = frozenset({"is_error", "isError", "failed", "has_error"})
_EXIT_CODES = frozenset({"exit_code", "returncode", "return_code"})
_SUCCESS_WORDS = frozenset({"Success", "success", "SUCCESS", "ok", "OK"})


class Forms:
    """Tells what a value is: `call`, `text` (a fixed answer), `given`, `empty` or `error`.

    Args:
        before: Statements whose assignments count.
        caught: Name of the exception; empty for none.
        fields_of: Names of the fields of a call that only puts its arguments into an answer; None for any other call.
    """

    def __init__(
        self,
        before: Iterable[Stmt],
        caught: str,
        fields_of: Callable[[Expr], Sequence[str] | None] = lambda _: None,
    ) -> None:
        self._caught = caught
        self._fields_of = fields_of
        self._values: dict[str, list[Expr]] = {}
        self._failures: dict[str, object] = {}
        for s in before:
            if s[0] == "assign":
                for name, value in bound_by(s):
                    self._values.setdefault(name, []).append(value)
                self._note_failure(s)
        self.bound = {name: values[-1] for name, values in self._values.items()}

    def _note_failure(self, s: Stmt) -> None:
        """Remember, by its name, the field of a literal dictionary whose word says failure, until it is set again."""
        value = value_of(s)
        for target in targets_of(s):
            owner, _, key = text_of(target).partition("[")
            if not key or key.strip("'\"]") == self._failures.get(owner):
                self._failures.pop(owner, None)
            if not key and value is not None and value[0] == "d":
                said = (k[1] for k, v in pairs_in(value) if k is not None and is_text(v) and self.says_error(v))
                field = next((name for name in said if name in STATUS_FIELDS), None)
                if field is not None:
                    self._failures[owner] = field

    def is_failed(self, value: Expr) -> bool:
        """Return whether a value is a dictionary that was made with a word of failure, by its name."""
        return value[0] == "n" and text_of(value) in self._failures

    def of(self, value: Expr, depth: int = 0) -> str:
        """Return the form of a value."""
        e = unwrapped(value) or value
        tag = e[0]
        if depth > _FORM_DEPTH:
            return "given"
        if tag in "b?yY":
            inner = operands_of(e)[0] if tag == "b" else e[2] if tag == "?" else operand_of(e)
            return self.of(inner, depth + 1) if inner is not None else "empty"
        if self._caught and any(n.partition(".")[0] == self._caught for n in names_in(e)):
            # A further attempt that is told of the one before is no failure.
            is_told = is_call(e) and any(_BEFORE.search(n or "") for n, _ in keywords_of(e))
            return "call" if is_told else "error"
        if tag == "k":
            return _of_constant(e)
        if tag in ("l", "t", "S"):
            members = list(members_in(e))
            # Many fixed texts are a table, whatever one of them says.
            is_table = len(members) > _MOST_TEXTS and all(map(is_text, members))
            return "text" if is_table else _of_parts(self.of(one, depth + 1) for one in members)
        if tag == "d":
            return self._of_fields([(k[1] if k is not None and k[0] == "k" else "", v) for k, v in pairs_in(e)], depth)
        if is_call(e):
            return self._of_call(e, depth)
        if tag in ("f", "o"):
            return self._of_text(e, depth)
        if tag in ("lc", "gc", "sc", "dc"):
            return "call"
        return self._of_name(e, depth)

    def _of_name(self, e: Expr, depth: int) -> str:
        name = text_of(e)
        last = name.rpartition(".")[2]
        root = e
        while root[0] in ("a", "s"):
            root = root[1]
        if is_call(root) and root is not e:
            return "call" if is_producer(root) else self.of(root, depth + 1)
        if name in self._failures:
            return "error"
        if name in self.bound:
            # A dictionary that was made before may have been filled since.
            made = unwrapped(self.bound[name]) or self.bound[name]
            is_filled = depth == 0 and made[0] in ("d", "l")
            is_filled = is_filled or (depth <= 1 and is_call(made) and last_name(made) == "dict")
            form = "given" if is_filled else self.of(self.bound[name], depth + 1)
            # Another branch may have bound an answer.
            is_one_of_two = form == "error" and any(self.of(v, depth + 1) == "call" for v in self._values[name][:-1])
            return "given" if is_one_of_two else form
        if last.isupper() and len(last) > 1:
            return "error" if ERROR_NAME.search(last) and not _STANDS_IN.search(last) else "text"
        return "given"

    def _of_text(self, e: Expr, depth: int) -> str:
        parts = list(text_parts(e)) if e[0] == "f" else [p[1] if p[0] == "k" else p for p in operands_of(e)]
        texts = [p for p in parts if isinstance(p, str)]
        if texts and texts[0] is parts[0] and _ERROR_TEXT.search(texts[0]):
            return "error"
        # A text that holds what a function says of errors is a text; one that holds an exception stands for it.
        inner = [p for p in parts if isinstance(p, tuple)]
        forms = {"call" if is_call(p) and ERROR_NAME.search(last_name(p)) else self.of(p, depth + 1) for p in inner}
        if any(SENTENCE.search(text) for text in texts):
            forms.add("text")
        return _of_parts(forms)

    def _of_call(self, e: Expr, depth: int) -> str:
        name = last_name(e)
        if ERROR_NAME.search(name):
            return "error"
        if self._is_told(e, depth):
            return "error"
        if callee_of(e)[0] == "a" and not arguments_of(e) and not is_producer(e):
            return self.of(callee_of(e)[1], depth + 1)
        fields = [("", a) for a in positional_of(e)] + [(n or "", v) for n, v in keywords_of(e) if n not in _LABELS]
        if name in STEPS:
            # The node that follows is no answer; what it is told may be one.
            told = [("", v) for n, v in keywords_of(e) if n == "update"] if name == "Command" else fields[1:]
            return self._of_fields(told, depth) if told else "text"
        if name == "format" and callee_of(e)[0] == "a" and is_text(callee_of(e)[1]):
            fields = [("", callee_of(e)[1]), *fields]
        if name.lstrip("_")[:1].isupper() or name in WRAPS:
            return self._of_fields(fields, depth)
        if is_producer(e):
            return "call"
        receiver = callee_of(e)
        return self.of(receiver[1], depth + 1) if receiver[0] == "a" else "given"

    def _is_told(self, e: Expr, depth: int) -> bool:
        """Return whether a call puts a word of failure, or an error, into an answer."""
        names = self._fields_of(e)
        if names is None:
            return False
        placed = list(zip((*names, *[""] * len(positional_of(e))), positional_of(e), strict=False))
        if any(value[0] == "k" and self.says_error(value) for _, value in placed):
            return True
        fields = [*placed, *((n or "", v) for n, v in keywords_of(e))]
        certain = [(n, v) for n, v in fields if self._is_certain(v)]
        return self._of_fields(certain, depth) == "error"

    def _is_certain(self, value: Expr) -> bool:
        """Return whether a value tells its form: no key in capitals, and no name that may hold a good value too."""
        is_key = is_text(value) and value[1].isupper()
        return not is_key and (len(self._values.get(text_of(value), ())) <= 1 or self.says_error(value))

    def _of_fields(self, fields: Sequence[tuple[object, Expr]], depth: int) -> str:
        if any(name in STATUS_FIELDS and value[0] == "k" and value[1] in _SUCCESS_WORDS for name, value in fields):
            return "call"
        forms = []
        pairs = [(name, value, self.of(value, depth + 1)) for name, value in fields]
        for name, value, form in pairs:
            # The error of something that is reported on, beside its other facts, is no failure of this function.
            is_report = form in ("given", "call") and any(f in ("given", "call") and n != name for n, _, f in pairs)
            is_flag = (name in _SUCCESS_FIELDS and value == ("k", False)) or (
                name in _FAILURE_FIELDS and value == ("k", True)
            )
            is_status = name == "status_code" and value[0] == "k" and isinstance(value[1], int) and value[1] >= 400
            is_status = is_status or (name in _EXIT_CODES and value[0] == "k" and value[1] not in (0, None))
            is_named = isinstance(name, str) and bool(_FAILED_FIELD.search(name))
            is_error = is_named and form != "empty" and not is_report
            if is_flag or is_status or is_error or (name in STATUS_FIELDS and self.says_error(value)):
                return "error"
            # `"type": "FOREIGN_KEY"` says what it is.
            is_kind = name in STATUS_FIELDS and is_text(value) and value[1].isupper() and len(pairs) > 1
            forms.append("given" if is_kind else form)
        return _of_parts(forms)

    def says_error(self, value: Expr) -> bool:
        """Return whether a value is a word of failure, or a name that is bound to such words only."""
        values = self._values.get(text_of(value), [value]) if value[0] == "n" else [value]
        texts = [one[1] if one[0] == "k" else text_of(one).removesuffix(".value").rpartition(".")[2] for one in values]
        return all(isinstance(text, str) and _FAILED_WORD.fullmatch(text) for text in texts)


def _of_constant(e: Expr) -> str:
    value = constant_of(e)
    if isinstance(value, str) and value.strip():
        is_sentinel = value.isupper() and (ERROR_NAME.search(value) is not None or re.fullmatch(r"\w+_\w+", value))
        return "error" if _ERROR_TEXT.search(value) or is_sentinel else "text"
    return "empty" if not isinstance(value, (int, float)) or not value or value in (True, -1) else "text"


def _of_parts(forms: Iterable[str]) -> str:
    found = set(forms)
    return next((form for form in ("error", "call", "text", "given") if form in found), "empty")


def bound_by(s: Stmt) -> Iterator[tuple[str, Expr]]:
    """Yield (name, value) of what a statement binds, or puts into a list or a queue."""
    if s[0] == "assign" and (value := value_of(s)) is not None:
        for target in targets_of(s):
            for name in target_names(target):
                yield name.partition("[")[0], value
    elif s[0] == "aug":
        yield text_of(target_of(s)), s[4]
    elif s[0] == "for":
        for name in target_names(target_of(s)):
            yield name, s[3]
    elif s[0] == "with":
        for e, target in s[2]:
            if target is not None:
                for name in target_names(target):
                    yield name, e
    elif s[0] == "expr" and is_call(s[2]) and last_name(s[2]) in ("append", "extend", "put", "add"):
        owner = callee_text(s[2]).rpartition(".")[0]
        for argument in arguments_of(s[2]):
            yield owner, argument
