from __future__ import annotations

import re

import click
import pytest

from gapwatch.sinks.commands.index import COMMANDS
from tests.paths import FOLDERS

README = (FOLDERS["sinks"] / "README.md").read_text(encoding="utf-8")
OPTIONS = {
    match[1]: match[2].strip() for match in re.finditer(r"^\| `(--[a-z-]+)[^|]*\| ([^|]*) \|", README, re.MULTILINE)
}


#: Commands without parts; those of a group (issue, triage) have options of their own, which their help explains.
PLAIN = [name for name, command in COMMANDS.items() if not isinstance(command.load(), click.Group)]


@pytest.mark.parametrize("name", PLAIN)
def test_every_option_of_every_command_is_explained(name: str) -> None:
    options = [option.opts[0] for option in COMMANDS[name].load().params if isinstance(option, click.Option)]
    told = [option for option, commands in OPTIONS.items() if commands == "all" or name in commands.split(", ")]
    assert sorted(options) == sorted(told)
