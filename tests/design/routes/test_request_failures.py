"""Failures that a user gets instead of an answer: in what serves the request, and where the layers below it give up."""

from __future__ import annotations

from pathlib import Path

import pytest

from gapwatch.design.source.scan import scan_repository
from gapwatch.design.stage import Design, run_design
from tests.design.source_tree import write_tree

SERVICE = '''
import asyncio

from fastapi import FastAPI, HTTPException
from fastapi.responses import JSONResponse
from openai import OpenAI

app = FastAPI()
client = OpenAI()


class Files:
    def embed(self, text):
        """Ask for a vector."""
        try:
            return client.embeddings.create(model="m", input=text)
        except Exception as error:
            raise RuntimeError(f"embedding failed: {error}")

    def import_file(self, text, log):
        """Read a file, and report how it went."""
        try:
            vector = self.embed(text)
            log.report("DONE", vector)
            return vector
        except Exception as error:
            log.report("ERROR", str(error))
            return None


files = Files()


def ask(question: str):
    """Ask the model."""
    return client.chat.completions.create(model="m", messages=[question]).choices[0].message.content


@app.post("/query")
async def query(question: str):
    """Answer with status 200 whatever happens."""
    try:
        return JSONResponse(content={"error": "", "answer": ask(question)})
    except Exception as error:
        return JSONResponse(content={"error": f"Query failed: {error}", "answer": ""})


@app.post("/answer")
async def answer(question: str):
    """Answer with a status that says what happened."""
    try:
        return ask(question)
    except Exception as error:
        raise HTTPException(status_code=502, detail=str(error))


@app.post("/import")
async def import_text(text: str):
    """Import a text."""
    return files.import_file(text, app.state.log)


@app.get("/check-model")
async def check_model(question: str):
    """Look whether the model can be reached."""
    try:
        return JSONResponse(content={"error": "", "answer": ask(question)})
    except Exception as error:
        return JSONResponse(content={"error": f"No contact: {error}", "answer": ""})


@app.get("/settings")
async def settings():
    """Read settings, for which nobody asks a model."""
    try:
        return open("settings.json").read()
    except Exception as error:
        return {"error": str(error)}
'''


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Design:
    return run_design(scan_repository(write_tree(tmp_path_factory.mktemp("service"), {"service.py": SERVICE})))


def test_failures_are_found_where_the_user_gets_them(made: Design) -> None:
    found = {(h.symbol.rpartition(".")[2], h.kind) for h in made.hits if h.pattern == "fails_request"}

    assert found == {("query", "answer"), ("answer", "status"), ("import_file", "answer")}


def test_they_are_one_metric_of_all_endpoints(made: Design) -> None:
    (failed,) = [m for m in made.metrics if m.family == "failed_requests"]

    assert failed.spans == ["Files.import_file", "answer", "query"]
    assert (failed.severity, failed.direction_verdict) == ("page", "verified")
    others = [m for m in made.metrics if m.family in ("failure_answers", "error_rate", "swallowed_errors")]
    assert not {name for m in others for name in m.spans} & set(failed.spans), "what a user gets is counted once"


def test_its_spans_say_what_became_of_a_request(made: Design) -> None:
    planned = {p.span: p for p in made.planned if "attributes.request_outcome" in p.fields}

    assert {name: p.start["request_outcome"] for name, p in planned.items()} == dict.fromkeys(
        ("Files.import_file", "answer", "query"), "answered"
    )
    assert [m.value for m in planned["query"].function.marks if m.field == "request_outcome"] == ["failed"]
    assert not [m for m in planned["answer"].function.marks if m.field == "request_outcome"], "its exception says it"


def test_a_layer_below_that_passes_its_errors_on_gives_up_nothing(tmp_path: Path) -> None:
    source = SERVICE.replace('log.report("ERROR", str(error))\n            return None', "raise")
    found = run_design(scan_repository(write_tree(tmp_path, {"service.py": source})))

    failing = {h.symbol.rpartition(".")[2] for h in found.hits if h.pattern == "fails_request"}
    assert failing == {"query", "answer", "import_text"}, "the errors of the import leave its endpoint"


STREAM = """
import json

from fastapi import FastAPI
from openai import OpenAI
from sse_starlette import EventSourceResponse

app = FastAPI()
client = OpenAI()


def pieces(question):
    for piece in client.chat.completions.create(model="m", messages=[question], stream=True):
        yield piece.choices[0].delta.content


async def events(stream):
    try:
        async for piece in stream:
            yield {"event": "data", "data": piece}
    except Exception:
        yield {"event": "error", "data": json.dumps({"status_code": 500, "message": "Internal Server Error"})}
    yield {"event": "end"}


@app.post("/stream")
async def stream(question: str):
    return EventSourceResponse(events(pieces(question)))
"""


