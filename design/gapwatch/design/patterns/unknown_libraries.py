"""Libraries of models, agents and embeddings, by their look, that production code calls and the catalogue lacks."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass

from gapwatch.design.callgraph.graph import CallGraph
from gapwatch.design.patterns.libraries import LibraryCatalog
from gapwatch.design.source.program import Program

#: Words of a library's name, and those of the names that are called in it.
_NAME = re.compile(
    r"(^|_)(llms?|[a-z]*llm|(?!user|fake)[a-z]*agents?|[a-z]*gpt|embeddings?|rag|genai|langgraph)(_(?!parser)|$)"
)
_CALLED = re.compile(
    r"(LLM|Llm|ChatModel|LanguageModel|Embedd(ing|er)|(?<!User)Agent(Executor|Team|Graph|Card|s)?$|^Agent[A-Z]|Prompter"
    r"|PromptTemplate|Reranker)|^(llms?|agents?|chat_models?|embeddings|create_(language|embedding|agent|llm)\w*)$"
    r"|^(llm|chat|completion)_\w*(chain|model)$|^(generate_content|chat_completions?|text_generation)$"
)
#: Interfaces, tests and types of the language, whose classes are the program's own.
_NO_LIBRARY = frozenset({"abc", "typing_extensions", "pytest", "<builtin>", "mock"}) | sys.stdlib_module_names


#: Libraries of types alone.
_TYPES = ("mypy_", "types_")


@dataclass(frozen=True, slots=True)
class UnknownLibrary:
    """A library that is not in the catalogue.

    Attributes:
        name: First part of its names.
        calls: Number of calls that reach it.
        place: `path:line` of the first of those that show what it is for.
    """

    name: str
    calls: int
    place: str


def unknown_libraries(program: Program, graph: CallGraph, catalog: LibraryCatalog) -> tuple[UnknownLibrary, ...]:
    """Return the unknown libraries of models, agents and embeddings, those with most calls first.

    Args:
        program: All files; their own modules are no libraries.
        graph: The call graph.
        catalog: The libraries that are known.
    """
    known = catalog.libraries | _NO_LIBRARY | {part for module in program.index.modules for part in module.parts}
    tags = {symbol.path: symbol.tags for symbol in graph.symbols}
    calls: dict[str, set[tuple[str, int]]] = {}
    shown: dict[str, set[tuple[str, int]]] = {}
    for external in graph.externals:
        name, *called = external.dotted.split(".")
        if name in known or name.startswith(_TYPES) or tags.get(external.path):
            continue
        places = {(external.path, line) for line in external.lines}
        calls.setdefault(name, set()).update(places)
        if _NAME.search(name) or any(map(_CALLED.search, called)):
            shown.setdefault(name, set()).update(places)
    found = [UnknownLibrary(name, len(calls[name]), "{}:{}".format(*min(places))) for name, places in shown.items()]
    return tuple(sorted(found, key=lambda one: (-one.calls, one.name)))
