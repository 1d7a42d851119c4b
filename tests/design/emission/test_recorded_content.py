"""What spans hold of a run: texts inside objects, passages deep in a state, what a model was asked, how runs end."""

from __future__ import annotations

import json
import sqlite3
import subprocess
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from gapwatch.design.emission.client_calls import client_calls
from gapwatch.design.emission.interpreter.given_pieces import GivenPieces
from gapwatch.design.emission.interpreter.model_replies import client_reply, reply_text
from gapwatch.design.emission.interpreter.plain_values import MOST_CHARACTERS, text_of_value
from gapwatch.design.emission.patch import make_patch
from gapwatch.design.emission.recorded_values import written
from gapwatch.design.source.scan import scan_repository
from gapwatch.design.stage import run_design
from tests.design.emission.watched_programs import (
    Collector,
    collector,
    planned,
    python_with_events,
    run_patched,
    run_watched,
    write_plan,
)
from tests.design.source_tree import write_tree

PYTHON = python_with_events()
needs_events = pytest.mark.skipif(PYTHON is None, reason="no Python of 3.12 or newer on this machine")


class Kind(Enum):
    CARD = "card"


@dataclass
class Passage:
    page_content: str
    embedding: list[float] = field(default_factory=lambda: [0.5] * 40)
    metadata: dict[str, str] = field(default_factory=lambda: {"source": "manual.pdf"})
    excluded: list[str] = field(default_factory=lambda: ["x"] * 9)


@dataclass(slots=True)
class Node:
    node: Passage
    score: float


class Score(float):
    pass


class Pair(NamedTuple):
    first: str
    second: Kind


@dataclass
class Event:
    type: str
    data: Any = None


@dataclass
class LlmChunk:
    content: str | None = None
    finish_reason: str | None = None


@dataclass
class Part:
    rich: Any
    simple: Any = None


def test_passages_deep_in_a_state_are_written_by_their_text() -> None:
    state: Any = [Node(Passage("Pumps need oil."), 0.7)]
    for level in range(7):
        state = {f"level_{level}": state}
    said = text_of_value(state)

    assert "Pumps need oil." in said
    assert "manual.pdf" in said
    assert "<" not in said
    assert "0.5" not in said, "nobody reads a vector"


def test_all_that_is_written_shares_one_room() -> None:
    said = text_of_value([{"text": "x" * 500, "rest": list(range(9))} for _ in range(100)])

    assert len(said) <= MOST_CHARACTERS
    graph = Event("graph", ["node" * 9] * 99 + [["edge" * 99] * 99])
    assert "Why?" in text_of_value({"app": graph, "asked": [{"role": "user", "content": "Why?"}]})
    assert list(json.loads(text_of_value({"app": Event("a"), "asked": "b"}))) == ["asked", "app"]
    assert text_of_value(["a" * MOST_CHARACTERS, "b" * 9]) != text_of_value("a" * MOST_CHARACTERS)


def test_of_too_much_the_longest_texts_are_cut_in_their_middle() -> None:
    """The message that a guardrail judges stands behind a long context, the newest one behind all others."""
    messages = [{"role": "user", "content": "x" * 30_000}, {"role": "user", "content": "Where is my bag?"}]
    said = text_of_value({"context": "c" * 46_000, "messages": messages, "turn": 3})
    read = json.loads(said)

    assert len(said) <= MOST_CHARACTERS
    assert list(read) == ["context", "messages", "turn"]
    assert (read["messages"][-1]["content"], read["turn"]) == ("Where is my bag?", 3)
    assert all(
        "characters left out" in text and len(text) > 8_000
        for text in (read["context"], read["messages"][0]["content"])
    )
    steps = text_of_value([f"step {n} {'y' * 300}" for n in range(400)])
    assert "step 399 " in steps
    assert "step 0 " in steps
    assert len(steps) <= MOST_CHARACTERS


def test_members_of_slots_names_and_enumerations_are_written_and_secrets_are_not() -> None:
    assert json.loads(text_of_value(Pair("a", Kind.CARD))) == {"first": "a", "second": "card"}
    assert text_of_value({"api_key": "sk-1", "key": "k", "api_key_index": 2}) == (
        '{"api_key": "[secret]", "key": "k", "api_key_index": 2}'
    )
    assert text_of_value([Score(0.5), Score("inf")]) == '[0.5, "inf"]'
    assert text_of_value({"v": [1.0] * 32}).count("1.0") == 32, "a short list of numbers is no vector"


