"""Index of this folder's commands for the command line; it imports nothing heavy."""

from __future__ import annotations

from gapwatch.scorers.command_line import Command

COMMANDS: dict[str, Command] = {
    "design": Command(
        "Read a pipeline's source code and write a portfolio that monitors it.",
        "gapwatch.design.commands.design:design",
    ),
    "instrument": Command(
        "Run a Python program so that it emits the spans of its design.",
        "gapwatch.design.commands.instrument:instrument_command",
        lambda _arguments, _environment: True,
    ),
}
