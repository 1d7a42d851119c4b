"""The page `docs/command_line.md`: every command, argument and option, from the help of the commands."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

import click

from gapwatch.scorers.command_line import discover_commands

_INTRODUCTION = """# Command line

Made from the help of the commands by `deploy/docs --write`; a test compares the two. The option `--help` of a command
prints the same.

Exit status of every command: 0 done; 1 the job stopped, or the ledger does not balance; 2 the command cannot be carried
out as given. Failing metrics and dead letters are findings: 0. Results go to standard output, everything else to
standard error.
"""


def command_line_page() -> str:
    """Return the text of the page."""
    commands = discover_commands()
    rows = [
        f"| [`{name}`](#gapwatch-{name}) | {_cell(command.summary)} |" for name, command in sorted(commands.items())
    ]
    parts = [_INTRODUCTION, "| command | |\n| --- | --- |\n" + "\n".join(rows)]
    for name, command in sorted(commands.items()):
        parts += _sections(f"gapwatch {name}", command.load())
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def _sections(name: str, command: click.Command, level: int = 2) -> Iterator[str]:
    context = click.Context(command, info_name=name)
    shown = [option for option in command.params if isinstance(option, click.Option) and not option.hidden]
    usage = " ".join((name, *(piece for piece in command.collect_usage_pieces(context))))
    yield f"{'#' * level} {name}"
    yield f"```text\n{usage}\n```"
    yield from _paragraphs(command.help or "")
    if shown:
        rows = "\n".join(_row(option, context) for option in shown)
        yield f"| option | default | meaning |\n| --- | --- | --- |\n{rows}"
    if isinstance(command, click.Group):
        for part, member in sorted(command.commands.items()):
            yield from _sections(f"{name} {part}", member, level + 1)


def _paragraphs(text: str) -> Iterator[str]:
    """Yield the paragraphs of a help text; one that click keeps as it is becomes a block."""
    for paragraph in re.split(r"\n\s*\n", inspect.cleandoc(text)):
        if paragraph.startswith("\b"):
            yield "```text\n" + paragraph.removeprefix("\b").strip("\n") + "\n```"
        else:
            yield _escaped(" ".join(paragraph.split()))


def _row(option: click.Option, context: click.Context) -> str:
    names = ", ".join(f"`{name}`" for name in option.opts)
    if option.secondary_opts:
        names += " / " + ", ".join(f"`{name}`" for name in option.secondary_opts)
    if not option.is_flag and not option.count:
        names += f" `{_metavar(option, context)}`"
    meaning = option.help or ""
    variables = [option.envvar] if isinstance(option.envvar, str) else list(option.envvar or ())
    variables = [name for name in variables if name not in meaning]
    if variables:
        meaning += f" Variable: {', '.join(variables)}."
    if option.multiple:
        meaning += " May be repeated."
    return f"| {names} | {_default(option)} | {_cell(meaning)} |"


def _metavar(option: click.Option, context: click.Context) -> str:
    return option.make_metavar(context).replace("|", " \\| ")


def _default(option: click.Option) -> str:
    default: Any = option.default
    if option.required:
        return "required"
    if option.is_flag and option.secondary_opts:
        return f"`{(option.opts if default else option.secondary_opts)[0]}`"
    if option.is_flag or not option.show_default or callable(default) or default is None:
        return ""
    return f"`{default}`"


def _cell(text: str) -> str:
    return _escaped(" ".join(text.split())).replace("|", "\\|")


def _escaped(text: str) -> str:
    """Escape what Markdown would read as markup, outside of code."""
    pieces = re.split(r"(`[^`]*`)", text)
    return "".join(piece if piece.startswith("`") else re.sub(r"([*_<\[])", r"\\\1", piece) for piece in pieces)
