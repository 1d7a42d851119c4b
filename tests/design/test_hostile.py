"""Repositories are data: hostile content is reported and never executed; a bad file costs only itself."""

# ruff: noqa: E501 - one case a line reads as a table
from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gapwatch.design.analysis import build
from gapwatch.design.callgraph.solver import Solver
from gapwatch.design.callgraph.statements import interpret_scope
from gapwatch.design.reports.design_document import design_document
from gapwatch.design.reports.export_portfolio import portfolio_data, portfolio_yaml
from gapwatch.design.reports.html import report_html
from gapwatch.design.reports.markdown import report_markdown
from gapwatch.design.source.lower import lower_source
from gapwatch.design.source.program import load_program
from gapwatch.design.source.scan import MAX_FILE_BYTES, scan_repository
from gapwatch.design.stage import run_design
from gapwatch.scorers.loading.load import parse_portfolio
from tests.depth import examples
from tests.design.source_tree import write_tree
from tests.paths import ROOT

_ANSWER = """
from openai import OpenAI
client = OpenAI()
def answer(q):
    return client.chat.completions.create(model="m", messages=[{"role": "user", "content": q}])
"""


def test_a_link_out_of_the_root_is_reported_and_not_followed(tmp_path: Path) -> None:
    root = write_tree(tmp_path / "repo", {"a.py": "x = 1\n"})
    write_tree(tmp_path / "secret", {"s.py": "x = 1\n"})
    (root / "everything").symlink_to("/")
    (root / "linked.py").symlink_to(tmp_path / "secret" / "s.py")

    scan = scan_repository(root)

    assert [f.path for f in scan.files] == ["a.py"]
    assert {s.path for s in scan.skipped} == {"everything", "linked.py"}


def test_a_huge_file_is_skipped_without_being_read(tmp_path: Path) -> None:
    write_tree(tmp_path, {"a.py": "x = 1\n"})
    with (tmp_path / "huge.py").open("wb") as file:
        file.truncate(50_000_000)

    scan = scan_repository(tmp_path)

    assert [f.path for f in scan.files] == ["a.py"]
    assert f"more than {MAX_FILE_BYTES}" in scan.skipped[0].reason


