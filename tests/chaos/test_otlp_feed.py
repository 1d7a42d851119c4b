"""Receiving and assembling without Kafka, killed at every step and at random: nothing lost, nothing twice."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from tests.chaos.otlp_feeding import STEPS, Fed, assert_whole, requests
from tests.streams.otlp.ports import free_port


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Fed:
    fed = Fed(tmp_path_factory.mktemp("undisturbed"), free_port(), quiet=1.0)
    fed.start()
    for body in requests(60, seed=1):
        fed.send(body)
    fed.end()
    return fed


@pytest.mark.slow
@pytest.mark.parametrize("step", STEPS)
def test_a_kill_at_a_step_of_a_commit_loses_and_doubles_nothing(undisturbed: Fed, step: str, tmp_path: Path) -> None:
    bodies = requests(60, seed=1)
    fed = Fed(tmp_path / "feed", free_port(), quiet=1.0)
    fed.start(step, "3")
    for body in bodies:
        fed.send(body)
    time.sleep(1.5)
    fed.end()
    assert fed.kills == 1
    assert_whole(fed, undisturbed, bodies)


@pytest.mark.slow
def test_kills_at_random_lose_and_double_nothing(undisturbed: Fed, tmp_path: Path) -> None:
    bodies, chance = requests(60, seed=1), random.Random(2)
    fed = Fed(tmp_path / "feed", free_port(), quiet=1.0)
    fed.start()
    for number, body in enumerate(bodies):
        fed.send(body)
        if number % 8 == 7:
            time.sleep(chance.random() / 3)
            fed.kill()
            fed.start()
    fed.end()
    assert fed.kills >= 3
    assert_whole(fed, undisturbed, bodies)
