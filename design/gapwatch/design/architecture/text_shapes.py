"""Decides which texts look like prompts, which look like paths of files, and what their variable parts are."""

from __future__ import annotations

import re
from string import Formatter
from typing import TypeVar

from gapwatch.design.patterns.code_walk import children, names_in, text_of
from gapwatch.design.source.ir import (
    Class,
    Expr,
    callee_of,
    constant_of,
    docstring,
    index_of,
    is_call,
    is_member,
    is_subscript,
    is_text,
    keywords_of,
    member_of,
    owner_of,
    pairs_in,
    positional_of,
    targets_of,
    text_parts,
    value_of,
)
from gapwatch.design.source.program import last_name
from gapwatch.design.source.scan import KEYED_SUFFIXES, PLAIN_SUFFIXES

#: Shortest prompt, in characters; shorter texts are labels and keys.
_MIN_PROMPT = 30
#: Most files that a path with a varying part can mean before it means any.
MAX_FILES = 8


T = TypeVar("T")


def peeled(e: Expr) -> tuple[Expr, Expr] | None:
    """Return the holder of an entry or member, and its key."""
    if is_subscript(e):
        return owner_of(e), index_of(e)
    if is_member(e):
        return owner_of(e), ("k", member_of(e))
    if is_call(e) and is_member(callee_of(e)) and member_of(callee_of(e)) == "get" and positional_of(e):
        return owner_of(callee_of(e)), positional_of(e)[0]
    return None


def written_path(e: Expr) -> str | None:
    """Return the path that an expression writes, with `*` for its varying parts; None where it writes none."""
    if is_text(e):
        return str(constant_of(e))
    if e[0] == "f":
        return "".join(part if isinstance(part, str) else "*" for part in text_parts(e))
    if e[0] == "o" and e[1] in ("/", "+"):
        parts = [written_path(part) for part in e[2]]
        if parts[-1] is None:
            return None
        joined = ("/" if e[1] == "/" else "").join(
            part if part is not None else ("" if i == 0 else "*") for i, part in enumerate(parts)
        )
        return joined if e[1] == "/" or parts[0] is not None else "*" + joined
    if is_call(e) and last_name(e) in ("join", "joinpath", "Path", "PurePath") and positional_of(e):
        parts = [written_path(part) for part in positional_of(e)]
        if last_name(e) == "join" and not (is_member(callee_of(e)) and "path" in text_of(callee_of(e))):
            return None
        if parts[-1] is None:
            return None
        return "/".join(part if part is not None else ("" if i == 0 else "*") for i, part in enumerate(parts))
    return None


def is_path(written: str) -> bool:
    """Return whether a text in code names a file that can hold prompts."""
    suffix = written.rpartition(".")[2].lower()
    return suffix != written.lower() and suffix in (PLAIN_SUFFIXES | KEYED_SUFFIXES)


def files_chosen(paths: list[str], given: frozenset[str]) -> list[str]:
    """Return the files that the texts of a caller choose; all where it passes none and they are few."""
    if given:
        fitting = [p for p in paths if any(g and (f"/{g}." in f"/{p}" or f"/{g}/" in f"/{p}") for g in given)]
        if fitting:
            return fitting[:MAX_FILES]
    return paths if len(paths) <= MAX_FILES else []


# -- what looks like a prompt --------------------------------------------------------------------------------------


def text_and_fields(e: Expr) -> tuple[str, list[str]] | None:
    """Return a constant text or f-string with `{name}` for its variable parts, and their names; None for others."""
    if is_text(e):
        return constant_of(e), []
    if e[0] == "f":
        parts, fields = [], []
        for part in text_parts(e):
            if isinstance(part, str):
                parts.append(part)
            else:
                name = text_of(part)
                fields.append(name.rpartition(".")[2] if "(" not in name else sorted(names_in(part) or {"value"})[0])
                parts.append("{" + fields[-1] + "}")
        return "".join(parts), fields
    return None


