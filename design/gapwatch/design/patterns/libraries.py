"""Library catalogue: the capability of a dotted library name, read from `libraries.toml` or a file of the same form."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gapwatch.scorers.errors import UsageError

#: Attributes of generated clients of HTTP APIs whose methods are those of the client, but give HTTP responses.
_RAW = frozenset({"with_raw_response", "with_streaming_response"})
#: Capabilities in the order in which the lists of an entry are tried; wildcards are tried after all names.
CAPABILITIES = (
    "llm_chat",
    "embedding",
    "rerank",
    "guardrail",
    "retrieval",
    "vector_write",
    "json",
    "stream",
    "queue",
    "local_queue",
    "db_execute",
    "db_write",
    "db_read",
    "cache",
    "retry",
    "breaker",
    "tool",
    "http",
    "web_search",
    "saas",
    "evaluation",
    "tracing",
    "ingest",
    "framework",
    "web",
)

#: Parts of an HTTP client's name after which the next names belong to a response or a request object.
_INSIDE_ANSWER = frozenset(
    [
        "headers",
        "cookies",
        "json",
        "params",
        "text",
        "content",
        "data",
        "get",
        "post",
        "put",
        "patch",
        "request",
        "send",
        "environ",
        "query",
        "url",
        "links",
        "history",
    ]
)

#: Parts between a call and a method of its result, when the result is a text.
_TEXTS = frozenset({"strip", "lower", "upper", "split", "copy", "content", "summary", "title", "text", "url", "name"})
#: Methods that clients and plain dictionaries share.
_OF_MAPPINGS = frozenset({"get", "update", "pop", "items", "keys", "values", "copy", "setdefault", "clear", "add"})
#: Attributes of clients and of answers that hold plain dictionaries.
_HOLDS_ANSWERS = frozenset(
    [
        "metadata",
        "info",
        "json",
        "headers",
        "attributes",
        "payload",
        "body",
        "data",
        "result",
        "results",
        "hits",
        "_source",
    ]
)
#: Methods of texts, lists and mappings; at the end of a service's name they read its answer.
_ON_ANSWERS = frozenset(
    [
        "get",
        "items",
        "keys",
        "values",
        "append",
        "extend",
        "pop",
        "setdefault",
        "copy",
        "strip",
        "lstrip",
        "rstrip",
        "lower",
        "upper",
        "split",
        "splitlines",
        "join",
        "startswith",
        "endswith",
        "format",
        "encode",
        "decode",
        "replace",
        "sort",
        "count",
        "index",
        "isoformat",
        "total_seconds",
        "strftime",
        "timestamp",
        "date",
        "astimezone",
        "model_dump",
        "dict",
    ]
)


#: Keys of an entry beside its prefixes and capabilities, in the order of the fields.
_OTHER_KEYS = (
    "reads",
    "fallback",
    "run_limits",
    "limit_errors",
    "returns_at_limit",
    "limit_texts",
    "prompt_files",
    "text_alone",
    "errors_as_texts",
)


@dataclass(frozen=True)
class RunLimits:
    """Limits of the runs of a library's agents.

    Attributes:
        arguments: Names of the arguments that limit a run.
        errors: Names of the exceptions that say that a run exceeded a limit.
        returns: Makers among the names of a call whose agents give an answer at their limit.
        texts: What such an answer holds.
    """

    arguments: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    returns: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Entry:
    ends: tuple[tuple[str, tuple[str, ...]], ...]
    wildcards: tuple[str, ...]
    reads: tuple[str, ...]
    fallback: tuple[str, ...]
    run_limits: tuple[str, ...]
    limit_errors: tuple[str, ...]
    returns_at_limit: tuple[str, ...]
    limit_texts: tuple[str, ...]
    prompt_files: tuple[str, ...]
    text_alone: tuple[str, ...]
    errors_as_texts: tuple[str, ...]


class LibraryCatalog:
    """Returns the capability of names outside the repository.

    Args:
        text: The catalogue as TOML.
        name: Name of the file, for error messages.

    Raises:
        UsageError: The text is not TOML, or an entry has an unknown key or no prefixes.
    """

    def __init__(self, text: str, name: str) -> None:
        try:
            data = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise UsageError(f"{name}: not valid TOML: {error}") from error
        self.version = str(data.pop("version", ""))
        self._by_prefix: dict[str, _Entry] = {}
        self._cache: dict[str, str | None] = {}
        for key, entry in data.items():
            unknown = set(entry) - {"prefixes", *_OTHER_KEYS, *CAPABILITIES}
            if unknown or not entry.get("prefixes"):
                what = f"unknown keys {sorted(unknown)}" if unknown else "no prefixes"
                raise UsageError(
                    f"{name}: [{key}]: {what}; expected prefixes, {', '.join((*_OTHER_KEYS, *CAPABILITIES))}"
                )
            made = _Entry(
                tuple((c, tuple(e for e in entry[c] if e != "*")) for c in CAPABILITIES if c in entry),
                tuple(c for c in CAPABILITIES if "*" in entry.get(c, ())),
                *(tuple(entry.get(name, ())) for name in _OTHER_KEYS),
            )
            for prefix in entry["prefixes"]:
                self._by_prefix[prefix] = made

    def capability(self, dotted: str) -> str | None:
        """Return the capability of calling a dotted name, or None if the catalogue does not know it."""
        if dotted not in self._cache:
            self._cache[dotted] = self._find(dotted)
        return self._cache[dotted]

    def _find(self, dotted: str) -> str | None:
        parts = [part for part in dotted.split(".") if part not in _RAW]
        for length in range(len(parts), 0, -1):
            entry = self._by_prefix.get(".".join(parts[:length]))
            if entry is not None:
                found = _match(entry, parts, length)
                if found is not None:
                    return found
        return None

    @property
    def libraries(self) -> frozenset[str]:
        """First parts of all names of libraries."""
        return frozenset(prefix.partition(".")[0] for prefix in self._by_prefix)

    def fallback_options(self, names: list[str]) -> tuple[str, ...]:
        """Return the names of arguments and methods by which some library calls take other ways after a failure.

        Args:
            names: Dotted names that a call may reach; those of one library are enough.
        """
        return tuple(dict.fromkeys(name for entry in self._entries(names) for name in entry.fallback))

    def run_limits(self, names: list[str]) -> RunLimits:
        """Return how runs of the agents of libraries are limited.

        Args:
            names: Dotted names that a call may reach; those of one library are enough.
        """
        found = list(self._entries(names))
        made = {part for dotted in names for part in dotted.split(".")}
        returns = tuple(n for e in found for n in e.returns_at_limit if n in made)
        return RunLimits(
            tuple(n for e in found for n in e.run_limits),
            tuple(n for e in found for n in e.limit_errors),
            returns,
            tuple(n for e in found for n in e.limit_texts) if returns else (),
        )

    def prompt_files(self, names: list[str]) -> tuple[str, ...]:
        """Return the names of files beside the code that a call of a library takes its prompt from by itself.

        Args:
            names: Dotted names that a call may reach; those of one library are enough.
        """
        return tuple(dict.fromkeys(name for entry in self._entries(names) for name in entry.prompt_files))

    def gives_text_alone(self, dotted: str) -> bool:
        """Return whether a model call gives what the model said alone: no reason why it ended, and no tokens."""
        return any(dotted.endswith(f".{end}") for entry in self._entries([dotted]) for end in entry.text_alone)

    def gives_errors_as_texts(self, dotted: str) -> bool:
        """Return whether a call takes the errors of its service itself, and gives them back in words."""
        parts = set(dotted.split("."))
        return any(not parts.isdisjoint(entry.errors_as_texts) for entry in self._entries([dotted]))

    def _entries(self, names: list[str]) -> Iterator[_Entry]:
        for dotted in names:
            parts = dotted.split(".")
            for length in range(len(parts), 0, -1):
                entry = self._by_prefix.get(".".join(parts[:length]))
                if entry is not None:
                    yield entry

    @functools.cached_property
    def fallback_methods(self) -> frozenset[str]:
        """Names of methods, written `name()`, that no other library has, so that their receiver need not be known."""
        every = {name for entry in self._by_prefix.values() for name in entry.fallback}
        return frozenset(name.removesuffix("()") for name in every if name.endswith("()"))

    def knows(self, dotted: str) -> bool:
        """Return whether the catalogue has an entry for the library."""
        parts = dotted.split(".")
        return any(".".join(parts[:length]) in self._by_prefix for length in range(1, len(parts) + 1))


def _match(entry: _Entry, parts: list[str], length: int) -> str | None:
    rest = ".".join(parts[length:])
    whole = ".".join(parts)
    for end in entry.reads:
        if rest == end or rest.endswith(f".{end}"):
            return None
    for capability, ends in entry.ends:
        for end in ends:
            if rest == end or rest.endswith(f".{end}") or whole.endswith(f".{end}"):
                if capability == "http" and not _INSIDE_ANSWER.isdisjoint(parts[length:-1]):
                    # `requests.get(...).headers.get` reads a response and sends no second request.
                    return None
                if (
                    capability == "json"
                    and parts[length:-1]
                    and parts[-2] in ("dumps", "dump", "encode", "loads", "load")
                ):
                    return None
                if end in _OF_MAPPINGS and _is_given(entry, parts[length:-1]):
                    # A dictionary that a call returned has methods of the same names; reading it calls no service.
                    return None
                return capability
    for capability in entry.wildcards:
        last = parts[-1]
        if capability in ("saas", "web_search") and (
            last in _ON_ANSWERS
            or last.startswith("from_")
            or last.endswith("_client")
            or not _TEXTS.isdisjoint(parts[length:-1])
        ):
            # Reading a result or creating a client sends no request.
            continue
        # A constructor sends no request yet.
        if (rest and not last[:1].isupper() and not last.startswith("__")) or capability in ("framework", "web"):
            return capability
        if rest and capability in ("retry", "breaker", "cache", "guardrail", "tracing", "evaluation", "ingest"):
            return capability
        if not rest and length == len(parts) and length > 1 and not last[:1].isupper():
            return capability
    return None


def _is_given(entry: _Entry, before: list[str]) -> bool:
    """Return whether the object before the last name is the result of a call, and not a client, table or collection."""
    if not before:
        return False
    last = before[-1]
    if (
        last in _OF_MAPPINGS
        or last in _HOLDS_ANSWERS
        or last.endswith(("Result", "Response", "Record", "Row", "Field"))
    ):
        return True
    ends = {end.rpartition(".")[2] for _, found in entry.ends for end in found}
    return last in ends and last[:1].islower()


@functools.cache
def default_catalog() -> LibraryCatalog:
    """Return the catalogue that ships with Gapwatch."""
    path = Path(__file__).with_name("libraries.toml")
    return LibraryCatalog(path.read_text(encoding="utf-8"), path.name)


def load_catalog(path: Path | None) -> LibraryCatalog:
    """Return the catalogue of a file.

    Args:
        path: The file; None for the shipped catalogue.

    Raises:
        UsageError: The file cannot be read or is invalid.
    """
    if path is None:
        return default_catalog()
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot be read: {error}") from error
    return LibraryCatalog(text, str(path))
