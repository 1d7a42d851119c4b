"""`SpanWays`: ways by which programs name their spans and libraries make theirs, read from `span_ways.toml`."""

from __future__ import annotations

import functools
import tomllib
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

#: Fields that every span has.
EVERY_SPAN = ("status", "started_at", "ended_at")


@dataclass(frozen=True)
class SpanWay:
    """One kind of call or decorator that makes a span with a literal name.

    Attributes:
        library: Who emits the span.
        calls: Globs on dotted names.
        imports: Globs on packages of which the file imports one; empty for no condition.
        name: Keywords and positions where the literal stands, in the order in which they are tried.
        default: Name without a literal: function, qualname, module, variable, first or nothing.
        names: Names that the span may have, with `{name}` for the literal.
        kind: Kind of the step; `=` takes the last part of the call's name.
        kind_from: Keyword whose literal gives the kind; empty for none.
        function: Position of the function that the span is of; None where it is the decorated or the surrounding one.
        fields: Fields of a step that the span has.
        is_current: Whether the span is OpenTelemetry's current span while its function runs.
        needs: Library that an instrumentor must cover; empty for none.
        is_native: Whether the literal is the component of a step of Gapwatch's own publisher.
    """

    library: str
    calls: tuple[str, ...]
    imports: tuple[str, ...]
    name: tuple[str | int, ...]
    default: str
    names: tuple[str, ...]
    kind: str
    kind_from: str
    function: int | None
    fields: tuple[str, ...]
    is_current: bool
    needs: str
    is_native: bool

    def matches(self, dotted: str, imported: frozenset[str]) -> bool:
        """Return whether a call is of this way.

        Args:
            dotted: Name of the callee, through the imports of its file.
            imported: First parts of all dotted names that the file imports.
        """
        if not any(fnmatchcase(dotted, glob) for glob in self.calls):
            return False
        return not self.imports or any(fnmatchcase(name, glob) for glob in self.imports for name in imported)


@dataclass(frozen=True)
class Instrumentor:
    """A call, an import or a setting by which the calls of a whole library become spans.

    Attributes:
        library: Who emits the spans.
        names: Globs on dotted names; `{lib}` stands for the library.
        settings: Environment variables.
        libraries: Globs on first parts of calls that become spans.
        only_with: Keyword that the call must have; empty for none.
        fields: Fields of a span by its kind.
    """

    library: str
    names: tuple[str, ...]
    settings: tuple[str, ...]
    libraries: tuple[str, ...]
    only_with: str
    fields: dict[str, tuple[str, ...]]


class SpanWays:
    """The table.

    Args:
        data: Content of `span_ways.toml`.

    Attributes:
        by_last: Ways by the last part of their calls' names.
        instrumentors: All instrumentors.
        settings: Instrumentors by their environment variables.
        kinds: Word of a library to a kind of Gapwatch.
        attributes: Key of an attribute to a field of a step.
    """

    def __init__(self, data: dict[str, Any]) -> None:
        self.by_last: dict[str, list[SpanWay]] = {}
        for one in data["way"]:
            way = SpanWay(
                one["library"],
                tuple(one["calls"]),
                tuple(one.get("imports", ())),
                tuple(one["name"]),
                one.get("default", ""),
                tuple(one["names"]),
                one.get("kind", ""),
                one.get("kind_from", ""),
                one.get("function"),
                (*EVERY_SPAN, *one["fields"]),
                one.get("current", False),
                one.get("needs", ""),
                one.get("native", False),
            )
            for last in {glob.rpartition(".")[2] for glob in way.calls}:
                self.by_last.setdefault(last, []).append(way)
        self.instrumentors = [
            Instrumentor(
                one["library"],
                tuple(one["names"]),
                tuple(one.get("settings", ())),
                tuple(one.get("libraries", ())),
                one.get("only_with", ""),
                {
                    kind: (*EVERY_SPAN, *one[kind])
                    for kind in ("llm", "embedding", "retrieval", "rerank", "tool")
                    if kind in one
                },
            )
            for one in data["instrumentor"]
        ]
        self.settings = {name: one for one in self.instrumentors for name in one.settings}
        self.kinds: dict[str, str] = data["kinds"]
        self.attributes: dict[str, str] = data["attributes"]
        self._libraries: dict[str, list[str]] = data["libraries"]

    def prefixes(self, library: str) -> tuple[str, ...]:
        """Return globs on the first parts of the calls of a library that an instrumentor is named for."""
        return tuple(self._libraries.get(library, [library]))

    def field(self, key: str) -> str:
        """Return the field of a step that an attribute of a span gives."""
        return self.attributes.get(key, f"attributes.{key}")


@functools.cache
def span_ways() -> SpanWays:
    """Return the table of the product."""
    return SpanWays(tomllib.loads(Path(__file__).with_name("span_ways.toml").read_text(encoding="utf-8")))


def is_of_library(dotted: str, globs: tuple[str, ...]) -> bool:
    """Return whether a dotted name is of one of some libraries, given as globs on its first parts."""
    parts = dotted.split(".")
    return any(glob == "*" or fnmatchcase(".".join(parts[: glob.count(".") + 1]), glob) for glob in globs)
