"""Writes the fixtures of the critic in seven ways that leave each verdict as it is, and follows their lines."""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

#: Calls of the client's library in the words of another one.
OTHER_LIBRARY = (
    ("self.client.", "client."),
    ("client.chat.completions.create(", "litellm.completion("),
    ("from openai import OpenAI\n", "import litellm\nfrom openai import OpenAI\n"),
    ("from openai import AsyncOpenAI\n", "import litellm\nfrom openai import AsyncOpenAI\n"),
    ("await litellm.completion(", "await litellm.acompletion("),
    ("httpx.get(", "requests.get("),
    ("httpx.post(", "requests.post("),
    ("httpx.HTTPError", "requests.RequestException"),
    ("import httpx\n", "import httpx\nimport requests\n"),
    ("client.embeddings.create(", "litellm.embedding("),
)
#: Words of another trade for the names of functions and classes.
_WORDS = [
    "parcel",
    "recipe",
    "ticket",
    "harbour",
    "meadow",
    "lantern",
    "copper",
    "saddle",
    "quarry",
    "willow",
    "bishop",
    "cinder",
    "thimble",
    "orchard",
]


@dataclass
class Written:
    """A fixture in one variation.

    Attributes:
        files: Text by path.
        lines: (path, line) by line of the fixture.
        names: New name with dots by the old one, of functions and classes.
        modules: Path of each new name.
        outer: New names of functions whose body moved into another; metrics stay on them.
    """

    files: dict[str, str]
    lines: dict[int, tuple[str, int]]
    names: dict[str, str]
    outer: dict[str, tuple[str, int]] = field(default_factory=dict)


def vary(variation: str, text: str) -> Written:
    """Return a fixture in one of the seven variations of `mutations.yaml`."""
    tree = ast.parse(text)
    names = {name: name for name, _ in _named(tree)}
    if variation == "as_written":
        return Written({"app.py": text}, {n: ("app.py", n) for n in range(1, text.count("\n") + 2)}, names)
    if variation == "other_library":
        return _other_library(text, names)
    if variation == "renamed":
        return _renamed(tree, names)
    if variation == "async":
        return _written({"app.py": _asynchronous(tree)}, names)
    if variation == "one_call_deeper":
        return _deeper(tree, names)
    if variation == "other_file":
        return _in_files(tree, names)
    assert variation == "method"
    return _as_methods(tree, names)


def _other_library(text: str, names: dict[str, str]) -> Written:
    out: list[str] = []
    lines: dict[int, tuple[str, int]] = {}
    for number, line in enumerate(text.splitlines(keepends=True), 1):
        lines[number] = "app.py", len(out) + 1
        for old, new in OTHER_LIBRARY:
            line = (new if line == old else line) if old.endswith("\n") else line.replace(old, new)
        out += line.splitlines(keepends=True)
    return Written({"app.py": "".join(out)}, lines, names)


def _named(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, ast.AST]]:
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield prefix + child.name, child
            yield from _named(child, f"{prefix}{child.name}.")


def _written(trees: dict[str, ast.Module], names: dict[str, str]) -> Written:
    """Write trees as text, and find the new line of each old one by walking both forms of a tree side by side."""
    files: dict[str, str] = {}
    lines: dict[int, tuple[str, int]] = {}
    for path, tree in trees.items():
        files[path] = ast.unparse(ast.fix_missing_locations(tree)) + "\n"
        again = ast.parse(files[path])
        for old, new in zip(ast.walk(tree), ast.walk(again), strict=True):
            assert type(old) is type(new)
            was = getattr(old, "was", None)
            if was is not None and hasattr(new, "lineno"):
                lines.setdefault(was, (path, new.lineno))
                lines.setdefault(-getattr(old, "was_end", was), (path, new.lineno))
    return Written(files, lines, names)


def _marked(tree: ast.Module) -> ast.Module:
    for node in ast.walk(tree):
        if hasattr(node, "lineno"):
            node.was, node.was_end = node.lineno, node.end_lineno  # type: ignore[attr-defined]
    return tree


