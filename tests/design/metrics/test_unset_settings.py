"""Exceptions that are no failures: of a setting that is not there, and those that a function turns into a refusal."""

from __future__ import annotations

import pytest

from gapwatch.design.source.scan import scan_repository
from gapwatch.design.stage import Design, run_design
from tests.design.source_tree import write_tree

_SERVICE = """
import os

from fastapi import FastAPI, HTTPException, status
from openai import OpenAI
import replicate
import httpx

app = FastAPI()


class settings:
    replicate_key = os.environ.get("REPLICATE_KEY")


class NoSession(Exception):
    pass


class DrawingError(Exception):
    pass


def forbidden(detail):
    return HTTPException(status_code=status.HTTP_403_FORBIDDEN, detail=detail)


def drawn_large(prompt):
    if settings.replicate_key is None or settings.replicate_key == "":
        raise RuntimeError("no key")
    return replicate.Client(settings.replicate_key).run("a/b", input={"prompt": prompt})


def drawn_fine(prompt):
    found = replicate.Client(settings.replicate_key).run("a/c", input={"prompt": prompt})
    if not found:
        raise DrawingError("no picture")
    return found


def drawn_small(prompt):
    return OpenAI().chat.completions.create(model="m", messages=[prompt]).choices[0].message.content


@app.post("/draw")
def draw(prompt: str):
    try:
        return drawn_large(prompt)
    except RuntimeError:
        return drawn_small(prompt)


@app.post("/sketch")
def sketch(prompt: str):
    try:
        return drawn_fine(prompt)
    except DrawingError:
        return drawn_small(prompt)


def signed_in(token):
    try:
        return httpx.get("https://users.example/me", params={"token": token}).json()
    except NoSession:
        raise forbidden("unknown session")


def bought_by(token):
    try:
        return httpx.get("https://shop.example/all", params={"token": token}).json()
    except httpx.HTTPError as error:
        raise OSError("the shop does not answer") from error


@app.post("/bought")
def bought(token: str, prompt: str):
    return drawn_small(f"{signed_in(token)} {bought_by(token)} {prompt}")
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Design:
    root = write_tree(tmp_path_factory.mktemp("s"), {"s.py": _SERVICE})
    return run_design(scan_repository(root), is_bounded=False)


def _functions(made: Design, family: str) -> set[str]:
    return {s.removeprefix("s.") for m in made.metrics if m.family.endswith(family) for s in m.symbols}


def test_a_way_that_is_taken_without_a_setting_is_no_fallback(made: Design) -> None:
    assert _functions(made, "fallback_rate") == {"sketch"}


def test_a_function_without_its_setting_lacks_no_answer_where_another_way_is_taken(made: Design) -> None:
    found = _functions(made, "output_present")
    assert "drawn_fine" in found and "drawn_large" not in found


def test_who_turns_an_error_into_a_refusal_does_not_fail(made: Design) -> None:
    found = _functions(made, "error_rate")
    assert "bought_by" in found and "signed_in" not in found