#: Names of functions that put together a prompt, or a chain with one.
_MAKES_PROMPT = re.compile(
    r"prompt|message|instruct|template|system|persona|render|format|build|compose|(^|_)(chain|runnable|synth\w*)(_|$)"
)
#: Names of functions that make an agent with its prompt, and of those that put together what a prompt is filled with.
MAKES_AGENT = re.compile(r"^_?(get|make|create|build|init\w*|setup)_(\w+_)?(agent|engine)$")
_MAKES_MATERIAL = re.compile(
    r"^_?(format|get|prepare|render|build)_(\w+_)?(docs?|documents?|passages?|chunks?)$"
    r"|^_?(fetch|search|retrieve|query|download|scrape|crawl)_"
)
#: Names of functions that make the client of a model, and of constants that hold which one is asked.
MAKES_MODEL = re.compile(r"(^|_)(model|llm|client|settings|config)s?$")
NAMES_MODEL = re.compile(r"(^|_)(MODEL|LLM)S?$")


def gives_prompt(name: str, has_task: bool) -> bool:
    """Return whether a function gives a prompt, by its name, and no material for the one that was found already."""
    is_maker = _MAKES_PROMPT.search(name) or MAKES_AGENT.search(name)
    return bool(is_maker or not has_task) and not _MAKES_MATERIAL.search(name)


#: Functions and methods that write logs, messages and error answers.
TELLS_PEOPLE = frozenset(
    {"debug", "info", "warning", "warn", "error", "exception", "critical", "log", "print", "echo", "HTTPException"}
)
#: Beginning of log and error messages.
_MESSAGE = re.compile(
    r"\W*(an? )?(\w+ )?(error|exception|warning|failed|failure|unable to|could ?n.t|could not|cannot|invalid|skipping"
    r"|unsupported|unknown|unexpected|deprecated|no such|retrying|timed? ?out)\b",
    re.I,
)
#: Beginning of what a tool gave, which code tells a model in its loop.
_OBSERVED = re.compile(r"\W*(observations?|tool (results?|outputs?))\b\W", re.I)


#: Beginning of a query of a graph database, and of the columns that one gives.
_QUERY = re.compile(
    r"\s*(((OPTIONAL )?MATCH|MERGE)\s+(\w+\s*=\s*)?\(|UNWIND\s+[\w.$]+\s+AS\b|CALL\s+[\w.]+\("
    r"|CREATE (FULLTEXT|VECTOR|INDEX|CONSTRAINT)\b|(RETURN\s+)?[\w.]+(\(\w*\))?(\.\w+)? AS \w+,)"
)
#: Signs of Chinese and Japanese, which write no spaces; two make a word.
_IDEOGRAM = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]")
#: What a template fills in, and its commands.
_VARYING = re.compile(r"\{\{.*?\}\}|\{%.*?%\}|\{#.*?#\}|\{\w*\}", re.S)


def is_prompt(text: str) -> bool:
    """Return whether a text is long enough for a prompt, and no address, statement, page or message."""
    return (
        len(text) >= _MIN_PROMPT
        and len(_VARYING.sub(" ", text).split()) + len(_IDEOGRAM.findall(text)) // 2 >= 5
        and not text.lstrip().lower().startswith(("http", "select ", "insert ", "create table", "<html", "<!doctype"))
        and not _QUERY.match(text)
        and not _MESSAGE.match(text)
        and not _OBSERVED.match(text)
    )


#: Keyword arguments that describe what is made.
_DESCRIBING = re.compile(
    r"^(name|description|help|help_text|doc|title|label|tooltip|placeholder)$"
    r"|^(tools?|retrieval|retriever|search|function|field|handoff)_(description|desc|help)$"
)


#: Keys of a message, or of what a model is asked.
_OF_MESSAGES = re.compile(
    r"content|text|system|user|human|assistant|prompt|message|parts|input|instruct|template|task|question|query|persona"
    r"|context|role|goal|request|kwargs|body"
)


def without_descriptions(e: Expr) -> list[Expr]:
    """Return what stands directly in an expression, without texts that describe what a call makes, or a result."""
    described = [v for n, v in keywords_of(e) if n and _DESCRIBING.search(n)] if is_call(e) else []
    if e[0] == "d":
        given = [(k, v) for k, v in pairs_in(e) if k is not None and is_text(k) and text_and_fields(v) is not None]
        described += [v for k, v in given if not _OF_MESSAGES.search(constant_of(k).lower())]
    return [inner for inner in children(e) if not any(inner is text for text in described)]