def _pieces(*values: Any) -> GivenPieces:
    made = GivenPieces()
    for second, value in enumerate(values):
        made.add(value, float(second))
    return made


def test_texts_inside_of_pieces_are_what_a_generator_said() -> None:
    cases: list[tuple[list[Any], str]] = [
        ([LlmChunk("One "), LlmChunk("two"), LlmChunk(None, "stop")], "One two"),
        ([Part(Event("status", {"state": "busy"})), Part(LlmChunk("Hi."), {"text": "Hi."})], "Hi."),
        ([Part({"content": "a"}), Part({"content": "b"})], "a\nb"),
        ([Event("delta", {"delta": "ha"}), Event("delta", {"delta": "ha"}), Event("end", {"text": "haha"})], "haha"),
        ([Event("x.function_call.delta", {"type": "function_call", "delta": "{}"}), {"text": "yes"}], "yes"),
        (["run-17", [{"type": "human", "content": "q"}, {"content": "An"}], [{"content": "Answer"}]], "Answer"),
        ([[{"type": "ai", "content": "old"}, {"type": "human", "content": "q"}, {"role": "ai", "content": "x"}]], "x"),
        ([[{"type": "tool", "content": "sunny"}], [{"type": "ai", "content": "It is."}]], "It is."),
        ([{"sources": [{"text": "passage"}]}, "An", "swer"], "Answer"),
        ([{"choices": [{"delta": {"content": t}}]} for t in ("x", "y")], "xy"),
        ([{"event": "message", "data": "one"}], "one"),
        ([Event("a"), Event("b")], '{"type": "a", "data": null}\n{"type": "b", "data": null}'),
        ([b"a", "b"], "ab"),
        ([], ""),
    ]  # fmt: skip

    assert [_pieces(*values).text() for values, _ in cases] == [text for _, text in cases]


def test_the_first_piece_that_says_something_is_the_first_chunk() -> None:
    assert _pieces("run-17", Event("start"), LlmChunk("a"), LlmChunk("b")).first_said() == 2
    assert _pieces({"sources": [{"text": "p"}]}, "a", "b").first_said() == 1
    assert (_pieces(Event("start")).first_said(), _pieces().first_said()) == (0, None)


def test_a_batch_has_the_worst_reason_all_tokens_and_all_texts() -> None:
    def generation(text: str, reason: str) -> list[Any]:
        usage = {"input_tokens": 2, "output_tokens": 3}
        return [{"message": {"content": text, "usage_metadata": usage, "response_metadata": {"finish_reason": reason}}}]

    batch = {"generations": [generation("a", "stop"), generation("b", "length"), generation("c", "stop")]}
    assert client_reply(batch) == {"input_tokens": 6, "output_tokens": 9, "finish_reason": "length"}
    assert reply_text(batch) == "a\n\nb\n\nc"


def test_what_a_library_got_is_in_its_reply() -> None:
    got = {"model": "m", "choices": [{"finish_reason": "stop"}], "usage": {"prompt_tokens": 3, "completion_tokens": 4}}
    reply = {"message": {"role": "assistant", "blocks": [{"text": "yes"}]}, "raw": got}
    whole = {"model": "m", "finish_reason": "stop", "input_tokens": 3, "output_tokens": 4}

    assert (client_reply(reply), reply_text(reply)) == (whole, "yes")
    assert (client_reply({"text": "yes", "raw": got}), reply_text({"text": "yes", "raw": got})) == (whole, "yes")
    assert client_reply({"raw": {"a": 1}, "parsed": None}) == {}


