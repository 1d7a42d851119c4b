"""Resolves names, members and dictionary entries to the constants that they stand for, through imports.

Prompts are usually defined in files of their own and not where they are sent.
"""

from __future__ import annotations

from gapwatch.design.patterns.library_uses import CodePlace
from gapwatch.design.source.ir import Body, Expr, Stmt
from gapwatch.design.source.program import Program, import_target, statements

#: Longest chain of re-exports that is followed.
_MAX_HOPS = 4

Key = str | tuple[str, str]
Constant = tuple[Expr, CodePlace]


class Constants:
    """Assignments at the level of modules and classes, followed through imports."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._assigned: dict[int, dict[Key, Constant]] = {}
        self._imported: dict[int, dict[str, tuple[int, str]]] = {}

    def find(self, e: Expr, module: int, owner: int = -1) -> Constant | None:
        """Return the value of an expression and the place of its assignment, or None if it is not a constant.

        Args:
            e: `NAME`, `module.NAME`, `Class.NAME`, `self.NAME`, or one of these with a constant key.
            module: Number of the module that holds the expression.
            owner: Number of the class whose method holds it; -1 for none.
        """
        if e[0] == "n":
            return self._named(e[1], module)
        if e[0] == "a" and e[1][0] == "n":
            return self._member(e[1][1], e[2], module, owner)
        if e[0] == "s" and e[2][0] == "k" and isinstance(e[2][1], str):
            return self._entry(e[1], e[2][1], module)
        return None

    def _named(self, key: Key, module: int, hops: int = 0) -> Constant | None:
        found = self._of_module(module).get(key)
        if found is not None or hops >= _MAX_HOPS:
            return found
        name = key if isinstance(key, str) else key[0]
        source = self._imports(module).get(name)
        if source is None or not source[1]:
            return None
        return self._named(source[1] if isinstance(key, str) else (source[1], key[1]), source[0], hops + 1)

    def _member(self, holder: str, name: str, module: int, owner: int) -> Constant | None:
        if holder in ("self", "cls"):
            return self._of_class(owner, name) if owner >= 0 else None
        source = self._imports(module).get(holder)
        if source is not None and not source[1]:
            return self._named(name, source[0])
        where, called = source if source is not None else (module, holder)
        first = self._program.first_class[where]
        ir = self._program.irs[where]
        for cls in ir.classes if ir is not None else ():
            if cls.qual == called:
                return self._of_class(first + cls.index, name)
        return None

    def _entry(self, holder: Expr, key: str, module: int) -> Constant | None:
        if holder[0] == "n":
            direct = self._named((holder[1], key), module)
            if direct is not None:
                return direct
        if holder[0] == "a" and holder[1][0] == "n":
            source = self._imports(module).get(holder[1][1])
            direct = self._named((holder[2], key), source[0]) if source is not None and not source[1] else None
            if direct is not None:
                return direct
        whole = self.find(holder, module)
        if whole is None or whole[0][0] != "d":
            return None
        value = next((value for k, value in whole[0][1] if k == ("k", key)), None)
        return None if value is None else (value, whole[1])

    def _of_class(self, number: int, name: str) -> Constant | None:
        cls = self._program.classes[number]
        return _assignments(cls.ir.body, self._program.index.modules[cls.module].path).get(name)

    def _of_module(self, module: int) -> dict[Key, Constant]:
        if module not in self._assigned:
            self._assigned[module] = _assignments(self._body(module), self._program.index.modules[module].path)
        return self._assigned[module]

    def _body(self, module: int) -> Body:
        ir = self._program.irs[module]
        return ir.functions[0].body if ir is not None else ()

    def _imports(self, module: int) -> dict[str, tuple[int, str]]:
        """Return the names that a module imports from the repository: (module, name in it or '')."""
        if module not in self._imported:
            out: dict[str, tuple[int, str]] = {}
            ir = self._program.irs[module]
            # Imports of slow modules are often inside functions.
            for function in ir.functions if ir is not None else ():
                for s in statements(function.body):
                    if s[0] in ("from", "import"):
                        self._note_import(s, module, out)
            self._imported[module] = out
        return self._imported[module]

    def _note_import(self, s: Stmt, module: int, out: dict[str, tuple[int, str]]) -> None:
        index = self._program.index
        if s[0] == "import":
            for dotted, alias in s[2]:
                target = index.resolve(module, dotted)
                if target is not None and (alias or "." not in dotted):
                    out.setdefault(alias or dotted, (target, ""))
            return
        target = import_target(index, module, s[2], str(s[3]))
        if target is None:
            return
        for name, alias in s[4] or ():
            child = index.modules[target].children.get(name)
            is_module = child is not None and name not in self._of_module(target)
            out.setdefault(alias or name, (child, "") if is_module and child is not None else (target, name))


def _assignments(body: Body, path: str) -> dict[Key, Constant]:
    """Return the assignments of a body by name or (name, key), each with its place; the last one counts."""
    out: dict[Key, Constant] = {}
    for s in body:
        if s[0] != "assign" or s[3] is None:
            continue
        for target in s[2]:
            if target[0] == "s" and target[1][0] == "n" and target[2][0] == "k":
                out[target[1][1], str(target[2][1])] = s[3], CodePlace(path, s[1])
            elif target[0] == "n":
                out[target[1]] = s[3], CodePlace(path, s[1])
    return out
