from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from sinks.commands import COMMANDS

FOLDER = Path(__file__).parents[2] / "sinks"
README = (FOLDER / "README.md").read_text(encoding="utf-8")
OPTIONS = {
    match[1]: match[2].strip() for match in re.finditer(r"^\| `(--[a-z]+)[^|]*\| ([^|]*) \|", README, re.MULTILINE)
}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_of_every_command_is_explained(name: str) -> None:
    options = [option.opts[0] for option in COMMANDS[name].load().params if isinstance(option, click.Option)]
    told = [option for option, commands in OPTIONS.items() if commands == "all" or name in commands.split(", ")]
    assert sorted(options) == sorted(told)


def test_every_file_is_named() -> None:
    named = set(re.findall(r"`([a-z_*]+\.py)`", README))
    files = {path.name for path in FOLDER.glob("*.py") if not path.name.endswith("_command.py")}
    assert files - named == {"__init__.py"}