LIBRARY = """\
import asyncio
from types import SimpleNamespace as N

class Omit:
    def __init__(self):
        self.__dict__["__module__"] = "openai"

class Completions:
    def create(self, messages, reason="stop", prompt=Omit()):
        message = N(content=messages[0]["content"].upper(), tool_calls=None)
        return N(model="m", choices=[N(finish_reason=reason, message=message)], usage=None)

class AsyncCompletions:
    async def create(self, messages, reason="stop"):
        await asyncio.sleep(0.01)
        return reply(messages, reason)

def reply(messages, reason):
    message = N(content=messages[0]["content"].upper(), tool_calls=None)
    return N(model="m", choices=[N(finish_reason=reason, message=message)], usage=None)
"""
SEARCH = """\
from types import SimpleNamespace as N

class BaseRetriever:
    def invoke(self, input):
        return [N(page_content="Pumps need oil.", metadata={"source": "a.pdf"})]

class Passages(BaseRetriever): pass
"""
PROGRAM = """\
import asyncio
from types import SimpleNamespace as N
from langchain_core.retrievers import Passages
from openai.resources.chat.completions.completions import AsyncCompletions, Completions

class Talk:
    def __init__(self, *said):
        self.messages = [{"role": "user", "content": text} for text in said]
    def ask(self, stream=False, most=3):
        return {"reply": Completions().create(messages=self.messages)}
    def tell(self, text):
        Completions().create(messages=self.messages)
        return Completions().create(messages=[{"role": "user", "content": f"passages for {text}"}]) and None

async def both():
    asked = [AsyncCompletions().create([{"content": t}], r) for t, r in (("a", "length"), ("b", "stop"))]
    return await asyncio.gather(*asked) and None

def again():
    Completions().create([{"content": "a"}], "length")
    Completions().create([{"content": "b"}], "stop")

def may_ask(texts):
    replies = []
    for text in texts:
        replies.append(Completions().create([{"content": text}]))
    return None

def hands_on():
    return {"reply": asks()}["reply"]

def asks():
    return Completions().create([{"content": "a"}])

def components(n):
    for i in range(n):
        yield N(kind="card", simple=N(text=f"card {i}"))

def chats(text):
    return {"found": len(Passages().invoke(text))}

def searches(text):
    return Passages().invoke(text)

def responds():
    return N(body_iterator=components(2))

list(responds().body_iterator)
chats("pumps")
searches("pumps")
Talk("why?").ask()
Talk("why?").tell("how?")
may_ask([])
may_ask([""])
hands_on()
asyncio.run(both())
again()
list(components(2))
left = components(3)
next(left)
left.close()
del left
"""


def _line(text: str) -> int:
    return 1 + next(i for i, line in enumerate(PROGRAM.splitlines()) if text in line)


@pytest.fixture(scope="module")
def sent(tmp_path_factory: pytest.TempPathFactory) -> Collector:
    """Return the spans of the program."""
    folder = tmp_path_factory.mktemp("content")
    path = "openai/resources/chat/completions"
    parts = ("openai", "openai/resources", "openai/resources/chat", path)
    files = {f"{p}/__init__.py": "" for p in (*parts, "langchain_core")} | {"langchain_core/retrievers.py": SEARCH}
    write_tree(folder, files | {f"{path}/completions.py": LIBRARY, "app.py": PROGRAM})
    model: dict[str, Any] = {"kind": "llm", "reads_reply": True}
    emit = [
        planned("Talk.ask", **model),
        planned("Talk.tell", start={"model_prompt": None}, **model),
        planned("both", **model),
        planned("again", **model),
        planned("hands_on"),
        planned("may_ask", marks=[[_line("replies.append("), "reply", "reply", "create"]], **model),
        planned("chats", kind="llm"),
        planned("searches", kind="retrieval", start={"retrieved_count": "of_result"}),
        planned("asks", **model),
        planned("components"),
        planned("responds", start={"first_chunk_seconds": "of_response"}),
    ]
    plan = write_plan(folder / "design", emit)
    plan.write_text(json.dumps(json.loads(plan.read_text()) | {"clients": client_calls()}))
    with collector() as found:
        assert PYTHON is not None
        ran = run_watched(plan, [PYTHON, str(folder / "app.py")], found.url)
        assert (ran.returncode, ran.stderr) == (0, "")
    return found


