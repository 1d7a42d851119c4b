"""A patched program does what it does without the patch, whatever passes through the functions that it records."""

from __future__ import annotations

import subprocess
from pathlib import Path

from gapwatch.design.emission.patch import make_patch
from gapwatch.design.emission.planned_span import MarkedFunction, PlannedSpan, SpanMark
from gapwatch.design.source.scan import scan_repository
from gapwatch.design.stage import run_design
from tests.design.emission.watched_programs import Collector, run_patched
from tests.design.source_tree import write_tree

_WAYS = """\
import asyncio
from contextlib import asynccontextmanager, contextmanager

done = []


@contextmanager
def opened():
    try:
        yield "open"
    except KeyError:
        done.append("rolled back")
        raise
    except ValueError:
        done.append("swallowed")
    finally:
        done.append("closed")


@asynccontextmanager
async def opened_later():
    try:
        yield "open"
    except KeyError:
        done.append("rolled back")
        raise
    except ValueError:
        done.append("swallowed")
    finally:
        done.append("closed")


def echo():
    said = yield "ready"
    while True:
        said = yield said


async def echo_later():
    said = yield "ready"
    while True:
        said = yield said
"""

_CALLS = """\
import asyncio
from app import done, echo, echo_later, opened, opened_later

for error in (ValueError(1), None):
    with opened() as word:
        assert word == "open"
        if error: raise error
try:
    with opened():
        raise KeyError("k")
except KeyError as error:
    assert error.args == ("k",)
assert done == ["swallowed", "closed", "closed", "rolled back", "closed"], done
done.clear()

async def main():
    for error in (ValueError(1), None):
        async with opened_later() as word:
            assert word == "open"
            if error: raise error
    try:
        async with opened_later():
            raise KeyError("k")
    except KeyError as error:
        assert error.args == ("k",)
    assert done == ["swallowed", "closed", "closed", "rolled back", "closed"], done
    g = echo_later()
    assert [await anext(g), await g.asend("a"), await g.asend("b")] == ["ready", "a", "b"]
    await g.aclose()

asyncio.run(main())
g = echo()
assert [next(g), g.send("a"), g.send("b")] == ["ready", "a", "b"]
g.close()
"""


def _patched(folder: Path, source: str, plans: list[PlannedSpan], calls: str, is_plain: bool = True) -> Collector:
    """Patch `app.py`, run code that calls it, and return what it sent; the code must end well without the patch, too.

    Args:
        folder: Where the program is written.
        source: `app.py`.
        plans: Spans to emit.
        calls: The code.
        is_plain: False for code that needs the patch.
    """
    write_tree(folder, {"app.py": source})
    if is_plain:
        run_patched(calls, folder)
    (folder / "p.patch").write_text(make_patch(folder, plans, ["app.py"]).text)
    subprocess.run(["git", "apply", "p.patch"], cwd=folder, check=True, timeout=20)
    return run_patched(calls, folder)


def _plan(name: str, *marks: SpanMark, **more: object) -> PlannedSpan:
    return PlannedSpan("c", name, "chain", "app.py", name, MarkedFunction(name, 1, list(marks)), **more)  # type: ignore[arg-type]


def test_what_is_thrown_into_a_recorded_generator_or_sent_to_it_reaches_it(tmp_path: Path) -> None:
    marked = [
        SpanMark(number, "add", "swallowed_errors")
        for number, line in enumerate(_WAYS.splitlines(), 1)
        if "swallowed" in line
    ]
    names = ("opened", "opened_later", "echo", "echo_later")
    plans = [
        _plan(n, *[m for m in marked if ("later" in n) == (m.line > 20)], start={"swallowed_errors": 0}) for n in names
    ]

    found = _patched(tmp_path, _WAYS, plans, _CALLS)

    for name in ("opened", "opened_later"):
        spans = found.named(name)
        assert [s.attributes["swallowed_errors"] for s in spans] == [1, 0, 0]
        assert [s.is_error for s in spans] == [False, False, True]
    assert [s.attributes["output.value"] for s in found.spans if "echo" in s.name] == ["readyab", "readyab"]


