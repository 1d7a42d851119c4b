"""Runs of `gapwatch run` as fixtures: the process that starts them, what watches a topic, a broker with our topics."""

import signal

import pytest

from tests.streams.run_process import Children, Watched, make_relayed_topics


@pytest.fixture(scope="module")
def children():
    running = Children()
    yield running
    running.close()


@pytest.fixture
def watch(children, tmp_path):
    """Make what watches a topic; whatever still runs at the end of the test is killed."""
    made = []

    def make(broker, topic, portfolios=(), name="watched", **options):
        made.append(Watched(children, tmp_path / name, broker, topic, portfolios, **options))
        return made[-1]

    yield make
    for watched in made:
        if watched.pid is not None:
            watched.signal(signal.SIGCONT)
            watched.kill()


@pytest.fixture(scope="module")
def broker(kafka_broker):
    make_relayed_topics(kafka_broker)
    return kafka_broker
