"""All files of a repository in intermediate form, with one number for each function and class."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from gapwatch.design.source.ir import Body, Class, Expr, Function, ModuleIR, Stmt
from gapwatch.design.source.lower import lower_source
from gapwatch.design.source.modules import Module, ModuleIndex
from gapwatch.design.source.scan import Scan, SourceFile
from gapwatch.design.source.text_files import TextFiles


@dataclass(slots=True)
class FunctionInfo:
    """A function of the program.

    Attributes:
        number: Position in `Program.functions`; for a module's body the number of its scope.
        symbol: Dotted name relative to the root.
        ir: Its intermediate form.
        module: Index of its module.
        owner: Number of its class; -1 for none.
        parent: Number of the function or module body around it; -1 for a module body.
        is_static: Whether it is a static method.
        is_classmethod: Whether calling it passes the class.
        is_property: Whether reading it calls it.
        is_abstract: Whether subclasses must define it.
        is_overload: Whether it only declares types.
        returned: Indices of the parameters that it returns unchanged.
    """

    number: int
    symbol: str
    ir: Function
    module: int
    owner: int
    parent: int
    is_static: bool = False
    is_classmethod: bool = False
    is_property: bool = False
    is_abstract: bool = False
    is_overload: bool = False
    returned: tuple[int, ...] = ()


@dataclass(slots=True)
class ClassInfo:
    """A class of the program.

    Attributes:
        number: Position in `Program.classes`.
        symbol: Dotted name relative to the root.
        ir: Its intermediate form.
        module: Index of its module.
        parent: Number of the function or module body around it.
        bases: Numbers of its bases inside the repository, in order.
        outside: Dotted names of its bases outside, in order.
        subclasses: Numbers of its direct subclasses.
        field_names: Annotated names of its body, in order.
    """

    number: int
    symbol: str
    ir: Class
    module: int
    parent: int
    bases: list[int] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)
    subclasses: list[int] = field(default_factory=list)
    field_names: tuple[str, ...] = ()


@dataclass
class Program:
    """Input of the resolver.

    Attributes:
        index: Modules and imports.
        files: File by module index; None for a namespace.
        irs: Intermediate form by module index; None for a namespace.
        bodies: Number of each module body's scope; -1 for a namespace.
        first_function: By module index: offset from an index inside the file to a number.
        first_class: The same for classes.
        functions: All functions and module bodies.
        classes: All classes.
        texts: Templates and other text files, read where code names them.
    """

    index: ModuleIndex
    texts: TextFiles
    files: list[SourceFile | None] = field(default_factory=list)
    irs: list[ModuleIR | None] = field(default_factory=list)
    bodies: list[int] = field(default_factory=list)
    first_function: list[int] = field(default_factory=list)
    first_class: list[int] = field(default_factory=list)
    functions: list[FunctionInfo] = field(default_factory=list)
    classes: list[ClassInfo] = field(default_factory=list)

    def path(self, function: FunctionInfo) -> str:
        """Return the path of the file that defines a function."""
        return self.index.modules[function.module].path


@contextmanager
def paused_collector() -> Iterator[None]:
    """Pause the cyclic garbage collector, which would traverse millions of new tuples again and again."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def load_program(
    scan: Scan, progress: Callable[[int], None] = lambda done: None, libraries: frozenset[str] = frozenset()
) -> Program:
    """Lower every file of a scan.

    Args:
        scan: Files of the repository.
        progress: Called with the number of files done.
        libraries: First parts of names that mean a library, whatever folders of the repository are called.
    """
    root_name = scan.root.resolve().name
    index = ModuleIndex((file.path for file in scan.files), root_name, libraries, scan.packages)
    program = Program(index, TextFiles(scan.root, scan.texts))
    by_path = {file.path: file for file in scan.files}
    with paused_collector():
        for module in program.index.modules:
            file = by_path.get(module.path)
            ir = lower_source(file.source) if file is not None else None
            program.files.append(file)
            program.irs.append(ir)
            _number(program, module, ir)
            progress(module.index + 1)
    program.index.learn_root_name(_absolute_imports(program), scan.requires)
    _spread_stars(program)
    return program


def _number(program: Program, module: Module, ir: ModuleIR | None) -> None:
    first_function, first_class = len(program.functions), len(program.classes)
    program.first_function.append(first_function)
    program.first_class.append(first_class)
    program.bodies.append(first_function if ir is not None else -1)
    if ir is None:
        return
    for cls in ir.classes:
        symbol = f"{module.name}.{cls.qual}"
        program.classes.append(
            ClassInfo(first_class + cls.index, symbol, cls, module.index, first_function + cls.parent)
        )
        program.classes[-1].field_names = tuple(
            s[2][0][1] for s in cls.body if s[0] == "assign" and s[4] is not None and s[2][0][0] == "n"
        )
    for function in ir.functions:
        symbol = f"{module.name}.{function.qual}" if function.qual else module.name
        info = FunctionInfo(
            first_function + function.index,
            symbol,
            function,
            module.index,
            first_class + function.class_index if function.class_index >= 0 else -1,
            first_function + function.parent if function.parent >= 0 else -1,
        )
        _note_decorators(info)
        info.returned = _returned_parameters(function)
        program.functions.append(info)
        # `global name` in a function makes a name of the module, whether or not its body has it.
        declared = (name for name, scope in function.foreign.items() if scope == "global")
        ir.functions[0].local_names.update(declared)


