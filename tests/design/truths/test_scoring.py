"""The scorer of designs pairs code with truths by the rules of the README."""

from __future__ import annotations

from pathlib import Path

from gapwatch.design.source.scan import scan_repository
from gapwatch.design.stage import run_design
from tests.benchmarks.design_truths import held_code, index_of

SOURCE = """
from openai import OpenAI

agent = OpenAI()


class Tools:
    def search(self, query):
        return agent.responses.create(input=query)

    def read(self, name):
        return open(name).read()
"""


def test_code_belongs_to_the_component_that_names_it_most_closely(tmp_path: Path) -> None:
    (tmp_path / "assistant.py").write_text(SOURCE, encoding="utf-8")
    truth = {
        "base": ".",
        "components": [
            {"id": "declared", "holds": ["assistant.py::agent"]},
            {"id": "tools", "holds": ["assistant.py::Tools"]},
            {"id": "reader", "holds": ["assistant.py::Tools.read"]},
        ],
    }

    index = index_of(run_design(scan_repository(tmp_path)))
    held = held_code(truth, index)

    assert {one: {index.at[name] for name in names} for one, names in held.items()} == {
        "declared": {"assistant.py::<module>"},
        "tools": {"assistant.py::Tools.search"},
        "reader": {"assistant.py::Tools.read"},
    }
