"""Converts a syntax tree to the intermediate form in one pass.

Nothing here raises: code that cannot be understood becomes `UNKNOWN` and a line range in `errors`.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gapwatch.design.source.ir import UNKNOWN, Body, Class, Expr, Function, ModuleIR, Param, Stmt
from gapwatch.design.source.syntax_trees import parse_python

if TYPE_CHECKING:
    from gapwatch.design.source.syntax_trees import Node

#: Deeper expressions and blocks are cut. Real code stays under 40; the resolver recurses three frames a level, and the
#: interpreter's default limit is 1,000 frames.
MAX_DEPTH = 110
#: Longest constant, in characters; longer ones (data in code) are cut.
MAX_CONSTANT = 20_000
#: Nodes that may appear anywhere and have no meaning.
_BETWEEN = frozenset({"comment", "line_continuation"})


def lower_source(source: bytes) -> ModuleIR:
    """Return one file in intermediate form.

    Args:
        source: Any bytes; bytes that are not UTF-8 are replaced inside texts.
    """
    return _Lowering(source).module(parse_python(source))


#: Module of a patched program that records its spans.
RECORDER = "span_recording"
#: Functions of it that a patch writes around the call of a model, its function or its result.
_AROUND_CALLS = frozenset({"asked", "counted", "waited_for", "entered", "chunks"})


class _Lowering:
    def __init__(self, source: bytes) -> None:
        self.source = source
        self.functions: list[Function] = []
        self.classes: list[Class] = []
        self.errors: list[tuple[int, int]] = []
        self.scope: Function | Class = Function(0, "", "", 1, 1, -1, -1, "module")
        self.function = 0
        self.class_index = -1
        self.depth = 0
        self.sites = 0

    def module(self, root: Node) -> ModuleIR:
        top = self.scope
        assert isinstance(top, Function)
        self.functions.append(top)
        top.end = root.end_point[0] + 1
        if root.has_error:
            self._note_errors(root)
        top.body = self.block(root)
        return ModuleIR(self.functions, self.classes, sorted(set(self.errors)), self.source.count(b"\n") + 1)

    def _note_errors(self, root: Node) -> None:
        stack = [root]
        while stack and len(self.errors) < 100:
            node = stack.pop()
            if node.is_error or node.is_missing:
                self.errors.append((node.start_point[0] + 1, node.end_point[0] + 1))
            elif node.has_error:
                stack.extend(node.children)

    def text(self, node: Node) -> str:
        # The same few names occur everywhere: interning them saves a fifth of the memory.
        return sys.intern(self.source[node.start_byte : node.end_byte].decode("utf-8", "replace"))

    def site(self) -> int:
        self.sites += 1
        return self.sites

    def bind(self, name: str) -> str:
        self.scope.local_names.add(name)
        return name

    # -- statements ------------------------------------------------------------------------------------------------

    def block(self, node: Node | None) -> Body:
        if node is None:
            return ()
        if self.depth > MAX_DEPTH:
            self.errors.append((node.start_point[0] + 1, node.end_point[0] + 1))
            return ()
        self.depth += 1
        out: list[Stmt] = []
        for child in node.named_children:
            handler = _STATEMENTS.get(child.type)
            if handler is not None:
                statement = handler(self, child)
                if statement is not None:
                    out.append(statement)
            elif child.type == "ERROR":
                # Statements inside a broken stretch are still read.
                out.extend(self.block(child))
            elif child.type in _EXPRESSIONS:
                out.append(("expr", child.start_point[0] + 1, self.expr(child)))
        self.depth -= 1
        return tuple(out)

    def s_expression(self, node: Node) -> Stmt | None:
        children = [c for c in node.named_children if c.type not in _BETWEEN]
        line = node.start_point[0] + 1
        if not children:
            return None
        child = children[0]
        if child.type == "assignment":
            return self.s_assignment(child)
        if child.type == "augmented_assignment":
            operator = child.child_by_field_name("operator")
            return (
                "aug",
                line,
                self.target(child.child_by_field_name("left")),
                self.text(operator) if operator else "+=",
                self.expr(child.child_by_field_name("right")),
            )
        if len(children) > 1:
            return ("expr", line, ("t", tuple(self.expr(c) for c in children), self.site()))
        return ("expr", line, self.expr(child))

    def s_assignment(self, node: Node) -> Stmt:
        targets = []
        line = node.start_point[0] + 1
        annotation: Expr | None = None
        right: Node | None = node
        while right is not None and right.type == "assignment":
            targets.append(right.child_by_field_name("left"))
            kind = right.child_by_field_name("type")
            if kind is not None:
                annotation = self.annotation(kind)
            right = right.child_by_field_name("right")
        value = self.expr(right) if right is not None else None
        return ("assign", line, tuple(self.target(t) for t in targets), value, annotation)

    def s_return(self, node: Node) -> Stmt:
        child = _first(node)
        return ("return", node.start_point[0] + 1, self.expr(child) if child is not None else None)

    def s_if(self, node: Node) -> Stmt:
        line = node.start_point[0] + 1
        test = self.expr(node.child_by_field_name("condition"))
        clauses = [(test, self.block(node.child_by_field_name("consequence")))]
        orelse: Body = ()
        for child in node.children_by_field_name("alternative"):
            if child.type == "elif_clause":
                test = self.expr(child.child_by_field_name("condition"))
                clauses.append((test, self.block(child.child_by_field_name("consequence"))))
            else:
                orelse = self.block(child.child_by_field_name("body"))
        return ("if", line, tuple(clauses), orelse, node.end_point[0] + 1)

    def s_for(self, node: Node) -> Stmt:
        line = node.start_point[0] + 1
        iterable = self.expr(node.child_by_field_name("right"))
        target = self.target(node.child_by_field_name("left"))
        body = self.block(node.child_by_field_name("body"))
        orelse = self._else(node)
        return ("for", line, target, iterable, body, orelse, node.end_point[0] + 1)

    def s_while(self, node: Node) -> Stmt:
        test = self.expr(node.child_by_field_name("condition"))
        body = self.block(node.child_by_field_name("body"))
        return ("while", node.start_point[0] + 1, test, body, self._else(node), node.end_point[0] + 1)

    def _else(self, node: Node) -> Body:
        clause = node.child_by_field_name("alternative")
        return self.block(clause.child_by_field_name("body")) if clause is not None else ()

    def s_try(self, node: Node) -> Stmt:
        body = self.block(node.child_by_field_name("body"))
        handlers: list[tuple[Any, ...]] = []
        orelse: Body = ()
        final: Body = ()
        for child in node.named_children:
            if child.type in ("except_clause", "except_group_clause"):
                handlers.append(self._handler(child))
            elif child.type == "else_clause":
                orelse = self.block(child.child_by_field_name("body"))
            elif child.type == "finally_clause":
                final = self.block(_child_of_type(child, "block"))
        return ("try", node.start_point[0] + 1, body, tuple(handlers), orelse, final, node.end_point[0] + 1)

    def _handler(self, node: Node) -> tuple[Any, ...]:
        kind: Expr | None = None
        name = None
        caught = [c for c in node.named_children if c.type != "block" and c.type not in _BETWEEN]
        if caught and caught[0].type == "as_pattern":
            alias = caught[0].child_by_field_name("alias")
            kind = self.expr(_first(caught[0]))
            if alias is not None:
                name = self.bind(self.text(alias))
        elif len(caught) > 1:
            kind = ("t", tuple(self.expr(c) for c in caught), self.site())
        elif caught:
            kind = self.expr(caught[0])
        body = self.block(_child_of_type(node, "block"))
        return (node.start_point[0] + 1, kind, name, body, node.end_point[0] + 1)

    def s_with(self, node: Node) -> Stmt:
        items = []
        clause = _child_of_type(node, "with_clause")
        for item in clause.named_children if clause is not None else []:
            value = item.child_by_field_name("value") if item.type == "with_item" else None
            if value is None:
                continue
            items.extend(self._with_item(value))
        body = self.block(node.child_by_field_name("body"))
        return ("with", node.start_point[0] + 1, tuple(items), body, node.end_point[0] + 1)

    def _with_item(self, value: Node) -> list[tuple[Expr, Expr | None]]:
        if value.type == "tuple" and any(c.type == "as_pattern" for c in value.named_children):
            return [pair for c in value.named_children if c.type not in _BETWEEN for pair in self._with_item(c)]
        if value.type == "as_pattern":
            alias = value.child_by_field_name("alias")
            target = _first(alias) if alias is not None else None
            return [(self.expr(_first(value)), self.target(target) if target is not None else None)]
        return [(self.expr(value), None)]

    def s_raise(self, node: Node) -> Stmt:
        cause = node.child_by_field_name("cause")
        child = _first(node)
        value = self.expr(child) if child is not None and child != cause else None
        return ("raise", node.start_point[0] + 1, value, self.expr(cause) if cause is not None else None)

    def s_delete(self, node: Node) -> Stmt:
        child = _first(node)
        if child is None:
            return ("del", node.start_point[0] + 1, ())
        parts = child.named_children if child.type == "expression_list" else [child]
        return ("del", node.start_point[0] + 1, tuple(self.expr(c) for c in parts if c.type not in _BETWEEN))

    def s_assert(self, node: Node) -> Stmt:
        parts = [self.expr(c) for c in node.named_children if c.type not in _BETWEEN]
        test = parts[0] if parts else UNKNOWN
        return ("assert", node.start_point[0] + 1, test, parts[1] if len(parts) > 1 else None)

    def s_foreign(self, node: Node) -> None:
        if isinstance(self.scope, Function):
            kind = "global" if node.type == "global_statement" else "nonlocal"
            for child in node.named_children:
                if child.type not in _BETWEEN:
                    self.scope.foreign[self.text(child)] = kind

    def s_simple(self, node: Node) -> Stmt:
        return (node.type.partition("_")[0], node.start_point[0] + 1)

    def s_import(self, node: Node) -> Stmt:
        names = []
        for child in node.children_by_field_name("name"):
            dotted, alias = self._imported(child)
            names.append((dotted, alias))
            self.bind(alias or dotted.partition(".")[0])
        return ("import", node.start_point[0] + 1, tuple(names))

    def _imported(self, node: Node) -> tuple[str, str | None]:
        if node.type == "aliased_import":
            name, alias = node.child_by_field_name("name"), node.child_by_field_name("alias")
            return _squeeze(self.text(name)) if name else "", self.text(alias) if alias else None
        return _squeeze(self.text(node)), None

    def s_import_from(self, node: Node) -> Stmt:
        line = node.start_point[0] + 1
        module = node.child_by_field_name("module_name")
        written = _squeeze(self.text(module)) if module is not None else "__future__"
        dotted = written.lstrip(".")
        level = len(written) - len(dotted)
        if any(child.type == "wildcard_import" for child in node.named_children):
            return ("from", line, level, dotted, None)
        names = tuple(self._imported(child) for child in node.children_by_field_name("name"))
        for name, alias in names:
            self.bind(alias or name)
        return ("from", line, level, dotted, names)

    def s_match(self, node: Node) -> Stmt:
        subject = self.expr(node.child_by_field_name("subject"))
        cases = []
        body = node.child_by_field_name("body")
        for case in body.named_children if body is not None else []:
            if case.type != "case_clause":
                continue
            captures: list[str] = []
            classes: list[Expr] = []
            for pattern in case.named_children:
                if pattern.type == "case_pattern":
                    self._pattern(pattern, captures, classes)
            guard = case.child_by_field_name("guard")
            test = self.expr(_first(guard)) if guard is not None else None
            block = self.block(case.child_by_field_name("consequence"))
            cases.append((tuple(captures), tuple(classes), test, block))
        return ("match", node.start_point[0] + 1, subject, tuple(cases), node.end_point[0] + 1)

    def _pattern(self, node: Node, captures: list[str], classes: list[Expr]) -> None:
        stack = [node]
        while stack:
            pattern = stack.pop()
            kind = pattern.type
            children = pattern.named_children
            if kind == "class_pattern" and children:
                classes.append(self._dotted(self.text(children[0]), pattern.start_point[0] + 1))
                stack.extend(children[1:])
            elif kind == "keyword_pattern":
                stack.extend(children[1:])
            elif kind == "identifier" or (kind == "dotted_name" and len(children) == 1):
                if (name := self.text(pattern)) != "_":
                    captures.append(self.bind(name))
            elif kind != "dotted_name":
                stack.extend(children)

    def _dotted(self, text: str, line: int) -> Expr:
        first, *rest = _squeeze(text).split(".")
        out: Expr = ("n", first)
        for part in rest:
            out = ("a", out, part, line)
        return out

    def s_decorated(self, node: Node) -> Stmt | None:
        decorators = []
        for child in node.named_children:
            if child.type == "decorator":
                decorators.append(self.expr(_first(child)))
        definition = node.child_by_field_name("definition")
        if definition is None:
            return None
        handler = self.s_class if definition.type == "class_definition" else self.s_function
        return handler(definition, tuple(decorators))

    def s_function(self, node: Node, decorators: tuple[Expr, ...] = ()) -> Stmt:
        name_node = node.child_by_field_name("name")
        name = self.bind(self.text(name_node) if name_node is not None else "?")
        line = node.start_point[0] + 1
        is_async = bool(node.children) and node.children[0].type == "async"
        # Defaults and annotations belong to the scope around the function.
        params = self._params(node.child_by_field_name("parameters"))
        returns = node.child_by_field_name("return_type")
        annotation = self.annotation(returns) if returns is not None else None
        made = self._open(name, line, node.end_point[0] + 1, "function")
        made.is_async, made.params, made.returns, made.decorators = is_async, params, annotation, decorators
        made.body = self._inside(made, lambda: self.block(node.child_by_field_name("body")))
        return ("def", line, made.index)

    def _open(self, name: str, line: int, end: int, kind: str) -> Function:
        qual = f"{self.scope.qual}.{name}" if self.scope.qual else name
        class_index = self.scope.index if isinstance(self.scope, Class) else -1
        made = Function(len(self.functions), name, qual, line, end, self.function, class_index, kind)
        self.functions.append(made)
        return made

    def _inside(self, made: Function, lower: Callable[[], Body]) -> Body:
        made.local_names.update(p.name for p in made.params)
        saved = self.scope, self.function
        self.scope, self.function = made, made.index
        body = lower()
        self.scope, self.function = saved
        return body

    def _params(self, node: Node | None) -> tuple[Param, ...]:
        out: list[Param] = []
        keyword_only = False
        for child in node.named_children if node is not None else []:
            kind = child.type
            if kind == "positional_separator":
                for earlier in out:
                    earlier.kind = "/"
            elif kind == "keyword_separator":
                keyword_only = True
            elif kind not in _BETWEEN and (param := self._param(child, "=" if keyword_only else "")) is not None:
                keyword_only = keyword_only or param.kind == "*"
                out.append(param)
        return tuple(out)

    def _param(self, node: Node, default_kind: str) -> Param | None:
        annotation = node.child_by_field_name("type")
        default = node.child_by_field_name("value")
        name = node.child_by_field_name("name")
        holder = name if name is not None else (_first(node) if node.type == "typed_parameter" else node)
        if holder is None:
            return None
        kind = {"list_splat_pattern": "*", "dictionary_splat_pattern": "**"}.get(holder.type, default_kind)
        if kind in ("*", "**"):
            holder = _first(holder)
        if holder is None or holder.type != "identifier":
            return None
        return Param(
            self.text(holder),
            kind,
            self.annotation(annotation) if annotation is not None else None,
            self.expr(default) if default is not None else None,
        )

    def s_class(self, node: Node, decorators: tuple[Expr, ...] = ()) -> Stmt:
        name_node = node.child_by_field_name("name")
        name = self.bind(self.text(name_node) if name_node is not None else "?")
        line = node.start_point[0] + 1
        bases, keywords = self._arguments(node.child_by_field_name("superclasses"))
        qual = f"{self.scope.qual}.{name}" if self.scope.qual else name
        outer = self.scope.index if isinstance(self.scope, Class) else -1
        made = Class(len(self.classes), name, qual, line, node.end_point[0] + 1, self.function, outer)
        made.bases, made.keywords, made.decorators = bases, keywords, decorators
        self.classes.append(made)
        saved, self.scope = self.scope, made
        made.body = self.block(node.child_by_field_name("body"))
        self.scope = saved
        return ("class", line, made.index)

    # -- targets and annotations -----------------------------------------------------------------------------------

    def target(self, node: Node | None) -> Expr:
        if node is None:
            return UNKNOWN
        kind = node.type
        if kind == "identifier":
            return ("n", self.bind(self.text(node)))
        if kind in ("pattern_list", "tuple_pattern", "list_pattern", "tuple", "list", "expression_list"):
            return ("t", tuple(self.target(c) for c in node.named_children if c.type not in _BETWEEN), self.site())
        if kind in ("list_splat_pattern", "list_splat"):
            return ("*", self.target(_first(node)))
        if kind in ("parenthesized_expression", "as_pattern_target"):
            return self.target(_first(node))
        return self.expr(node)

    def annotation(self, node: Node) -> Expr:
        child = _first(node) if node.type == "type" else node
        if child is None:
            return UNKNOWN
        lowered = self.expr(child)
        if lowered[0] == "k" and isinstance(lowered[1], str):
            return self._parsed_text(lowered[1])
        return lowered

    def _parsed_text(self, text: str) -> Expr:
        """Lower an annotation that is written as a text."""
        saved = self.source, self.errors
        self.source, self.errors = text.strip().encode("utf-8", "replace")[:2000], []
        try:
            root = parse_python(self.source)
            statement = _first(root)
            child = _first(statement) if statement is not None else None
            if child is None or root.has_error:
                return UNKNOWN
            return self.expr(child)
        finally:
            self.source, self.errors = saved

    # -- expressions -----------------------------------------------------------------------------------------------

    def expr(self, node: Node | None) -> Expr:
        if node is None:
            return UNKNOWN
        handler = _EXPRESSIONS.get(node.type)
        if handler is None:
            return UNKNOWN
        if self.depth > MAX_DEPTH:
            self.errors.append((node.start_point[0] + 1, node.end_point[0] + 1))
            return UNKNOWN
        self.depth += 1
        out = handler(self, node)
        self.depth -= 1
        return out

    def each(self, node: Node) -> tuple[Expr, ...]:
        return tuple([self.expr(c) for c in node.named_children if c.type not in _BETWEEN])

    def e_name(self, node: Node) -> Expr:
        return ("n", self.text(node))

    def e_attribute(self, node: Node) -> Expr:
        # The parts have fixed positions; looking them up by field takes three times as long.
        parts = [c for c in node.named_children if c.type not in _BETWEEN]
        if len(parts) != 2:
            return UNKNOWN
        return ("a", self.expr(parts[0]), self.text(parts[1]), node.start_point[0] + 1)

    def e_call(self, node: Node) -> Expr:
        parts = [c for c in node.named_children if c.type not in _BETWEEN]
        if len(parts) != 2:
            return UNKNOWN
        callee, arguments = parts
        if arguments.type == "generator_expression":
            return ("c", self.expr(callee), (self.expr(arguments),), (), node.start_point[0] + 1)
        args, keywords = self._arguments(arguments)
        called = self.expr(callee)
        if args and called[:2] == ("a", ("n", RECORDER)) and called[2] in _AROUND_CALLS:
            # What notes a call, or counts it, gives what it is given: a patched program does as before.
            return args[0]
        return ("c", called, args, keywords, node.start_point[0] + 1)

    def _arguments(self, node: Node | None) -> tuple[tuple[Expr, ...], tuple[tuple[str | None, Expr], ...]]:
        args: list[Expr] = []
        keywords: list[tuple[str | None, Expr]] = []
        for child in node.named_children if node is not None else []:
            kind = child.type
            if kind == "keyword_argument":
                name = child.child_by_field_name("name")
                keywords.append((self.text(name) if name else None, self.expr(child.child_by_field_name("value"))))
            elif kind == "dictionary_splat":
                keywords.append((None, self.expr(_first(child))))
            elif kind not in _BETWEEN:
                args.append(self.expr(child))
        return tuple(args), tuple(keywords)

    def e_subscript(self, node: Node) -> Expr:
        parts = [c for c in node.named_children if c.type not in _BETWEEN]
        if len(parts) < 2:
            return UNKNOWN
        value = self.expr(parts[0])
        if len(parts) == 2:
            return ("s", value, self.expr(parts[1]), node.start_point[0] + 1)
        index = ("t", tuple(self.expr(c) for c in parts[1:]), self.site())
        return ("s", value, index, node.start_point[0] + 1)

    def e_generic_type(self, node: Node) -> Expr:
        parts = [c for c in node.named_children if c.type not in _BETWEEN]
        if len(parts) < 2:
            return UNKNOWN
        value = self.expr(parts[0])
        arguments = tuple(self.annotation(c) for c in parts[1].named_children if c.type not in _BETWEEN)
        index = arguments[0] if len(arguments) == 1 else ("t", arguments, self.site())
        return ("s", value, index, node.start_point[0] + 1)

    def e_slice(self, node: Node) -> Expr:
        bounds: list[Expr | None] = [None]
        for child in node.children:
            if child.type == ":":
                bounds.append(None)
            elif child.type not in _BETWEEN:
                bounds[-1] = self.expr(child)
        return ("sl", *([*bounds, None, None])[:3])

    def e_sequence(self, node: Node) -> Expr:
        return (_SEQUENCES[node.type], self.each(node), self.site())

    def e_dictionary(self, node: Node) -> Expr:
        pairs: list[tuple[Expr | None, Expr]] = []
        for child in node.named_children:
            if child.type == "pair":
                key, value = child.child_by_field_name("key"), child.child_by_field_name("value")
                pairs.append((self.expr(key), self.expr(value)))
            elif child.type == "dictionary_splat":
                pairs.append((None, self.expr(_first(child))))
        return ("d", tuple(pairs), self.site())

    def e_comprehension(self, node: Node) -> Expr:
        clauses: list[tuple[Expr, Expr, tuple[Expr, ...]]] = []
        body = node.child_by_field_name("body")
        for child in node.named_children:
            if child.type == "for_in_clause":
                iterable = self.expr(child.child_by_field_name("right"))
                clauses.append((self.target(child.child_by_field_name("left")), iterable, ()))
            elif child.type == "if_clause" and clauses:
                target, iterable, tests = clauses[-1]
                clauses[-1] = (target, iterable, (*tests, self.expr(_first(child))))
        if node.type == "dictionary_comprehension" and body is not None:
            key = self.expr(body.child_by_field_name("key"))
            return ("dc", key, self.expr(body.child_by_field_name("value")), tuple(clauses), self.site())
        return (_COMPREHENSIONS[node.type], self.expr(body), None, tuple(clauses), self.site())

    def e_lambda(self, node: Node) -> Expr:
        self.scope.lambdas += 1
        params = self._params(node.child_by_field_name("parameters"))
        line = node.start_point[0] + 1
        made = self._open(f"<lambda{self.scope.lambdas}>", line, node.end_point[0] + 1, "lambda")
        made.params = params
        body = node.child_by_field_name("body")
        made.body = self._inside(made, lambda: (("return", line, self.expr(body)),))
        return ("L", made.index)

    def e_conditional(self, node: Node) -> Expr:
        parts = self.each(node)
        return ("?", parts[1], parts[0], parts[2]) if len(parts) == 3 else UNKNOWN

    def e_boolean(self, node: Node) -> Expr:
        return ("b", tuple(self._chain(node, "boolean_operator")))

    def e_binary(self, node: Node) -> Expr:
        operator = node.child_by_field_name("operator")
        sign = self.text(operator) if operator is not None else "?"
        return ("o", sign, tuple(self._chain(node, "binary_operator")), node.start_point[0] + 1)

    def _chain(self, node: Node, kind: str) -> list[Expr]:
        """Return the operands of a left-leaning chain without recursion: `a + b + ...` may have thousands."""
        rights: list[Expr] = []
        current: Node | None = node
        while current is not None and current.type == kind:
            rights.append(self.expr(current.child_by_field_name("right")))
            current = current.child_by_field_name("left")
        return [self.expr(current), *reversed(rights)]

    def e_unary(self, node: Node) -> Expr:
        operand = self.expr(node.child_by_field_name("argument"))
        operator = node.children[0].type
        if operand[0] == "k" and operator == "-" and type(operand[1]) in (int, float):
            return ("k", -operand[1])
        return ("u", operator, operand)

    def e_not(self, node: Node) -> Expr:
        return ("!", self.expr(node.child_by_field_name("argument")))

    def e_comparison(self, node: Node) -> Expr:
        operators = tuple(c.type for c in node.children_by_field_name("operators"))
        return ("q", operators, self.each(node), node.start_point[0] + 1)

    def e_await(self, node: Node) -> Expr:
        return ("w", self.expr(_first(node)))

    def e_yield(self, node: Node) -> Expr:
        if isinstance(self.scope, Function):
            self.scope.is_generator = True
        child = _first(node)
        if any(c.type == "from" for c in node.children):
            return ("Y", self.expr(child))
        return ("y", self.expr(child) if child is not None else None)

    def e_splat(self, node: Node) -> Expr:
        return ("*", self.expr(_first(node)))

    def e_inner(self, node: Node) -> Expr:
        return self.expr(_first(node))

    def e_walrus(self, node: Node) -> Expr:
        name = node.child_by_field_name("name")
        return (":=", self.bind(self.text(name)) if name else "?", self.expr(node.child_by_field_name("value")))

    def e_string(self, node: Node) -> Expr:
        parts: list[Any] = []
        for child in node.named_children:
            kind = child.type
            if kind == "string_content":
                parts.append(self._content(node, child))
            elif kind == "interpolation":
                parts.append(self.expr(_first(child)))
        if any(not isinstance(part, str) for part in parts):
            return ("f", tuple(parts))
        return ("k", "".join(parts)[:MAX_CONSTANT])

    def _content(self, string: Node, node: Node) -> str:
        text = self.text(node)
        if "\\" in text and "r" not in self.text(string.children[0]).lower():
            return _unescape(text)
        return text

    def e_strings(self, node: Node) -> Expr:
        parts: list[Any] = []
        for child in self.each(node):
            parts.extend(child[1] if child[0] == "f" else [child[1] if isinstance(child[1], str) else ""])
        if any(not isinstance(part, str) for part in parts):
            return ("f", tuple(parts))
        return ("k", "".join(parts)[:MAX_CONSTANT])

    def e_number(self, node: Node) -> Expr:
        text = self.text(node).replace("_", "").lower()
        try:
            if node.type == "integer":
                return ("k", int(text, 0) if len(text) < 30 else Ellipsis)
            return ("k", float(text))
        except ValueError:
            return UNKNOWN

    def e_keyword(self, node: Node) -> Expr:
        return ("k", _KEYWORDS[node.type])

    def e_assignment(self, node: Node) -> Expr:
        """Lower an assignment that the grammar nests in an expression (a chain inside broken code)."""
        return self.expr(node.child_by_field_name("right"))


def _first(node: Node | None) -> Node | None:
    if node is None:
        return None
    for child in node.named_children:
        if child.type not in _BETWEEN:
            return child
    return None


def _child_of_type(node: Node, kind: str) -> Node | None:
    for child in node.named_children:
        if child.type == kind:
            return child
    return None


def _squeeze(text: str) -> str:
    return text if text.isidentifier() else "".join(text.replace("\\", "").split())


def _unescape(text: str) -> str:
    try:
        value = ast.literal_eval('"""' + text.replace('"', '\\"').replace('\\\\"', '\\"') + '"""')
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text
    return value if isinstance(value, str) else text


_KEYWORDS = {"true": True, "false": False, "none": None, "ellipsis": Ellipsis}
_SEQUENCES = {
    "list": "l",
    "tuple": "t",
    "set": "S",
    "expression_list": "t",
    "pattern_list": "t",
    "tuple_pattern": "t",
    "list_pattern": "l",
}
_COMPREHENSIONS = {"list_comprehension": "lc", "generator_expression": "gc", "set_comprehension": "sc"}

_STATEMENTS: dict[str, Callable[[_Lowering, Any], Stmt | None]] = {
    "expression_statement": _Lowering.s_expression,
    "return_statement": _Lowering.s_return,
    "if_statement": _Lowering.s_if,
    "for_statement": _Lowering.s_for,
    "while_statement": _Lowering.s_while,
    "try_statement": _Lowering.s_try,
    "with_statement": _Lowering.s_with,
    "raise_statement": _Lowering.s_raise,
    "delete_statement": _Lowering.s_delete,
    "assert_statement": _Lowering.s_assert,
    "global_statement": _Lowering.s_foreign,
    "nonlocal_statement": _Lowering.s_foreign,
    "break_statement": _Lowering.s_simple,
    "continue_statement": _Lowering.s_simple,
    "import_statement": _Lowering.s_import,
    "import_from_statement": _Lowering.s_import_from,
    "future_import_statement": _Lowering.s_import_from,
    "match_statement": _Lowering.s_match,
    "decorated_definition": _Lowering.s_decorated,
    "function_definition": _Lowering.s_function,
    "class_definition": _Lowering.s_class,
}

_EXPRESSIONS: dict[str, Callable[[_Lowering, Any], Expr]] = {
    "identifier": _Lowering.e_name,
    "attribute": _Lowering.e_attribute,
    "member_type": _Lowering.e_attribute,
    "call": _Lowering.e_call,
    "subscript": _Lowering.e_subscript,
    "generic_type": _Lowering.e_generic_type,
    "slice": _Lowering.e_slice,
    **dict.fromkeys(_SEQUENCES, _Lowering.e_sequence),
    "dictionary": _Lowering.e_dictionary,
    **dict.fromkeys(_COMPREHENSIONS, _Lowering.e_comprehension),
    "dictionary_comprehension": _Lowering.e_comprehension,
    "lambda": _Lowering.e_lambda,
    "conditional_expression": _Lowering.e_conditional,
    "boolean_operator": _Lowering.e_boolean,
    "binary_operator": _Lowering.e_binary,
    "unary_operator": _Lowering.e_unary,
    "not_operator": _Lowering.e_not,
    "comparison_operator": _Lowering.e_comparison,
    "await": _Lowering.e_await,
    "yield": _Lowering.e_yield,
    "list_splat": _Lowering.e_splat,
    "list_splat_pattern": _Lowering.e_splat,
    "dictionary_splat": _Lowering.e_inner,
    "parenthesized_expression": _Lowering.e_inner,
    "type": _Lowering.e_inner,
    "named_expression": _Lowering.e_walrus,
    "string": _Lowering.e_string,
    "concatenated_string": _Lowering.e_strings,
    "integer": _Lowering.e_number,
    "float": _Lowering.e_number,
    **dict.fromkeys(_KEYWORDS, _Lowering.e_keyword),
    "assignment": _Lowering.e_assignment,
    "as_pattern": _Lowering.e_inner,
    "print_statement": _Lowering.e_inner,
}
