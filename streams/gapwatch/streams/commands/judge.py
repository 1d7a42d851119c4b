"""`gapwatch judge`: answers pending judge requests, repeats verdicts, estimates costs, measures agreement."""

from __future__ import annotations

import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import orjson

from gapwatch.scorers.command_line import SuggestingGroup
from gapwatch.scorers.errors import JobError
from gapwatch.sinks.api.store_address import StorePlace
from gapwatch.sinks.commands.options import decide_on, reading, store_file, store_option, user_name

if TYPE_CHECKING:
    from gapwatch.scorers.judges.agreement import Estimate
    from gapwatch.sinks.verdicts.agreement import Agreement

# Imports stand in the commands: --help answers without DuckDB.

judges_option = click.option(
    "--judges", required=True, type=click.Path(path_type=Path), metavar="J",
    help="YAML settings of the judges: providers, limits, prices; no key stands in it.",
)  # fmt: skip


@click.group("judge", cls=SuggestingGroup)
def judge_command() -> None:
    """Run LLM judges, and audit their verdicts and costs."""


@judge_command.command("run")
@store_option
@judges_option
@click.option(
    "--patience", default=300.0, show_default=True, metavar="SECONDS", type=click.FloatRange(min=0),
    help="How long to wait for a provider that is down; after that its requests stay pending.",
)  # fmt: skip
def judge_store_command(store: StorePlace, judges: Path, patience: float) -> None:
    """Answer every pending judge request of a store, by the portfolios in the store.

    Prints counts, errors and costs as JSON. Exit status 1: requests are left, because a provider is down.
    """
    from gapwatch.scorers.loading.load import parse_stored_portfolio
    from gapwatch.sinks.reading.stored_portfolios import portfolio_texts
    from gapwatch.sinks.store.store import Store
    from gapwatch.streams.judges.models.model_maker import model_access
    from gapwatch.streams.judges.settings import load_judge_settings
    from gapwatch.streams.judges.workers.judge_start import judge_store

    file = store_file(store, "judge run")
    access = model_access(load_judge_settings(judges))
    with Store.open(file) as opened:
        with closing(opened.cursor()) as cursor:
            portfolios = [parse_stored_portfolio(text) for text in portfolio_texts(cursor)]
        result = judge_store(opened, portfolios, access, patience_seconds=patience)
    _write(result.as_json())
    if result.left:
        raise JobError(
            f"{result.left} requests are still pending, because a provider is down; run the command again to continue"
        )


@judge_command.command("retry")
@store_option
@click.option(
    "--where", "where", multiple=True, required=True, metavar="NAME=VALUE",
    help="Which errors: reason=, metric=, judge= or since= (2h, 7d, a time); repeat it to narrow the choice.",
)  # fmt: skip
@click.option(
    "--by", default=None, metavar="NAME", help="Your name, stored with the decision. Default: your user name."
)
def retry_command(store: StorePlace, where: tuple[str, ...], by: str | None) -> None:
    """Ask judges again what ended as an error; prints counts, the expected cost and the budgets as JSON.

    The requests wait then, as new ones do: the judges of a run answer those of its traffic, `gapwatch judge run` all.
    A new verdict overrides the row, which stays; rates, the ledger and alerts keep the error, because they count a
    trace once. The store may be in use.
    """
    from datetime import UTC, datetime

    from gapwatch.sinks.verdicts.retries import RETRY_PATH, Retry

    said = {"where": list(where), "by": by or user_name()}
    retry = Retry.read(said)  # report a bad condition before the store is opened
    _write(
        decide_on(
            store,
            lambda opened: retry.apply(opened, datetime.now(UTC)),
            lambda reader: reader.post(RETRY_PATH, said),
        )
    )


@judge_command.command("rerun")
@click.argument("row", metavar="ROW")
@store_option
@click.option(
    "--judges", type=click.Path(path_type=Path), metavar="J",
    help="YAML settings of the judges; not needed with --show.",
)  # fmt: skip
@click.option("--show", is_flag=True, help="Only print the request, byte for byte as it was sent.")
def rerun_command(row: str, store: StorePlace, judges: Path | None, show: bool) -> None:
    """Rebuild the request of a verdict and send it again; prints both verdicts as JSON.

    ROW is topic/partition/offset/span/metric, followed by /judge if the metric has several judges.
    """
    from gapwatch.scorers.judges.prompt import request_bytes
    from gapwatch.sinks.reading.verdict_archive import VerdictArchive
    from gapwatch.streams.judges.audit.rebuilding import Rebuilder
    from gapwatch.streams.judges.audit.rerunning import rerun
    from gapwatch.streams.judges.models.model_maker import model_maker
    from gapwatch.streams.judges.settings import load_judge_settings

    with reading(store) as con:
        archive = VerdictArchive(con)
        rebuilt = Rebuilder(archive).rebuild(archive.verdict(row))
    if show:
        sys.stdout.buffer.write(request_bytes(rebuilt.call) + b"\n")
        return
    if judges is None:
        raise click.UsageError("--judges is required to ask the model; only --show works without it")
    settings = load_judge_settings(judges)
    (done,) = rerun([rebuilt], settings, model_maker(settings))
    _write(
        {
            "row": done.place,
            "request_sha": rebuilt.verdict.judge_request_sha,
            "before": {"outcome": done.before[0], "band": done.before[1], "model": done.model_before},
            "after": {"outcome": done.after[0], "band": done.after[1], "model": done.model_after},
            "agrees": done.agrees,
            **({"why": done.why} if done.why else {}),
        }
    )


