"""Calls that cannot fail for a reason outside the process, and work beside the answer, whose loss harms nobody."""

from __future__ import annotations

import re

from gapwatch.design.patterns.code_walk import arguments_of, names_in, own_expressions, target_names
from gapwatch.design.patterns.hit import Subject
from gapwatch.design.source.ir import Body, Expr, call_line, callee_of, is_name, targets_of, value_of
from gapwatch.design.source.program import last_name, statements

#: Modules whose calls work on values, or on files of the machine.
_OF_THE_PROCESS = frozenset(
    [
        "<builtin>", "builtins", "json", "ujson", "orjson", "yaml", "toml", "tomllib", "re", "regex", "math",
        "ast", "datetime", "dateutil", "decimal", "fractions", "uuid", "pathlib", "os", "io", "copy",
        "collections", "inspect", "importlib", "configparser", "typing", "string", "hashlib", "base64",
        "textwrap", "itertools", "functools", "operator", "dataclasses", "enum", "types", "logging",
        "traceback", "warnings", "sys", "time", "html", "csv", "struct", "pickle", "pydantic", "random",
        "statistics", "threading", "contextlib", "asyncio", "concurrent", "jinja2", "loguru", "numpy", "pandas",
        "calendar", "secrets", "difflib", "pytz", "zoneinfo", "sklearn", "werkzeug", "flask", "fastapi", "starlette",
        "abc", "atexit", "sqlparse", "cryptography", "bs4", "markdown", "PIL", "tiktoken",
        "langdetect", "aiofiles", "shutil", "tempfile", "structlog", "fastlogging", "logbook", "rich",
        "sqlglot", "lxml", "jsonschema", "json_repair", "dirtyjson", "markdownify", "html2text", "mistune", "tabulate",
        "rapidfuzz", "fuzzywuzzy", "thefuzz", "jsonpath_ng", "dotenv", "dynaconf", "chardet",
    ]
)  # fmt: skip
#: Methods of values and logs, whatever the value is.
_ON_VALUES = frozenset(
    [
        "get", "items", "keys", "values", "append", "extend", "insert", "pop", "popitem", "update",
        "setdefault", "remove", "discard", "add", "clear", "copy", "count", "index", "sort", "reverse", "split",
        "rsplit", "splitlines", "strip", "lstrip", "rstrip", "replace", "lower", "upper", "title", "capitalize",
        "join", "format", "startswith", "endswith", "partition", "rpartition", "removeprefix", "removesuffix",
        "encode", "decode", "find", "rfind", "isdigit", "zfill", "match", "fullmatch", "findall",
        "finditer", "group", "groups", "groupdict", "sub", "read", "readlines", "readline", "read_text",
        "read_bytes", "open", "exists", "is_file", "is_dir", "stat", "glob", "iterdir", "model_dump",
        "model_dump_json", "model_validate", "model_validate_json", "model_construct", "dict", "json",
        "parse_obj", "parse_raw", "fromisoformat", "isoformat", "strptime", "strftime", "date", "timestamp",
        "float", "int", "str", "bool", "bytes", "list", "tuple", "set", "frozenset", "len", "range",
        "enumerate", "zip", "map", "filter", "sorted", "reversed", "min", "max", "sum", "abs", "round", "any",
        "all", "isinstance", "issubclass", "getattr", "setattr", "hasattr", "type", "repr", "print", "iter",
        "next", "id", "hash", "vars", "ord", "chr", "super", "dumps", "loads", "load", "safe_load",
        "literal_eval", "deepcopy", "debug", "info", "warning", "warn", "error", "exception", "critical", "log",
        "cast", "get_running_loop", "get_event_loop", "new_event_loop", "qsize", "get_nowait", "put_nowait",
        "result", "done", "cancel",
    ]
)  # fmt: skip


#: Methods that close or remove what the work is done with, whatever it is.
_ON_ENDS = frozenset(["close", "aclose", "unlink", "cleanup", "shutdown", "terminate", "flush"])
#: Those that results of libraries have too.
_OF_RESULTS = frozenset(
    [
        "model_dump", "model_dump_json", "dict", "items", "keys", "values", "append", "extend", "split", "strip",
        "lower", "upper", "join", "format", "replace", "encode", "decode", "startswith", "endswith",
    ]
)  # fmt: skip


#: Methods of models that give an answer at once.
_ANSWERS = frozenset(["invoke", "ainvoke", "create", "completion", "acompletion", "generate_content"])
#: Parts of libraries that only put together what is asked for.
_BUILDS = (
    "urllib.parse.",
    "sqlalchemy.select",
    "sqlalchemy.func",
    "sqlalchemy.sql",
    "sqlalchemy.text",
    "langchain_core.prompts.",
    "langchain.prompts.",
)


