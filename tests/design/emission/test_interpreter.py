"""`gapwatch instrument`: spans of listed functions by events of the interpreter, in a real program."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from opentelemetry.context import Context

from gapwatch.design.emission.interpreter.model_replies import client_reply, count_results
from gapwatch.design.emission.interpreter.plain_values import text_of_value
from gapwatch.design.emission.interpreter.watched_call import WatchedCall
from gapwatch.design.emission.recorded_replies import count_found
from tests.design.emission.watched_programs import (
    Collector,
    collector,
    planned,
    python_with_events,
    run_watched,
    write_plan,
)

PYTHON = python_with_events()
needs_events = pytest.mark.skipif(PYTHON is None, reason="no Python of 3.12 or newer on this machine")

PROGRAM = """\
import asyncio
import json
import sys
import threading
from concurrent.futures import ThreadPoolExecutor


def plain(a, b=2, *rest, key=None):
    return inner(a)


def inner(a):
    return [a]


def unlisted():
    return plain("below")


def fails(a):
    raise KeyError(a)


async def waits(name):
    await asyncio.sleep(0.01)
    return await waits_inside(name)


async def waits_inside(name):
    await asyncio.sleep(0.01)
    return name


def gives(n):
    for i in range(n):
        yield f"part {i} "


async def gives_async(n):
    for i in range(n):
        await asyncio.sleep(0)
        yield str(i)


def swallows(text):
    try:
        return json.loads(text)
    except ValueError:
        pass
    return None


def tries(fail):
    for attempt in range(3):
        try:
            return 10 // (0 if attempt < fail else 1)
        except ZeroDivisionError:
            continue
    return None


class Service:
    def ask(self, q):
        def nested(x):
            try:
                return int(x)
            except ValueError:
                return 0
        return nested(q)


def in_thread(n):
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(inner, range(n)))
    thread = threading.Thread(target=inner, args=("t",))
    thread.start()
    thread.join()
    return n


async def together():
    return await asyncio.gather(waits("a"), waits("b"))


unlisted()
try:
    fails("x")
except KeyError:
    pass
print(asyncio.run(together()))
print("".join(gives(3)))
for part in gives(5):
    break
del part
for part in gives(2):
    inner("between")


async def drain():
    return [x async for x in gives_async(2)]


