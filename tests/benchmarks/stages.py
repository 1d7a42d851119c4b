"""CPU time of each stage of a contender, timed from outside, each without the stages that it calls.

    python -m tests.benchmarks.stages replay traces.jsonl portfolio.yaml store.duckdb

The clock counts the CPU of the whole process, threads of DuckDB included. So the two threads of `replay` run here one
after the other.
"""

from __future__ import annotations

import functools
import importlib
import json
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from typing import Any

#: Stage, module, attribute, and whether it is a generator.
STAGES: dict[str, list[tuple[str, str, str, bool]]] = {
    "loop": [
        ("read, digest, decode", "tests.benchmarks.hand_loop", "slices", True),
        ("checks, selection", "tests.benchmarks.hand_loop", "check", False),
        ("ticks, ledger, trace ids", "tests.benchmarks.hand_loop", "ticks_and_ledger", False),
        ("ticks, ledger, trace ids", "tests.benchmarks.hand_loop", "ledger_table", False),
        ("ticks, ledger, trace ids", "tests.benchmarks.hand_loop", "trace_ids_table", False),
        ("rows, samples", "tests.benchmarks.hand_rows", "Rows.table", False),
        ("rows, samples", "tests.benchmarks.hand_loop", "samples_table", False),
        ("write", "gapwatch.sinks.store.store", "Store.write_slice", False),
        ("close", "gapwatch.sinks.store.store", "Store.close", False),
    ],
    "replay": [
        ("read, digest", "gapwatch.streams.sources.file_source", "FileSource.slices", True),
        ("decode", "gapwatch.scorers.scoring.score", "decode_records", True),
        ("checks", "gapwatch.scorers.scoring.score", "block_owners", False),
        ("checks", "gapwatch.scorers.plan.row_values", "RowInputs.rows", False),
        ("checks", "gapwatch.scorers.plan.block_function", "BlockFunction.codes_and_scores", False),
        ("rows, ticks, samples, ledger, trace ids", "gapwatch.streams.batch.replay", "score", False),
        ("write", "gapwatch.sinks.store.store", "Store.write_slice", False),
        ("close", "gapwatch.sinks.store.store", "Store.close", False),
    ],
}


class Clock:
    """Adds up CPU by stage; a stage does not count while another that it calls does."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self._inner = 0.0

    def timed(self, stage: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function whose calls count."""

        @functools.wraps(function)
        def run(*arguments: Any, **named: Any) -> Any:
            outer, self._inner = self._inner, 0.0
            started = time.process_time()
            try:
                return function(*arguments, **named)
            finally:
                took = time.process_time() - started
                self.seconds[stage] += took - self._inner
                self._inner = outer + took

        return run

    def timed_generator(self, stage: str, function: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
        """Return a generator whose steps count."""
        end = object()

        @functools.wraps(function)
        def run(*arguments: Any, **named: Any) -> Iterator[Any]:
            items = function(*arguments, **named)
            following = self.timed(stage, lambda: next(items, end))
            while (item := following()) is not end:
                yield item

        return run


class InTurn(Executor):
    """Does at once what it is given."""

    def __init__(self, *_: object) -> None: ...

    def submit(self, fn: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        """Run a function, and return what is done."""
        future: Future[Any] = Future()
        future.set_result(fn(*arguments, **named))
        return future


def owner_of(module: str, path: str) -> tuple[Any, str]:
    """Return the module or class that holds a function, and the name of the function in it."""
    owner: Any = importlib.import_module(module)
    *classes, name = path.split(".")
    for part in classes:
        owner = getattr(owner, part)
    return owner, name


def watch(contender: str, clock: Clock) -> None:
    """Put the clock around the stages of a contender."""
    for stage, module, path, is_generator in STAGES[contender]:
        owner, name = owner_of(module, path)
        found = vars(owner)[name]
        timed = clock.timed_generator if is_generator else clock.timed
        if isinstance(found, classmethod):
            setattr(owner, name, classmethod(timed(stage, found.__func__)))
        else:
            setattr(owner, name, timed(stage, found))


def run(contender: str, traces: str, portfolio: str, store: str) -> dict[str, float]:
    """Run a contender in this process; return the CPU seconds of its stages."""
    clock = Clock()
    watch(contender, clock)
    if contender == "loop":
        from tests.benchmarks import hand_loop

        hand_loop.main([traces, portfolio, store])
    else:
        import gapwatch.streams.batch.replay
        from gapwatch.scorers.command_line import run as run_command

        gapwatch.streams.batch.replay.ThreadPoolExecutor = InTurn  # type: ignore[assignment, attr-defined]
        if run_command(["replay", traces, "--portfolio", portfolio, "--store", store, "--quiet"]):
            raise RuntimeError("replay failed")
    rest = time.process_time() - sum(clock.seconds.values())
    return {**clock.seconds, "start: imports, plan, portfolio": rest}


if __name__ == "__main__":
    print(json.dumps(run(*sys.argv[1:])))
