"""The critic refuses bad metrics and keeps their good twins, as written and in every variation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.design.truths.critic_cases import MUTATIONS, VARIATIONS, is_refused, read_fixture


def _kind(name: str) -> dict[str, Any]:
    return next(kind for kind in MUTATIONS["kinds"] if kind["id"] == name)


@pytest.mark.parametrize("name", [kind["id"] for kind in MUTATIONS["kinds"]])
def test_the_critic_refuses_a_bad_metric_for_its_reason_and_keeps_the_good_twin(name: str, tmp_path: Path) -> None:
    kind = _kind(name)
    fixture = read_fixture(kind["file"], "as_written", tmp_path)

    for case in kind["cases"]:
        assert name in is_refused(fixture, case, "bad"), case["id"]
        assert is_refused(fixture, case, "good") == [], case["id"]


@pytest.mark.slow
def test_nineteen_in_twenty_bad_metrics_are_refused_and_one_in_fifty_good_ones(tmp_path: Path) -> None:
    kept: list[str] = []
    refused: list[str] = []
    count = 0
    for variation in VARIATIONS:
        for kind in MUTATIONS["kinds"]:
            fixture = read_fixture(kind["file"], variation, tmp_path / variation / kind["id"])
            for case in kind["cases"]:
                count += 1
                kept += [] if is_refused(fixture, case, "bad") else [f"{variation} {case['id']}"]
                refused += [f"{variation} {case['id']}"] if is_refused(fixture, case, "good") else []

    assert count == 637
    assert len(kept) <= 0.05 * count, kept
    assert len(refused) <= 0.02 * count, refused
