"""`gapwatch ledger`: checks that every consumed record is accounted for."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from gapwatch.scorers.errors import JobError
from gapwatch.scorers.printable import shown
from gapwatch.sinks.api.store_address import StorePlace
from gapwatch.sinks.commands.options import format_option, reading, store_option
from gapwatch.sinks.reading.terminal_table import Column, print_note, print_table

if TYPE_CHECKING:
    from gapwatch.sinks.store.ledger import Balance, LateBalance, MetricBalance, SourceBalance, SpanBalance

_STATES = ("pass", "warn", "fail", "skip", "unknown", "error", "sampled_out", "shed_budget", "shed_load", "pending")


@click.command("ledger")
@store_option
@format_option
def ledger_command(store: StorePlace, form: str) -> None:
    """Print the balance of consumed records and their states, and check that the offsets have no gaps.

    Every record is read, a dead letter or foreign. Every span to which a metric applies is in one state.
    The exit status is 1 if the sums disagree.
    """
    # Imported here: --help answers without loading DuckDB.
    from gapwatch.sinks.api.client import LiveReader
    from gapwatch.sinks.reading.json_values import to_json
    from gapwatch.sinks.store.ledger import read_balance

    with reading(store) as con:
        balance = con.balance() if isinstance(con, LiveReader) else read_balance(con)
    if form == "json":
        sys.stdout.flush()
        sys.stdout.buffer.write(to_json(_as_object(balance)) + b"\n")
    else:
        _print_balance(balance)
    if balance.imbalance:
        raise JobError(
            f"the ledger of {store} does not balance, by {balance.imbalance}: records or spans were lost or counted "
            "twice. This is a defect of Gapwatch: keep the store file and report it"
        )


def _as_object(balance: Balance) -> dict[str, Any]:
    return {
        "imbalance": balance.imbalance,
        "sources": [
            {**dataclasses.asdict(one), "without_record": one.without_record, "imbalance": one.imbalance}
            for one in balance.sources
        ],
        "metrics": [{**dataclasses.asdict(one), "imbalance": one.imbalance} for one in balance.metrics],
        "strays": balance.strays,
        "repeated": balance.repeated,
        "spans": [{**dataclasses.asdict(one), "imbalance": one.imbalance} for one in balance.spans],
        "late": [dataclasses.asdict(one) for one in balance.late],
    }


def _print_balance(balance: Balance) -> None:
    if not balance.sources:
        print_note("no record was consumed yet")
    _print_sources(balance.sources)
    sys.stdout.write("\n")
    _print_metrics(balance.metrics)
    sys.stdout.write("\n")
    if balance.spans:
        _print_spans(balance.spans)
        _print_late(balance.late)
        sys.stdout.write("\n")
    for lane, times in balance.repeated.items():
        if times:
            records = "1 record of lane {} repeats" if times == 1 else f"{times:,} records of lane {{}} repeat"
            sys.stdout.write(f"{records.format(shown(lane))} a trace id that is still stored; each was scored\n")
    for one in balance.sources:
        for n, text in ((one.ahead, "half an hour or more ahead of"), (one.behind, "two hours or more behind")):
            if n:
                sys.stdout.write(
                    f"{n} of {one.read} read records of {shown(one.lane)}{_of_partition(one)} have a time {text} the "
                    "others: they count without a time, and no detector uses them\n"
                )
        if one.without_record:
            sys.stdout.write(
                f"{one.without_record} offsets of {shown(one.lane)}{_of_partition(one)} had no record: ends of "
                "transactions, compaction, or records that the broker deleted before they were read\n"
            )
    if not balance.imbalance:
        sys.stdout.write("balanced: consumed = read + dead letters + foreign; offsets without hole or overlap\n")


def _of_partition(one: SourceBalance) -> str:
    return f" {_source(one)}" if _source(one) else ""


def _print_sources(sources: Sequence[SourceBalance]) -> None:
    broken = any(one.holes or one.overlaps for one in sources)
    titles = ["slices", "consumed", "read", "dead letters", "foreign"]
    titles += ["holes", "overlaps", "imbalance"] if broken else ["imbalance"]
    rows = []
    for one in sources:
        counts = [one.slices, one.consumed, one.read, one.dead_letters, one.foreign]
        counts += [one.holes, one.overlaps, one.imbalance] if broken else [one.imbalance]
        rows.append([f"{one.lane}  {_source(one)}", f"{one.from_offset}-{one.to_offset}", *counts])
    columns = [Column("lane and source"), Column("offsets", right=True), *(Column(name, right=True) for name in titles)]
    print_table(columns, rows, title="Records")


def _print_spans(spans: Sequence[SpanBalance]) -> None:
    """Print a line for each state: there are many causes, and few sources."""
    several = len({one.source for one in spans}) > 1
    rows = []
    for one in spans:
        item = one.item if one.item == "feedback" else one.item.replace("_", " ") + "s"
        name = f"{item} for {one.source}" if several and one.source != one.item else item
        rows.append([name, "received", one.consumed])
        rows += [["", state.replace("_", " "), n] for state, n in one.states.items()]
        if one.imbalance:
            rows.append(["", "imbalance", one.imbalance])
    print_table([Column("item"), Column("state"), Column("number", right=True)], rows, title="Received besides traces")


def _print_late(late: Sequence[LateBalance]) -> None:
    """Print how late spans came, and what would have caught them."""
    for one in late:
        within = ", ".join(f"{n:,} within {bound} s" for bound, n in one.up_to.items() if n)
        services = ", ".join(f"{shown(service or 'unnamed', 60)} ({n:,})" for service, n in one.services.items())
        sys.stdout.write(
            f"{one.n:,} late spans of {shown(one.source)} came after their trace was closed: {within or 'all later'}; "
            f"services: {services}\n"
            f"a quiet time above {one.quiet:.1f} s would have caught 99 % of them (gapwatch run --close quiet=...); "
            "their traces are not scored again\n"
        )


def _source(one: SourceBalance) -> str:
    """Return the name of a partition; empty for a file, which has one partition and is named by its lane."""
    return "" if one.lane == f"file:{one.topic}" else f"{one.topic} [{one.partition}]"


def _print_metrics(metrics: Sequence[MetricBalance]) -> None:
    used = [state for state in _STATES if any(one.states.get(state) for one in metrics)]
    several = len({(one.lane, one.pipeline) for one in metrics}) > 1
    names = ["lane", "pipeline", "metric"] if several else ["metric"]
    print_table(
        [
            *(Column(name, whole=True) for name in names),
            *(Column(state.replace("_", " "), right=True) for state in [*used, "sum", "imbalance"]),
        ],
        [
            [
                *(getattr(one, name) for name in names),
                *(one.states.get(state, 0) for state in used),
                sum(one.states.values()),
                one.imbalance,
            ]
            for one in metrics
        ],
        title="Spans by state",
    )
