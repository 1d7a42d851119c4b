"""The subcommands of this folder, as the command line finds them; nothing heavy is imported here."""

from __future__ import annotations

from gapwatch.scorers.command_line import Command

COMMANDS: dict[str, Command] = {
    "accept": Command("Make what an alert found the new normal.", "gapwatch.streams.commands.decisions:accept_command"),
    "ack": Command("Say that somebody looks at an alert.", "gapwatch.streams.commands.decisions:ack_command"),
    "alerts": Command(
        "What moved, which way, how much and since when.", "gapwatch.streams.commands.alerts:alerts_command"
    ),
    "answer": Command(
        "Say which way is better, for metrics that ask.", "gapwatch.streams.commands.decisions:answer_command"
    ),
    "backfill": Command(
        "Score again what a topic still holds, in a lane of its own.",
        "gapwatch.streams.commands.backfill:backfill_command",
    ),
    "check": Command(
        "Say whether portfolios are good, and what they find in real traces.", "gapwatch.streams.commands.check:check"
    ),
    "dashboards": Command("Write dashboards for Grafana.", "gapwatch.streams.commands.dashboards:dashboards_command"),
    "explain": Command("One page on one alert.", "gapwatch.streams.commands.alerts:explain_command"),
    "judge": Command(
        "Judge what waits in a store; run verdicts again; costs.", "gapwatch.streams.commands.judge:judge_command"
    ),
    "publish": Command(
        "Publish files of traces to a Kafka topic.", "gapwatch.streams.commands.publish:publish_command"
    ),
    "replay": Command(
        "Score files of traces into a store, without a broker.", "gapwatch.streams.commands.replay:replay_command"
    ),
    "rules": Command(
        "Write rules for Prometheus and routes for Alertmanager.", "gapwatch.streams.commands.rules:rules_command"
    ),
    "run": Command("Watch a Kafka topic: score its traces as they come.", "gapwatch.streams.commands.run:run_command"),
    "silence": Command("Keep an alert quiet for a while.", "gapwatch.streams.commands.decisions:silence_command"),
}
