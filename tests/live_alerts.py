"""A live store with its watch, filled with a stream that breaks, without a broker."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.scorers.slices.slices import ScoredSlice
from gapwatch.sinks.api.access import ApiOptions
from gapwatch.streams.alerting.delivery.incident_info import IncidentInfo
from gapwatch.streams.alerting.evaluation.live_alerts import LiveAlerts
from gapwatch.streams.alerting.incidents.links import AlertLinks
from gapwatch.streams.alerting.triage.alert_page import alert_page
from gapwatch.streams.alerting.triage.decision_reader import readers
from tests.deploy.demo_traces import TRACES, run_script
from tests.live_store import Kept, live_slices
from tests.paths import AIRLINE
from tests.streams.alerting.builders import kept_at


class KeptAlerts(Kept):
    """As `Kept`, and what comes is watched.

    Args:
        path: Of the store, made where there is none.
        portfolio: In force.
    """

    def __init__(self, path: Path, portfolio: Portfolio, options: ApiOptions | None = None) -> None:
        links = AlertLinks(str(path))
        self.alerts = LiveAlerts(IncidentInfo(links), links.fill)
        more = {"readers": readers(self.alerts), "alert_page": partial(alert_page, store=path)}
        super().__init__(path, options or ApiOptions(port=0, read_token="read-me"), [portfolio], api=more)
        links.page.learn(self.server.url)
        self.store.register(portfolio, [])
        self.watch = self.alerts.open(self.store, self.portfolios)

    def keep_all(self, made: Iterable[ScoredSlice]) -> None:
        """Keep slices, and show how it stands after the last."""
        position = self.store.position("live", "traces", 0)
        to_offset = position.to_offset if position is not None else 0
        for scored in made:
            moment = kept_at(scored.from_offset)
            taken = self.watch.take(scored, moment)
            self.store.write_slice(taken.scored, moment, also=taken.steps)
            self.metrics.slice_stored(taken.scored, {"score": 0.004, "keep": 0.002})
            to_offset = scored.to_offset
        self.metrics.source_state("running", {("traces", 0): (to_offset, to_offset)}, 0)
        self.alerts.show(self.store, self.metrics)

    def decide(self) -> None:
        """Store the decisions that wait, and show how it stands then."""
        self.decisions.apply(self.store)
        self.alerts.show(self.store, self.metrics)


def played_slices(
    folder: Path, portfolio: Portfolio, releases: Iterable[str], records: int = 20, every: int = 60, draw: int = 0
) -> Iterator[ScoredSlice]:
    """Play releases of the airline's agent, a conversation every so many seconds, in slices of the lane `live`.

    With `draw`, so many conversations of each release are drawn with replacement.
    """
    files = [str(TRACES / f"airline_{name}.jsonl.gz") for name in releases]
    how = ["--start", "2026-03-02T07:40:00Z", "--every", str(every), *(["--draw", str(draw)] if draw else [])]
    played = run_script(AIRLINE / "play.py", *how, *files)
    path = folder / "played.jsonl"
    path.write_text(played.stdout)
    return live_slices(path, portfolio, records)
