"""False alarms and delays of the whole chain, from ticks to alerts in a store: made traffic and real conversations.

    python -m tests.benchmarks.alerts [--quick]

Seeds are fixed. Nothing is tuned: thresholds follow from the budget of the portfolio, one page and ten tickets a month.
"""

from __future__ import annotations

import argparse
import dataclasses
import gzip
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa

from gapwatch.scorers.loading.load import load_portfolio, parse_portfolio
from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.scorers.slices.slices import ScoredSlice
from gapwatch.sinks.store.store import Store
from gapwatch.streams.alerting.evaluation.shift_watch import ShiftWatch
from gapwatch.streams.batch.replay import replay
from tests.builders import scored_slice
from tests.paths import AIRLINE
from tests.streams.alerting.builders import MONDAY, at

STEP = 10  # ticks from one to the next with units: five minutes
DAY = 2880 // STEP
RATES = (0.005, 0.01, 0.05, 0.2)


@dataclass
class Told:
    """Alerts that one stream raised.

    Attributes:
        opened: (metric, severity, verdict, kind, tick found, first and last tick of the change).
    """

    opened: list[tuple[str, str, str, str, int, int, int]] = field(default_factory=list)
    seconds: float = 0.0


def made_portfolio(rates: Sequence[float], each: int, per_day: int) -> Portfolio:
    """Metrics that page, `each` of every rate."""
    metrics = [
        f"  - {{name: m{i}, component: agent, claim: {{form: check, field: output, present: true}},"
        " direction: {better: lower, verdict: verified, evidence: x}, alert: {severity: page}}"
        for i in range(len(rates) * each)
    ]
    return parse_portfolio(
        f"gapwatch: 1\nportfolio: p\nversion: 1\npipeline: shop\nvolume: {{traces_per_day: {per_day}}}\n"
        "budget: {pages_per_month: 1, tickets_per_month: 10}\n"
        "components: [{id: agent, role: ai_core, kind: llm}]\nmetrics:\n" + "\n".join(metrics)
    )


def watch_slices(made: Iterable[ScoredSlice], portfolio: Portfolio, lane: str) -> Told:
    """Keep slices in a store under a watch, and read what was raised."""
    told = Told()
    with tempfile.TemporaryDirectory() as folder, Store.open(Path(folder) / "s.duckdb", create=True) as store:
        watch = ShiftWatch.open(store, [portfolio], lane)
        now = datetime(2026, 6, 1, tzinfo=UTC)
        for scored in made:
            started = time.process_time()
            taken = watch.take(scored, now)
            told.seconds += time.process_time() - started
            # Only what the watch writes is looked at here; ticks would make a large file.
            store.write_slice(dataclasses.replace(taken.scored, tables=scored_slice().tables), now, also=taken.steps)
            now += timedelta(seconds=1)
        told.opened = [
            (metric, severity, verdict, kind, _tick(found), _tick(first), _tick(last))
            for metric, severity, verdict, kind, found, first, last in store.query(
                """SELECT metric, arg_max(severity, rowid), first(verdict), first(s.kind), first(found_at),
                    first(change_from), first(change_to)
                FROM (SELECT *, rowid FROM alerts) JOIN (SELECT shift_id, verdict, kind, found_at, change_from,
                    change_to FROM shifts) s USING (shift_id) GROUP BY shift_id, metric ORDER BY 5"""
            )
        ]
    return told


def _tick(moment: datetime) -> int:
    return int(moment.replace(tzinfo=UTC).timestamp()) // 30


# ---- made traffic ----


