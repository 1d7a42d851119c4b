"""Names of facets beyond the bound count as `other`: sums stay, any slicing and any restart count the same."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gapwatch.scorers.slices import facet_names
from gapwatch.scorers.slices.facet_names import OTHER, FacetNames
from gapwatch.scorers.slices.slices import RecordSlice, ScoredSlice
from gapwatch.sinks.reading.lane_commits import facet_names as stored_names
from gapwatch.sinks.store.store import Store
from tests.builders import KEPT_AT
from tests.depth import examples
from tests.scorers.scored_slice import Product, record_slice
from tests.scorers.slices.test_slicing_laws import check_equal_counts

_PORTFOLIO = {
    "gapwatch": 1,
    "portfolio": "shop",
    "version": 1,
    "pipeline": "shop",
    "components": [{"id": "agent", "role": "ai_core", "kind": "llm"}],
    "metrics": [
        {"name": "ok", "component": "agent", "claim": {"form": "check", "field": "status", "one_of": ["ok"]}},
        {"name": "cost", "component": "agent", "claim": {"form": "measure", "field": "ended_at", "unit": "s"}},
    ],
}
_NOON = 1_774_180_800.0
_DAY = 86_400.0


@pytest.fixture(scope="module")
def product() -> Product:
    return Product([_PORTFOLIO])


@pytest.fixture(autouse=True)
def few_names() -> Iterator[None]:
    """Bound the names to 6, of which 3 at once, so that small slices go beyond."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(facet_names, "AT_ONCE", 3)
        patch.setattr(facet_names, "MOST_NAMES", 6)
        patch.setattr(facet_names, "_FIRST_RATE", 0.25)
        patch.setattr(facet_names, "_HALVED_AFTER", 6)
        yield


def trace(number: int, names: Sequence[str], at: float = _NOON, p: float = 1.0) -> bytes:
    """Return a trace whose environment, release and spans have these names, the last two of them its models."""
    spans = [
        {"span_id": f"{k}", "component": "agent", "model": model, "tier": names[0], "status": "ok", "ended_at": at - k}
        for k, model in enumerate(names[-2:])
    ]
    record = {"trace_id": f"t{number}", "pipeline": "shop", "environment": names[0], "release": names[1]}
    return json.dumps({**record, "ended_at": at, "sampling_probability": p, "spans": spans}).encode()


def drawn(seed: int, n: int, pool: int, days: int = 2) -> list[bytes]:
    dice = random.Random(seed)
    return [
        trace(
            number,
            [f"n{int(pool * dice.random() ** 2)}" for _ in range(3)],
            _NOON + _DAY * dice.randrange(days),
            dice.choice([1.0, 0.25, dice.random() or 1.0]),
        )
        for number in range(n)
    ]


def in_parts(product: Product, values: Sequence[bytes], cuts: Sequence[int]) -> list[ScoredSlice]:
    parts, names = [], FacetNames()
    bounds = [0, *sorted(cuts), len(values)]
    for first, last in pairwise(bounds):
        parts.append(product.score(replace(record_slice(values[first:last], None, first), names=names)))
        names = parts[-1].names
    return parts


def counted(scored: Sequence[ScoredSlice], facet: str, level: str = "span") -> Counter[str]:
    counts: Counter[str] = Counter()
    for one in scored:
        for row in one.tables["ticks"].to_pylist():
            if (row["facet"], row["level"], row["metric"]) == (facet, level, "ok"):
                counts[row["value"] or ""] += row["n"]
    return counts


@settings(max_examples=examples(25))
@given(st.integers(0, 2**32), st.integers(2, 40), st.lists(st.integers(0, 60), max_size=3))
def test_any_slicing_counts_the_same_names_and_stores_the_same(
    product: Product, seed: int, pool: int, cuts: list[int]
) -> None:
    values = drawn(seed, 60, pool)

    whole, parts = in_parts(product, values, []), in_parts(product, values, cuts)

    check_equal_counts(whole[0], *parts)
    stored = [pa.concat_tables([one.tables["facet_names"] for one in scored]) for scored in (whole, parts)]
    assert sorted(map(repr, stored[0].to_pylist())) == sorted(map(repr, stored[1].to_pylist()))
    assert FacetNames.stored(stored[0]) == whole[-1].names == parts[-1].names


@settings(max_examples=examples(15))
@given(st.integers(0, 2**32), st.integers(2, 40))
def test_sums_are_those_without_a_bound_and_names_are_within_it(product: Product, seed: int, pool: int) -> None:
    values = drawn(seed, 60, pool)

    bounded = in_parts(product, values, [20])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(facet_names, "AT_ONCE", 10_000)
        whole = in_parts(product, values, [])

    for facet, level in (("all", "span"), ("all", "unit"), ("release", "unit"), ("model", "span"), ("tier", "span")):
        found, true = counted(bounded, facet, level), counted(whole, facet, level)
        named = found.keys() - {OTHER}
        assert found.total() == true.total()
        assert all(found[name] <= true[name] for name in named)
        assert len(named) <= 2 * 6  # two days
    gaps = [one.tables["gaps"].to_pylist() for one in (bounded[0], whole[0])]
    assert gaps[0] == gaps[1][: len(gaps[0])]  # rows keep their names