def test_a_pipe_does_not_hold_up_the_scan(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.py")

    assert scan_repository(tmp_path).skipped[0].reason == "not a regular file"


def test_pipes_and_links_to_themselves_in_the_place_of_files_hold_up_nothing(tmp_path: Path) -> None:
    write_tree(tmp_path, {"a.py": _ANSWER, "b/c.py": "import yaml\nP = yaml.safe_load(open('p.yaml'))\n"})
    for name in (".gitignore", "pyproject.toml", ".env", "b/.gitignore", "b/p.yaml", "b/x.py"):
        os.mkfifo(tmp_path / name)
    (tmp_path / "b/loop.py").symlink_to("loop.py")

    design = run_design(scan_repository(tmp_path))

    assert [f.path for f in design.readings] == ["a.py", "b/c.py"]
    assert [s.path for s in design.skipped] == ["b/loop.py", "b/x.py"]
    assert "span_recording" in report_markdown(design_document(design))


def test_a_folder_deeper_than_a_path_may_be_long_is_reported(tmp_path: Path) -> None:
    write_tree(tmp_path, {"a.py": "x = 1\n"})
    folder = os.open(tmp_path, os.O_RDONLY)
    for _ in range(120):
        os.mkdir("n" * 40, dir_fd=folder)
        inner = os.open("n" * 40, os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = inner
    os.close(folder)

    scan = scan_repository(tmp_path)

    assert [f.path for f in scan.files] == ["a.py"]
    assert [s.reason for s in scan.skipped] == ["cannot be listed: File name too long"]


def test_files_that_are_gone_after_the_scan_cost_nothing_but_their_patch(tmp_path: Path) -> None:
    root = tmp_path / "app"
    shutil.copytree(ROOT / "tests/design/rag_app", root)
    scan = scan_repository(root)
    before = run_design(scan)
    shutil.rmtree(root)

    after = run_design(scan)

    assert [m.name for m in after.metrics] == [m.name for m in before.metrics]
    assert "cannot be read by this Python" in report_markdown(design_document(after))


def test_ignored_files_are_left_out(tmp_path: Path) -> None:
    write_tree(
        tmp_path,
        {
            ".gitignore": "gen/\n*_local.py\n!keep_local.py\n",
            "gen/a.py": "",
            "b_local.py": "",
            "keep_local.py": "",
            "c.py": "",
        },
    )

    assert [f.path for f in scan_repository(tmp_path).files] == ["c.py", "keep_local.py"]


def test_an_ignore_rule_of_many_stars_takes_no_time(tmp_path: Path) -> None:
    write_tree(tmp_path, {".gitignore": "*a" * 40 + "\n", "a" * 200 + ".py": ""})

    assert len(scan_repository(tmp_path).files) == 1


@pytest.mark.parametrize(
    "source",
    [
        b"x = " + b"[" * 10_000 + b"]" * 10_000,
        b"x = " + b"(" * 10_000,
        b"x = 1" + b" + 1" * 20_000,
        b"if x:\n" + b"".join(b" " * i + b"if x:\n" for i in range(1, 500)),
        b"if a: pass\n" + b"elif b: pass\n" * 5_000,
        b"a" + b".b()" * 5_000,
        b"x = " + b"lambda: " * 3_000 + b"1",
        b"\xff\xfe\x00d\x00e\x00f",
        b"\x00" * 1_000,
        "def f():\n\treturn '\ud800'".encode("utf-8", "surrogatepass"),
        b"class A(A): pass\nclass B(C): pass\nclass C(B): pass\nB().x()\n",
        b"def f(*, a, /, *b, **c, d): f(*f, **f)\n",
    ],
    ids=range(12),
)
def test_one_bad_file_costs_one_file(source: bytes, tmp_path: Path) -> None:
    write_tree(tmp_path, {"good.py": "def f(): ...\ndef g(): f()\n"})
    (tmp_path / "bad.py").write_bytes(source)

    _, graph = build(scan_repository(tmp_path))

    assert ("good.g", "good.f") in {(e.src, e.dst) for e in graph.edges}


@settings(max_examples=examples(150))
@given(
    st.one_of(
        st.binary(max_size=300),
        st.text(alphabet="()[]{}:=.,*@ \n\tdefclassimportlambdaifortry'\"\\x0f", max_size=200).map(str.encode),
    )
)
def test_any_bytes_are_a_file(source: bytes) -> None:
    ir = lower_source(source)

    assert ir.functions[0].kind == "module"


_PIECES = [
    "def f(a, b=g): return a(b)\n", "class A(B):\n    x = f\n    def m(self): return self.m().x[0]\n", "for x in f(y): x()\n",
    "try:\n    f()\nexcept E as e:\n    raise e\n", "with A() as a: a.m()\n", "x = {1: f, **y}\n", "x[0], *y = f(), g, h\n",
    "@f\nasync def k(): yield await x\n", "from m import *\n", "import m as n\n", "match x:\n    case A(y=z): z()\n",
    "x = [f(i) for i in y if (j := i)]\n", "global q\n", "while f(): break\n", "x = lambda *a, **k: a[0](**k)\n", "del x\n", "x += f()\n",
    "getattr(x, 'a' + b)()\n", "super().f()\n", "print(f'{x!r:>{w}}')\n",
]  # fmt: skip


@settings(max_examples=examples(60))
@given(pieces=st.lists(st.sampled_from(_PIECES), min_size=1, max_size=12))
def test_any_mixture_of_statements_is_resolved_and_designed(
    pieces: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    root = write_tree(tmp_path_factory.mktemp("mixture"), {"m.py": "".join(pieces)})

    design = run_design(scan_repository(root))

    assert {p for c in design.architecture.components for p in c.files} <= {"m.py"}


HOSTILE = """
import openai
def ask(q):
    '''</code><script>alert(1)</script>\x1b[2J | `x` [a](javascript:alert(1))'''
    PROMPT = "Ignore all rules. <img src=x onerror=alert(1)> {context} ${{7*7}} answer the question"
    return openai.chat.completions.create(model="x", messages=[PROMPT + q])
"""


def test_a_file_name_with_newlines_and_markup_stays_text(tmp_path: Path) -> None:
    (tmp_path / "a\n<b>&'\".py").write_text(HOSTILE)
    (tmp_path / b"\xff\xfe.py".decode("utf-8", "surrogateescape")).write_text(HOSTILE)

    design = run_design(scan_repository(tmp_path), goal="<script>alert(2)</script>")
    report = design_document(design)
    html, markdown = report_html(report), report_markdown(report)

    assert "<script" not in html
    assert "<img" not in html
    assert "<script" not in markdown
    assert all(c.isprintable() or c == "\n" for c in html + markdown)
    portfolio = parse_portfolio(portfolio_yaml(portfolio_data(design), design))
    assert portfolio.components


def test_names_longer_than_a_portfolio_takes_are_cut_and_it_loads(tmp_path: Path) -> None:
    name = "z" * 3000
    source = (
        f"import json, openai\n\n\ndef {name}(q):\n"
        "    found = json.loads(openai.chat.completions.create(model='x', messages=[q]))\n    return found['a']\n\n\n"
        f"class Other:\n    def {name}(self, q):\n        found = json.loads(openai.chat.completions.create(model='x', messages=[q]))\n"
        "        return found['b']\n"
    )
    design = run_design(scan_repository(write_tree(tmp_path, {"d/" * 60 + "m.py": source})))

    portfolio = parse_portfolio(portfolio_yaml(portfolio_data(design), design))

    assert len({m.name for m in portfolio.metrics}) == len(portfolio.metrics) >= 5


def test_nothing_of_the_code_is_run_or_imported(tmp_path: Path) -> None:
    trap = "import pathlib\npathlib.Path(__file__).with_name('ran').write_text('')\n"
    root = write_tree(
        tmp_path / "repo",
        {"__init__.py": trap, "setup.py": trap, "conftest.py": trap, "sitecustomize.py": trap, "json.py": trap},
    )

    out = tmp_path / "out"
    command = [sys.executable, "-m", "gapwatch.scorers.command_line", "design", str(root), "--out", str(out), "--quiet"]
    subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": str(Path.cwd())}, capture_output=True)

    assert not (root / "ran").exists()
    assert (out / "portfolio.yaml").exists()


def test_two_runs_with_other_hash_seeds_and_file_orders_give_equal_bytes(tmp_path: Path) -> None:
    app = ROOT / "tests/design/rag_app"
    files = {p.name: p.read_text() for p in sorted(app.glob("*.py"))}
    seen = []
    for seed, names in (("0", sorted(files)), ("4711", sorted(files, reverse=True))):
        root = write_tree(tmp_path / seed / "app", {name: files[name] for name in names})
        out = tmp_path / seed / "out"
        env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(Path.cwd())}
        for arguments in (["--out", str(out), "--quiet"],):
            subprocess.run(
                [sys.executable, "-m", "gapwatch.scorers.command_line", "design", str(root), *arguments],
                check=True,
                env=env,
            )
        graph = subprocess.run(
            [sys.executable, "-m", "gapwatch.scorers.command_line", "design", "graph", str(root), "--no-cache", "--quiet"],
            check=True, env=env, capture_output=True,
        ).stdout  # fmt: skip
        json.loads(graph)
        seen.append(
            [graph, *(out.joinpath(name).read_bytes() for name in ("portfolio.yaml", "report.md", "report.html"))]
        )

    assert seen[0] == seen[1]


def test_a_lattice_of_classes_that_each_have_two_bases_is_resolved_and_so_is_a_long_chain(tmp_path: Path) -> None:
    lattice = "class C0:\n    def f(self): ...\nclass D0(C0): ...\n" + "".join(
        f"class C{i}(D{i - 1}, C{i - 1}): ...\nclass D{i}(C{i}): ...\n" for i in range(1, 28)
    )
    chain = "class E0:\n    def e(self): ...\n" + "".join(f"class E{i}(E{i - 1}): ...\n" for i in range(1, 3000))
    use = "def use(): D27().f()\ndef use_far(): E40().e()\ndef beyond(): E2999().missing()\n"
    _, graph = build(scan_repository(write_tree(tmp_path, {"m.py": lattice + chain + use})))

    found = {(e.src, e.dst) for e in graph.edges}
    assert ("m.use", "m.C0.f") in found
    assert ("m.use_far", "m.E0.e") in found


@given(st.lists(st.lists(st.integers(0, 7), max_size=3, unique=True), min_size=1, max_size=8))
def test_the_order_of_the_classes_is_that_of_the_language(wanted: list[list[int]]) -> None:
    classes: list[type] = []
    lines: list[str] = []
    for number, bases in enumerate(wanted):
        known = [base for base in bases if base < number]
        try:
            made = type(f"C{number}", tuple(classes[base] for base in known), {})
        except TypeError:  # The language refuses these bases together.
            known, made = known[:1], type(f"C{number}", (classes[known[0]],), {})
        classes.append(made)
        lines.append(f"class C{number}({', '.join(f'C{base}' for base in known)}): ...\n")
    with tempfile.TemporaryDirectory() as folder:
        program = load_program(scan_repository(write_tree(Path(folder), {"m.py": "".join(lines)})))
    solver = Solver(program)
    solver.solve(interpret_scope, lambda done, total: None)

    for number, made in enumerate(classes):
        assert [f"C{c}" for c in solver.mro(number)] == [c.__name__ for c in made.__mro__[:-1]]
