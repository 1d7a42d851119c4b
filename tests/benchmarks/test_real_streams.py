"""The benchmark of real streams runs on a made copy of its smallest source; no figure is asserted."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from tests.benchmarks.real_streams import cascade


def test_a_cascade_of_made_questions_is_played_three_ways(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "routellm" / "mmlu_responses"
    folder.mkdir(parents=True)
    for name, every in (("easy", 5), ("hard", 2)):
        rows = [f'"{name} {i}",{i % every != 0},{i % 9 != 0}\n' for i in range(100)]
        with gzip.open(folder / f"mmlu_{name}.csv.gz", "wt") as file:
            file.writelines(["prompt,weak,strong\n", *rows])
    cascade(tmp_path)
    said = [line for line in capsys.readouterr().out.splitlines() if not line.startswith(" ")]

    assert [line.split(":")[0] for line in said] == [
        "cascade, random order, router as it is",
        "cascade, the router misses what it sent on",
        "cascade, easy subjects, then mostly hard ones",
    ]
    assert all("200 traces; 7 series" in line for line in said)
