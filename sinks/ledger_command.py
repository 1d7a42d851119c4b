"""`gapwatch ledger`: whether everything that was consumed is accounted for."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Any

import click

from scorers.errors import JobError
from sinks.answer_table import Column, print_table
from sinks.command_options import format_option, reading, store_option
from sinks.json_values import to_json
from sinks.ledger import Balance, read_balance

_SOURCE_COLUMNS = (
    Column("lane"),
    Column("source"),
    Column("partition", right=True),
    Column("offsets", right=True),
    *(
        Column(name, right=True)
        for name in ("slices", "consumed", "read", "dead letters", "foreign", "holes", "overlaps", "imbalance")
    ),
)
_STATES = ("pass", "warn", "fail", "skip", "unknown", "error", "sampled_out", "shed_budget", "shed_load", "pending")


@click.command("ledger")
@store_option
@format_option
def ledger_command(store: Path, form: str) -> None:
    """Print the balance: what was consumed, what became of it, and whether the offsets tile.

    Every record is read, a dead letter or foreign; every span to which a metric applies is in one state.
    Exit status 1 where the sums disagree.
    """
    with reading(store) as con:
        balance = read_balance(con)
    if form == "json":
        sys.stdout.flush()
        sys.stdout.buffer.write(to_json(_as_object(balance)) + b"\n")
    else:
        _print_balance(balance)
    if balance.imbalance:
        raise JobError(
            f"the ledger of {store} does not balance, by {balance.imbalance}: records or spans were lost or counted "
            "twice. This is a defect of Gapwatch: keep the store and report it"
        )


def _as_object(balance: Balance) -> dict[str, Any]:
    return {
        "imbalance": balance.imbalance,
        "sources": [{**dataclasses.asdict(one), "imbalance": one.imbalance} for one in balance.sources],
        "metrics": [{**dataclasses.asdict(one), "imbalance": one.imbalance} for one in balance.metrics],
        "strays": balance.strays,
        "repeated": balance.repeated,
    }


def _print_balance(balance: Balance) -> None:
    print_table(
        _SOURCE_COLUMNS,
        [
            [
                one.lane, one.topic, one.partition, f"{one.from_offset}-{one.to_offset}", one.slices, one.consumed,
                one.read, one.dead_letters, one.foreign, one.holes, one.overlaps, one.imbalance,
            ]
            for one in balance.sources
        ],
        title="Records",
    )  # fmt: skip
    used = [state for state in _STATES if any(one.states.get(state) for one in balance.metrics)]
    sys.stdout.write("\n")
    print_table(
        [
            *(Column(name) for name in ("lane", "pipeline", "metric")),
            *(Column(state.replace("_", " "), right=True) for state in used),
            Column("sum", right=True),
            Column("imbalance", right=True),
        ],
        [
            [
                one.lane, one.pipeline, one.metric, *(one.states.get(state, 0) for state in used),
                sum(one.states.values()), one.imbalance,
            ]
            for one in balance.metrics
        ],
        title="Spans by state",
    )  # fmt: skip
    sys.stdout.write("\n")
    for lane, times in balance.repeated.items():
        if times:
            sys.stdout.write(f"{times} records of lane {lane} repeat a trace id; each was scored again\n")
    if not balance.imbalance:
        sys.stdout.write("balanced: consumed = read + dead letters + foreign; offsets without hole or overlap\n")
