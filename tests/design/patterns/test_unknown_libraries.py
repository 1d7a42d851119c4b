"""Libraries of models that the catalogue lacks are named, on the screen and in the report."""

from __future__ import annotations

from pathlib import Path

import pytest

from gapwatch.design.reports.design_document import design_document
from gapwatch.design.reports.markdown import report_markdown
from gapwatch.design.reports.summary import notices
from gapwatch.design.source.scan import scan_repository
from gapwatch.design.stage import Design, run_design
from tests.design.source_tree import write_tree


def _design(root: Path, files: dict[str, str]) -> Design:
    return run_design(scan_repository(write_tree(root, files)))


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("superagent", "import superagent\ndef f(q): return superagent.run(q)\n"),
        ("lagents", "from lagents.llms import GPT\ndef f(q): return GPT().say(q)\n"),
        ("esper", "import esper\ndef f(q): return esper.AIFactory.create_language('m').say(q)\n"),
        ("vectors", "from vectors import FastEmbedder\ndef f(q): return FastEmbedder().run(q)\n"),
        ("chains", "from chains import llm_generation_chain\ndef f(q): return llm_generation_chain('a.prompt')\n"),
    ],
)
def test_an_unknown_library_of_models_is_named_with_its_first_place(tmp_path: Path, name: str, code: str) -> None:
    design = _design(tmp_path, {"app.py": code})

    assert [(one.name, one.place) for one in design.unknown_libraries] == [(name, "app.py:2")]
    said = f"A library that looks like models or agents and that Gapwatch does not know: {name} (app.py:2)."
    assert any(notice.startswith(said) for notice in notices(design))
    assert said in report_markdown(design_document(design)).replace("\\", "")


@pytest.mark.parametrize(
    "files",
    [
        {"app.py": "import openai\ndef f(q): return openai.OpenAI().chat.completions.create(messages=[q])\n"},
        {"app.py": "import abc\nclass Agent(abc.ABC):\n    def f(self): return self.llm.run()\n"},
        {"app.py": "from fake_useragent import UserAgent\ndef f(): return UserAgent().random\n"},
        {"app.py": "from prompt_toolkit import prompt\ndef f(): return prompt('name')\n"},
        {"app.py": "from myagent.run import go\ndef f(): return go()\n", "lib/myagent/run.py": "def go(): ...\n"},
        {"tests/test_app.py": "import superagent\ndef test_f(): assert superagent.run('q')\n"},
        {"app.py": "from mypy_boto3_agent import AgentClient\ndef f(c: AgentClient): return c.run()\n"},
    ],
)
def test_known_libraries_own_modules_and_tests_are_not_named(tmp_path: Path, files: dict[str, str]) -> None:
    assert _design(tmp_path, files).unknown_libraries == ()


def test_the_notice_counts_the_libraries_that_it_does_not_name(tmp_path: Path) -> None:
    names = [f"agent{letter}_llm" for letter in "abcdef"]
    design = _design(tmp_path, {"app.py": "".join(f"import {n}\n{n}.run()\n" for n in names)})

    (notice,) = [n for n in notices(design) if n.startswith("Libraries that look like models")]
    assert "agentd_llm" in notice
    assert "and 2 more." in notice
    assert "agente_llm" not in notice