def _renamed(tree: ast.Module, names: dict[str, str]) -> Written:
    _marked(tree)
    own = sorted({part for name in names for part in name.split(".") if not part.startswith("__")})
    new = {old: f"{_WORDS[i % len(_WORDS)]}_{_WORDS[(i * 3 + 1) % len(_WORDS)]}_{i}" for i, old in enumerate(own)}
    new = {old: (word.title().replace("_", "") if old[0].isupper() else word) for old, word in new.items()}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            node.name = new.get(node.name, node.name)
        elif isinstance(node, ast.Name):
            node.id = new.get(node.id, node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name | ast.Call):
            inner = node.value.func if isinstance(node.value, ast.Call) else node.value
            # A method of the fixture, not one of a library that happens to share the name.
            if isinstance(inner, ast.Name) and (inner.id == "self" or inner.id in new.values() or inner.id in own):
                node.attr = new.get(node.attr, node.attr)
            elif isinstance(inner, ast.Name) and inner.id == "search" and node.attr in new:
                node.attr = new[node.attr]
    return _written(
        {"app.py": tree}, {name: ".".join(new.get(part, part) for part in name.split(".")) for name in names}
    )


class _Await(ast.NodeTransformer):
    """Makes functions asynchronous and waits for their calls, for requests and for the client."""

    def __init__(self, own: set[str]) -> None:
        self.own = own
        self.depth = 0

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        if node.name not in self.own:
            self.generic_visit(node)
            return node
        self.depth += 1
        self.generic_visit(node)
        self.depth -= 1
        made = ast.AsyncFunctionDef(**{key: getattr(node, key) for key in node._fields})
        return _as_before(made, node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        self.depth += 1
        self.generic_visit(node)
        self.depth -= 1
        return node

    def visit_Await(self, node: ast.Await) -> ast.AST:
        assert isinstance(node.value, ast.Call)
        self.generic_visit(node.value)
        return node

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> ast.AST:
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        text = ast.unparse(node.func)
        is_own = text.rpartition(".")[2] in self.own and (
            "." not in text
            or text.startswith("self.")
            or (isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Call))
        )
        is_client = re.match(r"(self\.)?client\.|httpx\.(get|post)$", text) is not None
        if self.depth and (is_own or is_client):
            return _as_before(ast.Await(node), node)
        return node


def _as_before(made: ast.AST, node: ast.AST) -> ast.AST:
    for key in ("was", "was_end", "lineno", "end_lineno", "col_offset", "end_col_offset"):
        if hasattr(node, key):
            setattr(made, key, getattr(node, key))
    return made


def _asynchronous(tree: ast.Module) -> ast.Module:
    _marked(tree)
    own = {
        node.name
        for _, node in _named(tree)
        if isinstance(node, ast.FunctionDef)
        and not node.name.startswith("__")
        and not any(isinstance(inner, ast.Yield | ast.FunctionDef) for inner in ast.walk(node) if inner is not node)
        and not (isinstance(node.returns, ast.Name) and node.returns.id in ("OpenAI", "NoReturn"))
        and node.name not in ("_note_error", "_handle_error", "forget", "fail")
    }
    made = _Await(own).visit(tree)
    for node in ast.walk(made):
        if isinstance(node, ast.Name) and node.id == "OpenAI":
            node.id = "AsyncOpenAI"
        elif isinstance(node, ast.alias) and node.name == "OpenAI":
            node.name = "AsyncOpenAI"
    assert isinstance(made, ast.Module)
    return made


def _deeper(tree: ast.Module, names: dict[str, str]) -> Written:
    _marked(tree)
    outer: dict[str, int] = {}

    def split(body: list[ast.stmt], prefix: str) -> list[ast.stmt]:
        out: list[ast.stmt] = []
        for node in body:
            if isinstance(node, ast.ClassDef):
                node.body = split(node.body, f"{prefix}{node.name}.")
            is_plain = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.decorator_list
            if not is_plain or node.name.startswith("__") or any(isinstance(n, ast.FunctionDef) for n in node.body):  # type: ignore[attr-defined]
                out.append(node)
                continue
            assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            inner = copy.copy(node)
            inner.name = f"_{node.name.strip('_')}_inside"
            arguments = [a.arg for a in node.args.args]
            is_method = bool(arguments) and arguments[0] == "self"
            callee = f"self.{inner.name}" if is_method else inner.name
            call = f"{callee}({', '.join(arguments[is_method:])})"
            given = f"await {call}" if isinstance(node, ast.AsyncFunctionDef) else call
            is_generator = any(isinstance(n, ast.Yield) for n in ast.walk(node))
            line = ast.parse(f"async def f():\n    {'yield from' if is_generator else 'return'} {given}").body[0]
            shell = copy.copy(node)
            shell.body = line.body  # type: ignore[attr-defined]
            for part in ast.walk(line):
                part.__dict__.pop("was", None)
            shell.body[0].shell_of = f"{prefix}{node.name}"  # type: ignore[attr-defined]
            shell.args = copy.deepcopy(node.args)
            shell.was = shell.was_end = None  # type: ignore[attr-defined, union-attr]
            outer[f"{prefix}{node.name}"] = 0
            out += [inner, shell]
        return out

    tree.body = split(tree.body, "")
    made = _written({"app.py": tree}, names)
    again = ast.parse(made.files["app.py"])
    where = dict(_named(again))
    made.outer = {name: ("app.py", where[name].body[0].lineno) for name in outer}  # type: ignore[attr-defined]
    return made


