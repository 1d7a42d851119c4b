"""Names components: an identifier for the portfolio and a title."""

from __future__ import annotations

import itertools
import re

from gapwatch.design.architecture.material import Unit
from gapwatch.design.architecture.model import ComponentDraft
from gapwatch.design.instrumentation.instrumentation import Instrumentation

#: Generic names of files and folders, which need the name of the folder above.
_EMPTY = frozenset(
    [
        "__init__", "__main__", "main", "app", "utils", "util", "helpers", "helper", "core", "base", "common", "src",
        "lib", "code", "services", "service", "implementations", "providers", "models", "types", "internal",
        "server", "backend", "api", "llm", "default", "name", "names",
    ]
)  # fmt: skip
#: Names of functions that say nothing of their work without their file.
_VAGUE = frozenset(
    [
        "main", "run", "arun", "invoke", "ainvoke", "call", "handle", "handler", "process", "execute", "generate",
        "answer", "call_model", "acall_model", "wrap_model", "get", "load", "init", "setup", "start", "create", "build",
        "node", "step", "agent", "background", "chat", "stream", "query", "search", "index", "parse", "workflow",
        "graph", "emit", "complete", "completion", "predict", "task", "worker", "job", "get_client", "get_llm",
        "get_model", "callback", "wrapper",
    ]
)  # fmt: skip
#: Ends of names that say nothing, or only that a model is asked.
_ENDS = re.compile(r"(_(utils?|helpers?|common|llm|func|fn|impl|\d+))+$")
#: Last words of classes that say what each of them does, and those that say it with the word before them.
_PARTS = frozenset(
    [
        "embedder", "reader", "retriever", "generator", "loader", "reranker", "ranker", "chunker", "splitter", "parser",
        "extractor", "evaluator",
    ]
)  # fmt: skip
_KINDS = frozenset({"provider", "store", "engine", "processor", "client", "service", "source", "tool", "embedding"})
#: Calls to a model from which a way in does no work of a model, and units from which no single one names a group.
_FAR = 8
_MANY = 5
#: Units that name a group by what they have in common.
_ALIKE = 3
#: Longest name of a component, in characters.
_LONGEST = 40
_JOB_WORDS = {"store": "store", "service": "requests", "retrieval": "retrieval", "guardrail": "check", "cache": "cache"}


def identifier_of(group: list[Unit], main: Unit, used: set[str], ways_in: int) -> str:
    """Return the name of a group by what its main unit does, not used yet, and add it.

    Args:
        group: Units of one component.
        main: The unit that others call most, or the nearest to a model.
        used: Names of other groups.
        ways_in: Functions of the group that a framework calls from outside.
    """
    place = _told(snake(_place(main.path)))
    shelf = _shelf_of(group, main)
    own = _told(snake(main.agent or main.name))
    alone = len([u for u in group if not u.is_module]) == 1
    shared = _shared_end(main, group) if main.is_class else ""
    if alike := _alike(main, group):
        names = [alike, f"{place}_{alike}", own]
    elif shared:
        names = [shared, own, f"{place}_{own}"]
    elif main.is_class or main.agent:
        names = [own, f"{place}_{own}"]
    elif ways_in:
        names = [own if own.endswith("endpoint") else f"{own}_endpoint", f"{place}_{own}_endpoint"]
        # Many ways in of a file, or those without a model, are named for the file: none of them is what all do.
        is_named = ways_in < _MANY and (alone or main.distance <= _FAR)
        names = names if is_named else [f"{place}_endpoints", *names]
    elif shelf:
        names = [shelf, own]
    elif own in _VAGUE or own in place:
        names = [place, f"{place}_{own}"]
    elif alone or main.is_asking:
        names = [own, f"{place}_{own}"]
    else:
        word = _JOB_WORDS.get(main.job, "")
        names = [place if not word or word in place else f"{place}_{word}", own, f"{place}_{own}"]
    folder = _told(snake("_".join(main.path.removesuffix(".py").split("/")[-2:])))
    if place in _EMPTY:
        names = [n for n in names if n.partition("_")[0] not in _EMPTY]
        names += [_told(snake(u.name)) for u in group if not u.is_module and snake(u.name) not in _VAGUE]
    for name in (*names, f"{folder}_{own}", *(f"{folder}_{_told(snake(u.name))}" for u in group)):
        told = _short(_told(name)).strip("_")
        if told and told not in used and told not in _EMPTY:
            used.add(told)
            return told
    return unique(own or "code", used)


def _shelf_of(group: list[Unit], main: Unit) -> str:
    """Return the name of many functions of a file that is named like any other: by the folder; empty for others."""
    functions = [u for u in group if not u.is_module and not u.is_class]
    if main.is_class or main.is_asking or len(functions) < _MANY or _told(snake(_place(main.path))) not in _EMPTY:
        return ""
    folder = next((p for p in reversed(main.path.split("/")[:-1]) if snake(p) not in _EMPTY), "")
    return f"{snake(folder)}_functions" if folder else ""


