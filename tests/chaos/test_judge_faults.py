"""A short, seeded run of `judge_faults`: each request ends once, within the cap, and no key is anywhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.judge_faults import check, fault_run


@pytest.mark.slow
def test_requests_end_once_over_faults_of_thirty_kinds_and_kills(tmp_path: Path) -> None:
    requests, kills, cap = 400, 3, 30.0
    found = fault_run(tmp_path, requests, kills, cap, seed=2, refused_seconds=3.0)

    check(found, requests, kills, cap)
    assert found["answers"]["401 for a while"] > 0
    assert len(found["answers"]) > 15