@needs_events
def test_what_a_method_asks_is_its_input_where_no_argument_says_it(sent: Collector) -> None:
    (ask,), (tell,) = sent.named("Talk.ask"), sent.named("Talk.tell")

    assert "why?" in ask.attributes["input.value"]
    assert json.loads(tell.attributes["input.value"]) == {"text": "how?"}
    assert "passages for how?" in tell.attributes["model_prompt"], "what the answer must rest on"


@needs_events
def test_calls_at_the_same_time_are_a_batch_and_those_one_after_the_other_are_none(sent: Collector) -> None:
    (both,), (again,) = sent.named("both"), sent.named("again")

    assert both.attributes["gen_ai.response.finish_reasons"] == ["length"]
    assert sorted(both.attributes["output.value"].split()) == ["A", "B"]
    assert again.attributes["gen_ai.response.finish_reasons"] == ["stop"]
    assert again.attributes["output.value"] == "B"


@needs_events
def test_passages_of_a_search_inside_a_library_are_a_span_and_those_of_a_planned_search_none_more(
    sent: Collector,
) -> None:
    (chats,), (searches,) = sent.named("chats"), sent.named("searches")
    (found,) = sent.named("BaseRetriever.invoke")

    assert (found.parent, found.attributes["input.value"]) == (chats.id, "pumps")
    assert found.attributes["retrieved_count"] == searches.attributes["retrieved_count"] == 1
    passages = [{"page_content": "Pumps need oil.", "metadata": {"source": "a.pdf"}}]
    assert json.loads(found.attributes["output.value"]) == json.loads(searches.attributes["output.value"]) == passages


@needs_events
def test_who_had_nothing_to_ask_has_no_missing_answer(sent: Collector) -> None:
    assert [s.attributes["output.value"] for s in sent.named("may_ask")] == ["null", ""]


@needs_events
def test_who_hands_a_reply_on_did_not_ask(sent: Collector) -> None:
    (hands_on,), (asks,) = sent.named("hands_on"), sent.named("asks")

    assert "gen_ai.response.finish_reasons" in asks.attributes
    assert "gen_ai.response.finish_reasons" not in hands_on.attributes


@needs_events
def test_a_stream_of_components_has_their_texts_also_where_its_reader_left(sent: Collector) -> None:
    assert [s.attributes["output.value"] for s in sent.named("components")[1:]] == ["card 0\ncard 1", "card 0"]


@needs_events
def test_a_generator_that_another_function_hands_on_keeps_its_own_span(sent: Collector) -> None:
    (responds,), components = sent.named("responds"), sent.named("components")

    assert components[0].parent == responds.id
    assert components[0].attributes["output.value"] == responds.attributes["output.value"] == "card 0\ncard 1"


AGENT = """\
from openai import OpenAI

client = OpenAI(api_key="k")


def work(task, most=3):
    if task == "refused":
        return None
    if task == "broken":
        raise ValueError(task)
    messages = [{"role": "user", "content": task}]
    for turn in range(most):
        reply = client.chat.completions.create(model="m", messages=messages)
        if not reply.choices[0].message.tool_calls:
            return reply.choices[0].message.content
        for call in reply.choices[0].message.tool_calls:
            messages.append({"role": "tool", "content": run_tool(call)})
    return None


def run_tool(call):
    return str(call)
"""
RUNS = """
from types import SimpleNamespace as N
import sys
def create(model, messages):
    calls = [1] if messages[0]["content"] == "forever" else None
    return N(choices=[N(message=N(content="x", tool_calls=calls), finish_reason="stop")])
sys.modules["openai"] = N(OpenAI=lambda api_key: N(chat=N(completions=N(create=create))))
import agent
for task in ("refused", "broken", "forever", "fine"):
    try:
        agent.work(task)
    except ValueError:
        pass
"""


def _ends(found: Collector) -> list[str | None]:
    return [s.attributes.get("agent_exit") for s in found.named("work")]


@needs_events
def test_a_run_that_ends_before_its_loop_did_not_end_by_its_limit(tmp_path: Path) -> None:
    write_tree(tmp_path / "app", {"agent.py": AGENT})
    plan = write_plan(tmp_path / "design", repository=tmp_path / "app")
    (tmp_path / "app/program.py").write_text(RUNS)
    with collector() as found:
        assert PYTHON is not None
        ran = run_watched(plan, [PYTHON, str(tmp_path / "app/program.py")], found.url)
        assert (ran.returncode, ran.stderr) == (0, "")

    assert _ends(found) == [None, "error", "limit", "done"]


