"""The subcommands of this folder, as the command line finds them; nothing heavy is imported here."""

from __future__ import annotations

from gapwatch.scorers.command_line import Command

COMMANDS: dict[str, Command] = {
    "annotate": Command(
        "Note what happened outside, such as a deployment.", "gapwatch.sinks.commands.annotate:annotate_command"
    ),
    "dead-letters": Command(
        "What records could not be read, by cause.", "gapwatch.sinks.commands.dead_letters:dead_letters_command"
    ),
    "gaps": Command(
        "Where the pipeline diverged: rows, or one trace in full.", "gapwatch.sinks.commands.gaps:gaps_command"
    ),
    "history": Command("Ask a store in SQL; reading only.", "gapwatch.sinks.commands.history:history_command"),
    "ledger": Command(
        "Whether everything that was consumed is accounted for.", "gapwatch.sinks.commands.ledger:ledger_command"
    ),
    "override": Command(
        "Record a person's verdict on a row; the judge's stays.", "gapwatch.sinks.commands.override:override_command"
    ),
    "rates": Command("Failure rates with their intervals.", "gapwatch.sinks.commands.rates:rates_command"),
    "snapshot": Command("The tables as Parquet files.", "gapwatch.sinks.commands.snapshot:snapshot_command"),
}
