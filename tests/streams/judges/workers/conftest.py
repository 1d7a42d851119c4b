"""Fixtures of judges in real processes."""

import pytest

from tests.streams.judges.workers.judged_run import Judged
from tests.streams.run_process import Children, make_relayed_topics


@pytest.fixture(scope="module")
def children():
    with pytest.MonkeyPatch.context() as patch:
        # A token of one's own, so that judges know a keeper again that was started anew.
        patch.setenv("GAPWATCH_WRITE_TOKEN", "a-token-of-the-tests")
        running = Children()
    yield running
    running.close()


@pytest.fixture
def judged(children, kafka_broker, tmp_path):
    make_relayed_topics(kafka_broker)
    made = []

    def make(**options):
        made.append(Judged(children, tmp_path / f"judged-{len(made)}", kafka_broker, **options))
        return made[-1]

    yield make
    for one in made:
        one.kill_judges()
        if one.pid is not None:
            one.kill()
