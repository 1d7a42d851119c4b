"""Names of the code: what each scope mentions, and which function, class or file a name means there."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

from gapwatch.design.architecture.claimed_code import ClaimedCode
from gapwatch.design.metrics.rules.default_settings import default_values
from gapwatch.design.patterns.code_walk import arguments_of, own_expressions, text_of, walk
from gapwatch.design.source.evaluations import EVALUATION_FOLDERS, is_offline_evaluation
from gapwatch.design.source.ir import Body, Expr, Stmt, branches_of, callee_of, is_call, is_name, is_text
from gapwatch.design.source.program import ClassInfo, FunctionInfo, import_target, last_name, statements

#: Bases that call nothing of their subclasses.
NO_LIBRARY = frozenset({"abc.ABC", "typing.Protocol", "typing.Generic", "typing_extensions.Protocol", "object"})
#: Decorators of libraries that register nothing: whoever wants the function calls it.
_WRAPPERS = re.compile(
    r"(^|\.)(lru_cache|cache|cached|cached_property|wraps|contextmanager|asynccontextmanager|retry|on_exception|observe"
    r"|traceable|trace|tool|traced|deprecated|override|overload|final|validate_call|typechecked|beartype|singledispatch"
    r"|start_as_current_span|sleep_and_retry|no_type_check|recorded)$"
)
#: Libraries whose decorators register a command of a command line.
COMMAND_LINES = frozenset({"click", "typer", "fire", "cyclopts", "argh", "invoke", "pytest"})
#: Methods of built-in values; such a name says nothing of the class.
BUILT_IN = frozenset(n for kind in (str, bytes, list, dict, set, tuple, BaseException) for n in dir(kind))
#: Calls that find a class without its name.
_FINDS_CLASSES = frozenset({"__subclasses__", "import_module", "__import__", "entry_points", "import_string"})

#: Calls that load or read a file of the program, and run none of its functions by themselves.
_READS_MODULES = frozenset({"reload", "getattr", "setattr", "hasattr", "print", "isinstance", "str", "repr", "id"})
#: Folders of what a developer runs to measure or to try.
OF_DEVELOPERS = re.compile(
    rf"(^|/)({EVALUATION_FOLDERS}|tests?_\w+|\w+_tests?|bench|experiments?|simulat\w+|profiling|demos?(_\w+)?)(/|$)",
    re.I,
)
#: The file itself, as a value.
THIS_FILE = "sys.modules[__name__]"

Names = tuple[set[str], set[tuple[str, str]], set[str], list[Stmt], set[str]]


class CodeNames:
    """Tables over the functions, classes and files of the analysed code.

    Args:
        code: The analysed code.
    """

    def __init__(self, code: ClaimedCode) -> None:
        self.code = code
        self.program = code.material.program
        self.sites = code.material.sites
        self.functions = {f.symbol: f for f in self.program.functions}
        self.classes = {c.symbol: c for c in self.program.classes}
        self.modules = {m.name: m for m in self.program.index.modules}
        self.methods: dict[int, list[FunctionInfo]] = defaultdict(list)
        self.inner: dict[int, list[FunctionInfo]] = defaultdict(list)
        self._top: dict[int, dict[str, str]] = defaultdict(dict)
        self._top_by_name: dict[str, list[str]] = defaultdict(list)
        self.classes_of: dict[int, list[ClassInfo]] = defaultdict(list)
        for f in self.program.functions:
            if f.owner >= 0:
                self.methods[f.owner].append(f)
            elif f.parent >= 0:
                self.inner[f.parent].append(f)
                if self.program.functions[f.parent].parent < 0:
                    self._top[f.module][f.ir.name] = f.symbol
                    self._top_by_name[f.ir.name].append(f.symbol)
        for c in self.program.classes:
            self.classes_of[c.module].append(c)
            self._top[c.module].setdefault(c.ir.name, c.symbol)
        self._below: dict[int, list[int]] = defaultdict(list)
        for c in self.program.classes:
            for base in c.bases:
                self._below[base].append(c.number)
        self.open: dict[str, set[str]] = defaultdict(set)
        for u in code.material.graph.unresolved:
            self.open[u.src].add(u.text.rpartition(".")[2].removesuffix("()"))
        named = {f.ir.name for f in self.program.functions if f.owner >= 0} - BUILT_IN
        self._told: dict[str, set[str]] = defaultdict(set)
        for src, dst in [
            *((e.src, e.dst) for e in code.material.graph.edges),
            *((e.src, e.dotted) for e in code.material.graph.externals),
        ]:
            # A method of the repository is taken for one of a library where only its name is known.
            if dst in self.functions or dst.rpartition(".")[2] not in named:
                self._told[src].add(dst.rpartition(".")[2])
        decorators = {s.id: s.decorators for s in code.material.graph.symbols if s.decorators}
        #: Functions that are commands of a command line.
        self.commands = {s for s, some in decorators.items() if any(d.partition(".")[0] in COMMAND_LINES for d in some)}
        marks = {f.ir.name for f in self.program.functions if 0 in f.returned and f.owner < 0}
        marks |= {
            self.program.functions[f.parent].ir.name
            for f in self.program.functions
            if 0 in f.returned and f.owner < 0 and f.parent >= 0
        } - {""}
        #: Functions that a library or the repository is handed by a decorator, so that it may call them.
        self.registered = {
            f.symbol
            for f in self.program.functions
            if (
                any(
                    d.partition(".")[0] not in COMMAND_LINES and not _WRAPPERS.search(d)
                    for d in decorators.get(f.symbol, ())
                )
                or any(last_name(d) in marks for d in f.ir.decorators)
            )
            and not is_offline_evaluation(self.program, f)
        }
        #: Subclasses that a class of the repository lists when they are defined: a setting may name each of them.
        self.listed = {
            n
            for number, methods in list(self.methods.items())
            if any(f.ir.name == "__init_subclass__" for f in methods)
            for n in self.below(number)
        }
        #: Whether the code finds classes and files without their names.
        self.finds_by_text = any(
            last_name(e) in _FINDS_CLASSES
            for f in self.program.functions
            if self.program.files[f.module] is not None and not self.program.files[f.module].tags  # type: ignore[union-attr]
            for s in statements(f.ir.body)
            for whole in own_expressions(s)
            for e in walk(whole)
            if e[0] in "an"
        )
        self._names: dict[tuple[str, int], Names] = {}
        self._switches: dict[int, dict[str, bool]] = {}
        self._switches_of_files: dict[int, dict[str, bool]] = {}
        self._imports: dict[int, list[tuple[str | None, int, str | None]]] = {}
        self._bound: dict[tuple[int, str], tuple[int, str | None] | None] = {}
        self._handed_on: set[str] | None = None

    def is_production(self, module: int) -> bool:
        """Return whether a file is neither of tests and examples nor of evaluations and trials."""
        file = self.program.files[module]
        return file is not None and not file.tags and not OF_DEVELOPERS.search(self.program.index.modules[module].path)

    def handed_on(self) -> set[str]:
        """Return the functions and classes that packages hand to whoever imports them."""
        if self._handed_on is None:
            self._handed_on = set()
            for module in self.program.index.modules:
                ir = self.program.irs[module.index]
                if ir is not None and module.is_package and self.is_production(module.index):
                    bound = [
                        alias or name for s in ir.functions[0].body if s[0] == "from" for name, alias in s[4] or ()
                    ]
                    found = {self.resolve(module.index, name) for name in bound if not name.startswith("_")}
                    self._handed_on |= {symbol for symbol in found if symbol is not None}
        return self._handed_on

    def is_made(self, cls: ClassInfo) -> bool:
        """Return whether production code makes objects of a class, beside itself and what packages offer to users."""
        edges = [e for s in (cls.symbol, f"{cls.symbol}.__init__") for e in self.sites.callers.get(s, ())]
        makers = {e.src for e in edges if e.kind == "construct" and not e.src.startswith(f"{cls.symbol}.")}
        found = [self.functions[s].module for s in makers - self.handed_on() if s in self.functions]
        return any(self.is_production(module) for module in found)

    def below(self, number: int) -> set[int]:
        """Return the descendants of a class inside the repository."""
        out: set[int] = set()
        frontier = [number]
        while frontier:
            fresh = [n for n in self._below.get(frontier.pop(), ()) if n not in out]
            out.update(fresh)
            frontier += fresh
        return out

    def family(self, number: int) -> set[int]:
        """Return a class and its ancestors and descendants inside the repository."""
        out = {number}
        frontier = [number]
        while frontier:
            for base in self.program.classes[frontier.pop()].bases:
                if base not in out:
                    out.add(base)
                    frontier.append(base)
        return out | self.below(number)

    def public(self, module: int) -> list[str]:
        """Return the functions of a file by which others know it: outside of classes, without an underscore."""
        return [s for name, s in self._top[module].items() if not name.startswith("_") and s in self.functions]

    def resolve(self, module: int, name: str, depth: int = 8) -> str | None:
        """Return the function, class or module of the repository that a name means in a file, or None."""
        own = self._top[module].get(name)
        if own is not None or depth == 0:
            return own
        key = module, name
        if key not in self._bound:
            self._bound[key] = self._imported(module, name)
        bound = self._bound[key]
        if bound is None:
            return None
        target, inside = bound
        if inside is None:
            return self.program.index.modules[target].name
        found = self.resolve(target, inside, depth - 1)
        child = self.program.index.modules[target].children.get(inside)
        return found or (self.program.index.modules[child].name if child is not None else None)

    def _imported(self, module: int, name: str) -> tuple[int, str | None] | None:
        for bound, target, inside in self._imports_of(module):
            if bound == name:
                return target, inside
            if bound is None and self.resolve(target, name, 3) is not None:
                return target, name
        return None

    def _imports_of(self, module: int) -> list[tuple[str | None, int, str | None]]:
        """Return the imports of a file in their order: (name here, None for all of them; file; name there)."""
        if module not in self._imports:
            found = self._imports[module] = []
            ir = self.program.irs[module]
            for s in (s for function in (ir.functions if ir is not None else ()) for s in statements(function.body)):
                if s[0] == "from":
                    target = import_target(self.program.index, module, s[2], str(s[3]))
                    if target is not None and target != module:
                        some = s[4] if s[4] is not None else ()
                        found += [(alias or one, target, one) for one, alias in some] or [(None, target, None)]
                elif s[0] == "import":
                    for dotted, alias in s[2]:
                        bound = alias or dotted.partition(".")[0]
                        target = self.program.index.resolve(module, dotted if alias else bound)
                        if target is not None:
                            found.append((bound, target, None))
        return self._imports[module]

    def switches(self, info: FunctionInfo) -> dict[str, bool]:
        """Return the names in a function that hold a switch of the environment, with their defaults."""
        if info.number not in self._switches:
            ir = self.program.irs[info.module]
            if info.module not in self._switches_of_files:
                bodies = [ir.functions[0].body] if ir is not None else []
                self._switches_of_files[info.module] = default_values(bodies)
            own = default_values([info.ir.body])
            self._switches[info.number] = {**self._switches_of_files[info.module], **own}
        return self._switches[info.number]

    def names_of(self, symbol: str, bodies: list[Body], further: list[Expr]) -> Names:
        """Return what a scope, whose own body comes first, mentions.

        Returns:
            Plain names, `x.name` pairs, texts, imports, and the names and elements that calls are handed.
        """
        key = symbol, len(bodies[0])
        if key not in self._names:
            plain: set[str] = set()
            members: set[tuple[str, str]] = set()
            texts: set[str] = set()
            imports: list[Stmt] = []
            handed: set[str] = set()
            called: set[int] = set()
            found: list[Expr] = list(further)
            for body in bodies:
                for s in statements(body):
                    if s[0] in ("from", "import"):
                        imports.append(s)
                    elif not (s[0] == "expr" and s[2][0] == "k"):
                        found += own_expressions(s)
                        if s[0] == "assign" and s[4] is not None:
                            found.append(s[4])
            is_open = self.open.get(symbol, set())
            for whole in found:
                for e in walk(whole):
                    if is_call(e):
                        called.add(id(callee_of(e)))
                        if last_name(e) not in _READS_MODULES:
                            handed.update(text_of(a) for a in arguments_of(e) if a[0] in ("n", "s"))
                    if e[0] == "n":
                        plain.add(e[1])
                    elif e[0] == "a":
                        # A call that is resolved has its edge.
                        if id(e) not in called or e[2] not in self._told[symbol] or e[2] in is_open:
                            members.add((e[1][1] if is_name(e[1]) else "", e[2]))
                    elif is_text(e) and len(e[1]) < 200:
                        texts.add(e[1])
            self._names[key] = plain, members, texts, imports, handed
        return self._names[key]


def main_blocks(body: Body) -> list[Stmt]:
    """Return what a file runs only as a program: `if __name__ == "__main__"`."""
    return [s for s in body if s[0] == "if" and any(_reads_name(test) for test, _ in branches_of(s))]


def _reads_name(e: Expr) -> bool:
    return any(inner == ("n", "__name__") for inner in walk(e))


def imports_of(program_body: Body) -> Iterator[str]:
    """Yield the first parts of the names that a file imports from outside."""
    for s in statements(program_body):
        if s[0] == "import":
            yield from (dotted.partition(".")[0] for dotted, _ in s[2])
        elif s[0] == "from" and not s[2]:
            yield str(s[3]).partition(".")[0]
