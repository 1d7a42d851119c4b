"""The intermediate form of one Python file: plain tuples, a third of the size of a syntax tree and free of its library.

An expression is a tuple whose first member is a tag. Lines are 1-based.

    ("n", name)                              a name
    ("k", value)                             a constant; Ellipsis also where an expression was cut or not understood
    ("a", object, attribute, line)           attribute
    ("c", callee, args, keywords, line)      call; args may hold ("*", e); keywords are (name or None for **, e)
    ("s", object, index, line)               subscript          ("sl", low, high, step)   slice, members may be None
    ("l" | "t" | "S", elements, site)        list, tuple, set   ("d", ((key or None for **, value), ...), site)
    ("lc" | "gc" | "sc", element, None, clauses, site)   comprehension; clauses are (target, iterable, conditions)
    ("dc", key, value, clauses, site)        dictionary comprehension
    ("L", function_index)                    lambda             ("?", test, then, otherwise)
    ("b", operands)                          and, or            ("o", operator, operands, line)   binary
    ("u", operator, operand)                 - + ~              ("!", operand)                    not
    ("q", operators, operands, line)         comparison         ("w", e)                          await
    ("y", e or None) ("Y", e)                yield, yield from  ("*", e)                          splat
    (":=", name, e)                          walrus             ("f", parts)       f-string: texts and expressions

A statement is a tuple `(tag, line, ...)`.

    ("expr", line, e)                        ("assign", line, targets, e or None, annotation or None)
    ("aug", line, target, operator, e)       ("return", line, e or None)
    ("if", line, ((test, body), ...), orelse, end)
    ("for", line, target, iterable, body, orelse, end)   ("while", line, test, body, orelse, end)
    ("try", line, body, ((line, type or None, name or None, body, end), ...), orelse, final, end)
    ("with", line, ((e, target or None), ...), body, end)
    ("raise", line, e or None, cause or None)   ("def", line, function_index)   ("class", line, class_index)
    ("import", line, ((dotted, alias or None), ...))
    ("from", line, level, dotted, ((name, alias or None), ...) or None for *)
    ("del", line, targets)   ("assert", line, test, message or None)   ("break", line)   ("continue", line)
    ("match", line, subject, ((captures, classes, guard or None, body), ...), end)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Expr = tuple[Any, ...]
Stmt = tuple[Any, ...]
Body = tuple[Stmt, ...]

UNKNOWN: Expr = ("k", Ellipsis)


@dataclass(slots=True)
class Param:
    """One parameter.

    Attributes:
        name: As written.
        kind: "" positional or keyword, "/" positional only, "=" keyword only, "*" or "**" collecting.
        annotation: Its annotation, if any.
        default: Its default, if any.
    """

    name: str
    kind: str
    annotation: Expr | None
    default: Expr | None


@dataclass(slots=True)
class Function:
    """A function, a method, a lambda, or (index 0) the module's own body.

    Attributes:
        index: Position in `ModuleIR.functions`.
        name: As written; `<lambdaN>` for lambdas, empty for the module.
        qual: Dotted name inside the module; empty for the module.
        line: First line, 1-based.
        end: Last line.
        parent: Index of the function around it; -1 for the module.
        class_index: Index of the class whose body defines it; -1 for none.
        kind: function, lambda or module.
        is_async: Whether it is an `async def`.
        is_generator: Whether it yields.
        params: In order.
        returns: Annotation of the result, if any.
        decorators: In order of writing.
        body: Its statements.
        local_names: Names bound in it.
        foreign: `global` or `nonlocal` by declared name.
        lambdas: Number of lambdas in it so far.
    """

    index: int
    name: str
    qual: str
    line: int
    end: int
    parent: int
    class_index: int
    kind: str = "function"
    is_async: bool = False
    is_generator: bool = False
    params: tuple[Param, ...] = ()
    returns: Expr | None = None
    decorators: tuple[Expr, ...] = ()
    body: Body = ()
    local_names: set[str] = field(default_factory=set)
    foreign: dict[str, str] = field(default_factory=dict)
    lambdas: int = 0


@dataclass(slots=True)
class Class:
    """A class; its body is a scope whose names are its attributes.

    Attributes:
        index: Position in `ModuleIR.classes`.
        name: As written.
        qual: Dotted name inside the module.
        line: First line, 1-based.
        end: Last line.
        parent: Index of the function around it.
        outer: Index of the class whose body defines it; -1 for none.
        bases: Expressions of the bases.
        keywords: Keyword arguments of the class statement.
        decorators: In order of writing.
        body: Its statements.
        local_names: Names bound in the body.
        lambdas: Number of lambdas in the body so far.
    """

    index: int
    name: str
    qual: str
    line: int
    end: int
    parent: int
    outer: int
    bases: tuple[Expr, ...] = ()
    keywords: tuple[tuple[str | None, Expr], ...] = ()
    decorators: tuple[Expr, ...] = ()
    body: Body = ()
    local_names: set[str] = field(default_factory=set)
    lambdas: int = 0


@dataclass(slots=True)
class ModuleIR:
    """One file in intermediate form.

    Attributes:
        functions: All functions; index 0 is the module's body.
        classes: All classes.
        errors: 1-based (first, last) lines that the grammar could not parse or that were cut for their depth.
        lines: Number of lines.
    """

    functions: list[Function]
    classes: list[Class]
    errors: list[tuple[int, int]]
    lines: int


def docstring(body: Body) -> str:
    """Return the docstring of a body, or an empty text."""
    if body and body[0][0] == "expr":
        value = body[0][2]
        if value[0] == "k" and isinstance(value[1], str):
            return value[1]
    return ""


def dotted_text(e: Expr) -> str:
    """Return the text of a dotted name; parts of other forms become `…`."""
    if e[0] == "n":
        return str(e[1])
    if e[0] == "a":
        return f"{dotted_text(e[1])}.{e[2]}"
    if e[0] == "c":
        return f"{dotted_text(e[1])}()"
    if e[0] == "s":
        return f"{dotted_text(e[1])}[]"
    if e[0] == "w":
        return dotted_text(e[1])
    return "…"


# -- members by name -----------------------------------------------------------------------------------------------
# Accessors for the search of patterns and prompts. The evaluator (`callgraph`), `program` and `code_walk` read the
# tuples by index for speed: they visit each tuple many times, and a function call takes longer than an index.


def is_call(e: Expr) -> bool:
    """Return whether an expression is a call."""
    return bool(e[0] == "c")


def is_text(e: Expr) -> bool:
    """Return whether an expression is a constant text."""
    return e[0] == "k" and isinstance(e[1], str)


def name_of(e: Expr) -> str:
    """Return the name that an expression reads, or that a walrus binds."""
    return e[1]  # type: ignore[no-any-return]


def constant_of(e: Expr) -> Any:
    """Return the value of a constant."""
    return e[1]


def callee_of(call: Expr) -> Expr:
    """Return the callee of a call."""
    return call[1]  # type: ignore[no-any-return]


def positional_of(call: Expr) -> tuple[Expr, ...]:
    """Return the arguments of a call that have no keyword."""
    return call[2]  # type: ignore[no-any-return]


def keywords_of(call: Expr) -> tuple[tuple[str | None, Expr], ...]:
    """Return the keyword arguments of a call, with the keyword None for `**x`."""
    return call[3]  # type: ignore[no-any-return]


def call_line(call: Expr) -> int:
    """Return the line of a call."""
    return call[4]  # type: ignore[no-any-return]


def is_member(e: Expr) -> bool:
    """Return whether an expression is an attribute of another."""
    return bool(e[0] == "a")


def owner_of(e: Expr) -> Expr:
    """Return the object of an attribute or a subscript."""
    return e[1]  # type: ignore[no-any-return]


def member_of(e: Expr) -> str:
    """Return the name of an attribute."""
    return e[2]  # type: ignore[no-any-return]


def index_of(e: Expr) -> Expr:
    """Return the index of a subscript."""
    return e[2]  # type: ignore[no-any-return]


def operand_of(e: Expr) -> Expr:
    """Return the operand of `not` or `yield`; None for a plain `yield`."""
    return e[1]  # type: ignore[no-any-return]


def operators_of(comparison: Expr) -> tuple[str, ...]:
    """Return the operators of a comparison."""
    return comparison[1]  # type: ignore[no-any-return]


def operands_of(e: Expr) -> tuple[Expr, ...]:
    """Return the operands of `and`, `or`, a binary operator or a comparison."""
    return e[1] if e[0] == "b" else e[2]  # type: ignore[no-any-return]


def line_of(s: Stmt) -> int:
    """Return the first line of a statement."""
    return s[1]  # type: ignore[no-any-return]


def end_of(s: Stmt) -> int:
    """Return the last line of a statement that has blocks."""
    return s[-1]  # type: ignore[no-any-return]


def targets_of(assignment: Stmt) -> tuple[Expr, ...]:
    """Return the targets of an assignment; `a = b = 1` has two."""
    return assignment[2]  # type: ignore[no-any-return]


def annotation_of(assignment: Stmt) -> Expr | None:
    """Return the annotation of an assignment, or None."""
    return assignment[4]  # type: ignore[no-any-return]


def value_of(s: Stmt) -> Expr | None:
    """Return the value that is assigned, returned, raised or evaluated, or None."""
    return s[{"assign": 3, "aug": 4}.get(s[0], 2)]  # type: ignore[no-any-return]


def branches_of(s: Stmt) -> tuple[tuple[Expr, Body], ...]:
    """Return the tests and blocks of an `if` with its `elif`s."""
    return s[2]  # type: ignore[no-any-return]


def target_of(s: Stmt) -> Expr:
    """Return the target of a `for` or an augmented assignment."""
    return s[2]  # type: ignore[no-any-return]


def iterable_of(s: Stmt) -> Expr:
    """Return the iterable of a `for`."""
    return s[3]  # type: ignore[no-any-return]


def body_of(s: Stmt) -> Body:
    """Return the first block of a `for`, `while`, `with` or `try`."""
    return s[{"for": 4, "while": 3, "with": 3, "try": 2}[s[0]]]  # type: ignore[no-any-return]


def test_of(s: Stmt) -> Expr:
    """Return the condition of a `while`."""
    return s[2]  # type: ignore[no-any-return]


def orelse_of(s: Stmt) -> Body:
    """Return the `else` block of a `try`."""
    return s[4]  # type: ignore[no-any-return]


def final_of(s: Stmt) -> Body:
    """Return the `finally` block of a `try`."""
    return s[5]  # type: ignore[no-any-return]


def handlers_of(s: Stmt) -> tuple[Stmt, ...]:
    """Return the `except` clauses of a `try`."""
    return s[3]  # type: ignore[no-any-return]


def caught_by(handler: Stmt) -> Expr | None:
    """Return the exception classes of an `except` clause, or None."""
    return handler[1]  # type: ignore[no-any-return]


def handler_body(handler: Stmt) -> Body:
    """Return the block of an `except` clause."""
    return handler[3]  # type: ignore[no-any-return]


def items_of(s: Stmt) -> tuple[tuple[Expr, Expr | None], ...]:
    """Return the context managers of a `with`, each with its target."""
    return s[2]  # type: ignore[no-any-return]


def is_name(e: Expr) -> bool:
    """Return whether an expression is a plain name."""
    return bool(e[0] == "n")


def is_subscript(e: Expr) -> bool:
    """Return whether an expression is a subscript."""
    return bool(e[0] == "s")


def members_in(e: Expr) -> tuple[Expr, ...]:
    """Return the elements of a list, tuple or set."""
    return e[1]  # type: ignore[no-any-return]


def pairs_in(e: Expr) -> tuple[tuple[Expr | None, Expr], ...]:
    """Return the keys and values of a dictionary, with the key None for `**x`."""
    return e[1]  # type: ignore[no-any-return]


def text_parts(e: Expr) -> tuple[str | Expr, ...]:
    """Return the constant texts and the expressions of an f-string, in order."""
    return e[1]  # type: ignore[no-any-return]


def operator_of(e: Expr) -> str:
    """Return the sign of a binary operator."""
    return e[1]  # type: ignore[no-any-return]


def walrus_value(e: Expr) -> Expr:
    """Return the value that a walrus binds."""
    return e[2]  # type: ignore[no-any-return]


def line_or(e: Expr, default: int) -> int:
    """Return the line of an expression that carries one as its last member, else the default."""
    return e[-1] if isinstance(e[-1], int) else default


def import_names(s: Stmt) -> tuple[tuple[str, str | None], ...]:
    """Return (dotted name, alias or None) of each module of an `import`."""
    return s[2]  # type: ignore[no-any-return]


def from_module(s: Stmt) -> tuple[int, str]:
    """Return the number of leading dots and the dotted name of a `from` import's module."""
    return s[2], str(s[3])


def from_names(s: Stmt) -> tuple[tuple[str, str | None], ...] | None:
    """Return (name, alias or None) of each name of a `from` import; None for `*`."""
    return s[4]  # type: ignore[no-any-return]
