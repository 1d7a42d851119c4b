"""Prices of the models that the code names."""

from __future__ import annotations

from pathlib import Path

from gapwatch.design.metrics.model_prices import named_prices
from gapwatch.design.source.scan import scan_repository
from tests.design.source_tree import write_tree


def test_models_that_literals_name_have_prices_with_or_without_their_provider(tmp_path: Path) -> None:
    source = 'A = "openai:gpt-4.1"\nB = "command"\nC = "openai/gpt-4.1-mini-2025-04-14"\nD = "no-such-model-9"\n'
    root = write_tree(tmp_path, {"app.py": source, "tests/test_app.py": 'E = "gpt-4o"\n'})

    found = [price.as_data() for price in named_prices(scan_repository(root))]

    assert [price["models"] for price in found] == [["gpt-4.1", "gpt-4.1-20*"], ["gpt-4.1-mini-2025-04-14"]]
    assert (found[0]["input"], found[0]["output"]) == (2.0, 8.0)
    assert found[0]["evidence"].startswith("litellm ")