@judge_command.command("reproducibility")
@store_option
@judges_option
@click.option(
    "--sample", default=100, show_default=True, type=click.IntRange(min=1), metavar="N",
    help="Number of verdicts to repeat.",
)  # fmt: skip
def reproducibility_command(store: StorePlace, judges: Path, sample: int) -> None:
    """Repeat a sample of verdicts; prints the share that comes out the same, with 95 % intervals."""
    from gapwatch.sinks.reading.verdict_archive import VerdictArchive
    from gapwatch.streams.judges.audit.rerunning import reproducibility
    from gapwatch.streams.judges.models.model_maker import model_maker
    from gapwatch.streams.judges.settings import load_judge_settings

    settings = load_judge_settings(judges)
    with reading(store) as con:
        found = reproducibility(VerdictArchive(con), settings, model_maker(settings), sample)
    _write(
        {
            "outcome_agrees": _estimate(found.outcomes),
            "band_agrees": _estimate(found.bands),
            "errors": dict(found.errors),
            "not_rebuilt": found.not_rebuilt,
        }
    )


@judge_command.command("estimate")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE...")
@click.option(
    "--portfolio", required=True, type=click.Path(path_type=Path), metavar="P", help="Portfolio with judged metrics."
)
@judges_option
def estimate_command(files: tuple[Path, ...], portfolio: Path, judges: Path) -> None:
    """Estimate calls, tokens and US dollars per week of a portfolio's judges, from the traces of FILE...

    No model is asked.
    """
    from gapwatch.scorers.loading.load import load_portfolio
    from gapwatch.streams.judges.audit.estimating import estimate_judges
    from gapwatch.streams.judges.settings import load_judge_settings

    settings = load_judge_settings(judges)
    loaded = load_portfolio(portfolio)
    estimates = estimate_judges(loaded, files, settings)
    costs = [estimate.usd_per_week for estimate in estimates]
    total = None if any(cost is None for cost in costs) else sum(cost for cost in costs if cost is not None)
    cap = loaded.budget.judge_usd_per_week if loaded.budget is not None else None
    _write({"judges": [vars(estimate) for estimate in estimates], "usd_per_week": total, "cap_usd_per_week": cap})


@judge_command.command("agreement")
@store_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def agreement_command(store: StorePlace, as_json: bool) -> None:
    """Measure how far judges agree: Cohen's kappa between judges, kappa and F1 against people's overrides.

    Each number stands with its 95 % confidence interval.
    """
    from gapwatch.sinks.verdicts.agreement import agreements, why_no_agreement

    with reading(store) as con:
        found = list(agreements(con))
        why = "" if found else why_no_agreement(con)
    if not as_json:
        if why:
            sys.stdout.write(why + "\n")
        else:
            _print_agreements(found)
        return
    _write(
        [
            {
                "metric": item.metric,
                "first": item.first,
                "second": item.second,
                "same": _estimate(item.same),
                "kappa": _estimate(item.kappa),
                "f1": None if item.f1 is None else _estimate(item.f1),
            }
            for item in found
        ]
    )


def _print_agreements(found: list[Agreement]) -> None:
    from gapwatch.sinks.reading.terminal_table import Column, print_table

    rows = [
        [
            item.metric, f"{item.first} and {item.second}", str(item.same.n), str(item.same), str(item.kappa),
            "" if item.f1 is None else str(item.f1),
        ]
        for item in found
    ]  # fmt: skip
    titles = ("metric", "raters", "spans", "same", "kappa", "F1 of fails")
    print_table([Column(title, right=title == "spans") for title in titles], rows)


def _estimate(estimate: Estimate) -> dict[str, Any]:
    return vars(estimate)


def _write(document: object) -> None:
    """Write a document as JSON to standard output; NaN becomes null."""
    sys.stdout.buffer.write(orjson.dumps(document, option=orjson.OPT_INDENT_2) + b"\n")
    sys.stdout.flush()
