"""Old commits expire in steps, and the sums still cover all records that ever came."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import pytest

import gapwatch.sinks.upkeep.retention
from gapwatch.scorers.errors import JobError
from gapwatch.sinks.metrics.live_metrics import LiveMetrics
from gapwatch.sinks.store.ledger import read_balance
from gapwatch.sinks.store.store import Store
from gapwatch.sinks.upkeep.retention import expire_step, moment_before
from gapwatch.sinks.upkeep.tick_joining import join_step
from tests.builders import whole_slice
from tests.live_store import airline_portfolio, airline_slices
from tests.prometheus import page_of

NOW = datetime.now(UTC)
KEEP = timedelta(days=30)
STRANGER = b'{"trace_id": "t", "pipeline": "stranger", "started_at": 1774166400, "spans": []}'
FORGETFUL = ("gaps", "ticks", "session_ticks", "samples", "internal.trace_ids", "dead_letters")


def forget(store: Store, keep: timedelta = KEEP) -> list[int]:
    """Run steps until no commit is old enough, and return the commits of each step."""
    steps = []
    while (done := expire_step(store, moment_before(keep))) is not None:
        steps.append(done.commits)
    return steps


def filled(folder: Path, is_old: Callable[[int], bool], more: int = 30) -> Store:
    """Return a store with real conversations and dead letters, some of them stored long ago."""
    store = Store.open(folder / "s.duckdb", create=True)
    portfolio = airline_portfolio()
    store.register(portfolio, [])
    letters = [b"no trace"] * more + [STRANGER]
    for n, scored in enumerate(airline_slices(7, letters)):
        store.write_slice(scored, NOW - (KEEP * 2 if is_old(n) else timedelta(hours=1)))
    return store


def counters(store: Store) -> dict[str, str]:
    """Return all that /metrics would count from the store after a restart."""
    metrics = LiveMetrics([airline_portfolio()])
    metrics.rebuild(store)
    lines = [line.rpartition(" ") for line in page_of(metrics).splitlines() if not line.startswith("#")]
    lasting = re.compile(r"gapwatch_(units|weighted|spans|value|tier_spans|records|consumed|dead|ledger|kept|unscored)")
    return {name: value for name, _, value in lines if lasting.match(name)}


def test_all_is_forgotten_and_nothing_that_counts_changes(tmp_path: Path) -> None:
    store = filled(tmp_path, lambda n: True)
    before, position, balance = counters(store), store.positions(), read_balance(store.cursor())
    rows = {name: store.query(f"SELECT count(*) FROM {name}")[0][0] for name in FORGETFUL}
    assert all(rows[name] for name in FORGETFUL if name != "session_ticks")
    forget(store)

    assert {name: store.query(f"SELECT count(*) FROM {name}")[0][0] for name in FORGETFUL} == dict.fromkeys(rows, 0)
    after = counters(store)
    assert after.keys() == before.keys()
    assert {name: float(after[name]) for name in after} == pytest.approx(
        {name: float(before[name]) for name in before}, rel=1e-9
    )
    assert any(name.startswith("gapwatch_value_bucket") and value != "0" for name, value in after.items())
    left = read_balance(store.cursor())
    assert left.imbalance == balance.imbalance == 0
    assert [(one.consumed, one.read, one.dead_letters, one.foreign) for one in left.sources] == [
        (one.consumed, one.read, one.dead_letters, one.foreign) for one in balance.sources
    ]
    assert [(one.metric, one.states, one.ticked) for one in left.metrics] == [
        (one.metric, one.states, one.ticked) for one in balance.metrics
    ]
    store.close()
    with Store.open(tmp_path / "s.duckdb") as again:
        assert again.positions() == position
        end = next(iter(position.values())).to_offset
        assert again.write_slice(whole_slice(end, end + 5), NOW) == store_seq(balance) + 1
        assert read_balance(again.cursor()).imbalance == 0


def store_seq(balance: object) -> int:
    return sum(one.slices for one in balance.sources)  # type: ignore[attr-defined]


def test_what_is_younger_stays_as_it_is(tmp_path: Path) -> None:
    with filled(tmp_path, lambda n: n < 5) as store:
        young = {name: store.query(f"SELECT * FROM {name} WHERE seq > 5 ORDER BY ALL") for name in FORGETFUL}
        steps = forget(store)

        assert sum(steps) == 5
        assert {name: store.query(f"SELECT * FROM {name} ORDER BY ALL") for name in FORGETFUL} == young
        assert len(young["gaps"]) > 50
        assert read_balance(store.cursor()).imbalance == 0
        assert forget(store) == []


def test_an_old_commit_behind_a_young_one_waits_for_it(tmp_path: Path) -> None:
    """A clock that was set back must not leave a hole in the stored commits."""
    with filled(tmp_path, lambda n: n != 2) as store:
        assert sum(forget(store)) == 2
        assert store.query("SELECT min(seq) FROM ticks") == [(3,)]


def test_commits_whose_ticks_were_joined_expire_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gapwatch.sinks.upkeep.retention, "STEP_COMMITS", 3)
    with filled(tmp_path, lambda n: n < 9) as store:
        for until in (4, 7, 10):
            assert join_step(store, "live", until) is not None

        assert forget(store) == [4, 3]  # the third join has young commits
        assert store.query("SELECT max(to_seq) FROM retention") == [(7,)]
        assert store.query("SELECT min(seq) > 7 FROM ticks") == [(True,)]
        assert read_balance(store.cursor()).imbalance == 0
        assert store.query("FROM internal.tick_joins") == [("live", 7, 10)]


def test_in_steps_it_comes_to_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    past = []
    for n, limit in enumerate((1, 20, 100_000)):
        monkeypatch.setattr(gapwatch.sinks.upkeep.retention, "STEP_RECORDS", limit)
        (tmp_path / str(n)).mkdir()
        with filled(tmp_path / str(n), lambda n: n < 9) as store:
            steps = forget(store)
            tables = ("internal.past_ticks", "internal.past_dead_letters", "ledger", "offsets")
            kept = [store.query(f"SELECT * EXCLUDE ({', '.join(_FLOATS[t])}) FROM {t} ORDER BY ALL") for t in tables]
            sums = store.query("SELECT sum(n / p), sum(score_sum) FROM internal.past_ticks")[0]
            told = store.query('SELECT to_seq, commits, records, "rows" FROM retention')
        past.append((kept, [f"{one:.9g}" for one in sums], told))
        assert sum(steps) == 9
        assert len(steps) == {1: 9, 20: 5, 100_000: 1}[limit]

    assert past[0] == past[1] == past[2]


_FLOATS = {
    "internal.past_ticks": ("p", "score_sum"), "internal.past_dead_letters": ("n",),
    "ledger": ("n",), "offsets": ("kept_at",),
}  # fmt: skip


def test_what_was_not_sent_yet_stays_in_the_outbox(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s.duckdb", create=True) as store:
        for n in range(4):
            store.write_slice(whole_slice(n, n + 1), NOW - 2 * KEEP)
        store.mark_relayed({"judge-requests": 2})
        before = store.query("SELECT seq, id FROM internal.outbox WHERE seq > 2 ORDER BY ALL")
        forget(store)

        assert store.query("SELECT seq, id FROM internal.outbox ORDER BY ALL") == before == [(4, "j0-3")]


def test_a_step_that_fails_changes_nothing(tmp_path: Path) -> None:
    with filled(tmp_path, lambda n: True) as store:
        before = {name: store.query(f"SELECT * FROM {name} ORDER BY ALL") for name in (*FORGETFUL, "ledger", "offsets")}
        store.change("breaking", lambda con: con.execute("DROP TABLE internal.past_dead_letters"))
        with pytest.raises(JobError, match="deleting expired rows failed"):
            expire_step(store, moment_before(KEEP))

        assert {name: store.query(f"SELECT * FROM {name} ORDER BY ALL") for name in before} == before


def test_names_that_records_bring_in_are_bounded(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s.duckdb", create=True) as store:
        for n in range(210):
            scored = whole_slice(n, n + 1)
            ticks = scored.tables["ticks"]
            names = duckdb.arrow(ticks).project(f"* REPLACE ('env-{n}' AS environment)").to_arrow_table()
            scored.tables["ticks"] = names.cast(ticks.schema)
            store.write_slice(scored, NOW - 2 * KEEP)
        forget(store)

        assert store.query("SELECT count(DISTINCT environment), sum(n) FROM internal.past_ticks") == [(201, 420)]
        assert read_balance(store.cursor()).imbalance == 0


def test_before_all_times_nothing_is_old(tmp_path: Path) -> None:
    assert moment_before(timedelta(days=999_999)) == datetime.min
    with filled(tmp_path, lambda n: True) as store:
        assert forget(store, timedelta(days=999_999)) == []