_HOSTILE = """\
class Loud:
    def _raise(self, *args):
        raise OSError("closed")

    __getattr__ = __eq__ = __bool__ = __len__ = __str__ = __repr__ = __hash__ = __iter__ = _raise


class Posing:
    @property
    def __class__(self):
        raise RuntimeError("outside of a request")


class Column:
    def __eq__(self, other):
        return self

    def __bool__(self):
        raise ValueError("the truth of a column is not clear")

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return self


class Failed(Exception):
    def __str__(self):
        raise KeyError("no words")


class Mapping(dict):
    def get(self, name, default=None):
        raise OSError(name)

    items = keys = values = get


loop = {"text": "round and round"}
loop["loop"] = loop
deep = []
for _ in range(5000):
    deep = [deep]
VALUES = [Loud(), Posing(), Column(), Mapping(a=1), loop, deep, {Column: Loud()}, {"choices": {"a": 1}}, [Posing()],
          {"choices": [Column()]}, range(10**9), "x" * 10**6, b"\\xff" * 10**6, [1.5] * 10**6, float("nan"), object]


def give(value):
    parsed = value
    return parsed


async def wait(value):
    return give(value)


def pieces(value):
    yield value
    yield b""
    yield "a"
    yield {}


async def pieces_later(value):
    yield b""
    yield value


def fail(value):
    raise Failed(value)


def two(first, second):
    return first
"""

_HOSTILE_CALLS = """\
import asyncio, app, span_recording

async def main(value):
    assert await app.wait(value) is value
    assert [c async for c in app.pieces_later(value)][1] is value

for value in app.VALUES:
    assert app.give(value) is value
    assert next(iter([*app.pieces(value)])) is value
    asyncio.run(main(value))
    for call in (lambda: app.fail(value), lambda: app.two(value)):
        try:
            call()
        except (app.Failed, TypeError) as error:
            assert type(error) is not TypeError or "second" in error.args[0], error.args
        else:
            raise AssertionError
    with span_recording._Open(span_recording.trace.INVALID_SPAN, {"model_errors": 0}, True, "llm"):
        assert span_recording.reply(value) is value
        assert span_recording.asked(lambda messages: messages)(messages=value) is value
        span_recording.piece(value)
"""


def test_no_value_makes_the_recorder_raise_into_the_program(tmp_path: Path) -> None:
    number = _HOSTILE.splitlines().index("    return parsed") + 1
    kinds: list[dict[str, object]] = [
        {"stream_outcome": "of_stream", "retrieved_count": "of_result", "agent_exit": None, "agent_end": "done"},
        {"first_chunk_seconds": "of_response", "request_outcome": "answered", "model_errors": 0, "agent_limit": "no"},
    ]
    names = ("give", "wait", "pieces", "pieces_later", "fail", "two")
    for kind in kinds:
        folder = tmp_path / str(len(kind))
        plans = [_plan(n, start=dict(kind)) for n in names]
        plans[0].function.marks.append(SpanMark(number, "reply", "reply", "value"))

        found = _patched(folder, _HOSTILE, plans, _HOSTILE_CALLS, is_plain=False)

        assert {s.name for s in found.spans} == {*names}
        assert all(s.is_error for s in found.named("fail"))
        assert {s.attributes["error.type"] for s in found.named("fail")} == {"Failed"}


def test_an_empty_piece_of_bytes_is_a_piece(tmp_path: Path) -> None:
    source = "def give():\n    yield b''\n    yield b'a'\n    yield b''\n"

    found = _patched(tmp_path, source, [_plan("give")], "import app\nassert [*app.give()] == [b'', b'a', b'']\n")

    assert found.named("give")[0].attributes["output.value"] == "a"


