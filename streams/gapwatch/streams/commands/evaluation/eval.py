"""`gapwatch eval`: evaluates a function over a data set, reports, and stands in CI."""

from __future__ import annotations

import sys
from pathlib import Path

import click
import orjson


@click.command("eval")
@click.argument("config", type=click.Path(path_type=Path), metavar="CONFIG")
@click.option(
    "--store", default=None, type=click.Path(path_type=Path), metavar="S",
    help="DuckDB file that keeps the scored traces on the lane eval:RUN; created if it does not exist. Default: none.",
)  # fmt: skip
@click.option(
    "--from-store", default=None, metavar="SELECT",
    help="Take the examples from a query over the store instead of the data set of CONFIG.",
)  # fmt: skip
@click.option(
    "--traces", default=None, type=click.Path(path_type=Path), metavar="FILE", help="File for the traces, JSON lines."
)
@click.option(
    "--json", "json_file", default=None, type=click.Path(path_type=Path), metavar="FILE", help="File for JSON."
)
@click.option(
    "--markdown", default=None, type=click.Path(path_type=Path), metavar="FILE",
    help="File for the report, such as the summary of a pull request; it is appended.",
)  # fmt: skip
@click.option(
    "--junit", default=None, type=click.Path(path_type=Path), metavar="FILE", help="File for JUnit XML, for CI systems."
)
@click.option("--quiet", is_flag=True, help="Show no progress bar and no report.")
def eval_command(
    config: Path, store: Path | None, from_store: str | None, traces: Path | None, json_file: Path | None,
    markdown: Path | None, junit: Path | None, quiet: bool,
) -> None:  # fmt: skip
    """Call the function that CONFIG names on each example of a data set, score the calls, and print a report.

    The traces are scored by the plan, the judges and the store of production, so that a metric has the same number
    offline and online. `gapwatch metrics` lists the metrics.

    Exit status 1: a bound of the gate is missed. 2: CONFIG, the data set or a metric is refused.
    """
    # Imported here: --help answers without DuckDB.
    from gapwatch.scorers.errors import JobError, UsageError
    from gapwatch.streams.evaluation.datasets.data_set import load_data_set, load_from_store
    from gapwatch.streams.evaluation.metrics.use_case import UseCase
    from gapwatch.streams.evaluation.reports.gate import read_gates
    from gapwatch.streams.evaluation.reports.junit import junit_xml
    from gapwatch.streams.evaluation.reports.progress import ExampleProgress
    from gapwatch.streams.evaluation.running.baseline import find_baseline
    from gapwatch.streams.evaluation.running.configuration import load_entrypoint, load_evaluation_config, located
    from gapwatch.streams.evaluation.running.evaluation import EvaluationPlan, check_gated, run_evaluation
    from gapwatch.streams.evaluation.running.example_calls import CallLimits

    written = load_evaluation_config(config)
    gates = read_gates(written.gate)
    if from_store is not None:
        if store is None:
            raise UsageError("--from-store needs the store: --store S")
        examples = load_from_store(store, from_store)
    elif written.from_store is not None:
        examples = load_from_store(written.from_store.store, written.from_store.query)
    elif written.dataset is not None:
        examples = load_data_set(located(written.dataset, config))
    else:
        raise UsageError(f"{config}: no data set; write dataset: FILE, or from_store: {{store: S, query: SELECT ...}}")
    function = load_entrypoint(written.entrypoint, config)
    baseline, compared = find_baseline(
        None if written.baseline is None else str(located(written.baseline, config)), store
    )
    with ExampleProgress(len(examples), enabled=not quiet) as progress:
        plan = EvaluationPlan(
            use_case=UseCase(written.task, **written.use_case),
            metrics=written.metrics,
            preset=written.preset,
            client=None if written.llm is None else written.llm.client(),
            portfolio=None if written.portfolio is None else located(written.portfolio, config),
            component=written.component,
            store=store,
            traces=traces,
            limits=CallLimits(written.concurrency, written.timeout_seconds, written.memory_mb, written.printed_bytes),
            baseline=baseline,
            compared=compared,
            on_done=progress.update,
        )
        check_gated(examples, plan, [gate.metric for gate in gates])
        run = run_evaluation(function, examples, plan)
    missed = [why for gate in gates if (why := gate.missed(run)) is not None]
    report = run.to_markdown()
    if gates:
        report += "\n## Gate\n\n" + "".join(f"- missed: {why}\n" for why in missed)
        report += f"{len(gates) - len(missed)} of {len(gates)} bounds are met.\n"
    if json_file is not None:
        json_file.write_bytes(orjson.dumps({**run.to_json(), "gate_missed": missed}, str, orjson.OPT_INDENT_2))
    if junit is not None:
        junit.write_bytes(junit_xml(run, gates))
    if markdown is not None:
        with markdown.open("a", encoding="utf-8") as file:
            file.write(report)
    if not quiet:
        sys.stdout.write(report)
        sys.stdout.flush()
    if missed:
        raise JobError(f"the gate is missed: {'; '.join(missed)}")