#: Work beside the answer: logs, traces, counts, progress, samples, what is loaded in advance, and the end of a session.
_BESIDE = re.compile(
    r"^_*(log|logs|logging|logger|log_(?!in|out)\w+|\w+_(log|logs|logger)|(record|report|send|emit|push|capture|track|update)"
    r"_(\w+_)?(telemetry|traces?|analytics|metrics?|stats|statistics|usage|progress|spans?|costs?)"
    r"|(add|append|write|save|push)_(\w+_)?(dataset|samples?)|track|telemetry|progress_callback"
    r"|(pre_?load|pre_?fetch|warm(_?up)?)(_\w+)?"
    r"|(\w+_)?(cleanup|clean_up|teardown|tear_down|dispose|shutdown|close|aclose|disconnect)(_\w+)?"
    r"|__exit__|__aexit__|__del__|(count|estimate)_(\w+_)?(tokens?|costs?))$"
)


#: Objects and modules that count what users do, or trace the program.
_COUNTS = re.compile(
    r"(^|_)(analytics|telemetry|posthog|sentry|sentry_sdk|langfuse|mixpanel|amplitude|statsd)(_client)?$"
)


#: Calls that run a function which they are handed.
_RUNS = frozenset(
    [
        "to_thread", "run_in_executor", "submit", "create_task", "ensure_future", "wait_for", "gather", "run",
        "run_sync", "map", "apply_async", "run_in_threadpool", "add_task", "run_until_complete",
    ]
)  # fmt: skip


def handed_functions(subject: Subject, call: Expr) -> list[str]:
    """Return the functions of the repository that a call is handed to run: `to_thread(work, x)`."""
    if last_name(call) not in _RUNS:
        return []
    handed = {n.rpartition(".")[2] for argument in arguments_of(call) for n in names_in(argument)}
    edges = subject.sites.inside.get((subject.symbol, call_line(call)), ())
    return [edge.dst for edge in edges if edge.dst.rpartition(".")[2] in handed]


def is_beside_the_answer(name: str) -> bool:
    """Return whether a function is named after work beside the answer."""
    return _BESIDE.match(name) is not None


def is_call_beside(call: Expr) -> bool:
    """Return whether a call is work beside the answer, by its name or that of its object: `analytics.capture(...)`."""
    owner = callee_of(call)[1] if callee_of(call)[0] == "a" else None
    return is_beside_the_answer(last_name(call)) or (owner is not None and _COUNTS.search(last_name(owner)) is not None)


def is_end(call: Expr) -> bool:
    """Return whether a call closes or removes what the work is done with."""
    return last_name(call) in _ON_ENDS


def only_makes_stream(subject: Subject, call: Expr, block: Body) -> bool:
    """Return whether a call makes a generator that a block does not read: its errors come later, where it is read.

    Args:
        subject: Function that holds the call.
        call: A call within the block.
        block: What a `try` protects.
    """
    made = [subject.other(edge.dst) for edge in subject.inside(call)]
    if not made or not all(one is not None and one.ir.is_generator for one in made):
        return False
    inside = list(statements(block))
    if any(s[0] == "return" and value_of(s) == call for s in inside):
        return True
    names = {
        n for s in inside if s[0] == "assign" and value_of(s) == call for t in targets_of(s) for n in target_names(t)
    }
    others = [s for s in inside if s[0] != "assign" or value_of(s) != call]
    # Handed on as it is, it is still unread.
    read = {n for s in others for e in own_expressions(s) if not (s[0] == "return" and is_name(e)) for n in names_in(e)}
    return bool(names) and not names & read


def stays_in_process(subject: Subject, call: Expr) -> bool:
    """Return whether a call of no own function works on values, logs and files of the machine alone.

    Args:
        subject: Function that holds the call.
        call: A call without a capability.
    """
    last = last_name(call)
    is_method = callee_of(call)[0] == "a"
    if last[:1].isupper() or last in ("__new__", "__init__") or (last in _OF_RESULTS and is_method):
        return True  # To make an object asks nothing yet.
    known = subject.sites.named_at(subject.symbol, call)
    if not known:
        return last in _ON_VALUES or callee_of(call)[0] not in ("a", "n")
    inside = [_is_of_process(name, subject) for name in known]
    return all(inside) or (last in _ON_VALUES and any(inside))


def _is_of_process(name: str, subject: Subject) -> bool:
    if name.partition(".")[0] in _OF_THE_PROCESS or name.startswith(_BUILDS):
        return True
    owner, _, last = name.rpartition(".")
    if last not in _ON_VALUES:
        return False
    # What an answer holds is read in memory.
    while owner:
        if subject.sites.catalog.capability(owner) is not None:
            return owner == name.rpartition(".")[0] or owner.rpartition(".")[2] in _ANSWERS
        owner = owner.rpartition(".")[0]
    return False
