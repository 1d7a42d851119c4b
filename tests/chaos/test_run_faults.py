"""What must not change a row: a run that is killed, frozen, stalled or out of disk ends up with what an undisturbed
one holds."""

import random
import signal
import time

import pytest

from tests.streams.run_process import assert_same, make_relayed_topics, relayed, traces

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

#: Small windows, so that rows are thinned, by steps that every run has to find again.
THINNED = ("--thin-window=2000", "--thin-rows=100")
#: Steps of a commit (tests/chaos/test_commit.py has them all), after it, and between a message sent and marked as sent.
POINTS = ("begin", "gaps", "offsets", "also", "commit", "after", "mark")
RANDOM_KILLS = 40 - len(POINTS)


@pytest.fixture(scope="module")
def broker(kafka_broker):
    make_relayed_topics(kafka_broker)
    return kafka_broker


def test_killed_40_times_at_named_points_and_at_random_under_load(broker, watch):
    topic = broker.make_topic(partitions=3)
    for partition in range(3):
        broker.produce(topic, traces(100_000 * partition, 100_000 * partition + 15_000), partition=partition)
    undisturbed = watch(broker, topic, name="undisturbed")
    undisturbed.catch_up(*THINNED)
    watched = watch(broker, topic, max_records=60)

    for point in POINTS:
        status = watched.start(*THINNED, die_at=[point, 2]).wait()
        assert status == -signal.SIGKILL, f"{point}: {status}\n{watched.said()}"
    chance, kills = random.Random(20261121), 0
    while kills < RANDOM_KILLS:
        before = watched.size()
        watched.start(*THINNED)
        watched.wait_until(lambda before=before: watched.size() != before)
        time.sleep(chance.uniform(0.0, 0.25))
        watched.kill()
        kills += 1

    kept = watched.offsets()
    assert 0 < sum(kept.values()) < 45_000, "all was read before the last kill: there was no load"
    told = watched.catch_up(*THINNED, max_records=4000)
    assert told["ledger_imbalance"] == 0
    assert_same(watched, undisturbed)
    assert watched.query("SELECT count(DISTINCT policy) FROM policies")[0][0] > 1, "nothing was thinned"
    ids = [id_ for (id_,) in watched.query("SELECT id FROM internal.outbox ORDER BY id")]
    sent = relayed(broker, "dead-letters").keys() | relayed(broker, "judge-requests").keys()
    assert set(ids) <= sent
    assert len(ids) == len(set(ids)) > 100


def test_frozen_past_its_session_it_goes_on_and_nothing_is_lost_or_twice(broker, watch):
    topic = broker.make_topic(partitions=2)
    watched = watch(broker, topic, session_seconds=6.0).start()
    watched.commit_after(lambda: broker.produce(topic, traces(0, 2000), partition=0))
    watched.signal(signal.SIGSTOP)
    broker.produce(topic, traces(2000, 4000), partition=0)
    broker.produce(topic, traces(0, 2000), partition=1)
    time.sleep(9)
    watched.commit_after(lambda: watched.signal(signal.SIGCONT))

    assert watched.end() == 0, watched.said()
    assert watched.catch_up()["ledger_imbalance"] == 0
    assert watched.offsets() == {0: 4000, 1: 2000}


def test_a_stalled_loop_ends_the_process_within_15_seconds_and_the_next_start_goes_on(broker, watch):
    topic = broker.make_topic()
    broker.produce(topic, traces(0, 1000))
    watched = watch(broker, topic, max_records=100).start(block_at=3)
    watched.wait_until(lambda: "monitors topic" in watched.said())
    began = time.monotonic()

    assert watched.wait(40) == 1
    assert time.monotonic() - began < 15 + 5  # of which some for the start and for joining the group
    assert "event loop: no progress" in watched.said()
    watched.catch_up()
    assert watched.offsets() == {0: 1000}


def test_a_full_disk_ends_the_run_loses_nothing_and_the_next_start_goes_on(broker, watch):
    topic = broker.make_topic()
    broker.produce(topic, traces(0, 20_000))
    watched = watch(broker, topic, max_records=500)

    assert watched.start("--until-caught-up", largest_file=1_500_000).wait() == 1
    assert "make room" in watched.said()
    kept = watched.offsets()
    assert 0 < kept[0] < 20_000
    told = watched.catch_up(max_records=4000)
    assert told["ledger_imbalance"] == 0
    assert told["records"] == 20_000 - kept[0]
    undisturbed = watch(broker, topic, name="undisturbed")
    undisturbed.catch_up()
    assert_same(watched, undisturbed)
