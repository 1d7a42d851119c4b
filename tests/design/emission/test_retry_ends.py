"""How tries end, watched and patched: where a value stands in for a result after the last try, they are exhausted."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from gapwatch.design.emission.client_calls import client_calls
from gapwatch.design.emission.patch import make_patch
from gapwatch.design.source.scan import scan_repository
from gapwatch.design.stage import run_design
from tests.design.emission.watched_programs import (
    Collector,
    collector,
    python_with_events,
    run_patched,
    run_watched,
    write_plan,
)
from tests.design.source_tree import write_tree

PYTHON = python_with_events()
FILES = {
    "asking.py": """\
import asyncio
import json

from openai import OpenAI
from tenacity import retry, retry_if_exception_type, stop_after_attempt

client = OpenAI(api_key="k")


def say(question):
    return client.chat.completions.create(model="m", messages=[question]).choices[0].message.content


@retry(stop=stop_after_attempt(3), retry=retry_if_exception_type(ValueError), retry_error_callback=lambda _: None)
def extract(question):
    return json.loads(say(question))


async def nothing(_):
    return None


@retry(stop=stop_after_attempt(3), retry=retry_if_exception_type(ValueError), retry_error_callback=nothing)
async def extract_later(question):
    return json.loads(say(question))


def plan(question):
    found = None
    for attempt in range(3):
        found = say(question)
        if "error" in found:
            if attempt < 2:
                continue
            found = "default"
            break
        if found:
            break
    return found


def choose(question):
    found = None
    for attempt in range(3):
        try:
            found = json.loads(say(question))
        except ValueError:
            if attempt == 2:
                found = []
                break
            continue
        break
    return found


def main(question):
    return extract(question), asyncio.run(extract_later(question)), plan(question), choose(question)
""",
}
_LIBRARIES = {
    "openai/__init__.py": """\
from types import SimpleNamespace as N

replies = iter(["[1]"] * 4 + ["error", "[1]"] * 4 + ["error"] * 12)


def create(**given):
    return N(model="m", choices=[N(message=N(content=next(replies)), finish_reason="stop")], usage=N(prompt_tokens=7))


OpenAI = lambda api_key: N(chat=N(completions=N(create=create)))
""",
    "tenacity/__init__.py": """\
import functools
import inspect


class RetryCallState:
    def set_exception(self, error): pass
    def set_result(self, result): pass


class BaseRetrying:
    def __init__(self, retry_error_callback):
        self.retry_error_callback = retry_error_callback

    def wraps(self, f):
        @functools.wraps(f)
        def wrapped_f(*args, **kw):
            for attempt in range(3):
                state = RetryCallState()
                try:
                    result = f(*args, **kw)
                except ValueError as error:
                    state.set_exception(error)
                else:
                    state.set_result(result)
                    return result
            return self.retry_error_callback(state)
        wrapped_f.retry = self
        return wrapped_f


def retry(stop, retry, retry_error_callback):
    def wrap(f):
        if inspect.iscoroutinefunction(f):
            from tenacity.asyncio import AsyncRetrying
            return AsyncRetrying(retry_error_callback).wraps(f)
        return BaseRetrying(retry_error_callback).wraps(f)
    return wrap


stop_after_attempt = retry_if_exception_type = lambda given: given
""",
    "tenacity/asyncio/__init__.py": """\
import functools
import inspect
from tenacity import BaseRetrying, RetryCallState


class AsyncRetrying(BaseRetrying):
    def wraps(self, f):
        @functools.wraps(f)
        async def async_wrapped(*args, **kw):
            for attempt in range(3):
                state = RetryCallState()
                try:
                    result = await f(*args, **kw)
                except ValueError as error:
                    state.set_exception(error)
                else:
                    state.set_result(result)
                    return result
            assert inspect.iscoroutinefunction(self.retry_error_callback)
            return await self.retry_error_callback(state)
        async_wrapped.retry = self
        return async_wrapped
""",
}
_RUN = """\
from asking import main
assert main("q") == ([1], [1], "[1]", [1])
assert main("q") == ([1], [1], "[1]", [1])
assert main("q") == (None, None, "default", [])
"""


def _check(found: Collector, recovered: str) -> None:
    for name in ("extract", "extract_later", "plan", "choose"):
        outcomes = [s.attributes.get("retry_outcome") for s in found.spans if s.name.endswith(f"{name}")]
        is_library = name.startswith("extract")
        wanted = ["first_try", "recovered", "exhausted"]
        wanted = [recovered, recovered, "exhausted"] if is_library and recovered == "succeeded" else wanted
        assert outcomes == wanted, name


def test_a_patched_program_tells_that_a_value_stands_in_for_the_result_of_the_last_try(tmp_path: Path) -> None:
    copy = write_tree(tmp_path / "app", FILES)
    made = run_design(scan_repository(copy))
    (tmp_path / "p.patch").write_text(make_patch(copy, made.planned, [*FILES]).text)
    subprocess.run(["git", "apply", str(tmp_path / "p.patch")], cwd=copy, check=True, timeout=20)
    write_tree(copy, _LIBRARIES)

    _check(run_patched(_RUN, copy), "succeeded")


@pytest.mark.skipif(PYTHON is None, reason="no Python of 3.12 or newer on this machine")
def test_a_watched_program_tells_it_too(tmp_path: Path) -> None:
    copy = write_tree(tmp_path / "app", FILES)
    plan = write_plan(tmp_path / "design", repository=copy)
    plan.write_text(json.dumps(json.loads(plan.read_text()) | {"clients": client_calls()}))
    write_tree(copy, {**_LIBRARIES, "run.py": _RUN})
    with collector() as found:
        ran = run_watched(plan, [str(PYTHON), str(copy / "run.py")], found.url)
        assert ran.returncode == 0, ran.stderr

    _check(found, "recovered")


@pytest.mark.parametrize(("given", "is_told"), [("", True), (", raise_on_giveup=False", False)])
def test_tries_that_end_with_nothing_and_no_word_have_no_metric_of_their_end(
    given: str, is_told: bool, tmp_path: Path
) -> None:
    source = (
        "import backoff\nfrom openai import OpenAI\n\nclient = OpenAI()\n\n\n"
        f"@backoff.on_exception(backoff.expo, ValueError, max_tries=3{given})\ndef ask(question):\n"
        "    return client.chat.completions.create(model='m', messages=[question]).choices[0].message.content\n"
        "\n\ndef main(question):\n    return ask(question)\n"
    )
    made = run_design(scan_repository(write_tree(tmp_path, {"app.py": source})))

    found = [m for m in made.metrics if m.claim.get("field") == "attributes.retry_outcome"]

    assert bool(found) == is_told
