"""Load cases of the contract, and the portfolio file of each."""

from __future__ import annotations

import base64
import copy
from typing import Any

import yaml

from tests.paths import ROOT

_TEXT = (ROOT / "tests/contracts/load_cases.yaml").read_text(encoding="utf-8")
CASES = yaml.load(_TEXT, Loader=yaml.CSafeLoader)

SKELETON = """
gapwatch: 1
portfolio: cases
version: 1
pipeline: p
components:
  - {id: c, role: ai_core, kind: llm, tiers: [{id: primary, by: llm}, {id: rules, by: rule}]}
  - {id: d, role: supporting, kind: tool}
edges: []
metrics: []
"""


def portfolio_of(case: dict[str, Any]) -> bytes:
    """Return the file that a case describes."""
    if "base64" in case:
        return base64.b64decode(case["base64"])
    if "text" in case:
        return str(case["text"]).encode()
    whole = copy.deepcopy(yaml.safe_load(SKELETON))
    if "text_metric" in case:
        text = yaml.dump(
            {k: v for k, v in (whole | case.get("with", {})).items() if k != "metrics"}, Dumper=yaml.CSafeDumper
        )
        return (text + "metrics:\n  - " + case["text_metric"] + "\n").encode()
    whole["metrics"] = case.get("metrics") or [case["metric"]]
    return yaml.dump(
        whole | case.get("with", {}), allow_unicode=True, sort_keys=False, Dumper=yaml.CSafeDumper
    ).encode()
