"""Finds what the classes of a repository assign to their attributes, and of which class the objects of settings are."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from gapwatch.design.architecture.constants import Constants
from gapwatch.design.architecture.text_shapes import peeled, text_and_fields
from gapwatch.design.patterns.call_sites import CallSites
from gapwatch.design.patterns.code_walk import arguments_of, keyword, text_of
from gapwatch.design.patterns.hit import Subject
from gapwatch.design.source.ir import (
    Expr,
    call_line,
    callee_of,
    constant_of,
    index_of,
    is_call,
    is_member,
    is_name,
    is_subscript,
    is_text,
    keywords_of,
    line_of,
    member_of,
    name_of,
    owner_of,
    pairs_in,
    positional_of,
    targets_of,
    value_of,
)
from gapwatch.design.source.program import Program, last_name

#: Most assignments of one attribute.
_MOST = 6


class AssignedAttributes:
    """Attributes of classes with what is assigned to them.

    Args:
        program: All files in intermediate form.
        sites: Targets of all call sites.
    """

    def __init__(self, program: Program, sites: CallSites) -> None:
        self._program = program
        self._sites = sites
        self._known: dict[int, dict[str, list[tuple[Subject, Expr, int]]]] = {}

    def of(self, owner: int, name: str) -> list[tuple[Subject, Expr, int]]:
        """Return what the methods of a class, of its bases, or else of its subclasses assign to an attribute."""
        classes = self._program.classes
        line, seen = [owner], {owner}
        while line:
            number = line.pop(0)
            if found := self._assigned(number).get(name):
                return found[:_MOST]
            line += [n for n in classes[number].bases if n not in seen]
            seen.update(line)
        refined = [one for n in classes[owner].subclasses for one in self._assigned(n).get(name, ())]
        return (refined or list(self._given(owner, name)))[:_MOST]

    def _given(self, owner: int, name: str) -> Iterator[tuple[Subject, Expr, int]]:
        """Yield what is given by name where an object of a class is made, whose library keeps it as an attribute."""
        made = self._program.classes[owner]
        if not made.outside:
            return
        for edge in (*self._sites.callers[f"{made.symbol}.__init__"], *self._sites.callers[made.symbol]):
            number = self._sites.numbers(self._program).get(edge.src)
            if number is None or edge.kind != "construct":
                continue
            holder = Subject(self._program, self._sites, self._program.functions[number])
            for call in holder.calls:
                value = keyword(call, name)
                if value is not None and edge in holder.inside(call):
                    yield holder, value, call_line(call)

    def _assigned(self, owner: int) -> dict[str, list[tuple[Subject, Expr, int]]]:
        if owner not in self._known:
            out: dict[str, list[tuple[Subject, Expr, int]]] = {}
            cls = self._program.classes[owner]
            body = self._program.functions[self._program.bodies[cls.module]]
            holder = Subject(self._program, self._sites, body)
            for s in cls.ir.body:
                if s[0] == "assign" and (value := value_of(s)) is not None:
                    for target in targets_of(s):
                        out.setdefault(text_of(target), []).append((holder, value, line_of(s)))
            for number in self._methods.get(owner, ()):
                method = Subject(self._program, self._sites, self._program.functions[number])
                for s in method.statements:
                    if s[0] == "assign" and (value := value_of(s)) is not None:
                        for target in targets_of(s):
                            if is_member(target) and owner_of(target) == ("n", "self"):
                                out.setdefault(member_of(target), []).append((method, value, line_of(s)))
            self._known[owner] = out
        return self._known[owner]

    @cached_property
    def _methods(self) -> dict[int, list[int]]:
        out: dict[int, list[int]] = {}
        for info in self._program.functions:
            if info.owner >= 0:
                out.setdefault(info.owner, []).append(info.number)
        return out


#: Methods and functions that give the fields of an object as a dictionary.
_AS_DICTIONARY = frozenset({"model_dump", "dict", "asdict", "to_dict"})
#: Most names, members and calls in a row through which an object is followed to its class.
_MAX_STEPS = 6


class HeldObjects:
    """Fields of the objects that names hold, such as settings: `settings.prompts.rules`.

    Args:
        program: All files in intermediate form.
        sites: Targets of all call sites.
        constants: Assignments of modules and classes.
        attributes: What classes assign to their attributes.
    """

    def __init__(
        self, program: Program, sites: CallSites, constants: Constants, attributes: AssignedAttributes
    ) -> None:
        self._program = program
        self._sites = sites
        self._constants = constants
        self._attributes = attributes
        self._known: dict[tuple[int, str, int], frozenset[int]] = {}

    def field(self, owner: Expr, name: str, subject: Subject) -> list[tuple[Subject, Expr, int]]:
        """Return what the class of an object gives a field: (code that gives it, value, line).

        Args:
            owner: The object.
            name: Name of the field.
            subject: Function that has the object.
        """
        numbers = sorted(self.classes_of(owner, subject))
        return [found for number in numbers for found in self._attributes.of(number, name)]

    def entries(self, e: Expr, subject: Subject) -> Iterator[tuple[tuple[str, ...], Subject, Expr, int]]:
        """Yield the texts of an object's fields, and of dictionaries in them, by their keys in lower case."""
        for number in sorted(self.classes_of(e, subject)):
            cls = self._program.classes[number]
            names = {text_of(target) for s in cls.ir.body if s[0] == "assign" for target in targets_of(s)}
            for name in sorted(names):
                for holder, value, line in self._attributes.of(number, name):
                    yield from (((name.lower(), *keys), holder, text, line) for keys, text in _texts(value))

    def made_entries(self, e: Expr, subject: Subject) -> Iterator[tuple[Expr, Subject, str, int]]:
        """Yield an entry of a dictionary that a function fills: `templates[Name.ANSWER]` of `templates = define()`.

        Each is (value, code that gives it, key, line).
        """
        inner = peeled(e) if e[0] != "a" else None
        if inner is None or not (is_member(inner[1]) or is_text(inner[1])):
            return
        key = text_of(inner[1])
        for maker in self._makers(inner[0], subject, 0):
            for s in maker.statements:
                for target in targets_of(s) if s[0] == "assign" else ():
                    if is_subscript(target) and text_of(index_of(target)) == key and (value := value_of(s)) is not None:
                        yield value, maker, last_name(inner[1]), line_of(s)

    def _makers(self, e: Expr, subject: Subject, depth: int) -> Iterator[Subject]:
        """Yield the functions whose result a name holds, also inside a call of a library: `MappingProxyType(made)`."""
        if is_call(e):
            for edge in subject.inside(e):
                if (maker := subject.other(edge.dst)) is not None:
                    yield maker
            for argument in positional_of(e):
                yield from self._makers(argument, subject, depth)
        elif is_name(e) and depth < _MAX_STEPS:
            found = self._constants.find(e, subject.info.module)
            if found is not None and (holder := self.body(found[1].path)) is not None:
                yield from self._makers(found[0], holder, depth + 1)

    def classes_of(self, e: Expr, subject: Subject, depth: int = 0) -> frozenset[int]:
        """Return the numbers of the classes of which an expression can hold an object."""
        key = subject.info.number, text_of(e), depth
        if key in self._known or depth > _MAX_STEPS:
            return self._known.get(key, frozenset())
        self._known[key] = found = frozenset(self._classes(e, subject, depth))
        return found

    def _classes(self, e: Expr, subject: Subject, depth: int) -> Iterator[int]:
        if is_call(e):
            name = last_name(e)
            made = self.class_named(callee_of(e), subject)
            if made is not None:
                yield made
                return
            own = owner_of(callee_of(e)) if is_member(callee_of(e)) else None
            for edge in subject.inside(e):
                if (builder := subject.other(edge.dst)) is not None:
                    for given in builder.returned:
                        yield from self.classes_of(given, builder, depth + 1)
                        # A class method makes an object of the class that it is called on: `Settings.from_file(path)`.
                        if own is not None and is_call(given) and callee_of(given) == ("n", "cls"):
                            number = self.class_named(own, subject)
                            yield from () if number is None else (number,)
            inner = [owner_of(callee_of(e))] if name in _AS_DICTIONARY and is_member(callee_of(e)) else arguments_of(e)
            for argument in inner:
                yield from self.classes_of(argument, subject, depth + 1)
        elif is_name(e):
            yield from self._of_name(e, subject, depth)
        elif is_member(e):
            found = self._constants.find(e, subject.info.module, subject.info.owner)
            if found is not None and (holder := self.body(found[1].path)) is not None:
                yield from self.classes_of(found[0], holder, depth + 1)
            is_own = owner_of(e) in (("n", "self"), ("n", "cls")) and subject.info.owner >= 0
            owners = {subject.info.owner} if is_own else self.classes_of(owner_of(e), subject, depth + 1)
            for owner in sorted(owners):
                for holder, value, _ in self._attributes.of(owner, member_of(e)):
                    yield from self.classes_of(value, holder, depth + 1)

    def _of_name(self, e: Expr, subject: Subject, depth: int) -> Iterator[int]:
        if (number := self.class_named(e, subject)) is not None:
            yield number
            return
        for p in subject.ir.params:
            if p.name == name_of(e):
                for given in filter(None, (p.annotation, p.default)):
                    yield from self.classes_of(given, subject, depth + 1)
        for s in subject.statements:
            if s[0] == "assign" and e in targets_of(s) and (value := value_of(s)) is not None:
                yield from self.classes_of(value, subject, depth + 1)
        found = self._constants.find(e, subject.info.module)
        if found is not None and (holder := self.body(found[1].path)) is not None:
            yield from self.classes_of(found[0], holder, depth + 1)

    def class_named(self, e: Expr, subject: Subject) -> int | None:
        """Return the number of the class of the repository that a name or `module.Name` is."""
        if not is_name(e):
            return None
        source = self._constants.imports(subject.info.module).get(name_of(e))
        module, called = source if source is not None else (subject.info.module, name_of(e))
        ir = self._program.irs[module]
        for cls in ir.classes if ir is not None else ():
            if cls.qual == called:
                return self._program.first_class[module] + cls.index
        return None

    def body(self, path: str) -> Subject | None:
        """Return the code of the module of a file."""
        number = self._bodies.get(path)
        return Subject(self._program, self._sites, self._program.functions[number]) if number is not None else None

    @cached_property
    def _bodies(self) -> dict[str, int]:
        modules = self._program.index.modules
        return {m.path: body for m in modules if (body := self._program.bodies[m.index]) >= 0}


def _texts(e: Expr) -> Iterator[tuple[tuple[str, ...], Expr]]:
    """Yield the texts of a value, and of the dictionaries in it, by their keys in lower case."""
    if text_and_fields(e) is not None:
        yield (), e
    elif e[0] == "d":
        for key, value in pairs_in(e):
            if key is not None and is_text(key):
                yield from (((str(constant_of(key)).lower(), *keys), text) for keys, text in _texts(value))
    elif is_call(e):
        # A field of pydantic: `Field(default="...")`, `Field(default_factory=lambda: {...})`.
        for argument in (*positional_of(e)[:1], *(v for n, v in keywords_of(e) if n == "default")):
            yield from _texts(argument)
