"""The subcommands of this folder, as the command line finds them; nothing heavy is imported here."""

from __future__ import annotations

from scorers.command_line import Command

COMMANDS: dict[str, Command] = {
    "replay": Command("Score files of traces into a store, without a broker.", "streams.replay_command:replay_command"),
}
