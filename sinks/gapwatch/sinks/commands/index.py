"""Table of the subcommands in this folder. It imports nothing heavy, so that --help is fast."""

from __future__ import annotations

from gapwatch.scorers.command_line import Command

COMMANDS: dict[str, Command] = {
    "annotate": Command(
        "Add a note of an event, such as a deployment.", "gapwatch.sinks.commands.annotate:annotate_command"
    ),
    "dead-letters": Command(
        "Show the records that could not be read, by cause.",
        "gapwatch.sinks.commands.dead_letters:dead_letters_command",
    ),
    "export": Command(
        "Export history to Delta tables, which outlive the store.", "gapwatch.sinks.commands.export:export_command"
    ),
    "feedback": Command(
        "Store what people say of traces, from files.", "gapwatch.sinks.commands.feedback:feedback_command"
    ),
    "gaps": Command("Show the rows that failed, or one trace in full.", "gapwatch.sinks.commands.gaps:gaps_command"),
    "history": Command("Run a SQL query on a store, read-only.", "gapwatch.sinks.commands.history:history_command"),
    "issue": Command("Keep issues and their tests.", "gapwatch.sinks.commands.issue:issue_command"),
    "ledger": Command(
        "Check that every consumed record is accounted for.", "gapwatch.sinks.commands.ledger:ledger_command"
    ),
    "migrate": Command("Convert a store of an older version.", "gapwatch.sinks.commands.migrate:migrate_command"),
    "override": Command(
        "Override the outcome of a row; the judge's verdict stays.", "gapwatch.sinks.commands.override:override_command"
    ),
    "rates": Command("Show failure rates with 95 % intervals.", "gapwatch.sinks.commands.rates:rates_command"),
    "snapshot": Command("Write all tables as Parquet files.", "gapwatch.sinks.commands.snapshot:snapshot_command"),
    "triage": Command(
        "Decide on feedback, failing traces and alerts.", "gapwatch.sinks.commands.triage:triage_command"
    ),
}