print(asyncio.run(drain()))
swallows("{}")
swallows("no json")
tries(0), tries(1), tries(3)
Service().ask("three")
in_thread(3)
"""


def _line(text: str, after: str = "") -> int:
    lines = PROGRAM.splitlines()
    start = next(i for i, line in enumerate(lines) if after in line)
    return 1 + next(i for i, line in enumerate(lines) if i >= start and text in line)


EMIT = [
    *(planned(n) for n in ("plain", "inner", "fails", "waits", "waits_inside", "in_thread", "together")),
    planned("gives", start={"first_chunk_seconds": "of_stream", "stream_outcome": "of_stream"}),
    planned("gives_async", start={"stream_outcome": "of_stream"}),
    planned(
        "swallows",
        start={"swallowed_errors": 0},
        marks=[
            [_line("json.loads", "def swallows"), "text", "parsed_text", None],
            [_line("pass", "def swallows"), "add", "swallowed_errors", None],
        ],
    ),
    planned(
        "tries",
        start={"attempts": 0},
        marks=[
            [_line("try:", "def tries"), "add", "attempts", None],
            [_line("return None", "def tries"), "set", "retry_outcome", "exhausted"],
        ],
    ),
    planned("ask", start={"swallowed_errors": 0}, span="Service.ask")
    | {
        "functions": [
            {"name": "Service.ask", "line": 1, "marks": []},
            {
                "name": "Service.ask.nested",
                "line": 1,
                "marks": [[_line("return 0", "class Service"), "add", "swallowed_errors", None]],
            },
        ]
    },
]


@pytest.fixture(scope="module")
def sent(tmp_path_factory: pytest.TempPathFactory) -> Collector:
    folder = tmp_path_factory.mktemp("watched")
    (folder / "app.py").write_text(PROGRAM)
    with collector() as found:
        assert PYTHON is not None
        ran = run_watched(write_plan(folder / "design", EMIT), [PYTHON, str(folder / "app.py")], found.url)
        assert (ran.returncode, ran.stderr) == (0, "")
        assert ran.stdout.splitlines() == ["['a', 'b']", "part 0 part 1 part 2 ", "['0', '1']"]
    return found


@needs_events
def test_a_span_has_input_output_component_and_parent(sent: Collector) -> None:
    (span,) = sent.named("plain")
    child = next(s for s in sent.named("inner") if s.parent == span.id)

    assert json.loads(span.attributes["input.value"]) == {"a": "below", "b": 2, "key": None, "rest": []}
    assert span.attributes["output.value"] == '["below"]'
    assert span.attributes["gapwatch.component"] == "c"
    assert (span.parent, child.trace) == ("", span.trace)


@needs_events
def test_an_exception_is_an_error_of_its_class(sent: Collector) -> None:
    (span,) = sent.named("fails")

    assert span.is_error
    assert span.attributes["error.type"] == "KeyError"


@needs_events
def test_coroutines_that_run_together_keep_their_own_parents(sent: Collector) -> None:
    (root,) = sent.named("together")
    outer, inner = sent.named("waits"), sent.named("waits_inside")

    assert {s.parent for s in outer} == {root.id}
    assert {s.parent: s.attributes["output.value"] for s in inner} == {
        s.id: s.attributes["output.value"] for s in outer
    }


@needs_events
def test_a_generator_is_one_span_that_is_not_around_what_its_caller_does(sent: Collector) -> None:
    whole, left, twice = sent.named("gives")

    assert whole.attributes["output.value"] == "part 0 part 1 part 2 "
    assert [s.attributes["stream_outcome"] for s in (whole, left, twice)] == ["completed", "aborted", "completed"]
    assert 0 <= whole.attributes["first_chunk_seconds"] < 5
    between = [s for s in sent.named("inner") if s.attributes["output.value"] == '["between"]']
    assert [s.parent for s in between] == ["", ""]
    assert sent.named("gives_async")[0].attributes["stream_outcome"] == "completed"


@needs_events
def test_lines_count_what_a_handler_swallows_and_calls_give_the_text_that_is_parsed(sent: Collector) -> None:
    good, bad = sent.named("swallows")

    assert (good.attributes["swallowed_errors"], good.attributes["parsed_text"]) == (0, "{}")
    assert (bad.attributes["swallowed_errors"], bad.attributes["parsed_text"]) == (1, "no json")
    assert sent.named("Service.ask")[0].attributes["swallowed_errors"] == 1, "a function inside it counts for it"


@needs_events
def test_turns_of_a_loop_are_retries(sent: Collector) -> None:
    found = [(s.attributes["retry_count"], s.attributes["retry_outcome"]) for s in sent.named("tries")]

    assert found == [(0, "first_try"), (1, "recovered"), (2, "exhausted")]


@needs_events
def test_work_in_threads_belongs_to_the_span_that_handed_it_over(sent: Collector) -> None:
    (span,) = sent.named("in_thread")

    assert sorted(s.attributes["output.value"] for s in sent.named("inner") if s.parent == span.id) == [
        '["t"]',
        "[0]",
        "[1]",
        "[2]",
    ]


@needs_events
def test_spans_of_the_program_itself_are_in_the_same_traces_and_are_sent_once(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(
        "from opentelemetry import trace\n"
        "from opentelemetry.sdk.trace import TracerProvider\n"
        "def early():\n    return 1\n"
        "early()\n"
        "trace.set_tracer_provider(TracerProvider())\n"
        "tracer = trace.get_tracer('own')\n"
        "@tracer.start_as_current_span('answer')\n"
        "def answer(q):\n    return step(q)\n"
        "def step(q):\n    return q\n"
        "print(answer('q'))\n"
    )
    emit = [planned("early"), planned("step"), planned("answer", is_there=True, start={"retry_count": 7})]
    with collector() as found:
        assert PYTHON is not None
        ran = run_watched(write_plan(tmp_path / "d", emit), [PYTHON, str(tmp_path / "app.py")], found.url)

    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "q\n", "")
    (answer,), (step,) = found.named("answer"), found.named("step")
    assert (step.parent, step.trace) == (answer.id, answer.trace)
    assert answer.attributes == {"retry_count": 7}, "what is missing is added to the span that is there"
    assert len(found.spans) == 3


@pytest.mark.slow
@needs_events
def test_content_is_left_out_on_request_and_a_changed_file_keeps_its_spans_without_marks(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("def plain(a):\n    return a\nplain('secret')\n")
    plan = write_plan(tmp_path / "d", [planned("plain", marks=[[2, "add", "swallowed_errors", None]])])
    plan.write_text(json.dumps(json.loads(plan.read_text()) | {"files": {"app.py": "0" * 64}}))
    with collector() as found:
        assert PYTHON is not None
        ran = run_watched(plan, [PYTHON, str(tmp_path / "app.py")], found.url, "--no-content")

    (span,) = found.spans
    assert not {"input.value", "output.value", "swallowed_errors"} & set(span.attributes)
    assert "app.py has changed since the design" in ran.stderr


def test_an_older_python_is_refused_with_the_way_out(tmp_path: Path) -> None:
    plan = write_plan(tmp_path / "d", [])
    if sys.version_info >= (3, 12):
        pytest.skip("this Python has the events")
    ran = run_watched(plan, [sys.executable, "-c", "print(1)"], "http://127.0.0.1:9")

    assert (ran.returncode, ran.stdout) == (2, "")
    assert "the interpreter's events need 3.12 or newer" in ran.stderr
    assert "gapwatch design REPO --instrument DIR" in ran.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--design", "nowhere", "--", "python"], "run gapwatch design REPO first"),
        (["--design", "{plan}", "--", "no-such-program-here"], "no such program"),
    ],
)
def test_what_cannot_be_started_is_told(arguments: list[str], said: str, tmp_path: Path) -> None:
    write_plan(tmp_path, [])
    given = [a.format(plan=tmp_path) for a in arguments]
    gapwatch = str(Path(sys.executable).with_name("gapwatch"))
    ran = subprocess.run([gapwatch, "instrument", *given], capture_output=True, text=True, check=False)

    assert ran.returncode != 0
    assert said in " ".join(ran.stderr.split())


def test_replies_of_clients_are_read_by_their_form() -> None:
    openai = {
        "model": "m",
        "choices": [{"finish_reason": "stop"}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 4, "cost": 0.5},
    }
    anthropic = {"model": "c", "stop_reason": "max_tokens", "usage": {"input_tokens": 1, "output_tokens": 2}}
    langchain = {
        "generations": [
            [
                {
                    "message": {
                        "usage_metadata": {"input_tokens": 5, "output_tokens": 6},
                        "response_metadata": {"finish_reason": "length", "model_name": "g"},
                    }
                }
            ]
        ]
    }

    assert client_reply(openai) == {
        "model": "m", "finish_reason": "stop", "input_tokens": 3, "output_tokens": 4, "cost_usd": 0.5
    }  # fmt: skip
    assert client_reply(anthropic)["finish_reason"] == "max_tokens"
    assert client_reply(langchain) == {"input_tokens": 5, "output_tokens": 6, "finish_reason": "length", "model": "g"}
    assert client_reply("text") == client_reply(None) == client_reply([1]) == {}


def test_results_of_searches_are_counted() -> None:
    given = ([1, 2], {"source_nodes": []}, {"documents": [["a", "b", "c"]]}, ([1], 2), "text", {"a": 1})
    assert [count_results(r) for r in given] == [2, 0, 3, 1, None, None]
    rooms, none = SimpleNamespace(objects=["a", "b"]), SimpleNamespace(objects=[])
    each = (rooms, [rooms, none], ([none, none], ["hybrid", "hybrid"]), [rooms, "other"])
    assert [count_results(r) for r in each] == [2, 2, 0, 2]
    assert [count_found(r) for r in (*each[1:], ["a"], "text")] == [2, 0, 2, 1, None]


@pytest.mark.parametrize(
    ("reply", "outcome"), [(None, "completed"), ("because", "completed"), ("", "empty"), (" \n", "empty")]
)
def test_a_stream_of_which_the_model_said_nothing_is_empty_whatever_its_pieces(reply: str | None, outcome: str) -> None:
    context = Context()
    call = WatchedCall(context, context, {"kind": "llm"}, None, True, {"stream_outcome": "of_stream"}, reply=reply)
    call.chunk({"type": "start"})
    call.settle(None, None, is_stream=True)

    assert call.notes["stream_outcome"] == outcome


def test_values_are_written_without_running_code_of_the_program() -> None:
    class Loud:
        def __init__(self) -> None:
            self.name = "x"

        def __repr__(self) -> str:
            raise AssertionError

        @property
        def never(self) -> str:
            raise AssertionError

    assert text_of_value({"a": Loud(), "b": float("nan"), 1: {2}}) == '{"b": "nan", "1": [2], "a": {"name": "x"}}'
    deep: list[object] = []
    deep.append(deep)
    assert text_of_value(deep).count("[") < 20
