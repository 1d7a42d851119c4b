"""The examples of the page of claims: each loads, and each case scores as the page says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.documentation.claim_examples import SECTIONS, ClaimExample, Recipe, read_examples, read_recipes
from gapwatch.scorers.scoring.scorer_host import ScorerHost
from tests.scorers.scored_slice import Product, record_slice

EXAMPLES = read_examples()
RECIPES = {recipe.name: recipe for of in read_recipes().values() for recipe in of}


def outcomes_of(
    example: ClaimExample | Recipe, metric: str = "example", scorers: ScorerHost | None = None
) -> Iterator[tuple[str, str | None]]:
    """Yield the outcome of each case with its reason, from the ledger and the rows of its record."""
    product = Product([example.portfolio()], scorers)
    for case in example.cases:
        scored = product.score(record_slice([case.record]))
        states = {row["state"] for row in scored.tables["ledger"].to_pylist() if row["metric"] == metric}
        reasons = {row["reason"] for row in scored.tables["gaps"].to_pylist() if row["metric"] == metric} - {None}
        assert len(states) <= 1 and len(reasons) <= 1
        yield next(iter(states), "no rows"), next(iter(reasons), None)


def test_every_form_predicate_and_field_has_an_example() -> None:
    assert {section: tuple(of) for section, of in EXAMPLES.items()} == SECTIONS


@pytest.mark.parametrize(
    ("section", "name"), [(section, name) for section, names in SECTIONS.items() for name in names]
)
def test_an_example_scores_as_the_page_says(section: str, name: str, tmp_path: Path) -> None:
    example = EXAMPLES[section][name]
    if example.scorer:
        (tmp_path / "scorers.py").write_text(example.scorer)
        with ScorerHost(str(tmp_path / "scorers.py")) as host:
            found = list(outcomes_of(example, scorers=host))
    else:
        found = list(outcomes_of(example))

    assert found == [(case.outcome, case.reason) for case in example.cases]


def test_an_example_passes_fails_and_is_unknown_where_it_can_be() -> None:
    for section, of in EXAMPLES.items():
        for name, example in of.items():
            outcomes = {case.outcome for case in example.cases}
            if outcomes & {"pending", "no rows"}:
                continue
            assert {"pass", "fail"} <= outcomes, (section, name)
            is_decided = example.unknown.lower().startswith(("never", "with another"))
            assert ("unknown" in outcomes) != is_decided, (section, name)


@pytest.mark.parametrize("name", sorted(RECIPES))
def test_a_recipe_of_the_cookbook_scores_as_the_page_says(name: str) -> None:
    recipe = RECIPES[name]

    assert [outcome for outcome, _ in outcomes_of(recipe, name)] == [case.outcome for case in recipe.cases]
    assert not recipe.cases or {"pass", "fail"} <= {case.outcome for case in recipe.cases}


def test_the_cookbook_has_thirty_claims_with_names_of_their_own() -> None:
    assert len(RECIPES) == sum(len(of) for of in read_recipes().values()) >= 30
