"""A class that a setting chooses among many is one way; what is of very few of them stays on the shelf."""

from __future__ import annotations

from pathlib import Path

from gapwatch.design.source.scan import scan_repository
from gapwatch.design.stage import run_design
from tests.design.source_tree import write_tree

VENDORS = ("ant", "bee", "cat", "dog", "eel", "fox")
VENDOR = """
import logging

import httpx
import openai


class {name}Model:
    def ask(self, question):
        facts = ""
        try:
            facts = httpx.get("https://{low}.example/facts").raise_for_status().text
        except Exception:
            logging.exception("no facts")
        return openai.OpenAI(base_url="https://{low}.example").chat.completions.create(
            model="{low}", messages=[{{"role": "user", "content": facts + question}}]
        ).choices[0].message.content
"""
SERVER = """
from fastapi import FastAPI
from factory import make_model

app = FastAPI()


@app.post("/ask")
def ask(question: str):
    return make_model("ant").ask(question)
"""


def factory(subject: str) -> str:
    lines = [f"def make_model({subject}):"]
    for low in VENDORS:
        lines += [f"    if {subject} == {low!r}:", f"        from vendors.{low} import {low.title()}Model"]
        lines += [f"        return {low.title()}Model()"]
    return "\n".join(lines) + "\n"


def shelved(root: Path, subject: str, failing: tuple[str, ...]) -> list[str]:
    files = {"server.py": SERVER, "factory.py": factory(subject)}
    for low in VENDORS:
        text = VENDOR.format(name=low.title(), low=low)
        if low not in failing:
            text = text.replace('logging.exception("no facts")', "raise")
        files[f"vendors/{low}.py"] = text
    made = run_design(scan_repository(write_tree(root, files)))
    ways = [s for s in made.selection.shelf if "chooses one" in s.why]
    assert all(s.why.startswith("of 6 ways of which make_model chooses one, it is of") for s in ways)
    return [s.metric.family for s in ways]


def test_what_fails_in_one_of_many_ways_that_a_setting_chooses_stays_on_the_shelf(tmp_path: Path) -> None:
    assert "swallowed_errors" in shelved(tmp_path, "vendor", ("bee",))


def test_what_fails_in_several_of_them_may_come_in(tmp_path: Path) -> None:
    assert "swallowed_errors" not in shelved(tmp_path, "vendor", ("bee", "cat", "dog"))


def test_branches_by_what_a_request_holds_are_no_choice_by_a_setting(tmp_path: Path) -> None:
    assert not shelved(tmp_path, "file_suffix", ("bee",))
