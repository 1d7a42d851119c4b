"""A backfill over what a live run has scored gives the same rows and ticks, by the policies that were recorded."""

import signal

import pytest

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
