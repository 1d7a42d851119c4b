"""Table of this package's subcommands, which the command line loads by name; it imports nothing heavy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gapwatch.scorers.command_line import Command


def _runs_until_stopped(arguments: Sequence[str], environment: Mapping[str, str]) -> bool:
    return "--until-caught-up" not in arguments and not environment.get("GAPWATCH_UNTIL_CAUGHT_UP")


COMMANDS: dict[str, Command] = {
    "accept": Command("Make what an alert found the new normal.", "gapwatch.streams.commands.decisions:accept_command"),
    "ack": Command("Say that somebody looks at an alert.", "gapwatch.streams.commands.decisions:ack_command"),
    "alerts": Command(
        "What moved, which way, how much and since when.", "gapwatch.streams.commands.alerts:alerts_command"
    ),
    "answer": Command(
        "Say which way is better, for metrics that ask.", "gapwatch.streams.commands.decisions:answer_command"
    ),
    "assemble": Command(
        "Assemble files of OpenTelemetry spans to whole traces.",
        "gapwatch.streams.commands.assemble:assemble_command",
    ),
    "backfill": Command(
        "Score the retained records of a topic again, in a lane of their own.",
        "gapwatch.streams.commands.backfill:backfill_command",
    ),
    "check": Command("Check portfolios for errors, and against real traces.", "gapwatch.streams.commands.check:check"),
    "compare": Command(
        "Compare runs of tests or evaluations, paired by test or example.",
        "gapwatch.streams.commands.evaluation.compare:compare_command",
    ),
    "consume": Command(
        "Print the records of a Kafka topic as lines of JSON.", "gapwatch.streams.commands.consume:consume_command"
    ),
    "dashboards": Command("Write dashboards for Grafana.", "gapwatch.streams.commands.dashboards:dashboards_command"),
    "eval": Command(
        "Evaluate a function over a data set, report, and gate a build.",
        "gapwatch.streams.commands.evaluation.eval:eval_command",
    ),
    "explain": Command("One page on one alert.", "gapwatch.streams.commands.alerts:explain_command"),
    "judge": Command(
        "Run LLM judges over a store, repeat verdicts, estimate costs.", "gapwatch.streams.commands.judge:judge_command"
    ),
    "metrics": Command(
        "List the metrics of evaluations, and export them into a portfolio.",
        "gapwatch.streams.commands.evaluation.metrics:metrics_command",
    ),
    "publish": Command(
        "Publish files of traces to a Kafka topic.", "gapwatch.streams.commands.publish:publish_command"
    ),
    "receive": Command(
        "Receive spans over OTLP and write them to a Kafka topic.",
        "gapwatch.streams.commands.receive:receive_command",
        lambda _arguments, _environment: True,
    ),
    "replay": Command(
        "Score files of traces into a store, without a broker.", "gapwatch.streams.commands.replay:replay_command"
    ),
    "rules": Command(
        "Write rules for Prometheus and routes for Alertmanager.", "gapwatch.streams.commands.rules:rules_command"
    ),
    "run": Command(
        "Monitor a Kafka topic, or what programs send over OTLP.",
        "gapwatch.streams.commands.run:run_command",
        _runs_until_stopped,
    ),
    "serve": Command(
        "Show the page of a store that no process writes.",
        "gapwatch.streams.commands.serve:serve_command",
        lambda _arguments, _environment: True,
    ),
    "silence": Command("Keep an alert quiet for a while.", "gapwatch.streams.commands.decisions:silence_command"),
    "spans": Command(
        "Show what OpenTelemetry spans have that can be watched.", "gapwatch.streams.commands.spans:spans_command"
    ),
    "test": Command("Run the tests of issues, and report.", "gapwatch.streams.commands.evaluation.tests:test_command"),
}
