"""A short, seeded run of `judge_faults`: each request ends once, within the cap, and no key is anywhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.judge_faults import check, fault_run
from tests.chaos.judge_processes import check_processes, fault_run_of_processes
from tests.kafka_broker import KafkaBroker
from tests.streams.run_process import make_relayed_topics


@pytest.mark.slow
def test_requests_end_once_over_faults_of_thirty_kinds_and_kills(tmp_path: Path) -> None:
    requests, kills, cap = 400, 3, 30.0
    found = fault_run(tmp_path, requests, kills, cap, seed=2, refused_seconds=3.0)

    check(found, requests, kills, cap)
    assert found["answers"]["401 for a while"] > 0
    assert len(found["answers"]) > 15


@pytest.mark.slow
@pytest.mark.kafka
def test_requests_end_once_over_faults_and_kills_of_real_processes(kafka_broker: KafkaBroker, tmp_path: Path) -> None:
    requests, kills, cap, workers = 400, 5, 30.0, 2
    make_relayed_topics(kafka_broker)
    found = fault_run_of_processes(tmp_path, kafka_broker, requests, kills, cap, workers, 2, refused_seconds=3.0)

    check_processes(found, requests, kills, cap, workers)
    assert found["killed"] == {"stores": 1, "judges": 4}
    assert found["answers"]["401 for a while"] > 0
    assert len(found["answers"]) > 15
