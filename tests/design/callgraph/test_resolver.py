"""The resolver: one language feature a case, and shapes that other tools are known to miss."""

# ruff: noqa: E501 - one case a line reads as a table
from __future__ import annotations

from pathlib import Path

import pytest

from gapwatch.design.reports.graph_formats import graph_pycg
from tests.design.source_tree import edges, graph

Case = tuple[dict[str, str], list[str], list[str]]

FOLLOWED: dict[str, Case] = {
    "own class compared with another object, and with a text": (
        {"m.py": "class A:\n    def __eq__(self, other): ...\ndef f(a: A, b: A): return a == b\ndef g(a: A): return a == 'done'\n"},
        ["m.f -> m.A.__eq__"],
        ["m.g -> m.A.__eq__"],
    ),
    "name for several types": (
        {"m.py": "class A:\n    def f(self): ...\nclass B:\n    def f(self): ...\nEither = A | B\ndef run(x: Either): x.f()\n"},
        ["m.run -> m.A.f", "m.run -> m.B.f"],
        [],
    ),
    "class that says itself what reading an attribute does": (
        {"m.py": "class A:\n    x = 1\n    def __getattribute__(self, name): return 1\ndef run(a: A): return a.x\n"},
        ["m.run -> m.A.__getattribute__"],
        [],
    ),
    "part of a package that is loaded when it is asked for": (
        {
            "p/__init__.py": "import importlib\ndef __getattr__(name): return getattr(importlib.import_module('.late', 'p'), name)\n",
            "p/late.py": "def f(): ...\n",
            "m.py": "from p import f\ndef run(): f()\n",
        },
        ["m -> p.__getattr__", "m.run -> p.late.f"],
        [],
    ),
    "class that is told of its subclasses": (
        {"m.py": "class A:\n    def __init_subclass__(cls): ...\nclass B(A): ...\n"},
        ["m -> m.A.__init_subclass__"],
        [],
    ),
    "what a field is made by": (
        {
            "m.py": "from dataclasses import dataclass, field\n@dataclass\nclass A:\n    def __post_init__(self): ...\n"
            "@dataclass\nclass B:\n    a: A = field(default_factory=A)\ndef run(): B()\n"
        },
        ["m.run -> m.A.__post_init__"],
        [],
    ),
    "function among the settings that are handed on as a dictionary": (
        {
            "m.py": "from dataclasses import asdict, dataclass\ndef f(x): ...\ndef g(x): ...\n@dataclass\nclass A:\n    ask: object = f\n    other: object = g\n"
            "    def run(self): return use(asdict(self))\ndef use(config):\n    ask = config['ask']\n    return ask(1)\nA().run()\n"
        },
        ["m.use -> m.f"],
        ["m.use -> m.g"],
    ),
    "an instance whose class was asked for": (
        {
            "m.py": "class A:\n    def f(self): ...\nclass B:\n    def f(self): ...\nclass C(B):\n    def f(self): ...\n"
            "def one(x):\n    if isinstance(x, B): x.f()\ndef wide(x: B):\n    if isinstance(x, C): x.f()\n"
            "def other(x):\n    if isinstance(x, A) or isinstance(x, B): x.f()\nfor x in (A(), B()):\n    one(x)\n    other(x)\n"
        },
        ["m.one -> m.B.f", "m.wide -> m.C.f", "m.other -> m.A.f", "m.other -> m.B.f"],
        ["m.one -> m.A.f", "m.wide -> m.B.f"],
    ),
    "a function that a decorator of a library made a chain": (
        {
            "m.py": "from langchain_core.runnables import chain\ndef f(x): ...\n@chain\ndef step(x): return f(x)\n"
            "async def one(x): return await step.ainvoke(x)\nasync def each(xs): return await step.abatch(xs)\n"
            "def other(x): return step.anything(x)\n"
        },
        ["m.one -> m.step", "m.each -> m.step"],
        ["m.other -> m.step"],
    ),
    "subclasses that a class is asked for": (
        {
            "m.py": "class A:\n    @classmethod\n    def all(cls):\n        for kind in cls.__subclasses__(): kind().f()\n"
            "class B(A):\n    def f(self): ...\nclass C(B):\n    def f(self): ...\n"
        },
        ["m.A.all -> m.B.f"],
        ["m.A.all -> m.C.f"],
    ),
    "what a part of a list is replaced by": (
        {"m.py": "class A:\n    def f(self): ...\ndef run(xs):\n    all = list(xs)\n    all[1:3] = [A()]\n    for x in all: x.f()\nrun([1])\n"},
        ["m.run -> m.A.f"],
        [],
    ),
    "expressions that a backslash carries on to the next line": (
        {
            "m.py": "class B:\n    def g(self): ...\nclass A:\n    def f(self): return B()\n    def h(self, x): ...\n"
            "def one(): ...\ndef two(): ...\ndef three(): ...\ndef four(b): ...\n"
            "def run(a: A, x):\n    y = one() \\\n        if x else two()\n    a.f() \\\n        .g()\n    assert x, \\\n        three()\n    a.h(1, \\\n        2)\n"
            "def wait():\n    yield \\\n        four(1, \\\n            2)\n"
        },
        ["m.run -> m.one", "m.run -> m.two", "m.run -> m.A.f", "m.run -> m.B.g", "m.run -> m.three", "m.run -> m.A.h", "m.wait -> m.four"],
        [],
    ),
    "method by a name that was put together before": (
        {"m.py": "class A:\n    def run(self, x):\n        name = f'_do_{x}'.lower()\n        getattr(self, name, None)()\n    def _do_a(self): ...\n    def _other(self): ...\n"},
        ["m.A.run -> m.A._do_a"],
        ["m.A.run -> m.A._other"],
    ),
    "method by a name of percent": (
        {"m.py": "class A:\n    def run(self, x):\n        return getattr(self, '_do_%s' % x)()\n    def _do_a(self): ...\n"},
        ["m.A.run -> m.A._do_a"],
        [],
    ),
    "attribute that the class computes": (
        {"m.py": "class B:\n    def f(self): ...\nclass A:\n    def __getattr__(self, name): return B()\ndef g(): A().anything.f()\n"},
        ["m.g -> m.A.__getattr__", "m.g -> m.B.f"],
        [],
    ),
    "writing an attribute where the class says what that does": (
        {"m.py": "class A:\n    def __init__(self): self.x = 1\n    def __setattr__(self, name, value): ...\n"},
        ["m.A.__init__ -> m.A.__setattr__"],
        [],
    ),
    "the own class of an instance": (
        {"m.py": "class A:\n    def __init__(self, x): ...\n    def copy(self): return self.__class__(self)\n"},
        ["m.A.copy -> m.A.__init__"],
        [],
    ),
    "mixin that calls what its neighbour defines": (
        {"m.py": "class Mix:\n    def f(self): self.g()\nclass Base:\n    def g(self): return 1\nclass A(Mix, Base): ...\n"},
        ["m.Mix.f -> m.Base.g"],
        [],
    ),
    "command that a parser of arguments stores": (
        {
            "m.py": "import argparse\ndef f(a): ...\ndef main():\n    p = argparse.ArgumentParser()\n    s = p.add_subparsers().add_parser('x')\n"
            "    s.set_defaults(run=f)\n    a = p.parse_args()\n    a.run(a)\n"
        },
        ["m.main -> m.f"],
        [],
    ),
    "decorator made by a library from a function": (
        {
            "m.py": "from decorator import decorator\n@decorator\ndef opens(method, self): return method(self)\n"
            "class A:\n    @opens\n    def f(self): ...\ndef g(): A().f()\n"
        },
        ["m.g -> m.A.f"],
        [],
    ),
    "decorator that gives nothing back to call": (
        {"m.py": "names = []\ndef register(f):\n    names.append(f)\n    return 'kept'\n@register\ndef f(): ...\ndef g(): f()\n"},
        ["m.g -> m.f"],
        [],
    ),
    "factory of a field runs when the model is made": (
        {
            "m.py": "from pydantic import BaseModel, Field, field_validator\ndef fresh(): return 1\nclass In(BaseModel):\n    x: int = Field(default_factory=fresh)\n"
            "    @field_validator('x')\n    def check(cls, v): return v\nclass Out(BaseModel):\n    i: In = Field(default_factory=In)\ndef g(): Out()\n"
        },
        ["m.g -> m.fresh", "m.g -> m.In.check"],
        [],
    ),
    "module function after from-import of the module": (
        {"pkg/__init__.py": "", "pkg/mod.py": "def f(): ...\n", "main.py": "from pkg import mod\ndef g(): mod.f()\n"},
        ["main.g -> pkg.mod.f"],
        [],
    ),
    "aliased import": (
        {"lib.py": "def f(): ...\n", "main.py": "import lib as l\nfrom lib import f as h\ndef g(): l.f()\ndef k(): h()\n"},
        ["main.g -> lib.f", "main.k -> lib.f"],
        [],
    ),
    "import inside a function": (
        {"lib.py": "def f(): ...\n", "main.py": "def g():\n    from lib import f\n    f()\n"},
        ["main.g -> lib.f"],
        [],
    ),
    "re-export through a package": (
        {"pkg/__init__.py": "from .core import f\n", "pkg/core.py": "def f(): ...\n", "main.py": "from pkg import f\ndef g(): f()\n"},
        ["main.g -> pkg.core.f"],
        [],
    ),
    "star import": ({"lib.py": "def f(): ...\n", "main.py": "from lib import *\ndef g(): f()\n"}, ["main.g -> lib.f"], []),
    "submodule that the package imports too": (
        {"p/__init__.py": "from . import a\n", "p/a.py": "def f(): ...\n", "p/b.py": "from . import a\ndef g(): a.f()\n"},
        ["p.b.g -> p.a.f"],
        [],
    ),
    "source folder that is no package": (
        {"src/pkg/__init__.py": "", "src/pkg/a.py": "def f(): ...\n", "src/pkg/b.py": "from pkg.a import f\ndef g(): f()\n"},
        ["src.pkg.b.g -> src.pkg.a.f"],
        [],
    ),
    "workspace member": (
        {"packages/x/src/x/__init__.py": "def f(): ...\n", "app/main.py": "from x import f\ndef g(): f()\n"},
        ["app.main.g -> packages.x.src.x.f"],
        [],
    ),
    "thread": ({"m.py": "import asyncio\ndef f(): ...\nasync def g(): await asyncio.to_thread(f)\n"}, ["m.g -> m.f"], []),
    "comprehension": ({"m.py": "def f(x): ...\ndef g(): return [f(x) for x in range(3)]\n"}, ["m.g -> m.f"], []),
    "method through the order of bases": (
        {"m.py": "class A:\n    def f(self): ...\nclass B(A): ...\nclass C(B):\n    def g(self): super().f()\ndef h(): C().f()\n"},
        ["m.C.g -> m.A.f", "m.h -> m.A.f"],
        [],
    ),
    "attribute set in the constructor": (
        {"m.py": "class A:\n    def f(self): ...\nclass B:\n    def __init__(self): self.a = A()\n    def g(self): self.a.f()\n"},
        ["m.B.g -> m.A.f"],
        [],
    ),
    "annotated parameter": (
        {"m.py": "class A:\n    def f(self): ...\ndef g(a: A | None): a.f()\ndef h(a: 'list[A]'):\n    for x in a: x.f()\n"},
        ["m.g -> m.A.f", "m.h -> m.A.f"],
        [],
    ),
    "field of a data class": (
        {"m.py": "from dataclasses import dataclass\nclass A:\n    def f(self): ...\n@dataclass\nclass B:\n    a: A\n    def g(self): self.a.f()\n"},
        ["m.B.g -> m.A.f"],
        [],
    ),
    "abstract method goes to the subclasses": (
        {
            "m.py": "from abc import ABC, abstractmethod\nclass A(ABC):\n    @abstractmethod\n    def f(self): ...\n"
            "class B(A):\n    def f(self): pass\ndef g(a: A): a.f()\n"
        },
        ["m.g -> m.B.f"],
        [],
    ),
    "property read": (
        {"m.py": "class A:\n    @property\n    def p(self): return 1\ndef g(a: A): return a.p\n"},
        ["m.g -> m.A.p"],
        [],
    ),
    "decorated function": (
        {
            "m.py": "import functools\ndef dec(f):\n    @functools.wraps(f)\n    def inner(*a): return f(*a)\n    return inner\n"
            "@dec\ndef one(): ...\ndef g(): one()\n"
        },
        ["m.g -> m.dec.inner", "m.g -> m.one", "m.dec.inner -> m.one"],
        [],
    ),
    "decorated methods of several classes": (
        {
            "m.py": "def dec(f):\n    def inner(*a, **k): return f(*a, **k)\n    return inner\n"
            "class A:\n    @dec\n    def run(self): self.step()\n    def step(self): ...\n"
            "class B:\n    @dec\n    def run(self): self.step()\n    def step(self): ...\n"
            "class C(A):\n    def step(self): ...\n"
            "A().run()\nB().run()\nC().run()\n"
        },
        ["m.dec.inner -> m.A.run", "m.dec.inner -> m.B.run", "m.A.run -> m.A.step", "m.A.run -> m.C.step", "m.B.run -> m.B.step"],
        ["m.A.run -> m.B.step", "m.B.run -> m.A.step", "m.B.run -> m.C.step"],
    ),
    "name put together": (
        {"m.py": "class A:\n    def on_a(self): ...\n    def on_b(self): ...\n    def off(self): ...\n    def g(self, k): getattr(self, 'on_' + k)()\n"},
        ["m.A.g -> m.A.on_a", "m.A.g -> m.A.on_b"],
        ["m.A.g -> m.A.off"],
    ),
    "later binding hides the earlier": (
        {"m.py": "def a(): ...\ndef b(): ...\nf = a\nf = b\nf()\n"},
        ["m -> m.b"],
        ["m -> m.a"],
    ),
    "dictionary of functions by constant key": (
        {"m.py": "def a(): ...\ndef b(): ...\nD = {'a': a, 'b': b}\ndef g(): D['a']()\n"},
        ["m.g -> m.a"],
        ["m.g -> m.b"],
    ),
    "partial": ({"m.py": "from functools import partial\ndef f(x): ...\ndef g(): partial(f, 1)()\n"}, ["m.g -> m.f"], []),
    "validators run when a model is made": (
        {
            "m.py": "from pydantic import BaseModel, field_validator\nclass M(BaseModel):\n    a: int\n"
            "    @field_validator('a')\n    def check(cls, v): return v\ndef g(): M(a=1)\n"
        },
        ["m.g -> m.M.check"],
        [],
    ),
    "graph of nodes": (
        {"m.py": "from langgraph.graph import StateGraph\ndef node(s): ...\ndef g():\n    b = StateGraph(dict)\n    b.add_node('n', node)\n"},
        ["m.g -> m.node"],
        [],
    ),
    "task queue": (
        {"m.py": "from celery import Celery\napp = Celery()\n@app.task\ndef job(x): ...\ndef g(): job.delay(1)\n"},
        ["m.g -> m.job"],
        [],
    ),
    "call on a library's object": (
        {"m.py": "from openai import OpenAI\nclass A:\n    def __init__(self): self.c = OpenAI()\n    def g(self): self.c.chat.completions.create(model='x')\n"},
        ["m.A.g -> openai.OpenAI.chat.completions.create"],
        [],
    ),
    "name of the module that only a function binds, after the functions that read it": (
        {
            "m.py": "class Store:\n    def find(self): ...\ndef answer(): return store.find()\n"
            "def start():\n    global store\n    store = Store()\n"
        },
        ["m.answer -> m.Store.find"],
        [],
    ),
    "object of a class that a container is asked for": (
        {
            "m.py": "from injector import Injector\nclass Store:\n    def find(self): ...\ndef answer(i: Injector):\n"
            "    i.get(Store).find()\n    i.get('Store').find()\n"
        },
        ["m.answer -> m.Store.find"],
        [],
    ),
    "same name in two modules": (
        {"a.py": "def f(): ...\n", "b.py": "def f(): ...\n", "m.py": "import a\ndef g(): a.f()\n"},
        ["m.g -> a.f"],
        ["m.g -> b.f"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(FOLLOWED))
def test_a_call_is_followed(name: str, tmp_path: Path) -> None:
    files, wanted, unwanted = FOLLOWED[name]

    found = edges(tmp_path, files)

    assert set(wanted) <= found
    assert not set(unwanted) & found


def test_a_root_that_is_itself_the_package_resolves_its_own_absolute_imports(tmp_path: Path) -> None:
    root = tmp_path / "pkg"
    files = {"__init__.py": "", "a.py": "def f(): ...\n", "b.py": "from pkg.a import f\ndef g(): f()\n"}

    assert "b.g -> a.f" in edges(root, files)


def test_a_root_under_another_folder_name_is_learnt_from_its_imports(tmp_path: Path) -> None:
    files = {f"m{i}.py": "from product.core import f\ndef g(): f()\n" for i in range(3)} | {"core.py": "def f(): ...\n"}

    assert "m1.g -> core.f" in edges(tmp_path / "checkout", files)


def test_a_library_with_a_part_of_the_name_of_a_folder_here_is_no_name_of_the_root(tmp_path: Path) -> None:
    parts = ("llms", "schema", "prompts", "indices")
    files = {f"m{i}.py": f"from lib.core.{name} import f\ndef g(): f()\n" for i, name in enumerate(parts)}
    files |= {
        "core/__init__.py": "",
        "core/config.py": "def f(): ...\n",
        "n.py": "from lib.core import f\ndef g(): f()\n",
    }
    found = edges(tmp_path, files)

    assert {f"m{i}.g -> lib.core.{name}.f" for i, name in enumerate(parts)} <= found


def test_a_library_is_not_taken_for_a_neighbour_of_the_same_name(tmp_path: Path) -> None:
    files = {
        "pkg/__init__.py": "",
        "pkg/json.py": "def loads(t): ...\n",
        "pkg/m.py": "import json\ndef g(t): json.loads(t)\n",
    }

    found = edges(tmp_path, files)

    assert "pkg.m.g -> json.loads" in found
    assert "pkg.m.g -> pkg.json.loads" not in found


def test_a_folder_of_the_root_s_package_does_not_hide_the_library_of_its_name(tmp_path: Path) -> None:
    files = {f"m{i}.py": "from product.core import f\ndef g(): f()\n" for i in range(3)} | {
        "core.py": "def f(): ...\n",
        "httpx/pool.py": "def size(): ...\n",
        "calls.py": "import httpx\nfrom product.httpx.pool import size\ndef g(u):\n    size()\n    httpx.get(u)\n",
    }

    assert {"calls.g -> httpx.get", "calls.g -> httpx.pool.size"} <= edges(tmp_path / "checkout", files)


def test_what_stays_unknown_has_its_cause(tmp_path: Path) -> None:
    made = graph(tmp_path, {"m.py": "def g(x):\n    x.run()\n    nobody()\n"})

    assert {(u.text, u.cause) for u in made.unresolved} == {("x.run", "unknown_receiver"), ("nobody", "unknown_name")}
    assert made.resolution_rate == 0.0


def test_every_edge_has_the_lines_of_its_calls(tmp_path: Path) -> None:
    made = graph(tmp_path, {"m.py": "def f(): ...\ndef g():\n    f()\n    f()\n"})

    assert [e.sites for e in made.edges] == [(("m.py", 3), ("m.py", 4))]


def test_taking_from_a_generator_that_another_made_is_an_edge_of_its_own_kind_and_no_call(tmp_path: Path) -> None:
    made = graph(tmp_path, {"m.py": "def make():\n    yield 1\ndef take(it):\n    for x in it: pass\ntake(make())\n"})

    assert ("m.take", "m.make", "resume") in {(e.src, e.dst, e.kind) for e in made.edges}
    assert graph_pycg(made)["m.take"] == []


def test_an_operand_that_may_be_anything_is_asked_nothing(tmp_path: Path) -> None:
    classes = "".join(f"class C{i}:\n    def __bool__(self): return True\n" for i in range(3))
    uses = "def one(x):\n    if x: pass\ndef any_of(x):\n    if x: pass\none(C0())\n"
    found = edges(tmp_path, {"m.py": classes + uses + "".join(f"any_of(C{i}())\n" for i in range(3))})

    assert "m.one -> m.C0.__bool__" in found
    assert not {e for e in found if e.startswith("m.any_of -> m.C")}


def test_what_tests_hand_in_is_in_the_graph_and_not_in_what_the_benchmark_counts(tmp_path: Path) -> None:
    files = {"m.py": "def run(f): return f()\n", "tests/test_m.py": "from m import run\ndef fake(): ...\nrun(fake)\n"}
    made = graph(tmp_path, files)

    assert ("m.run", "tests.test_m.fake") in {(e.src, e.dst) for e in made.edges}
    assert graph_pycg(made)["m.run"] == []


def test_what_an_operator_or_a_conversion_runs_is_in_the_graph_and_not_among_what_a_call_site_calls(
    tmp_path: Path,
) -> None:
    uses = "def f(a: A, b: A):\n    str(a)\n    return a == b\ndef g(a: A):\n    with a: pass\n"
    made = graph(
        tmp_path,
        {
            "m.py": "class A:\n    def __eq__(self, o): ...\n    def __str__(self): ...\n    def __enter__(self): ...\n"
            + uses
        },
    )

    assert {e.dst for e in made.edges if e.src == "m.f" and e.kind == "protocol"} == {"m.A.__eq__", "m.A.__str__"}
    assert graph_pycg(made)["m.f"] == ["<builtin>.str"]
    assert graph_pycg(made)["m.g"] == ["m.A.__enter__"]