_PROPERTIES = frozenset({"property", "cached_property", "computed_field", "hybrid_property", "abstractproperty"})


def _note_decorators(info: FunctionInfo) -> None:
    function = info.ir
    for decorator in function.decorators:
        name = last_name(decorator)
        info.is_static |= name == "staticmethod"
        # pydantic's validators are class methods by contract.
        info.is_classmethod |= name in ("classmethod", "abstractclassmethod", "validator", "root_validator")
        info.is_property |= name in _PROPERTIES
        info.is_abstract |= name in ("abstractmethod", "abstractproperty", "abstractclassmethod")
        info.is_overload |= name == "overload"
    if function.name in ("__new__", "__init_subclass__", "__class_getitem__"):
        info.is_classmethod = True
    if function.kind == "function" and not info.is_abstract:
        info.is_abstract = _is_stub(function.body)


def _is_stub(body: Body) -> bool:
    """Return whether a body only says that a subclass must define the method."""
    rest = [s for s in body if not (s[0] == "expr" and s[2][0] == "k")]
    if not rest:
        return any(s[0] == "expr" and s[2] == ("k", Ellipsis) for s in body)
    if len(rest) == 1 and rest[0][0] == "raise" and rest[0][2] is not None:
        return last_name(rest[0][2]) == "NotImplementedError"
    return False


def last_name(e: Expr) -> str:
    """Return the last part of a dotted name or of a call's callee; empty for other expressions."""
    while e[0] == "c":
        e = e[1]
    if e[0] == "n":
        return str(e[1])
    return str(e[2]) if e[0] == "a" else ""


def _returned_parameters(function: Function) -> tuple[int, ...]:
    """Return the indices of the parameters that the function returns and never rebinds."""
    names = {p.name: i for i, p in enumerate(function.params) if p.kind not in ("*", "**")}
    if not names or function.is_generator:
        return ()
    found: set[int] = set()
    bound: set[str] = set()
    stack: list[Body] = [function.body]
    while stack:
        for s in stack.pop():
            tag = s[0]
            if tag == "return" and s[2] is not None and s[2][0] == "n" and s[2][1] in names:
                found.add(names[s[2][1]])
            elif tag == "assign":
                bound.update(t[1] for t in s[2] if t[0] == "n")
            elif tag in ("for", "aug") and s[2][0] == "n":
                bound.add(s[2][1])
            stack.extend(inner_bodies(s))
    return tuple(sorted(i for i in found if function.params[i].name not in bound))


_COMPOUND = frozenset({"if", "for", "while", "try", "with", "match"})


def inner_bodies(s: Stmt) -> list[Body]:
    """Return the blocks of a compound statement, without those of functions and classes."""
    tag = s[0]
    out: list[Body] = []
    if tag == "if":
        out = [body for _, body in s[2]] + [s[3]]
    elif tag == "for":
        out = [s[4], s[5]]
    elif tag == "while":
        out = [s[3], s[4]]
    elif tag == "try":
        out = [s[2], *(h[3] for h in s[3]), s[4], s[5]]
    elif tag == "with":
        out = [s[3]]
    elif tag == "match":
        out = [case[3] for case in s[3]]
    return out


def statements(body: Body) -> Iterator[Stmt]:
    """Yield every statement of a body, blocks included, in the order of the source."""
    for s in body:
        yield s
        # Most statements hold no other.
        if s[0] in _COMPOUND:
            for inner in inner_bodies(s):
                yield from statements(inner)


def _absolute_imports(program: Program) -> Iterable[str]:
    for ir in program.irs:
        for function in ir.functions if ir is not None else ():
            for s in statements(function.body):
                if s[0] == "from" and s[2] == 0:
                    yield str(s[3])
                elif s[0] == "import":
                    yield from (dotted for dotted, _ in s[2])


def _spread_stars(program: Program) -> None:
    """Add to each module the names that it imports by `*`, through chains of up to six imports."""
    stars: list[tuple[int, int]] = []
    for module, ir in zip(program.index.modules, program.irs, strict=True):
        for s in statements(ir.functions[0].body) if ir is not None else ():
            if s[0] == "from" and s[4] is None:
                target = import_target(program.index, module.index, s[2], str(s[3]))
                if target is not None and program.irs[target] is not None:
                    stars.append((module.index, target))
    for _ in range(6):
        changed = False
        for importer, target in stars:
            into, source = program.irs[importer], program.irs[target]
            assert into is not None and source is not None
            names = {n for n in source.functions[0].local_names if not n.startswith("_")}
            if not names <= into.functions[0].local_names:
                into.functions[0].local_names |= names
                changed = True
        if not changed:
            return


def import_target(index: ModuleIndex, importer: int, level: int, dotted: str) -> int | None:
    """Return the module of a `from` import, or None if it lies outside the repository."""
    if level:
        return index.relative(importer, level, dotted)[0]
    return index.resolve(importer, dotted)
