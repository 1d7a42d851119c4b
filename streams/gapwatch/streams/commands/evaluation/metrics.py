"""`gapwatch metrics`: lists the metrics of evaluations, and exports them into a portfolio."""

from __future__ import annotations

import sys

import click

task_option = click.option(
    "--task", default=None, metavar="T", help="Task: classification, chat, rag_qa, tool_calling."
)


@click.group("metrics", invoke_without_command=True)
@task_option
@click.pass_context
def metrics_command(context: click.Context, task: str | None) -> None:
    """List the metrics of evaluations, those of installed packages included.

    A star marks the metrics that a task has by default; `exported` those that production can score too.
    """
    if context.invoked_subcommand is not None:
        return
    # Imported here: --help answers without the metrics.
    from gapwatch.scorers.errors import UsageError
    from gapwatch.sinks.reading.terminal_table import Column, print_table
    from gapwatch.streams.evaluation.metrics.exporting import exportable
    from gapwatch.streams.evaluation.metrics.registry import installed_metrics
    from gapwatch.streams.evaluation.metrics.router import DEFAULT_METRICS
    from gapwatch.streams.evaluation.metrics.use_case import TASKS

    registry = installed_metrics()
    found = registry.all_metrics() if task is None else registry.get_metrics_for_task(task)
    if not found:
        raise UsageError(f"there is no metric for the task {task!r}; tasks are {', '.join(TASKS)}")
    exported = {metric.metadata.id for metric in exportable(found)}
    rows = [
        [
            one.id,
            ", ".join(f"{name}*" if one.id in DEFAULT_METRICS.get(name, ()) else name for name in one.task_types),
            one.metric_type,
            ", ".join(one.needs) or "-",
            one.cost_estimate,
            "yes" if one.id in exported else "-",
            one.description,
        ]
        for one in (metric.metadata for metric in found)
    ]
    titles = ("metric", "tasks", "kind", "needs", "cost", "exported", "measures")
    print_table([Column(title) for title in titles], rows)


@metrics_command.command("export")
@click.option("--task", required=True, metavar="T", help="Task: classification, chat, rag_qa, tool_calling.")
@click.option("--pipeline", default="my-pipeline", show_default=True, metavar="NAME", help="Pipeline of the traces.")
@click.option(
    "--component", default="app", show_default=True, metavar="ID",
    help="Component whose spans hold the input and the output of the evaluated function.",
)  # fmt: skip
@click.option(
    "--model", default="openai/gpt-4.1-mini", show_default=True, metavar="M",
    help="Model of the judges, vendor/name; with the model of an evaluation the metrics have the same version.",
)  # fmt: skip
def metrics_export_command(task: str, pipeline: str, component: str, model: str) -> None:
    """Print a portfolio with the metrics of a task that need no reference answer.

    So what was evaluated offline is watched online under one name and one version.
    """
    # Imported here: --help answers without the metrics.
    import yaml

    from gapwatch.scorers.errors import UsageError
    from gapwatch.scorers.loading.load import parse_portfolio
    from gapwatch.streams.evaluation.metrics.exporting import exportable, portfolio_document
    from gapwatch.streams.evaluation.metrics.python_scorers import MODULE
    from gapwatch.streams.evaluation.metrics.registry import installed_metrics
    from gapwatch.streams.evaluation.metrics.use_case import TASKS

    metrics = exportable(installed_metrics().get_metrics_for_task(task))
    if not metrics:
        raise UsageError(f"the task {task!r} has no metric that can be exported; tasks are {', '.join(TASKS)}")
    document = portfolio_document(f"{task}-evaluated", pipeline, metrics, component, model)
    text = yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=110)
    if any(metric.claim["form"] == "python" for metric in metrics):
        text = f"# Score it with --scorers {MODULE}\n{text}"
    parse_portfolio(text)
    sys.stdout.write(text)
    sys.stdout.flush()
