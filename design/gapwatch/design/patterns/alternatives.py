"""Finds classes of which a setting chooses one: vendors of models, stores, channels."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from gapwatch.design.patterns.code_walk import names_in, own_expressions
from gapwatch.design.patterns.hit import Subject
from gapwatch.design.source.ir import Body, Expr, Stmt, branches_of, line_of, value_of
from gapwatch.design.source.program import inner_bodies, statements

#: Least number of classes; of fewer, each may well be the one in use.
LEAST = 6
#: Names of what differs from request to request and not from installation to installation.
_OF_REQUESTS = re.compile(
    r"(^|_)(ext|extension|suffix|mime\w*|file\w*|content_type|format|event|message|msg|role|action|command|cmd|tool\w*"
    r"|intent|step|stage|state|status|agent\w*|task\w*|node\w*|op|operation|method|path|url|key|line|token)$|^(name|.)$",
    re.I,
)


@dataclass(frozen=True)
class ClassChoice:
    """A choice of one class among several.

    Attributes:
        symbol: The function that chooses.
        paths: Paths of the files that hold the classes, by their dotted names.
    """

    symbol: str
    paths: Mapping[str, str]

    def owner_of(self, path: str) -> str | None:
        """Return the file or the folder of one class that holds a path; None where it is of several, or of none."""
        if path in self._files:
            return path
        folder = path.rpartition("/")[0]
        return folder if self._folders.count(folder) == 1 else None

    @cached_property
    def _files(self) -> set[str]:
        return set(self.paths.values())

    @cached_property
    def _folders(self) -> list[str]:
        return [path.rpartition("/")[0] for path in self._files]


def find_choices(subjects: Iterable[Subject]) -> list[ClassChoice]:
    """Return the choices of a program.

    A function chooses by a setting where branches that compare one name give or keep objects of at least `LEAST`
    classes, one in each branch.

    Args:
        subjects: Functions of production code.
    """
    found: list[ClassChoice] = []
    for subject in subjects:
        if not any(s[0] in ("if", "match") for s in subject.statements):
            continue
        made = max((_chosen_in(subject, body) for body in _bodies(subject.ir.body)), key=len)
        if len(made) >= LEAST:
            where = {c.symbol: subject.program.index.modules[c.module].path for c in subject.program.classes}
            found.append(ClassChoice(subject.symbol, {name: where[name] for name in sorted(made) if name in where}))
    return found


def _bodies(body: Body) -> Iterator[Body]:
    yield body
    for s in body:
        for inner in inner_bodies(s):
            yield from _bodies(inner)


def _chosen_in(subject: Subject, body: Body) -> set[str]:
    """Return the classes that the branches of a block make, each by a comparison of the name that most compare."""
    by_name: dict[str, set[str]] = {}
    for s in body:
        for names, block in _branches(s):
            made = _made_in(subject, block)
            for name in names if len(made) == 1 else ():
                by_name.setdefault(name, set()).update(made)
    return max(by_name.values(), key=len, default=set())


def _branches(s: Stmt) -> Iterator[tuple[set[str], Body]]:
    tests: list[tuple[Expr, Body]] = []
    if s[0] == "if":
        tests = list(branches_of(s))
    elif s[0] == "match":
        tests = [(s[2], case[3]) for case in s[3]]
    for test, block in tests:
        yield {name for name in names_in(test) if not _OF_REQUESTS.search(name) and not name.isupper()}, block


def _last(dotted: str) -> str:
    return dotted.rpartition(".")[2]


def _made_in(subject: Subject, block: Body) -> set[str]:
    """Return the own classes whose objects a block gives back or keeps, made or by one of their class methods."""
    out: set[str] = set()
    for s in statements(block):
        if s[0] not in ("return", "assign") or value_of(s) is None:
            continue
        named = {_last(name) for e in own_expressions(s) for name in names_in(e)}
        for edge in subject.sites.inside.get((subject.symbol, line_of(s)), ()):
            owner = edge.dst.removesuffix(".__init__") if edge.kind == "construct" else edge.dst.rpartition(".")[0]
            if edge.kind not in ("construct", "call") or not _last(owner)[:1].isupper():
                continue
            # A class may inherit what makes its objects.
            heirs = (
                [c.symbol for c in subject.program.classes if c.ir.name in named] if _last(owner) not in named else []
            )
            out.add(heirs[0] if len(heirs) == 1 else owner)
    return out
