"""Each command and option has a help text, and printing it loads no engine."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module

import click
import pytest

from gapwatch.scorers.command_line import OWN_MODULES, discover_commands
from tests.paths import ROOT

PACKAGES = ("scorers", "sinks", "streams", "design")
#: What takes long to import, or speaks to a network while it is imported.
HEAVY = ("duckdb", "litellm", "faust", "mode", "aiokafka", "tree_sitter")


def all_commands() -> Iterator[tuple[str, click.Command]]:
    """Yield every command by what one types for it, the parts of groups included."""
    for name, command in sorted(discover_commands().items()):
        yield from _with_parts(name, command.load())


def _with_parts(name: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    yield name, command
    if isinstance(command, click.Group):
        for part in sorted(command.commands):
            yield from _with_parts(f"{name} {part}", command.commands[part])


COMMANDS = dict(all_commands())


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_and_each_of_its_options_are_explained(name: str) -> None:
    command = COMMANDS[name]
    explained = (command.help or "").strip()
    options = [option for option in command.params if isinstance(option, click.Option)]

    assert len(explained.split()) >= 4
    assert explained.splitlines()[0].endswith((".", ":")) or "\n" in explained
    assert [option.name for option in options if not (option.help or "").strip()] == []
    told = command.get_help(click.Context(command, info_name=name))
    assert [a.name for a in command.params if isinstance(a, click.Argument) and a.make_metavar(_context(command))
            .strip("[]").removesuffix("...") not in told] == []  # fmt: skip


def _context(command: click.Command) -> click.Context:
    return click.Context(command)


def test_every_command_that_the_code_declares_can_be_reached() -> None:
    declared = [
        f"{path.relative_to(ROOT)}:{node.name}"
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef) and any(_declares(decorator) for decorator in node.decorator_list)
    ]

    assert declared
    assert len(declared) == len({id(command) for command in COMMANDS.values()}), declared


def _declares(decorator: ast.expr) -> bool:
    call = decorator.func if isinstance(decorator, ast.Call) else decorator
    return isinstance(call, ast.Attribute) and call.attr in ("command", "group")


def test_each_folder_names_its_commands_in_the_same_way() -> None:
    contributed = {module: import_module(module).COMMANDS for module in OWN_MODULES}

    assert {module.split(".")[1] for module in contributed} == set(PACKAGES) - {"scorers"}
    for module, commands in contributed.items():
        package = module.removesuffix(".index")
        assert [name for name, command in commands.items() if not command.target.startswith(f"{package}.")] == []


# A fork for each command, because a module that is loaded stays; the start of Python is paid once.
_PROBE = f"""
import io, json, os, sys
from contextlib import redirect_stdout
from gapwatch.scorers.command_line import run
for line in sys.stdin.read().splitlines():
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        with redirect_stdout(io.StringIO()) as told:
            status = run([*line.split(), "--help"])
        print(json.dumps([status, [name for name in {HEAVY} if name in sys.modules], told.getvalue()]), flush=True)
        os._exit(0)
    os.waitpid(child, 0)
"""


@pytest.fixture(scope="module")
def answers() -> dict[str, tuple[int, list[str], str]]:
    """Status, heavy modules that were loaded, and text of the help, by command."""
    names = ["", *COMMANDS]
    ran = subprocess.run(
        [sys.executable, "-c", _PROBE], cwd=ROOT, input="\n".join(names) + "\n", capture_output=True, text=True,
        check=True, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    return dict(zip(names, map(json.loads, ran.stdout.splitlines()), strict=True))


@pytest.mark.parametrize("name", ["", *COMMANDS])
def test_help_answers_without_loading_what_is_heavy(name: str, answers: dict[str, tuple[int, list[str], str]]) -> None:
    status, heavy, told = answers[name]

    assert status == 0
    assert told.startswith("Usage: gapwatch")
    assert heavy == []