def test_a_parsed_response_is_not_asked_for_a_text_that_it_does_not_have(tmp_path: Path) -> None:
    source = "def read(answer):\n    return answer.json()\n"
    calls = (
        "import app\nclass Answer:\n    def json(self): return 1\n"
        "    def text(self): raise AssertionError\n"
        "class Unread(Answer):\n    @property\n    def text(self): raise RuntimeError('not read yet')\n"
        "class Read(Answer):\n    text = '[1]'\n"
        "assert [app.read(a()) for a in (Answer, Unread, Read)] == [1, 1, 1]\n"
    )

    found = _patched(tmp_path, source, [_plan("read", SpanMark(2, "text", "parsed_text"))], calls)

    assert [s.attributes.get("parsed_text") for s in found.named("read")] == [None, None, "[1]"]


_QUEUE = {
    "celery.py": """\
class Task:
    def __init__(self, function):
        self.function, self.name = function, "app." + function.__name__

    def __call__(self, *args):
        return self.function(*args)

    def delay(self, *args):
        return self(*args)


class Celery:
    def __init__(self, name):
        self.tasks = {}

    def task(self, function=None, **options):
        def register(function):
            made = self.tasks["app." + function.__name__] = Task(function)
            return made
        return register(function) if function else register
""",
    "tenacity.py": """\
import functools


def retry(**options):
    def decorate(function):
        @functools.wraps(function)
        def run(*args):
            try:
                return function(*args)
            except ValueError:
                return function(*args)
        return run
    return decorate
""",
    "app.py": """\
from celery import Celery
from openai import OpenAI
from tenacity import retry

app = Celery("app")
client = OpenAI(api_key="k")


def ask(question):
    return client.chat.completions.create(model="m", messages=[question]).choices[0].message.content


@app.task(autoretry_for=(ValueError,), max_retries=3)
def by_queue(question):
    return ask(question)


@app.task
@retry(stop=3)
def tried(question):
    return ask(question)


@retry(stop=3)
@app.task
def tried_outside(question):
    return ask(question)


@retry(stop=3)
def alone(question):
    return ask(question)


def serve(question):
    return [by_queue.delay(question), tried.delay(question), tried_outside(question), alone(question)]
""",
}
_QUEUE_CALLS = """\
import sys
from types import SimpleNamespace as N
turns = []
def create(**given):
    turns.append(1)
    if len(turns) % 2 == 0: raise ValueError
    return N(choices=[N(message=N(content="yes"), finish_reason="stop")], usage=None)
sys.modules["openai"] = N(OpenAI=lambda api_key: N(chat=N(completions=N(create=create))))
import app
assert app.serve("q") == ["yes"] * 4
assert (app.by_queue.name, app.tried.name) == ("app.by_queue", "app.tried")
assert app.app.tasks["app.tried"].delay("q") == "yes"
assert app.app.tasks["app.tried_outside"] is not None
"""


def test_a_span_is_around_the_attempts_of_a_library_and_inside_of_what_registers(tmp_path: Path) -> None:
    write_tree(tmp_path, {name: text for name, text in _QUEUE.items() if name == "app.py"})
    planned = run_design(scan_repository(tmp_path), is_bounded=False).planned
    write_tree(tmp_path, _QUEUE)
    lines = _QUEUE["app.py"].splitlines()

    above = {p.span: lines[p.above - 1] for p in planned if p.above}
    found = _patched(tmp_path, _QUEUE["app.py"], planned, _QUEUE_CALLS)

    assert above == {"tried": "@retry(stop=3)", "alone": "@retry(stop=3)"}
    assert len(found.named("by_queue")) == 1 and len(found.named("alone")) == 1
    assert len(found.named("tried")) == 2  # one for both attempts
    assert len(found.named("tried_outside")) == 2  # one for each


def test_what_is_no_function_stays_what_it_is_below_a_recorder(tmp_path: Path) -> None:
    source = "class Task:\n    def __init__(self, f): self.f = f\n    def delay(self): return self.f()\n\n\n"
    source += "@Task\ndef work():\n    return 1\n"

    _patched(tmp_path, source, [_plan("work", above=6)], "import app\nassert app.work.delay() == 1\n")
