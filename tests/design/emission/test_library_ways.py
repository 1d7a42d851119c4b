"""Ways to an answer that a library tries itself: no line of the program tells which one gave it."""

from __future__ import annotations

from pathlib import Path

from gapwatch.design.source.scan import scan_repository
from gapwatch.design.stage import run_design
from tests.design.source_tree import write_tree

_SERVER = """
import litellm
from fastapi import FastAPI

app = FastAPI()


def ask(questions):
    others = ["b"]
    return litellm.completion_with_retries(
        model="a", messages=questions, fallbacks=others, original_function=litellm.batch_completion
    )


@app.post("/ask")
def answer(question: str):
    return ask([question])
"""


def test_a_retrying_call_of_litellm_is_a_call_of_a_model(tmp_path: Path) -> None:
    made = run_design(scan_repository(write_tree(tmp_path, {"server.py": _SERVER})))

    assert {"unanswered", "answer_present", "model_latency"} <= {m.family for m in made.metrics}


def test_the_line_that_names_the_fallbacks_of_a_library_is_no_second_way(tmp_path: Path) -> None:
    made = run_design(scan_repository(write_tree(tmp_path, {"server.py": _SERVER})), is_bounded=False)

    assert [r.kind for r in made.routes] == ["option"]
    (planned,) = [p for p in made.planned if p.symbol == "server.ask"]
    assert "fallback_depth" not in str((planned.start, planned.function))
