"""Resolves names, members and dictionary entries to the constants that they stand for, through imports.

Prompts are usually defined in files of their own and not where they are sent.
"""

from __future__ import annotations

from gapwatch.design.patterns.library_uses import CodePlace
from gapwatch.design.source.ir import (
    Body,
    Expr,
    Stmt,
    constant_of,
    from_module,
    from_names,
    import_names,
    index_of,
    is_member,
    is_name,
    is_subscript,
    is_text,
    line_of,
    member_of,
    name_of,
    owner_of,
    pairs_in,
    targets_of,
    value_of,
)
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
        if is_name(e):
            return self._named(name_of(e), module)
        if is_member(e) and is_name(owner_of(e)):
            return self._member(name_of(owner_of(e)), member_of(e), module, owner)
        if is_subscript(e) and is_text(index_of(e)):
            return self._entry(owner_of(e), constant_of(index_of(e)), module)
        return None

    def _named(self, key: Key, module: int, hops: int = 0) -> Constant | None:
        found = self._of_module(module).get(key)
        if found is not None or hops >= _MAX_HOPS:
            return found
        name = key if isinstance(key, str) else key[0]
        source = self.imports(module).get(name)
        if source is None or not source[1]:
            return None
        return self._named(source[1] if isinstance(key, str) else (source[1], key[1]), source[0], hops + 1)

    def _member(self, holder: str, name: str, module: int, owner: int) -> Constant | None:
        if holder in ("self", "cls"):
            return self._of_class(owner, name) if owner >= 0 else None
        source = self.imports(module).get(holder)
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
        if is_name(holder):
            direct = self._named((name_of(holder), key), module)
            if direct is not None:
                return direct
        if is_member(holder) and is_name(owner_of(holder)):
            source = self.imports(module).get(name_of(owner_of(holder)))
            is_module = source is not None and not source[1]
            direct = self._named((member_of(holder), key), source[0]) if source is not None and is_module else None
            if direct is not None:
                return direct
        whole = self.find(holder, module)
        if whole is None:
            return None
        dictionary, place = whole
        if dictionary[0] != "d":
            return None
        value = next((value for k, value in pairs_in(dictionary) if k == ("k", key)), None)
        return None if value is None else (value, place)

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

    def imports(self, module: int) -> dict[str, tuple[int, str]]:
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
            for dotted, alias in import_names(s):
                target = index.resolve(module, dotted)
                if target is not None and (alias or "." not in dotted):
                    out.setdefault(alias or dotted, (target, ""))
            return
        target = import_target(index, module, *from_module(s))
        if target is None:
            return
        for name, alias in from_names(s) or ():
            child = index.modules[target].children.get(name)
            is_module = child is not None and name not in self._of_module(target)
            out.setdefault(alias or name, (child, "") if is_module and child is not None else (target, name))


def _assignments(body: Body, path: str) -> dict[Key, Constant]:
    """Return the assignments of a body by name or (name, key), each with its place.

    The last one counts, also one in a branch or a handler, which may be the only one that gives a constant.
    """
    out: dict[Key, Constant] = {}
    at_top = {id(s) for s in body}
    for s in sorted(statements(body), key=lambda s: id(s) in at_top):
        if s[0] != "assign" or (value := value_of(s)) is None or (id(s) not in at_top and value == ("k", None)):
            continue
        for target in targets_of(s):
            if is_subscript(target) and is_name(owner_of(target)) and index_of(target)[0] == "k":
                key = name_of(owner_of(target)), str(constant_of(index_of(target)))
                out[key] = value, CodePlace(path, line_of(s))
            elif is_name(target):
                out[name_of(target)] = value, CodePlace(path, line_of(s))
    return out
