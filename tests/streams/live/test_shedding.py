"""Judges are shed while records wait too long: counted, recorded with its offset, and repeated by a backfill."""

import collections
import signal

import pytest

from gapwatch.scorers.loading.load import parse_portfolio
from gapwatch.scorers.plan.plan import compile_plan
from gapwatch.scorers.scoring.score import Scorer, score
from gapwatch.scorers.slices.selection import fixed_selection, recorded_factors, recorded_shedding, thinned_selection
from gapwatch.streams.live.shedding import Shedding
from tests.scorers.scored_slice import record_slice
from tests.streams.run_process import found, portfolio, trace, traces

JUDGED = """
  - name: good_answer
    component: answer
    claim: {form: composite, parts: {parses: 0.5, helpful: 0.5}}
  - name: rarely
    component: answer
    claim:
      form: judge
      rubric: {criterion: kind, scale: [good, bad], inputs: [output], pass_at: good}
      judges: [{model: openai/gpt-4.1-mini}]
    sample:
      rate: 0.0
      strata: [{name: long, when: {length: {min: 50}, field: output}, rate: 1.0}]
"""


def read(text=None):
    return [parse_portfolio(text or portfolio(), "portfolio.yaml")]


def ledger(portfolios, policy, values):
    scored = score(Scorer(compile_plan(portfolios), None), policy, record_slice(values))
    counts = collections.Counter()
    for row in scored.tables["ledger"].to_pylist():
        counts[row["metric"], row["state"]] += row["n"]
    return counts, scored


class TestWhatIsScored:
    def test_what_would_wait_for_a_judge_is_shed_and_all_else_is_as_it_was(self):
        portfolios = read()
        values = [trace(n) for n in range(1000)]
        asked, before = ledger(portfolios, thinned_selection(portfolios, {}), values)
        shed, after = ledger(portfolios, thinned_selection(portfolios, {}, sheds=True), values)

        assert asked["helpful", "pending"] > 5
        assert shed["helpful", "shed_load"] == asked["helpful", "pending"]
        assert shed["helpful", "pending"] == after.tables["judge_requests"].num_rows == 0
        assert {key: n for key, n in shed.items() if key[1] not in ("shed_load", "pending")} == {
            key: n for key, n in asked.items() if key[1] != "pending"
        }
        for name in ("ticks", "trace_ids"):
            assert after.tables[name].equals(before.tables[name])
        rows = [tables["gaps"].drop_columns("policy") for tables in (before.tables, after.tables)]
        assert rows[0].equals(rows[1])

    def test_what_is_made_of_a_shed_part_is_shed_too(self):
        portfolios = read(portfolio() + JUDGED.strip("\n") + "\n")
        values = [trace(n) for n in range(1000)]
        asked, _ = ledger(portfolios, thinned_selection(portfolios, {}), values)
        shed, _ = ledger(portfolios, thinned_selection(portfolios, {}, sheds=True), values)

        for metric in ("good_answer", "helpful", "rarely"):
            assert shed[metric, "shed_load"] == asked[metric, "pending"] > 5, metric
            assert shed[metric, "pending"] == 0

    @pytest.mark.parametrize("factors", [{}, {("support", "parses", "fail"): 0.25}])
    @pytest.mark.parametrize("sheds", [False, True])
    @pytest.mark.parametrize("more", ["", JUDGED.strip("\n") + "\n"])
    def test_what_is_recorded_says_it_all(self, factors, sheds, more):
        portfolios = read(portfolio() + more)
        policy = thinned_selection(portfolios, factors, sheds)
        rows = policy.rows()

        assert recorded_shedding(portfolios, rows) is sheds
        assert recorded_factors(portfolios, rows) == factors
        again = thinned_selection(portfolios, recorded_factors(portfolios, rows), recorded_shedding(portfolios, rows))
        assert again.id == policy.id

    def test_where_there_are_no_judges_nothing_changes(self):
        portfolios = read(portfolio().partition("  - name: helpful")[0])
        assert thinned_selection(portfolios, {}, sheds=True).id == fixed_selection(portfolios).id


class TestWhen:
    def watched(self, after, *states):
        """Return what is said, second by second, where states are (kept, end)."""
        shedding, said = Shedding(after), []
        for now, (kept, end) in enumerate(states):
            shedding.see({0: (kept, kept, end)}, 100.0 + now)
            said.append(shedding.is_on)
        return said

    def test_a_lag_that_lasts_sheds_and_its_end_ends_that(self):
        falls_behind = [(0, 10), (1, 20), (2, 30), (3, 40), (4, 50), (5, 60), (60, 60), (70, 71), (71, 72)]
        assert self.watched(4.0, *falls_behind) == [False] * 5 + [True, False, False, False]

    def test_a_lag_that_moves_on_in_time_does_not(self):
        assert self.watched(3.0, *((100 * n, 100 * n + 150) for n in range(30))) == [False] * 30

    def test_it_ends_only_where_it_is_calm(self):
        # The first mark, 10, is kept after six seconds; the next, 64, after four; and 100 after two.
        kept = [0, 1, 2, 3, 4, 5, 10, 11, 12, 60, 75, 90, 105]
        assert self.watched(5.0, *((k, 10 + 9 * n) for n, k in enumerate(kept))) == ([False] * 6 + [True] * 6 + [False])

    def test_never(self):
        assert not any(self.watched(None, *((0, 10**n) for n in range(12))))

    def test_a_partition_that_is_given_away_counts_no_more(self):
        shedding = Shedding(1.0)
        for now in range(4):
            shedding.see({0: (0, 0, 10), 1: (5, 5, 5)}, float(now))
        assert shedding.is_on
        shedding.see({1: (5, 5, 5)}, 5.0)
        assert not shedding.is_on


@pytest.mark.kafka
@pytest.mark.slow
def test_under_lag_judges_are_shed_until_it_is_over_and_a_backfill_repeats_it(broker, watch):
    topic = broker.make_topic()
    watched = watch(broker, topic, max_records=60)
    watched.start("--shed-after=0.5s")
    watched.commit_after(lambda: broker.produce(topic, traces(0, 500)))
    watched.signal(signal.SIGSTOP)
    broker.produce(topic, traces(500, 20_000))
    watched.signal(signal.SIGCONT)
    watched.wait_until(lambda: "judging is skipped" in watched.said())
    watched.wait_until(lambda: "judging resumes" in watched.said(), 180)
    assert watched.end() == 0, watched.said()
    broker.produce(topic, traces(20_000, 21_000))
    assert watched.catch_up()["ledger_imbalance"] == 0

    steps = watched.query(
        """SELECT from_offset, cause, p_evaluated FROM policies WHERE lane = 'live' AND metric = 'helpful'
            ORDER BY from_offset"""
    )
    # On a slow machine the first records wait too long already; how often it changes, nobody knows.
    assert {p for _, _, p in steps} == {0.02, 0.0}
    assert steps[-1][2] == 0.02
    assert "load" in [cause for _, cause, _ in steps]
    states = dict(watched.query("SELECT state, sum(n) FROM ledger WHERE metric = 'helpful' GROUP BY ALL"))
    assert states["shed_load"] > 0
    assert states["pending"] > 0
    requests = watched.query("SELECT count(*) FROM internal.outbox WHERE topic = 'judge-requests'")
    assert requests == [(states["pending"],)]
    assert watched.start("--from=2020-01-01", "--name=b", "--quiet", command="backfill").wait() == 0, watched.said()
    assert found(watched, "= 'backfill:b'") == found(watched, "= 'live'")