def _in_files(tree: ast.Module, names: dict[str, str]) -> Written:
    """Move constants to `settings.py` and functions that no request calls by a route to `work.py`."""
    _marked(tree)
    imports = [s for s in tree.body if isinstance(s, ast.Import | ast.ImportFrom)]
    constants = [
        s
        for s in tree.body
        if isinstance(s, ast.Assign) and isinstance(s.targets[0], ast.Name) and s.targets[0].id.isupper()
    ]
    helpers = [
        s
        for s in tree.body
        if isinstance(s, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        and not any("app" in ast.unparse(d) or "click" in ast.unparse(d) for d in s.decorator_list)
    ]
    state = [
        s
        for s in tree.body
        if isinstance(s, ast.Assign | ast.AnnAssign) and s not in constants and "FastAPI" not in ast.unparse(s)
    ]
    state += [s for s in tree.body if isinstance(s, ast.Expr) and "add_argument" in ast.unparse(s)]
    moved = {id(s) for s in (*constants, *helpers, *state)}
    called = [
        *[h.name for h in helpers],
        *[ast.unparse(s.targets[0]) for s in state if isinstance(s, ast.Assign)],
        *[ast.unparse(s.target) for s in state if isinstance(s, ast.AnnAssign)],
    ]
    fetched = ast.parse(f"from work import {', '.join(called)}").body if called else []
    known = (
        ast.parse(f"from settings import {', '.join(ast.unparse(c.targets[0]) for c in constants)}").body
        if constants
        else []
    )
    rest = [s for s in tree.body if id(s) not in moved and s not in imports]
    trees = {
        "settings.py": ast.Module(list(constants), []),
        "work.py": ast.Module([*copy.deepcopy(imports), *copy.deepcopy(known), *state, *helpers], []),
        "app.py": ast.Module([*imports, *fetched, *known, *rest], []),
    }
    return _written({path: t for path, t in trees.items() if t.body}, names)


class _Self(ast.NodeTransformer):
    """Reads the class's own functions and its client through an object."""

    def __init__(self, moved: set[str], receiver: str, members: set[str]) -> None:
        self.moved, self.receiver, self.members = moved, receiver, members

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id in self.moved or node.id in self.members:
            made = ast.Attribute(ast.Name(self.receiver, ast.Load()), node.id, node.ctx)
            return _as_before(made, node)
        return node


def _as_methods(tree: ast.Module, names: dict[str, str]) -> Written:
    _marked(tree)
    moved = [
        s
        for s in tree.body
        if isinstance(s, ast.FunctionDef | ast.AsyncFunctionDef)
        and not s.decorator_list
        and not any(isinstance(inner, ast.FunctionDef) for inner in s.body)
    ]
    own = {s.name for s in moved}
    clients = [s for s in tree.body if isinstance(s, ast.Assign) and "OpenAI" in ast.unparse(s)]
    members = {"client"} if clients else set()
    for s in moved:
        s.body = [_Self(own, "self", members).visit(inner) for inner in s.body]
        s.args.args.insert(0, ast.arg("self"))
    start = ast.parse("def __init__(self) -> None:\n    pass").body[0]
    assert isinstance(start, ast.FunctionDef)
    if clients:
        start.body = [_Self(set(), "self", members).visit(c) for c in clients]
    holder = ast.ClassDef(
        "Service", [], [], [start, *moved], [], **({"type_params": []} if hasattr(ast, "TypeAlias") else {})
    )
    rest: list[ast.stmt] = []
    is_placed = False
    for s in tree.body:
        if s in clients:
            continue
        if s in moved:
            if not is_placed:
                rest += [holder, *ast.parse("service = Service()").body]
                is_placed = True
            continue
        rest.append(s)
    if moved:
        for s in rest:
            if s is not holder and not isinstance(s, ast.Import | ast.ImportFrom):
                # Classes and routes reach the functions through the object; their own methods stay.
                _Self(own, "service", members if clients else set()).visit(s)
    tree.body = rest
    renamed = {name: f"Service.{name}" if name in own else name for name in names}
    return _written({"app.py": tree}, renamed)