def made_slices(
    rates: Sequence[float],
    each: int,
    per_day: int,
    days: int,
    season: float,
    seed: int,
    change: tuple[int, float] | None,
) -> Iterable[ScoredSlice]:
    """Units of independent traces with a daily season of rate and volume; from a day on every rate is multiplied."""
    rng = np.random.default_rng(seed)
    p0 = np.repeat(rates, each)
    for day in range(days):
        ticks = []
        for i in range(day * DAY, (day + 1) * DAY):
            wave = 1 + season * np.sin(2 * np.pi * i / DAY)
            factor = change[1] if change is not None and i >= change[0] * DAY + DAY // 2 else 1.0
            units = int(rng.poisson(per_day / DAY * wave))
            bad = rng.binomial(units, np.minimum(p0 * wave * factor, 1.0))
            bucket = at(MONDAY + STEP * i)
            for m, k in enumerate(bad.tolist()):
                series = {"lane": "live", "pipeline": "shop", "component": "agent", "metric": f"m{m}", "bucket": bucket}
                ticks += [
                    {**series, "fold_bucket": bucket, "outcome": outcome, "n": n}
                    for outcome, n in (("good", units - k), ("bad", k))
                    if n
                ]
        yield scored_slice(day, day + 1, ticks=ticks)


def calm_weeks(weeks: int, each: int, per_day: int, season: float) -> None:
    """Count what streams without a change raise."""
    portfolio = made_portfolio(RATES, each, per_day)
    severities: Counter[str] = Counter()
    seconds = 0.0
    for seed in range(weeks):
        told = watch_slices(made_slices(RATES, each, per_day, 7, season, seed, None), portfolio, "live")
        severities.update(severity for _, severity, *_ in told.opened)
        seconds += told.seconds
    months = weeks * 7 / 30
    print(
        f"calm: {weeks} weeks of {len(RATES) * each} series, {per_day:,} traces a day, season +-{season:.0%}: "
        f"{severities['page']} pages (budget {months:.1f}), {severities['ticket']} tickets (budget {10 * months:.0f}); "
        f"{1e3 * seconds / (weeks * 7 * DAY):.2f} ms of CPU a tick"
    )


