"""`gapwatch compare`: two runs of tests, paired by test."""

from __future__ import annotations

import sys

import click

from gapwatch.sinks.api.store_address import StorePlace
from gapwatch.sinks.commands.options import format_option, reading, store_option


@click.command("compare")
@click.argument("baseline", metavar="BASELINE")
@click.argument("candidate", metavar="CANDIDATE")
@store_option
@format_option
def compare_command(baseline: str, candidate: str, store: StorePlace, form: str) -> None:
    """Compare the run CANDIDATE with the run BASELINE over the tests that both decided.

    A run is named by its id, its beginning, or `last`. The report says which tests became better or worse, by tag, and
    whether the difference can be told from chance at this size (McNemar's exact test).
    """
    # Imported here: --help answers without loading DuckDB.
    from gapwatch.sinks.issues.run_comparison import compare_runs
    from gapwatch.sinks.issues.run_outcomes import read_run
    from gapwatch.sinks.issues.run_report import comparison_markdown

    with reading(store) as con:
        found = compare_runs(read_run(con, baseline), read_run(con, candidate))
    if form == "json":
        import orjson

        low, high = found.interval
        said = {
            "baseline": found.baseline.run_id, "candidate": found.candidate.run_id, "tests": found.n,
            "outcome": found.word, "difference": found.difference, "lower": low, "upper": high,
            "p_value": found.p_value, "sentence": found.sentence, "better": found.better, "worse": found.worse,
            "left_out": found.left_out,
        }  # fmt: skip
        sys.stdout.write(orjson.dumps(said, option=orjson.OPT_INDENT_2).decode() + "\n")
        return
    sys.stdout.write(comparison_markdown(found))