def test_a_frequent_name_that_comes_late_is_counted_apart_and_rare_ones_are_not(product: Product) -> None:
    rare = [trace(i, ["e", f"rare-{i}", "m"]) for i in range(300)]
    mixed = [trace(300 + i, ["e", "v2" if i % 2 else f"late-{i}", "m"]) for i in range(300)]

    counts = counted(in_parts(product, [*rare, *mixed], [300]), "release", "unit")

    assert set(counts) == {"rare-0", "rare-1", "rare-2", "v2", OTHER}
    assert counts["v2"] > 75  # of 150
    assert counts.total() == 600


def test_the_ledger_says_of_how_many_records_something_counts_as_other(product: Product) -> None:
    values = [trace(i, [f"e{min(i, 5)}", "r", f"m{i}"]) for i in range(7)]

    (scored,) = in_parts(product, values, [])

    states = Counter({row["state"]: row["n"] for row in scored.tables["ledger"].to_pylist() if row["metric"] is None})
    others = {state: n for state, n in states.items() if state.startswith("other_")}
    environments = counted([scored], "all", "unit")
    assert states["read"] == environments.total() == 7
    # e0, e1, e2 are at once; the models are r (of each trace), m0, m1 and so on.
    assert others["other_environment"] == 4 - sum(row["value"] in ("e3", "e4", "e5") and row["sightings"] == 2
                                                  for row in scored.tables["facet_names"].to_pylist()
                                                  if row["facet"] == "environment")  # fmt: skip
    assert others["other_model"] == 5
    assert "other_release" not in others


def test_a_probability_beyond_the_bound_counts_within_half_a_per_cent(product: Product) -> None:
    values = [trace(i, ["e", "r", "m"], p=(i + 1) / 500) for i in range(499)]

    (scored,) = in_parts(product, values, [])

    ticks = [row for row in scored.tables["ticks"].to_pylist() if row["facet"] == "all" and row["level"] == "unit"]
    weight = sum(row["n"] / row["p"] for row in ticks if row["metric"] == "ok")
    assert sum(row["n"] for row in ticks if row["metric"] == "ok") == 499
    assert weight == pytest.approx(sum(500 / (i + 1) for i in range(499)), rel=0.005)
    assert {0.002, 0.004, 0.006} < {row["p"] for row in ticks}  # the first ones are exact


def test_a_record_a_week_behind_counts_as_one_without_a_day(product: Product) -> None:
    ages = [0.0, 6.0, 7.0, 400.0]
    values = [trace(i, ["e", f"r{i}", "m"], _NOON - _DAY * age) for i, age in enumerate(ages)]

    (scored,) = in_parts(product, values, [])

    days = {r["value"]: r["day"] for r in scored.tables["facet_names"].to_pylist() if r["facet"] == "release"}
    assert [days[f"r{i}"] is None for i in range(4)] == [False, False, True, True]


def test_a_restart_continues_with_the_names_of_the_store(product: Product, tmp_path: Path) -> None:
    values = drawn(7, 80, 40)
    with Store.open(tmp_path / "s.duckdb", create=True) as store:
        first = product.score(record_slice(values[:50]))
        store.write_slice(first, KEPT_AT)
    with Store.open(tmp_path / "s.duckdb") as store:
        names = stored_names(store, "live", "traces", 3)
        assert names == first.names
        assert stored_names(store, "live", "traces", 4) == FacetNames()


def test_with_too_many_ticks_the_first_records_are_scored_and_the_rest_is_left(product: Product) -> None:
    values = [trace(i, ["e", "r", "m"], _NOON + 60.0 * i) for i in range(40)]
    records = replace(record_slice(values, None, 100), prefix_sha256="end", digest_at=lambda offset: f"at {offset}")

    parts: list[ScoredSlice] = []
    left: RecordSlice | None = records
    while left is not None:
        parts.append(product.score(left, most_ticks=100))
        left = left.rest(parts[-1])

    assert len(parts) > 3
    assert [part.from_offset for part in parts] == [100, *(part.to_offset for part in parts[:-1])]
    assert [part.prefix_sha256 for part in parts] == [*(f"at {part.to_offset}" for part in parts[:-1]), "end"]
    assert all(part.tables["ticks"].num_rows < 150 for part in parts)
    check_equal_counts(product.score(records), *parts)


def test_a_single_record_is_scored_however_many_ticks_it_has(product: Product) -> None:
    scored: Any = product.score(record_slice([trace(0, ["e", "r", "m"])]), most_ticks=1)

    assert scored.records == 1
