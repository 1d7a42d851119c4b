"""The subcommands of this folder, as the command line finds them; nothing heavy is imported here."""

from __future__ import annotations

from scorers.command_line import Command

COMMANDS: dict[str, Command] = {
    "accept": Command("Make what an alert found the new normal.", "streams.alerting.decision_commands:accept_command"),
    "ack": Command("Say that somebody looks at an alert.", "streams.alerting.decision_commands:ack_command"),
    "alerts": Command(
        "What moved, which way, how much and since when.", "streams.alerting.alerts_command:alerts_command"
    ),
    "answer": Command(
        "Say which way is better, for metrics that ask.", "streams.alerting.decision_commands:answer_command"
    ),
    "backfill": Command(
        "Score again what a topic still holds, in a lane of its own.", "streams.backfill_command:backfill_command"
    ),
    "check": Command(
        "Say whether portfolios are good, and what they find in real traces.", "streams.check_command:check"
    ),
    "dashboards": Command("Write dashboards for Grafana.", "streams.monitoring.dashboards_command:dashboards_command"),
    "explain": Command("One page on one alert.", "streams.alerting.alerts_command:explain_command"),
    "judge": Command("Judge what waits in a store; run verdicts again; costs.", "streams.judges.command:judge_command"),
    "publish": Command("Publish files of traces to a Kafka topic.", "streams.publish_command:publish_command"),
    "replay": Command("Score files of traces into a store, without a broker.", "streams.replay_command:replay_command"),
    "rules": Command(
        "Write rules for Prometheus and routes for Alertmanager.", "streams.monitoring.rules_command:rules_command"
    ),
    "run": Command("Watch a Kafka topic: score its traces as they come.", "streams.run_command:run_command"),
    "silence": Command("Keep an alert quiet for a while.", "streams.alerting.decision_commands:silence_command"),
}
