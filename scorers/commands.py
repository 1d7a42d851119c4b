"""The subcommands of this folder, as the command line finds them; nothing heavy is imported here."""

from __future__ import annotations

from scorers.command_line import Command

COMMANDS: dict[str, Command] = {
    "check": Command("Say whether portfolios are good, and what they watch.", "scorers.check_command:check"),
}
