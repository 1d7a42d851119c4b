"""A backfill over what a live run has scored gives the same rows and ticks, by the policies that were recorded."""

import signal

import pytest

from gapwatch.sinks.api.endpoint_note import read_note
from tests.gapwatch_command import gapwatch
from tests.http_client import get
from tests.streams.run_process import found, portfolio, traces

pytestmark = pytest.mark.kafka

THINNED = ("--thin-window=2000", "--thin-rows=100")


@pytest.mark.slow
def test_it_gives_what_the_live_run_gave_also_when_interrupted(broker, watch):
    """Two partitions, rows thinned by steps, and a new portfolio in the middle; killed, and started again."""
    topic = broker.make_topic(partitions=2)
    watched = watch(broker, topic)
    for partition in range(2):
        broker.produce(topic, traces(0, 5000), partition=partition)
    watched.catch_up(*THINNED)
    watched.portfolios[0].write_text(portfolio(version=2, longest=20))
    for partition in range(2):
        broker.produce(topic, traces(5000, 9000), partition=partition)
    watched.catch_up(*THINNED)
    assert watched.query("SELECT count(DISTINCT policy) > 2 FROM policies") == [(True,)]
    outbox = watched.query("SELECT count(*) FROM internal.outbox")

    start = ("--from=2020-01-01", "--name=again", "--quiet")
    before = watched.size()
    watched.start(*start, command="backfill")
    watched.wait_until(lambda: watched.size() != before)
    watched.signal(signal.SIGKILL)
    watched.wait()
    interrupted = watched.query("SELECT coalesce(sum(records), 0) FROM offsets WHERE lane = 'backfill:again'")
    assert interrupted[0][0] < 18_000
    assert watched.start(*start, command="backfill").wait() == 0, watched.said()

    assert found(watched, "= 'backfill:again'") == found(watched, "= 'live'")
    assert watched.query("SELECT count(*) FROM gaps WHERE lane = 'live'")[0][0] > 500
    assert watched.query("SELECT count(*) FROM internal.outbox") == outbox  # only the live lane sends
    assert watched.catch_up(*THINNED)["records"] == 0  # and is where it was


def test_what_the_live_run_has_not_scored_is_refused_unless_a_portfolio_is_named(broker, watch):
    topic = broker.make_topic()
    watched = watch(broker, topic)
    broker.produce(topic, traces(0, 100))
    watched.catch_up()
    broker.produce(topic, traces(100, 200))

    assert watched.start("--from=2020-01-01", command="backfill").wait() == 2
    assert "the range has offsets 0 to 200, but the live run has scored only 0 to 100" in watched.said()
    named = f"--portfolio={watched.portfolios[0]}"
    assert watched.start("--from=2020-01-01", "--name=b", named, command="backfill").wait() == 0, watched.said()
    assert watched.query("SELECT lane, max(to_offset) FROM offsets GROUP BY ALL ORDER BY ALL") == [
        ("backfill:b", 200),
        ("live", 100),
    ]
    assert watched.start("--from=2020-01-01", "--to=2020-01-02", command="backfill").wait() == 0
    assert watched.start("--from=2h", "--to=3h", command="backfill").wait() == 2


def test_beside_a_run_it_gives_the_same_in_a_store_of_its_own(broker, watch, tmp_path):
    topic = broker.make_topic(partitions=2)
    watched = watch(broker, topic)
    for partition in range(2):
        broker.produce(topic, traces(0, 400), partition=partition)
    watched.start(*THINNED)
    watched.wait_until(lambda: read_note(watched.store) is not None)
    records = "SELECT coalesce(sum(records), 0)::BIGINT AS n FROM offsets"
    watched.wait_until(lambda: get(read_note(watched.store).url, "/v1/query", sql=records).json() == [{"n": 800}])
    given = ("backfill", f"--brokers={broker.address}", f"--topic={topic}", "--from=2020-01-01", "--name=again")

    def backfill(*more):
        return gapwatch(*given, f"--store={watched.store}", *more)

    refused = backfill()
    assert refused.status == 2
    assert "--into" in refused.err
    assert backfill(f"--into={watched.store}").status == 2
    broker.produce(topic, traces(400, 500), partition=0)
    other = tmp_path / "other.duckdb"
    watched.wait_until(lambda: get(read_note(watched.store).url, "/v1/query", sql=records).json() == [{"n": 900}])
    done = backfill(f"--into={other}", "--json")
    assert (done.status, done.json()["records"], done.json()["ledger_imbalance"]) == (0, 900, 0), done.err
    assert backfill(f"--into={other}", "--json").json()["records"] == 0
    assert watched.end() == 0, watched.said()

    assert watched.query("SELECT DISTINCT lane FROM offsets") == [("live",)]
    live = found(watched, "= 'live'")
    watched.store = other
    assert found(watched, "= 'backfill:again'") == live
    assert watched.query("SELECT count(*) > 0 FROM verdicts WHERE claim IS NOT NULL") == [(True,)]
    assert watched.query("SELECT count(*) FROM gaps ANTI JOIN policies USING (policy)") == [(0,)]