def test_a_patched_run_that_ends_before_its_loop_did_not_either(tmp_path: Path) -> None:
    made = run_design(scan_repository(write_tree(tmp_path, {"agent.py": AGENT})))
    (tmp_path / "p.patch").write_text(make_patch(tmp_path, made.planned, []).text)
    subprocess.run(["git", "apply", "p.patch"], cwd=tmp_path, check=True, timeout=20)
    cards = (
        "import span_recording\n"
        "@span_recording.recorded('cards')\n"
        "def cards():\n"
        "    yield N(kind='card', simple=N(text='one'))\n"
        "    yield N(kind='end')\n"
        "    yield N(content='two')\n"
        "list(cards())\n"
        "@span_recording.recorded('got', kind='llm')\n"
        "def got():\n"
        "    return N(text='x', raw=N(usage=N(prompt_tokens=7)))\n"
        "got()\n"
    )
    found = run_patched(RUNS + cards, tmp_path)

    assert _ends(found) == [None, "error", "limit", "done"]
    assert found.named("got")[0].attributes["gen_ai.usage.input_tokens"] == 7
    assert found.named("cards")[0].attributes["output.value"] == "onetwo"


class Chunk:
    """A document of a library that says no more of itself than its class."""

    def __init__(self, text: str) -> None:
        self.text, self.vector, self.api_key = text, [0.5] * 40, "sk-1"


class Hit:
    def __init__(self, chunk: Chunk) -> None:
        self.chunk, self.score = chunk, 0.7


class Response:
    def __init__(self, found: list[Any]) -> None:
        self._data_store = {"matches": found}


class Client:
    def __init__(self) -> None:
        self.chunks, self.timeout = [[Client] * 3] * 3, 9


def test_a_patch_writes_the_texts_of_what_a_search_found() -> None:
    said = written([Hit(Chunk("Pumps need oil.")), {"hit": Response([Chunk("Valves rust.")])}])

    assert json.loads(said)[0] == {"chunk": {"text": "Pumps need oil."}, "score": 0.7}
    assert "Valves rust." in said
    assert "0.5" not in said, "nobody reads a vector"
    assert "sk-1" not in said
    assert written({"query": "Why?", "items": [{"vector": [0.5] * 400}]}) == (
        '{"query": "Why?", "items": [{"vector": "<400 numbers>"}]}'
    )
    assert "Client object" in written({"client": Client(), "query": "Why?"}), "an object without a text is no passage"


def test_a_patch_writes_no_more_than_its_most_of_many_objects() -> None:
    circle = Hit(Chunk("Pumps need oil. " * 3_000))
    circle.chunk.text, circle.score = "x " * 9_000, circle  # type: ignore[assignment]

    assert len(written([circle] * 90)) <= MOST_CHARACTERS


def test_rows_of_a_database_are_written_by_their_columns() -> None:
    store = sqlite3.connect(":memory:")
    store.row_factory = sqlite3.Row
    row = store.execute("SELECT 7 AS id, 'Pumps need oil.' AS body").fetchone()

    for write in (text_of_value, written):
        assert json.loads(write([row])) == [{"id": 7, "body": "Pumps need oil."}]


def test_what_a_response_holds_apart_is_written() -> None:
    assert json.loads(text_of_value(Response([{"text": "Pumps need oil."}]))) == {
        "matches": [{"text": "Pumps need oil."}]
    }


def test_what_a_plain_result_says_is_written_be_it_one_word() -> None:
    class Found:
        def __init__(self) -> None:
            self.title, self.snippet, self.load = "Pumps", "oil", print

    class Slotted:
        __slots__ = ("result",)

        def __init__(self) -> None:
            self.result = 42

    class Derived(Slotted):
        __slots__ = ()

    for write in (text_of_value, written):
        first, *others = json.loads(write([Found(), Slotted(), Derived()]))
        assert (first["title"], first["snippet"]) == ("Pumps", "oil")
        assert others == [{"result": 42}, {"result": 42}]
