"""An incident on a chain of four components and 12 metrics, scored and monitored as a replay does it.

Expected before it was run: one page for each incident, and the component that broke first named in nine of ten.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.depth import fewest
from tests.streams.alerting.chain_incident import Received, receive


@pytest.mark.parametrize("seed", [0, 1])
def test_a_chain_that_breaks_is_one_page_that_names_the_first_component(tmp_path: Path, seed: int) -> None:
    got = receive(tmp_path, seed)

    assert (got.pages, got.incidents, got.early, got.named) == (1, 1, 0, got.root)
    assert got.messages <= 2 and got.alerts >= 3


@pytest.mark.slow
def test_chains_page_once_and_nine_of_ten_name_the_first_component(tmp_path: Path) -> None:
    """The figures of 100 chains: `python -m tests.benchmarks.incidents`."""
    found: list[Received] = [receive(tmp_path, seed) for seed in range(2, 22)]

    assert sum(got.pages == 1 for got in found) >= fewest(0.97, 20)
    assert sum(got.named == got.root for got in found) >= fewest(0.90, 20)
    assert sum(got.paged_as == got.root for got in found) >= fewest(0.80, 20)
    assert sum(got.incidents == 1 for got in found) >= fewest(0.90, 20)
    assert sum(got.early for got in found) == 0
