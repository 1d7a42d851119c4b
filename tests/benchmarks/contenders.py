"""The two that score the same file into a store: the program itself, and the loop written by hand."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.benchmarks.child import Cost, output_of, run_module
from tests.benchmarks.store_contents import differences

Contender = Callable[[Path, Path, Path], Cost]


def replay(traces: Path, portfolio: Path, store: Path) -> Cost:
    """Run `gapwatch replay`."""
    return run_module(
        "gapwatch.scorers.command_line", "replay", traces, "--portfolio", portfolio, "--store", store, "--quiet"
    )


def loop(traces: Path, portfolio: Path, store: Path) -> Cost:
    """Run the loop written by hand."""
    return run_module("tests.benchmarks.hand_loop", traces, portfolio, store)


def fresh(store: Path) -> Path:
    """Return the path of a store, with nothing there."""
    for path in (store, store.with_name(store.name + ".wal")):
        path.unlink(missing_ok=True)
    return store


@dataclass(frozen=True)
class Pair:
    """Both contenders, one after the other, on the same file."""

    loop: Cost
    replay: Cost

    @property
    def ratio(self) -> float:
        """How many times less CPU the program takes."""
        return self.loop.cpu / self.replay.cpu


def run_pair(traces: Path, portfolio: Path, folder: Path) -> Pair:
    """Run both, and make sure that they stored the same.

    Raises:
        RuntimeError: They did not; the stores are left for a look.
    """
    stores = fresh(folder / "loop.duckdb"), fresh(folder / "replay.duckdb")
    pair = Pair(loop(traces, portfolio, stores[0]), replay(traces, portfolio, stores[1]))
    different = differences(*(contents_of(store) for store in stores))
    if different:
        raise RuntimeError(f"{stores[0]} and {stores[1]} differ in {', '.join(different)}")
    return pair


def contents_of(store: Path) -> dict[str, Any]:
    """Return what a store holds, found by another process."""
    found: dict[str, Any] = json.loads(output_of("tests.benchmarks.store_contents", store))
    return found