def delays(factor: float, seeds: int, per_day: int, season: float) -> None:
    """Measure after how many traces a change at noon of the fifth day is told, at a page or a ticket."""
    each = 3
    portfolio = made_portfolio(RATES, each, per_day)
    change = 4
    began = MONDAY + STEP * (change * DAY + DAY // 2)
    found: dict[float, list[float]] = {rate: [] for rate in RATES}
    wrong = early = covered = told_after = 0
    for seed in range(100, 100 + seeds):
        told = watch_slices(made_slices(RATES, each, per_day, 7, season, seed, (change, factor)), portfolio, "live")
        seen = set()
        for metric, _, verdict, _, tick, first, last in told.opened:
            if tick < began:
                early += 1
            elif metric not in seen:
                seen.add(metric)
                told_after += 1
                wrong += verdict != ("worse" if factor > 1 else "better")
                covered += first <= began <= last
                found[np.repeat(RATES, each)[int(metric[1:])]].append((tick - began) / STEP * per_day / DAY)
    cells = [f"{rate:g}: {_middle(values, seeds * each)}" for rate, values in found.items()]
    print(
        f"x{factor:g}: traces to the first alert, median (share told within 2.5 days): {'; '.join(cells)}. "
        f"Wrong way {wrong}, before the change {early}, change within its 95 % set {covered} of {told_after}"
    )


def _middle(values: list[float], whole: int) -> str:
    if not values:
        return "never (0 %)"
    padded = sorted([*values, *([float("inf")] * (whole - len(values)))])
    middle = padded[len(padded) // 2]
    return f"{'never' if middle == float('inf') else f'{middle:,.0f}'} ({len(values) / whole:.0%})"


# ---- real conversations ----


class Conversations:
    """The bundled conversations, scored once, as ticks of one conversation each."""

    def __init__(self, portfolio: Path, names: Sequence[str]) -> None:
        self.portfolio = load_portfolio(portfolio)
        self.ticks: dict[str, list[pa.Table]] = {name: self._scored(name) for name in names}

    def _scored(self, name: str) -> list[pa.Table]:
        with tempfile.TemporaryDirectory() as folder:
            path, store = Path(folder) / "t.jsonl", Path(folder) / "s.duckdb"
            with gzip.open(AIRLINE / "traces" / f"{name}.jsonl.gz") as file:
                records = file.read().splitlines()
            found = []
            for i, record in enumerate(records):
                path.with_name(f"{i}.jsonl").write_bytes(record + b"\n")
            replay([str(path.with_name(f"{i}.jsonl")) for i in range(len(records))], [self.portfolio], store)
            with Store.open(store) as opened:
                cursor = opened.cursor()
                columns = ", ".join(f'"{c}"' for c in scored_slice().tables["ticks"].schema.names)
                for i in range(len(records)):
                    where = f"lane = 'file:{i}.jsonl' AND level = 'unit' AND facet = 'all'"
                    found.append(cursor.sql(f"SELECT {columns} FROM ticks WHERE {where}").to_arrow_table())
                cursor.close()
        return found

    def stream(self, parts: Sequence[tuple[str, int]], every: int, seed: int) -> Iterable[ScoredSlice]:
        """Conversations of each part, drawn with replacement, one every so many ticks, a slice for each 200."""
        rng = np.random.default_rng(seed)
        drawn = [self.ticks[name][i] for name, n in parts for i in rng.integers(0, len(self.ticks[name]), n)]
        schema = scored_slice().tables["ticks"].schema
        for number, start in enumerate(range(0, len(drawn), 200)):
            moved = []
            for i, table in enumerate(drawn[start : start + 200], start):
                bucket = pa.array([at(MONDAY + every * i)] * table.num_rows, schema.field("bucket").type)
                lane = pa.array(["file:drawn"] * table.num_rows)
                for name, column in (("lane", lane), ("bucket", bucket), ("fold_bucket", bucket)):
                    table = table.set_column(table.schema.get_field_index(name), schema.field(name), column)
                moved.append(table.cast(schema))
            empty = scored_slice(number, number + 1, lane="file:drawn")
            yield dataclasses.replace(empty, tables={**empty.tables, "ticks": pa.concat_tables(moved)})


def real(conversations: Conversations, before: str, after: str, each: int, seeds: int) -> None:
    """Draw `each` conversations before and after, two a minute at a time, and count what is raised when."""
    every = 2
    began = MONDAY + every * each
    early: Counter[str] = Counter()
    later: Counter[tuple[str, str]] = Counter()
    first: list[int] = []
    for seed in range(seeds):
        told = watch_slices(
            conversations.stream([(before, each), (after, each)], every, seed), conversations.portfolio, "file:drawn"
        )
        early.update(severity for _, severity, _, _, tick, _, _ in told.opened if tick < began)
        later.update(
            (metric, f"{severity} {verdict}") for metric, severity, verdict, _, t, _, _ in told.opened if t >= began
        )
        pages = [tick for _, severity, _, _, tick, _, _ in told.opened if severity == "page" and tick >= began]
        first += [(min(pages) - began) // every] if pages else []
    print(f"{before} x {each}, then {after} x {each}, {seeds} draws: before the release {dict(early) or 'nothing'};")
    for (metric, what), n in sorted(later.items(), key=lambda item: (-item[1], item[0])):
        print(f"    {metric}: {what} in {n}")
    if first:
        print(f"    first page after {np.median(first):.0f} conversations (median), {max(first)} at most")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of it")
    parser.add_argument("--only", choices=["calm", "delays", "real"])
    options = parser.parse_args()
    quick = options.quick
    if options.only in (None, "calm"):
        for season in (0.0, 0.3):
            calm_weeks(1 if quick else 4, 5, 20_000, season)
    if options.only in (None, "delays"):
        for factor in (1.5, 2.0, 4.0, 0.5):
            delays(factor, 1 if quick else 4, 20_000, 0.3)
    if options.only in (None, "real"):
        names = ("airline_gpt-4o-2024-11-20", "airline_qwen2.5-7b", "airline_claude-sonnet-4-5", "airline_gpt-4.1",
                 "airline_ft-gpt-4.1-sft")  # fmt: skip
        conversations = Conversations(AIRLINE / "portfolio.yaml", names)
        draws = 1 if quick else 5
        each = 300 if quick else 2_000
        real(conversations, names[0], names[1], each, draws)
        real(conversations, names[0], names[0], each, draws)
        real(conversations, names[2], names[2], each, draws)
        real(conversations, names[3], names[4], each, draws)


if __name__ == "__main__":
    main()
