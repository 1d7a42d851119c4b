"""The subcommands of this folder, as the command line finds them; nothing heavy is imported here."""

from __future__ import annotations

from scorers.command_line import Command

COMMANDS: dict[str, Command] = {
    "backfill": Command(
        "Score again what a topic still holds, in a lane of its own.", "streams.backfill_command:backfill_command"
    ),
    "check": Command(
        "Say whether portfolios are good, and what they find in real traces.", "streams.check_command:check"
    ),
    "publish": Command("Publish files of traces to a Kafka topic.", "streams.publish_command:publish_command"),
    "replay": Command("Score files of traces into a store, without a broker.", "streams.replay_command:replay_command"),
    "run": Command("Watch a Kafka topic: score its traces as they come.", "streams.run_command:run_command"),
}
