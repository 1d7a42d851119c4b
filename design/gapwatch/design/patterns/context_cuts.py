"""Finds where what a model is sent is cut because it does not fit: messages, documents or rows over a budget."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gapwatch.design.patterns.code_walk import (
    arguments_of,
    calls_in,
    constants_in,
    names_in,
    own_expressions,
    target_names,
    text_of,
    walk,
)
from gapwatch.design.patterns.hit import PatternHit, Subject
from gapwatch.design.source.ir import (
    Body,
    Expr,
    Stmt,
    body_of,
    branches_of,
    callee_of,
    is_call,
    is_member,
    iterable_of,
    line_of,
    operands_of,
    operators_of,
    owner_of,
    targets_of,
    test_of,
    value_of,
)
from gapwatch.design.source.program import inner_bodies, last_name, statements

#: Names of numbers of tokens, and of what holds them.
_TOKENS = re.compile(
    r"(^|_)(num_?|n_?)?tokens?(_|$)|token(_?count|_?limit|s?_used)|context_?(window|length|size|limit)", re.I
)
#: Sizes of pieces of a splitter and of a batch: what does not fit goes into the next one.
_PIECES = re.compile(
    r"chunk_?(size|overlap)|overlap|batch|per_(minute|request|call)|splitter|stride|rate_?limit|tpm", re.I
)
#: Functions that split documents for an index, and modules and classes of such: nothing of a document is left out.
_SPLITS = re.compile(r"^_*(re_?)?(chunk|split)(_|$)|chunk(er|ing)|split(ter|ting)", re.I)
_HOLDS_SPLITS = re.compile(r"chunk(er|ing|ers)?$|split(ter|ting|ters)?$", re.I)
#: Functions that keep what they are given: an item above the limit that becomes a piece of its own is not left out.
_KEEPS = re.compile(r"^_*(append|extend|add|insert|put|push|emit|write|save|store|flush)(left|_|$)", re.I)
#: What a model writes, and tokens of accounts: nothing is cut that it is sent.
_OTHERS = re.compile(
    r"(auth|access|refresh|bearer|api|csrf|id|secret|user)_?tokens?|output_tokens|completion_tokens|cost", re.I
)
_EXCEEDED = re.compile(r"(token|context).*(limit|length|window|exceed|overflow|too_long)|too_(long|many_tokens)", re.I)
#: Calls by which something is left out.
_CUTS = re.compile(r"(^|_)(trim|truncate|prune|shrink|reduce|clip|shorten|drop|cut)(_|$)|^(pop|popleft|remove)$", re.I)
#: Names of parts that a model is sent.
_PARTS = re.compile(
    r"(^|_)(docs?|documents?|chunks?|passages?|messages?|history|snippets?|findings|contexts?|contents?|sources?"
    r"|(extraction_)?requests|sections|transcripts?|pages|nodes|examples)$",
    re.I,
)
#: Words by which a text says that the rest of it is left out.
_SAID = re.compile(r"truncat|omitted|left out|cut off|shortened", re.I)
_LIMIT = re.compile(r"max_|_max|most|budget|[A-Z]_LIMIT", re.I)
_PATTERN = "cuts_context"


def find_context_cuts(subject: Subject) -> Iterator[PatternHit]:
    """Yield the lines at which a function leaves something out of what a model is sent, because it does not fit."""
    *around, name = subject.symbol.split(".")
    if subject.ir.kind == "module" or _SPLITS.search(name) or any(map(_HOLDS_SPLITS.search, around[-2:])):
        return
    seen: set[int] = set()
    for block, loop in _blocks(subject.ir.body, None):
        for s in block:
            for line, kind, test in _cuts(s, loop):
                if line not in seen:
                    seen.add(line)
                    evidence = f"{kind} where {' '.join(text_of(test).split())}"[:160]
                    yield subject.hit(_PATTERN, line, line, "budget", evidence, 0.8)


def _blocks(body: Body, loop: Expr | None) -> Iterator[tuple[Body, Expr | None]]:
    """Yield a block and those inside it, each with what the loop over things goes through in which it lies."""
    yield body, loop
    for s in body:
        for inner in inner_bodies(s):
            yield from _blocks(inner, iterable_of(s) if s[0] == "for" else loop)


def _cuts(s: Stmt, loop: Expr | None) -> Iterator[tuple[int, str, Expr]]:
    """Yield (line, what is done, condition) of each cut of a statement.

    Args:
        s: The statement.
        loop: What the loop around it goes through; None without one.
    """
    if s[0] == "while" and _is_over(test_of(s)) and (what := _left_out(body_of(s), is_whole=True)):
        yield line_of(body_of(s)[0]), what[1], test_of(s)
    if s[0] != "if":
        return
    for test, block in branches_of(s):
        if _is_over(test) or any(is_call(e) and _EXCEEDED.search(last_name(e)) for e in walk(test)):
            if found := _left_out(block, is_whole=False):
                yield (*found, test)
            elif loop is not None and _is_over(test) and _leaves_out(block) and not _is_end(test, loop):
                yield line_of(block[-1]), "leaves out the rest", test
        elif (line := _sliced_to(test, block)) is not None:
            yield line, "keeps the first ones", test
        elif (line := _told_cut(test, block)) is not None:
            yield line, "keeps the beginning and says so", test
    fits = branches_of(s)[0][0]
    rest = s[3]
    if loop is not None and _is_under(fits) and _leaves_out(rest) and not _is_end(fits, loop):
        yield line_of(rest[-1]), "leaves out the rest", fits


def _is_over(test: Expr) -> bool:
    """Return whether a condition holds a number of tokens above a limit."""
    return any(e[0] == "q" and set(operators_of(e)) <= {">", ">="} and _is_of_tokens(e) for e in walk(test))


def _is_under(test: Expr) -> bool:
    return any(e[0] == "q" and set(operators_of(e)) <= {"<", "<="} and _is_of_tokens(e) for e in walk(test))


def _is_of_tokens(comparison: Expr) -> bool:
    names = [n.rpartition(".")[2] for n in names_in(comparison)]
    names += [last_name(e) for e in walk(comparison) if is_call(e)] + list(constants_in(comparison))
    is_bare = any(o[0] == "k" and o[1] in (0, 1, None) for o in operands_of(comparison))
    is_other = any(_PIECES.search(n) or _OTHERS.search(n) for n in names)
    return not is_bare and not is_other and any(_TOKENS.search(n) for n in names)


def _left_out(block: Body, is_whole: bool) -> tuple[int, str] | None:
    """Return (line, what is done) of the first statement of a block that leaves something out.

    Args:
        block: The block.
        is_whole: Whether blocks inside it count, too.
    """
    for s in statements(block) if is_whole else block:
        if s[0] == "del" or (s[0] in ("assign", "expr") and any(_is_cut(c) for c in calls_in((s,)))):
            return line_of(s), "leaves something out"
        value = value_of(s) if s[0] == "assign" else None
        if value is not None and value[0] == "s" and value[2][0] == "sl":
            return line_of(s), "keeps a part"
    return None


def _is_cut(call: Expr) -> bool:
    """Return whether a call leaves something out of a list or a text; `os.remove` deletes a file."""
    callee = callee_of(call)
    is_of_files = is_member(callee) and text_of(owner_of(callee)) in ("os", "shutil", "os.path")
    return bool(_CUTS.search(last_name(call))) and not is_of_files


def _leaves_out(block: Body) -> bool:
    """Return whether a block goes on or ends its loop, and keeps nothing elsewhere of what does not fit."""
    if (
        not block
        or block[-1][0] not in ("break", "continue")
        or any(_KEEPS.search(last_name(c)) for c in calls_in(block))
    ):
        return False
    inside = (e for s in statements(block) for own in own_expressions(s) for e in walk(own))
    return not any(e[0] in ("y", "Y") for e in inside)


def _is_end(test: Expr, loop: Expr) -> bool:
    """Return whether a condition asks for the end of what a loop goes through: `range(0, total, step)`, up to total."""
    bounds = {text_of(a) for a in arguments_of(loop)} if is_call(loop) and last_name(loop) == "range" else set()
    return any(text_of(o) in bounds for e in walk(test) if e[0] == "q" for o in operands_of(e))


def _told_cut(test: Expr, block: Body) -> int | None:
    """Return the line of `text = text[:1000] + "(truncated)"` under `len(text) > 1000`; None for other blocks."""
    compared = [e for e in walk(test) if e[0] == "q" and set(operators_of(e)) <= {">", ">="}]
    sized = {
        text_of(arguments_of(o)[0])
        for e in compared
        for o in operands_of(e)[:1]
        if is_call(o) and last_name(o) == "len" and arguments_of(o)
    }
    for s in block:
        value = value_of(s) if s[0] in ("assign", "return") else None
        if value is None or value[0] not in ("o", "f"):
            continue
        cut = [e for e in walk(value) if e[0] == "s" and e[2][0] == "sl" and text_of(e[1]) in sized]
        if cut and any(_SAID.search(text) for text in constants_in(value)):
            return line_of(s)
    return None


def _sliced_to(test: Expr, block: Body) -> int | None:
    """Return the line of `docs = docs[:MOST]` under `len(docs) > MOST`; None for other blocks."""
    compared = [e for e in walk(test) if e[0] == "q" and set(operators_of(e)) <= {">", ">="}]
    sized = {
        text_of(arguments_of(o)[0]): text_of(limit)
        for e in compared
        for o, limit in zip(operands_of(e)[:1], operands_of(e)[1:], strict=False)
        if is_call(o) and last_name(o) == "len" and arguments_of(o) and _LIMIT.search(text_of(limit))
    }
    for s in block:
        value = value_of(s) if s[0] == "assign" else None
        if value is None or value[0] != "s" or value[2][0] != "sl":
            continue
        name = text_of(value[1])
        bounds = {text_of(e) for e in value[2][1:] if e is not None}
        into = {n for t in targets_of(s) for n in target_names(t)}
        if name in into and sized.get(name) in bounds and _PARTS.search(name.rpartition(".")[2]):
            return line_of(s)
    return None
