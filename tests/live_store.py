"""A store that is filled as the live lane fills it, by the bundled conversations, without a broker."""

from __future__ import annotations

import dataclasses
import gzip
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import pyarrow as pa

from gapwatch.scorers.loading.load import load_portfolio
from gapwatch.scorers.plan.plan import compile_plan
from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.scorers.scoring.score import Scorer, score
from gapwatch.scorers.slices.selection import fixed_selection
from gapwatch.scorers.slices.slices import ScoredSlice
from gapwatch.sinks.api.access import ApiOptions
from gapwatch.sinks.api.server import ApiServer
from gapwatch.sinks.metrics.health import RunHealth
from gapwatch.sinks.metrics.live_metrics import LiveMetrics
from gapwatch.sinks.store.decisions import Decisions
from gapwatch.sinks.store.opening import MEMORY_WITH_READERS
from gapwatch.sinks.store.store import Store
from gapwatch.streams.sources.file_source import FileSource
from tests.paths import AIRLINE

RELEASES = ("gpt-4.1", "qwen2.5-7b")


def airline_portfolio() -> Portfolio:
    return load_portfolio(AIRLINE / "portfolio.yaml")


def airline_slices(records: int = 7, more: Sequence[bytes] = ()) -> list[ScoredSlice]:
    """Score the conversations of two releases, and further records, in slices of the lane `live`; each kind once."""
    return _airline_slices(records, tuple(more))


@cache
def _airline_slices(records: int, more: tuple[bytes, ...]) -> list[ScoredSlice]:
    lines = [gzip.decompress((AIRLINE / "traces" / f"airline_{name}.jsonl.gz").read_bytes()) for name in RELEASES]
    with NamedTemporaryFile(suffix=".jsonl") as file:
        file.write(b"".join(lines) + b"".join(line + b"\n" for line in more))
        file.flush()
        return list(live_slices(Path(file.name), airline_portfolio(), records))


def live_slices(path: Path, portfolio: Portfolio, records: int) -> Iterator[ScoredSlice]:
    """Score the traces of a file, so many records to a slice of the lane `live`."""
    scorer, policy = Scorer(compile_plan([portfolio]), None), fixed_selection([portfolio])
    with FileSource(str(path), None) as source:
        for whole in source.slices(0, None):
            for begin in range(0, len(whole.offsets), records):
                end = min(begin + records, len(whole.offsets))
                part = dataclasses.replace(
                    whole, lane="live", topic="traces", prefix_sha256=None,
                    from_offset=int(whole.offsets[begin]), to_offset=int(whole.offsets[end - 1]) + 1,
                    offsets=whole.offsets[begin:end], values=pa.array(whole.values[begin:end].to_pylist(), pa.binary()),
                )  # fmt: skip
                yield score(scorer, policy, part)


class Kept:
    """A store, and all that serves it, in this process.

    Args:
        path: Of the store, made where there is none.
        options: Of the API.
        portfolios: In force; by default that of the airline.
        api: Further arguments of `ApiServer`.
        also: Makes further arguments of `LiveMetrics`.
    """

    def __init__(
        self, path: Path, options: ApiOptions | None = None, portfolios: Sequence[Portfolio] | None = None,
        api: Mapping[str, Any] | None = None, **also: Any,
    ) -> None:  # fmt: skip
        self.path = path
        self.store = Store.open(path, create=True, memory=MEMORY_WITH_READERS)
        self.portfolios = [airline_portfolio()] if portfolios is None else list(portfolios)
        self.metrics, self.health = LiveMetrics(self.portfolios, **also), RunHealth()
        self.decisions = Decisions()
        self.metrics.rebuild(self.store)
        options = options or ApiOptions(port=0)
        self.server = ApiServer(self.store, self.metrics, self.health, self.decisions, options, **(api or {}))
        self.server.start()

    def write_slice(self, scored: ScoredSlice) -> None:
        with self.decisions.taken() as steps:
            self.store.write_slice(scored, datetime.now(UTC), also=steps)
        self.metrics.slice_stored(scored, {"score": 0.004, "keep": 0.002})

    def close(self) -> None:
        self.server.stop()
        self.store.close()

    def __enter__(self) -> Kept:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def until(holds: Callable[[], bool], seconds: float = 60.0) -> None:
    """Wait for a condition."""
    import time

    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it did not come to be"
        time.sleep(0.02)
