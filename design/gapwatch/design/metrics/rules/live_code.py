"""Follows ways in through resolved calls, names that imports explain, and methods of classes that are made."""

from __future__ import annotations

import builtins
import re
from collections import defaultdict
from collections.abc import Iterable

from gapwatch.design.metrics.rules.code_names import BUILT_IN, NO_LIBRARY, THIS_FILE, CodeNames, main_blocks
from gapwatch.design.metrics.rules.default_settings import run_by_default
from gapwatch.design.patterns.code_walk import walk
from gapwatch.design.source.ir import Body, Expr, Stmt
from gapwatch.design.source.program import FunctionInfo, import_target, last_name

#: A dotted name in a text, as a library imports it: `app.main:app`.
_DOTTED = re.compile(r"[A-Za-z_][\w]*([.:/][A-Za-z_]\w*)+$")
#: Names of classes that wrap what users give, or stand in for it when they try the code.
_STANDS_IN = re.compile(r"_|(Mock|Fake|Dummy|Stub|Noop|NoOp|Null)")
#: Bases of classes that hold values; nothing but Python calls their other methods.
_DATA_BASES = frozenset(dir(builtins)) | {"pydantic.BaseModel", "pydantic.main.BaseModel", "enum.Enum"}


def live_functions(names: CodeNames, ways_in: Iterable[str], with_main: Iterable[str] = ()) -> set[str]:
    """Return the functions that run when some functions and modules do: a method is live once its class is.

    A class that nothing makes and that an annotation names has its objects from whoever uses the code: of an abstract
    one each subclass that a package hands on may be given.

    Args:
        names: Names of the code.
        ways_in: Functions, classes and modules that run.
        with_main: Modules that also run what they run as a program.

    Source:
        Bacon and Sweeney (1996), Fast Static Analysis of C++ Virtual Function Calls (rapid type analysis).
    """
    found = _Walk(names, frozenset(with_main))
    for symbol in [*ways_in, *found.with_main]:
        found.enter(symbol)
    found.run()
    while found.take_given():
        found.run()
    return {s for s in found.live if (f := names.functions.get(s)) is not None and f.ir.kind != "module"}


