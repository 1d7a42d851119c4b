"""Receiving and assembling without Kafka, killed at every step and at random: nothing lost, nothing twice."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from tests.chaos.otlp_feeding import STEPS, Fed, assert_whole, requests
from tests.streams.otlp.ports import free_port


@pytest.mark.slow
def test_kills_at_every_step_of_a_commit_and_at_random_lose_and_double_nothing(tmp_path: Path) -> None:
    bodies, chance = requests(60, seed=1), random.Random(2)
    fed = Fed(tmp_path / "feed", free_port(), quiet=1.0, deadly=[(step, "2") for step in STEPS])
    fed.start()
    parts = 2 * len(STEPS)
    for part in range(parts):
        for body in bodies[part * len(bodies) // parts : (part + 1) * len(bodies) // parts]:
            fed.send(body)
        if part < len(STEPS):
            fed.until_killed(part + 1)
        elif part % 2:
            time.sleep(chance.random() / 3)
            fed.kill()
            fed.start()
    fed.end()
    assert fed.kills == len(STEPS) + 2
    assert_whole(fed, bodies)
