"""The subcommands of this folder, as the command line finds them; nothing heavy is imported here."""

from __future__ import annotations

from scorers.command_line import Command

COMMANDS: dict[str, Command] = {
    "annotate": Command("Note what happened outside, such as a deployment.", "sinks.annotate_command:annotate_command"),
    "dead-letters": Command(
        "What records could not be read, by cause.", "sinks.dead_letters_command:dead_letters_command"
    ),
    "gaps": Command("Where the pipeline diverged: rows, or one trace in full.", "sinks.gaps_command:gaps_command"),
    "history": Command("Ask a store in SQL; reading only.", "sinks.history_command:history_command"),
    "ledger": Command("Whether everything that was consumed is accounted for.", "sinks.ledger_command:ledger_command"),
    "rates": Command("Failure rates with their intervals.", "sinks.rates_command:rates_command"),
}
