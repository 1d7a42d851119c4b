"""`gapwatch compare`: runs of tests or of evaluations, paired by test or by example."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gapwatch.sinks.api.store_address import StorePlace
from gapwatch.sinks.commands.options import format_option, reading, store_option

if TYPE_CHECKING:
    from gapwatch.sinks.evaluation.run_pairs import MetricPairs
    from gapwatch.sinks.evaluation.scored_run import ScoredRun
    from gapwatch.sinks.issues.run_comparison import RunComparison


@click.command("compare")
@click.argument("baseline", metavar="BASELINE")
@click.argument("candidates", metavar="CANDIDATE...", nargs=-1, required=True)
@partial(store_option, required=False)
@click.option(
    "--config", default=None, type=click.Path(path_type=Path), metavar="FILE",
    help="Configuration of an evaluation, whose model judges each pair of outputs in both orders.",
)  # fmt: skip
@format_option
def compare_command(
    baseline: str, candidates: Sequence[str], store: StorePlace | None, config: Path | None, form: str
) -> None:
    """Compare each run CANDIDATE with the run BASELINE over the tests or examples that both decided.

    A run of tests is named by its id, its beginning, or `last`; a run of an evaluation by the file that gapwatch eval
    --json wrote, or by its id where the store has its lane. The report says which became better or worse, by tag, and
    whether the difference can be told from chance at this size: McNemar's exact test for outcomes, the paired t-test
    for numbers.
    """
    # Imported here: --help answers without loading DuckDB.
    from gapwatch.scorers.errors import UsageError

    names = [baseline, *candidates]
    runs = [_evaluation(name, store) for name in names]
    if all(runs):
        _compare_evaluations([run for run in runs if run is not None], config, form)
        return
    if any(runs):
        told = dict(zip(names, runs, strict=True))
        other = next(name for name, run in told.items() if run is None)
        raise UsageError(
            f"{other} is no file and no run of an evaluation, but the others are; compare runs of one kind"
        )
    if store is None:
        missing = next((name for name in names if name.endswith(".json")), None)
        if missing is not None:
            raise UsageError(f"the run {missing} cannot be read: there is no such file")
        raise UsageError("runs of tests are in a store: give --store S; runs of evaluations are files of eval --json")
    if config is not None:
        raise UsageError("--config is for runs of evaluations; judges of tests gave their verdicts when they ran")
    _compare_tests(names, store, form)


def _evaluation(name: str, store: StorePlace | None) -> ScoredRun | None:
    from gapwatch.sinks.evaluation.scored_run import has_lane, read_lane_run, read_run_file

    if Path(name).is_file():
        return read_run_file(Path(name))
    if store is None:
        return None
    with reading(store) as con:
        return read_lane_run(con, name) if has_lane(con, name) else None


def _compare_evaluations(runs: Sequence[ScoredRun], config: Path | None, form: str) -> None:
    from gapwatch.sinks.evaluation.comparison_report import pairs_json, pairs_markdown, side_by_side
    from gapwatch.sinks.evaluation.run_pairs import compare_scored

    first, *others = runs
    found = [compare_scored(first, other, _preferences(first, other, config)) for other in others]
    if form == "json":
        _print_json([pairs_json(one) for one in found])
        return
    if len(found) > 1:
        sys.stdout.write(f"# {len(found)} runs beside {first.name}\n\n{side_by_side(found)}\n")
    sys.stdout.write("\n".join(pairs_markdown(one, 1 if len(found) == 1 else 2) for one in found))


def _preferences(baseline: ScoredRun, candidate: ScoredRun, config: Path | None) -> list[MetricPairs]:
    if config is None:
        return []
    from gapwatch.scorers.errors import UsageError
    from gapwatch.streams.evaluation.running.configuration import load_evaluation_config, located
    from gapwatch.streams.evaluation.running.pairwise import judged_preferences

    written = load_evaluation_config(config)
    if written.llm is None:
        raise UsageError(f"{config} has no llm: the model that judges the pairs")
    portfolio = None if written.portfolio is None else located(written.portfolio, config)
    return judged_preferences(baseline, candidate, written.llm.client(), portfolio)


def _compare_tests(names: Sequence[str], store: StorePlace, form: str) -> None:
    from gapwatch.sinks.issues.run_comparison import compare_runs
    from gapwatch.sinks.issues.run_outcomes import read_run
    from gapwatch.sinks.issues.run_report import comparison_markdown

    with reading(store) as con:
        first, *others = (read_run(con, name) for name in names)
        found = [compare_runs(first, other) for other in others]
    if form == "json":
        _print_json([_tests_json(one) for one in found])
        return
    sys.stdout.write("\n".join(map(comparison_markdown, found)))


def _tests_json(found: RunComparison) -> dict[str, Any]:
    pairs = found.pairs
    low, high = pairs.interval
    return {
        "baseline": found.baseline.run_id, "candidate": found.candidate.run_id, "tests": pairs.n,
        "outcome": found.word, "difference": pairs.difference, "lower": low, "upper": high,
        "p_value": pairs.p_value, "sentence": found.sentence, "better": found.better, "worse": found.worse,
        "left_out": found.left_out,
    }  # fmt: skip


def _print_json(found: Sequence[dict[str, Any]]) -> None:
    """Print one comparison as an object, several as an array."""
    import orjson

    sys.stdout.write(orjson.dumps(found[0] if len(found) == 1 else found, option=orjson.OPT_INDENT_2).decode() + "\n")
