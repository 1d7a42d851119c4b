"""`Instrumentation`: the spans that a program emits already, by literals in its code and by instrumented libraries."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from gapwatch.design.instrumentation.imported_names import ImportedNames
from gapwatch.design.instrumentation.named_spans import NamedSpan, named_spans
from gapwatch.design.instrumentation.span_ways import Instrumentor, SpanWays, is_of_library, span_ways
from gapwatch.design.patterns.call_sites import CallSites
from gapwatch.design.patterns.code_walk import constants_in, keyword, own_expressions
from gapwatch.design.patterns.hit import Subject
from gapwatch.design.patterns.library_uses import CodePlace
from gapwatch.design.source.ir import call_line, callee_of, line_of
from gapwatch.design.source.program import Program
from gapwatch.design.source.regular_file import read_regular

#: Files of settings that are read for names of environment variables, in the root and one folder below.
_SETTINGS_FILES = (".env*", "*.env", "env.*", "compose*.y*ml", "docker-compose*.y*ml", "Dockerfile*")
#: Bytes of a file of settings that are read.
_MOST_BYTES = 200_000
_OFF = re.compile(r"^[\"']?(false|0|no|off|)[\"']?$", re.IGNORECASE)


@dataclass(frozen=True)
class InstrumentedLibrary:
    """Libraries whose calls become spans.

    Attributes:
        by: Who emits the spans.
        libraries: Globs on the first parts of the calls.
        place: Line that says it.
        fields: Fields of a span by its kind.
    """

    by: str
    libraries: tuple[str, ...]
    place: CodePlace
    fields: dict[str, tuple[str, ...]] = field(hash=False, compare=False)


@dataclass(frozen=True)
class Instrumentation:
    """The instrumentation of a program.

    Attributes:
        spans: Spans with a name in the code, by file and line.
        libraries: Libraries whose calls become spans, by file and line.
        packages: Libraries that a file imports, by its path.
    """

    spans: tuple[NamedSpan, ...] = ()
    libraries: tuple[InstrumentedLibrary, ...] = ()
    packages: dict[str, frozenset[str]] = field(default_factory=dict)

    def of(self, symbol: str) -> list[NamedSpan]:
        """Return the spans in which a function runs."""
        return [span for span in self.spans if span.symbol == symbol]

    def client_fields(self, dotted: str, kind: str) -> tuple[str, ...]:
        """Return the fields that the span of a library's call has, nothing where it has no span.

        Args:
            dotted: Name of the call, such as `openai.OpenAI.chat.completions.create`.
            kind: Kind of the step, such as llm.
        """
        found: dict[str, None] = {}
        for one in self.libraries:
            if is_of_library(dotted, one.libraries):
                found.update(dict.fromkeys(one.fields.get(kind, ())))
        return tuple(found)


def find_instrumentation(program: Program, sites: CallSites, root: Path) -> Instrumentation:
    """Return the spans that the production code of a program emits already.

    Args:
        program: All files in intermediate form.
        sites: Targets of all call sites.
        root: The repository, whose files of settings may switch instrumentation on.
    """
    names, ways = ImportedNames(program), span_ways()
    spans: set[NamedSpan] = set()
    libraries: set[InstrumentedLibrary] = set(_by_import(program, names, ways))
    for info in program.functions:
        file = program.files[info.module]
        if file is None or file.tags:
            continue
        subject = Subject(program, sites, info)
        spans.update(named_spans(subject, names, ways))
        libraries.update(_by_call(subject, names, ways))
    libraries.update(_by_setting(root, ways))
    globs = tuple(glob for one in libraries for glob in one.libraries)
    kept = [span for span in spans if not span.needs or is_of_library(span.needs, globs)]
    paths = {m.path: names.packages(m.index) for m in program.index.modules if program.files[m.index] is not None}
    return Instrumentation(
        tuple(sorted(kept, key=lambda s: (s.place.path, s.place.line, s.literal, s.symbol))),
        tuple(sorted(libraries, key=lambda one: (one.place.path, one.place.line, one.by, one.libraries))),
        paths,
    )


def _by_call(subject: Subject, names: ImportedNames, ways: SpanWays) -> Iterator[InstrumentedLibrary]:
    path, module = subject.program.path(subject.info), subject.info.module
    for call in subject.calls:
        for one, libraries in _instrumented_by(names.dotted(module, callee_of(call)), ways):
            if not one.only_with or keyword(call, one.only_with) not in (None, ("k", False), ("k", None)):
                yield InstrumentedLibrary(one.library, libraries, CodePlace(path, call_line(call)), one.fields)
    for s in subject.statements:
        for e in own_expressions(s):
            for text in constants_in(e):
                if text in ways.settings:
                    one = ways.settings[text]
                    yield InstrumentedLibrary(one.library, one.libraries, CodePlace(path, line_of(s)), one.fields)


@functools.lru_cache(maxsize=4096)
def _instrumented_by(dotted: str, ways: SpanWays) -> list[tuple[Instrumentor, tuple[str, ...]]]:
    """Return the instrumentors that a call by a name is of, each with the libraries that it instruments."""
    found = ((one, _libraries(one, dotted, ways)) for one in ways.instrumentors)
    return [(one, libraries) for one, libraries in found if libraries is not None]


def _libraries(one: Instrumentor, dotted: str, ways: SpanWays) -> tuple[str, ...] | None:
    for glob in one.names:
        if not fnmatchcase(dotted, glob.replace("{lib}", "*")):
            continue
        if "{lib}" not in glob:
            return one.libraries
        found = re.match(re.escape(glob).replace(r"\{lib\}", r"(\w+)").replace(r"\*", r"\w*") + "$", dotted)
        if found is not None:
            return ways.prefixes(found[1])
    return None


def _by_import(program: Program, names: ImportedNames, ways: SpanWays) -> Iterator[InstrumentedLibrary]:
    """Yield clients that are imported in an instrumented form: `from langfuse.openai import OpenAI`."""
    for module in program.index.modules:
        file = program.files[module.index]
        if file is None or file.tags:
            continue
        for dotted in sorted(set(names.imports(module.index).values())):
            for one in ways.instrumentors:
                if one.only_with:
                    continue
                if any(dotted.startswith(f"{name}.") or dotted == name for name in one.names if "*" not in name):
                    line = names.line(module.index, dotted)
                    yield InstrumentedLibrary(one.library, one.libraries, CodePlace(module.path, line), one.fields)


def _by_setting(root: Path, ways: SpanWays) -> Iterator[InstrumentedLibrary]:
    for path in sorted({p for glob in _SETTINGS_FILES for base in (glob, f"*/{glob}") for p in root.glob(base)}):
        try:
            lines = read_regular(path, _MOST_BYTES).decode("utf-8", "replace").splitlines()
        except OSError:
            continue
        for number, text in enumerate(lines, 1):
            name, sign, value = text.strip().removeprefix("- ").replace(": ", "=", 1).partition("=")
            one = ways.settings.get(name.strip())
            if one is not None and sign and not _OFF.match(value.strip()):
                place = CodePlace(path.relative_to(root).as_posix(), number)
                yield InstrumentedLibrary(one.library, one.libraries, place, one.fields)
