"""A live store with its watch, filled with a stream that breaks, without a broker."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa

from scorers.plan import compile_plan
from scorers.policy import fixed_policy
from scorers.portfolio import Portfolio
from scorers.score import Scorer, score
from scorers.slices import ScoredSlice
from sinks.api_access import ApiOptions
from streams.alerting.live_alerts import LiveAlerts
from streams.file_source import FileSource
from tests.deploy.demo_traces import AIRLINE, TRACES, run_script
from tests.live_store import Kept
from tests.streams.alerting.builders import kept_at


class KeptAlerts(Kept):
    """As `Kept`, and what comes is watched.

    Args:
        path: Of the store, made where there is none.
        portfolio: In force.
    """

    def __init__(self, path: Path, portfolio: Portfolio, options: ApiOptions | None = None) -> None:
        super().__init__(path, options or ApiOptions(port=0, read_token="read-me"), [portfolio])
        self.store.register(portfolio, [])
        self.alerts = LiveAlerts()
        self.watch = self.alerts.open(self.store, self.portfolios)

    def keep_all(self, made: Iterable[ScoredSlice]) -> None:
        """Keep slices, and show how it stands after the last."""
        position = self.store.position("live", "traces", 0)
        to_offset = position.to_offset if position is not None else 0
        for scored in made:
            moment = kept_at(scored.from_offset)
            taken = self.watch.take(scored, moment)
            self.store.keep(taken.scored, moment, also=taken.steps)
            self.metrics.slice_kept(taken.scored, {"score": 0.004, "keep": 0.002})
            to_offset = scored.to_offset
        self.metrics.source_state("running", {("traces", 0): (to_offset, to_offset)}, 0)
        self.alerts.show(self.store, self.metrics)


def played_slices(
    folder: Path, portfolio: Portfolio, releases: Iterable[str], records: int = 20
) -> Iterator[ScoredSlice]:
    """Play releases of the airline's agent, a conversation a minute, in slices of the lane `live`."""
    files = [str(TRACES / f"airline_{name}.jsonl.gz") for name in releases]
    played = run_script(AIRLINE / "play.py", "--start", "2026-03-02T07:40:00Z", "--every", "60", *files)
    path = folder / "played.jsonl"
    path.write_text(played.stdout)
    scorer, policy = Scorer(compile_plan([portfolio]), None), fixed_policy([portfolio])
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