class _Walk:
    def __init__(self, code: CodeNames, with_main: frozenset[str]) -> None:
        self.code, self.with_main = code, with_main
        self.live: set[str] = set()
        self._classes: set[int] = set()
        self._named: set[int] = set()
        self._annotated: set[int] = set()
        self._given: set[int] = set()
        self._owned: set[int] = set()
        self._wanted: set[str] = set()
        self._waiting: dict[int, set[str]] = defaultdict(set)
        self._frontier: list[str] = []

    def enter(self, symbol: str) -> None:
        """Take in a way in, with the functions around it, and its class where users of the code make its objects."""
        code, info = self.code, self.code.functions.get(symbol)
        while info is not None and info.ir.kind != "module":
            if info.owner >= 0:
                cls = code.program.classes[info.owner]
                if cls.symbol in code.handed_on() or code.is_made(cls):
                    self._make(cls.number)
            self.reach(info.symbol)
            info = code.program.functions[info.parent] if info.parent >= 0 else None
        self.reach(symbol)

    def take_given(self) -> bool:
        """Take in what users may give where an abstract class is wanted and nothing makes one; return if any is new."""
        code = self.code
        for number in sorted(self._annotated - self._given):
            self._given.add(number)
            below = [code.program.classes[n] for n in sorted(code.below(number))]
            public = [c for c in below if not _STANDS_IN.match(c.ir.name) and code.is_production(c.module)]
            if any(c.number in self._named or code.is_made(c) for c in public):
                continue
            for cls in public:
                if cls.symbol in code.handed_on():
                    self.reach(cls.symbol)
        return bool(self._frontier)

    def reach(self, symbol: str) -> None:
        """Take in a function, class or module."""
        info, cls = self.code.functions.get(symbol), self.code.classes.get(symbol)
        if cls is not None:
            self._named.add(cls.number)
        if symbol in self.live:
            return
        if cls is not None:
            self._make(cls.number)
            return
        is_bound = info is not None and info.owner >= 0 and not (info.is_static or info.is_classmethod)
        if info is not None and is_bound and info.owner not in self._classes:
            self._waiting[info.owner].add(symbol)
            if info.ir.name == "__init__":
                self._make(info.owner)
            return
        self.live.add(symbol)
        self._frontier.append(symbol)

    def run(self) -> None:
        """Follow everything that was taken in."""
        while self._frontier:
            symbol = self._frontier.pop()
            info = self.code.functions.get(symbol)
            if info is None:
                continue
            if info.ir.kind == "module":
                self._run_module(info)
            else:
                self._run_function(info)

    def _make(self, number: int) -> None:
        if number in self._classes:
            return
        code = self.code
        self._classes.add(number)
        cls = code.program.classes[number]
        self.live.add(cls.symbol)
        self._import(cls.module)
        for base in cls.bases:
            self._make(base)
        self._annotate(cls.module, [s[4] for s in cls.ir.body if s[0] == "assign"])
        above = [c for c in code.family(number) if c in self._classes]
        library = {o for c in above for o in code.program.classes[c].outside} - NO_LIBRARY
        asked = {s.rpartition(".")[2] for c in code.family(number) for s in self._waiting.get(c, ())}
        asked |= {f.ir.name for c in above for f in code.methods[c] if f.symbol in self.live}
        for f in code.methods[number]:
            name = f.ir.name
            called = name.startswith("__") or f.symbol in code.registered or name in self._wanted or name in asked
            if called or (library and not name.startswith("_")) or (library and not library <= _DATA_BASES):
                self.reach(f.symbol)

    def _annotate(self, module: int, annotations: Iterable[Expr | None]) -> None:
        """Note the abstract classes that some annotations name, also of what users hand to an object of theirs."""
        code = self.code
        for name in (e[1] for whole in annotations if whole is not None for e in walk(whole) if e[0] == "n"):
            cls = code.classes.get(code.resolve(module, name) or "")
            if cls is None or cls.number in self._annotated:
                continue
            methods = code.methods[cls.number]
            if any(f.is_abstract for f in methods):
                self._annotated.add(cls.number)
            elif cls.number not in self._owned and cls.symbol in code.handed_on() and not code.is_made(cls):
                self._owned.add(cls.number)
                for f in methods:
                    if not f.ir.name.startswith("_"):
                        self._annotate(f.module, [p.annotation for p in f.ir.params])

    def _import(self, module: int) -> None:
        index = self.code.program.index
        parts = index.modules[module].parts
        for length in range(1, len(parts) + 1):
            found = index.by_parts.get(parts[:length])
            if found is not None and index.modules[found].path:
                self.reach(index.modules[found].name)
        self.reach(index.modules[module].name)

    def _run_module(self, info: FunctionInfo) -> None:
        code, body = self.code, info.ir.body
        blocks = main_blocks(body)
        if info.symbol not in self.with_main:
            body = tuple(s for s in body if s not in blocks)
        lines = {n for s in blocks for n in range(s[1], s[4] + 1)} if info.symbol not in self.with_main else set()
        classes = code.classes_of[info.module]
        for f in (*code.inner[info.number], *(m for c in classes for m in code.methods[c.number] if m.is_static)):
            if f.symbol in code.registered or f.ir.kind == "lambda":
                self.reach(f.symbol)
        further: list[Expr] = []
        is_found = code.finds_by_text and code.is_production(info.module)
        for c in classes:
            further += c.ir.decorators
            is_registered = any(last_name(d) != "dataclass" for d in c.ir.decorators) or c.number in code.listed
            if is_registered or (is_found and (c.bases or set(c.outside) - NO_LIBRARY)):
                self._make(c.number)
                self._made_by_text(c.symbol)
        self._follow(info, info.symbol, [body, *(c.ir.body for c in classes)], further, lines)
        for c in classes:
            for edge in code.sites.callees.get(c.symbol, ()):
                self.reach(edge.dst)

    def _run_function(self, info: FunctionInfo) -> None:
        code = self.code
        self._import(info.module)
        for f in code.inner[info.number]:
            self.reach(f.symbol)
        if info.owner >= 0:
            # Whoever calls a method may have an object of a subclass.
            for number in code.family(info.owner) & self._classes:
                for f in code.methods[number]:
                    if f.ir.name == info.ir.name:
                        self.reach(f.symbol)
        if info.ir.name == "__init__":
            self._annotate(info.module, [p.annotation for p in info.ir.params])
        given = [e for p in info.ir.params for e in (p.annotation, p.default) if e is not None]
        given += [*info.ir.decorators, *([info.ir.returns] if info.ir.returns is not None else [])]
        # An arm behind a switch that is off by default runs nowhere until somebody switches it on.
        known = code.switches(info)
        body, skip = run_by_default(info.ir.body, known) if known else (info.ir.body, set[int]())
        self._follow(info, info.symbol, [body], given, skip)

    def _follow(self, info: FunctionInfo, symbol: str, bodies: list[Body], further: list[Expr], skip: set[int]) -> None:
        code, module = self.code, info.module
        for edge in code.sites.callees.get(symbol, ()):
            is_listed = edge.kind != "call" and edge.dst in code.commands
            if not is_listed and (not skip or any(line not in skip for _, line in edge.sites)):
                if edge.kind == "construct":
                    self.reach(edge.dst.removesuffix(".__init__"))
                self.reach(edge.dst)
        plain, members, texts, imports, handed = code.names_of(symbol, bodies, further)
        for name in plain:
            if (found := code.resolve(module, name)) is not None:
                self.reach(found)
                if name in handed and found in code.modules:
                    self._run_all(code.modules[found].index)
        if THIS_FILE in handed:
            self._run_all(module)
        for base, name in members:
            self._member(info, base, name)
        for text in texts:
            self._text(module, text, "getattr" in plain)
        for s in imports:
            self._imports(module, s, plain)

    def _member(self, info: FunctionInfo, base: str, name: str) -> None:
        code = self.code
        if base in ("self", "cls") and info.owner >= 0:
            for number in code.family(info.owner):
                for f in code.methods[number]:
                    if f.ir.name == name:
                        self.reach(f.symbol)
            return
        found = code.resolve(info.module, base) if base else None
        if found is not None and found in code.modules:
            if (inside := code.resolve(code.modules[found].index, name)) is not None:
                self.reach(inside)
            return
        if name in BUILT_IN and name not in code.open.get(info.symbol, ()):
            return
        self._want(name)

    def _want(self, name: str) -> None:
        if name in self._wanted:
            return
        self._wanted.add(name)
        for number in list(self._classes):
            for f in self.code.methods[number]:
                if f.ir.name == name:
                    self.reach(f.symbol)

    def _text(self, module: int, text: str, is_read: bool) -> None:
        if is_read and text.isidentifier():
            self._want(text)
        if not _DOTTED.match(text):
            return
        parts = re.split(r"[.:/]", text.removesuffix(".py"))
        for length in range(len(parts), 1, -1):
            found = self.code.program.index.resolve(module, ".".join(parts[:length]))
            if found is not None:
                self._import(found)
                inside = self.code.resolve(found, parts[length]) if length < len(parts) else None
                if inside is not None:
                    self.reach(inside)
                    self._made_by_text(inside)
                return

    def _run_all(self, module: int) -> None:
        """Take in the public functions of a file that is handed to a call as a value: a library finds them by name."""
        for symbol in self.code.public(module):
            self.reach(symbol)

    def _made_by_text(self, symbol: str) -> None:
        """Take in the public methods of a class whose objects no call shows."""
        cls = self.code.classes.get(symbol)
        for f in self.code.methods[cls.number] if cls is not None else ():
            if not f.ir.name.startswith("_"):
                self.reach(f.symbol)

    def _imports(self, module: int, s: Stmt, names: set[str]) -> None:
        index = self.code.program.index
        if s[0] == "import":
            targets = [index.resolve(module, dotted) for dotted, _ in s[2]]
        else:
            target = import_target(index, module, s[2], str(s[3]))
            targets = [target]
            if target is not None:
                targets += [index.modules[target].children.get(name) for name, _ in s[4] or ()]
                # The same name may be imported from one of several files.
                for name, alias in s[4] or ():
                    if (alias or name) in names and (meant := self.code.resolve(target, name)) is not None:
                        self.reach(meant)
        for found in targets:
            if found is not None:
                self._import(found)