_JINJA = re.compile(r"\{%|\{\{-?\s*[A-Za-z_][\w.]*\s*(\||-?\}\})")
_JINJA_FIELD = re.compile(
    r"\{\{-?\s*([A-Za-z_]\w*)|\{%-?\s*(?:for\s+[\w\s,]+\s+in|if|elif)\s+(?:not\s+)?([A-Za-z_]\w*)"
)
_JINJA_OWN = re.compile(r"\{%-?\s*(?:for\s+([\w\s,]+)\s+in|set\s+(\w+))")


def template_fields(text: str) -> list[str]:
    """Return the names of the variable parts of a template: of jinja, mustache, or `str.format`."""
    if _JINJA.search(text):
        own = {n.strip() for pair in _JINJA_OWN.findall(text) for one in pair for n in one.split(",")} | {"loop"}
        return sorted({a or b for a, b in _JINJA_FIELD.findall(text)} - own)
    try:
        return sorted({f for _, f, _, _ in Formatter().parse(text) if f and re.fullmatch(r"[A-Za-z_]\w*", f)})
    except ValueError:
        return []


def fits_keys(found: tuple[str, ...], keys: list[frozenset[str]], given: frozenset[str], is_whole: bool) -> bool:
    """Return whether an entry of a data file lies below some keys.

    Args:
        found: Keys of the entry, in lower case.
        keys: Possible texts of each key, in lower case; an empty set stands for any key, or for one that is given.
        given: Texts that the caller passes.
        is_whole: Whether nothing may stand below the keys.
    """
    if len(found) < len(keys) or (is_whole and len(found) > len(keys)):
        return False
    lower = {g.lower() for g in given}
    return all(f in k if k else (not lower or f in lower) for k, f in zip(keys, found, strict=False))


def entries_below(
    entries: list[tuple[tuple[str, ...], T]], keys: list[frozenset[str]], given: frozenset[str], is_whole: bool
) -> list[T]:
    """Return the entries below some keys: of those that vary, the ones that the caller names, or all if it names none.

    Args:
        entries: Each with its keys, in lower case.
        keys: As of `fits_keys`.
        given: Texts that the caller passes.
        is_whole: Whether nothing may stand below the keys.
    """
    named = [one for found, one in entries if fits_keys(found, keys, given, is_whole)]
    return named or [one for found, one in entries if any(keys) and fits_keys(found, keys, frozenset(), is_whole)]


def is_signature(cls: Class) -> bool:
    """Return whether a class says what a module of DSPy asks its model: the bases name a signature."""
    return any(last_name(base).endswith("Signature") for base in cls.bases)


def signature_text(cls: Class) -> tuple[str, list[str]]:
    """Return what DSPy tells a model by a signature, and the names of its inputs.

    That is the docstring of the class, and the description of each field; one without a docstring tells nothing.
    """
    told = (docstring(cls.body) or "").strip()
    inputs: list[tuple[str, str]] = []
    outputs: list[tuple[str, str]] = []
    for s in cls.body:
        value = value_of(s) if s[0] == "assign" else None
        kind = last_name(value) if value is not None and is_call(value) else ""
        if value is None or kind not in ("InputField", "OutputField"):
            continue
        described = [v for n, v in keywords_of(value) if n in ("desc", "description")]
        said = next((" ".join(found[0].split()) for v in described if (found := text_and_fields(v))), "")
        fields = inputs if kind == "InputField" else outputs
        fields += [(text_of(target), said) for target in targets_of(s)]
    parts = [told]
    for head, fields in (("Inputs:", inputs), ("Outputs:", outputs)):
        if told and fields:
            parts.append("\n".join([head, *(f"- {name}{': ' if said else ''}{said}" for name, said in fields)]))
    return "\n\n".join(parts), [name for name, _ in inputs]


def paths_in(e: Expr, is_own: bool) -> list[tuple[str, bool]]:
    """Return the paths that an expression writes, with `*` for what varies, and whether the ending is left out.

    Args:
        e: The expression.
        is_own: Whether it calls a function of the repository, whose arguments are no paths by their names.
    """
    written = written_path(e)
    if written is not None:
        return [(written, False)] if is_path(written) else []
    if is_call(e) and not is_own:
        loads = "prompt" in last_name(e).lower() or "template" in last_name(e).lower()
        values = [v for n, v in keywords_of(e) if n and ("prompt" in n or "template" in n)]
        values += positional_of(e)[:1] if loads else []
        return [(path, True) for v in values if (path := written_path(v)) and not is_path(path)]
    return []