def test_a_stream_that_tells_of_its_failure_and_ends_in_order_is_a_failed_request(tmp_path: Path) -> None:
    made = run_design(scan_repository(write_tree(tmp_path, {"service.py": STREAM})), is_bounded=False)

    failed = [p.line for m in made.metrics if m.family == "failed_requests" for p in m.places]
    assert failed == [1 + STREAM.splitlines().index(next(x for x in STREAM.splitlines() if "Internal Server" in x))]
    # Only a reader who leaves can break such a stream off.
    watched = {s for m in made.metrics if m.family == "stream_completed" for s in m.symbols}
    assert not watched


PLAIN = """
import asyncio

from fastapi import BackgroundTasks, FastAPI, WebSocket
from openai import OpenAI

app = FastAPI()
client = OpenAI()


def ask(question: str):
    return client.chat.completions.create(model="m", messages=[question]).choices[0].message.content


def taken(question: str):
    try:
        return ask(question)
    except Exception:
        return "Sorry, that did not work."


@app.post("/ask")
async def plain(question: str):
    return ask(question)


@app.post("/later")
async def later(question: str, tasks: BackgroundTasks):
    tasks.add_task(ask, question)
    return {"status": "accepted"}


@app.websocket("/talk")
async def talk(socket: WebSocket):
    await socket.send_text(ask(await socket.receive_text()))


@app.get("/rows")
async def rows():
    return open("rows.json").read()
"""


def test_a_request_whose_errors_nothing_takes_fails_by_them(tmp_path: Path) -> None:
    made = run_design(scan_repository(write_tree(tmp_path, {"service.py": PLAIN})))

    # What runs later, too, has its failures where it is waited for; who talks may leave, and rows need no model.
    assert {(h.symbol, h.kind) for h in made.hits if h.pattern == "fails_request"} == {("service.plain", "raises")}
    (failed,) = [m for m in made.metrics if m.family == "failed_requests"]
    assert failed.symbols == ["service.plain"]


FILES = """
import chromadb
from fastapi import BackgroundTasks, FastAPI
from openai import OpenAI

app = FastAPI()
client = OpenAI()
chunks = chromadb.Client().get_or_create_collection("chunks")


def store(text: str):
    vector = client.embeddings.create(model="m", input=text).data[0].embedding
    chunks.add(ids=["1"], documents=[text], embeddings=[vector])


@app.post("/upload")
async def upload(text: str):
    store(text)


@app.post("/crawl")
async def crawl(url: str, tasks: BackgroundTasks):
    tasks.add_task(store_page, url)


def store_page(url: str):
    store(open(url).read())


@app.post("/search")
async def search(question: str):
    return chunks.query(query_texts=[question], n_results=3)["documents"][0]


@app.get("/rows")
async def rows():
    return open("rows.json").read()
"""


def test_requests_that_search_or_take_documents_in_are_counted_with_those_that_ask(tmp_path: Path) -> None:
    made = run_design(scan_repository(write_tree(tmp_path, {"service.py": FILES})))

    found = {h.symbol.rpartition(".")[2] for h in made.hits if h.pattern == "fails_request"}
    assert found == {"search", "upload", "store_page"}, "a task after the answer, too"


TAKEN = """
import typer
from openai import OpenAI

app = typer.Typer()


def told(question: str):
    try:
        return OpenAI().chat.completions.create(model="m", messages=[question]).choices[0].message.content
    except Exception as error:
        return f"That did not work: {error}"


@app.command()
def ask(question: str):
    print(told(question))
"""


def test_errors_do_not_leave_a_run_whose_work_takes_each_of_them(tmp_path: Path) -> None:
    made = run_design(scan_repository(write_tree(tmp_path, {"app.py": TAKEN})))

    assert {(h.symbol, h.kind) for h in made.hits if h.pattern == "fails_run"} == {("app.told", "answer")}


HANDED_ON = """
from http.server import BaseHTTPRequestHandler

from openai import OpenAI


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        if self.path == "/chat":
            self.chat()
        elif self.path == "/title":
            self.title()
        else:
            self.send({"error": "not found"}, 404)

    def chat(self):
        try:
            self.send({"answer": self.ask("chat")}, 200)
        except Exception as error:
            self.send({"error": str(error)}, 500)

    def title(self):
        self.send({"title": self.ask("title")}, 200)

    def ask(self, what):
        return OpenAI().chat.completions.create(model="m", messages=[what]).choices[0].message.content

    def send(self, data, status):
        self.send_response(status)
        self.wfile.write(str(data).encode())
"""


def test_what_a_handler_hands_its_requests_to_fails_for_it(tmp_path: Path) -> None:
    made = run_design(scan_repository(write_tree(tmp_path, {"server.py": HANDED_ON})))

    found = {(h.symbol.rpartition(".")[2], h.kind) for h in made.hits if h.pattern == "fails_request"}
    assert found == {("chat", "answer"), ("title", "raises")}