def _alike(main: Unit, group: list[Unit]) -> str:
    """Return the name of three or more ways to do one work, clients of models or functions that begin alike."""
    asks = bool(main.asking)
    ways = [u for u in group if u.is_class == main.is_class and u.job == main.job and bool(u.asking) == asks]
    if len(ways) < _ALIKE or main.agent or 2 * len(ways) < len([u for u in group if not u.is_module]):
        return ""
    if main.is_class:
        return "model_clients" if asks else ""
    words = zip(*(snake(u.name).split("_") for u in ways), strict=False)
    begin = [w[0] for w in itertools.takewhile(lambda w: len(set(w)) == 1, words)]
    if begin[-1:] and begin[-1] in ("from", "to", "with", "by", "for", "of"):
        begin.pop()
    if len(begin) == 1 and asks:
        return f"{begin[0]}_models"
    return "_".join(begin) if len(begin) > 1 else ""


def _shared_end(main: Unit, group: list[Unit]) -> str:
    """Return the words with which the names of several classes end, the main one's among them: `search_providers`."""
    words = [snake(u.name).split("_") for u in group if u.is_class]
    own = snake(main.name).split("_")
    for length in range(len(own) - 1, 0, -1):
        end = own[-length:]
        alike = [w for w in words if w[-length:] == end]
        is_told = end[-1] in _PARTS or (length > 1 and end[-1] in _KINDS)
        if is_told and (len(alike) > 2 or (len(alike) == 2 and len(words) == 2)):
            return "_".join(end) + "s"
    return ""


def _short(name: str) -> str:
    """Return a name without the words that begin or end after its 40th character."""
    return name if len(name) <= _LONGEST else name[: _LONGEST + 1].rpartition("_")[0] or name[:_LONGEST]


def _told(name: str) -> str:
    """Return a name without ends that say nothing; a name of nothing else stays."""
    short = _ENDS.sub("", re.sub(r"_llm$", "_model", name))
    return short or name


def parts_of(group: list[Unit]) -> str:
    """Return the names of the four heaviest units of a large group, and the number of the others."""
    names: dict[str, None] = {}
    for unit in sorted(group, key=lambda u: (-u.weight, u.key)):
        names[_place(unit.path) if unit.is_module else unit.name] = None
    shown = list(names)[:4]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def _place(path: str) -> str:
    """Return the last part of a path; a generic name gets the folder before it."""
    parts = path.removesuffix(".py").split("/")
    last = parts[-1]
    if last not in _EMPTY or len(parts) < 2:
        return last
    before = next((p for p in reversed(parts[:-1]) if p not in _EMPTY), parts[-2])
    return before if last == "__init__" else f"{before}_{last}"


def snake(name: str) -> str:
    """Return a name in lower_snake_case, at most 40 characters."""
    # `OpenAI` and `LanceDB` are one word each.
    name = re.sub(r"(?<=[a-z])(AI|DB|QA|QL)(?![a-z])", lambda m: m.group(1).lower(), name)
    text = re.sub(r"([a-z0-9])([A-Z])|([A-Z]+)(?=[A-Z][a-z])", r"\1\3_\2", name)
    return _short(re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")).lstrip("0123456789_")


def unique(name: str, used: set[str]) -> str:
    """Return a name that `used` does not hold yet, numbered if necessary, and add it."""
    made, number = name, 2
    while made in used:
        made, number = f"{name}_{number}", number + 1
    used.add(made)
    return made


def title_of(identifier: str) -> str:
    """Return an identifier as a title."""
    return identifier.replace("_", " ").capitalize()


def take_names(components: list[ComponentDraft], instrumentation: Instrumentation) -> None:
    """Give a component the name that the program's own spans give it, where they agree on one that no other has.

    Args:
        components: Changed in place.
        instrumentation: Spans that the program emits already.
    """
    owner = {symbol: c for c in components for symbol in c.symbols}
    literals: dict[str, dict[str, bool]] = {}
    for span in instrumentation.spans:
        if (span.kind == "tool" and not span.is_native) or span.library == "span_recording":
            continue  # A tool is a part of its agent; and names that a patch wrote come from the code.
        if (component := owner.get(span.symbol)) is not None and "*" not in span.literal:
            literals.setdefault(component.id, {})[span.literal] = span.is_native
    used = {c.id for c in components}
    given = [next(iter(found)) for found in literals.values() if len(found) == 1]
    for component in components:
        found = literals.get(component.id, {})
        if len(found) != 1 or given.count(next(iter(found))) > 1:
            continue
        literal, is_native = next(iter(found.items()))
        # A step of the publisher is of the component that it names, letter by letter.
        name = literal if is_native else _told(snake(literal))
        is_told = is_native or name not in _VAGUE | _EMPTY
        if name and name not in used and is_told and len(name) <= _LONGEST:
            used.add(name)
            component.id, component.name = name, title_of(name)
