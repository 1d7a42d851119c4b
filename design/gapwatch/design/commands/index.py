"""The subcommands of this folder, as the command line finds them; nothing heavy is imported here."""

from __future__ import annotations

from gapwatch.scorers.command_line import Command

COMMANDS: dict[str, Command] = {
    "design": Command(
        "Read a pipeline's source code and write the portfolio that watches it.",
        "gapwatch.design.commands.design:design",
    ),
}
