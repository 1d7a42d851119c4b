"""Judged claims for tests."""

from __future__ import annotations

from typing import Any

import yaml

from gapwatch.scorers.loading.load import parse_portfolio
from gapwatch.scorers.portfolio.claim import JudgedClaim
from gapwatch.scorers.portfolio.portfolio import Portfolio


def judged_metric(name: str = "faithful", **rubric: Any) -> dict[str, Any]:
    """A metric with one judge, as a portfolio writes it."""
    written = {"criterion": "Is the output faithful to the input?", "inputs": ["input", "output"], **rubric}
    judges = [{"name": "mini", "model": "openai/gpt-4.1-mini", "params": {"temperature": 0}}]
    return {"name": name, "component": "c", "claim": {"form": "judge", "rubric": written, "judges": judges}}


def portfolio_of(*metrics: dict[str, Any], **top: Any) -> Portfolio:
    """A portfolio of one component with these metrics."""
    written = {
        "gapwatch": 1, "portfolio": "judged", "version": 1, "pipeline": "p",
        "components": [{"id": "c", "role": "ai_core", "kind": "llm"}], "edges": [], "metrics": list(metrics), **top,
    }  # fmt: skip
    return parse_portfolio(yaml.dump(written, allow_unicode=True, sort_keys=False, Dumper=yaml.CSafeDumper))


def claim_of(**rubric: Any) -> JudgedClaim:
    """The claim of a metric with this rubric."""
    claim = portfolio_of(judged_metric(**rubric)).metrics[0].claim
    assert isinstance(claim, JudgedClaim)
    return claim
