"""Components: what is one, what belongs to it, how it is called, and what is left out with the reason."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gapwatch.design.source.scan import scan_repository
from gapwatch.design.stage import Design, run_design
from tests.design.source_tree import write_tree

CLIENT = """
from openai import OpenAI

class ModelClient:
    def __init__(self):
        self.client = OpenAI()

    def complete(self, prompt):
        return self.client.chat.completions.create(model="m", messages=[prompt])
"""


def _made(root: Path, files: dict[str, str]) -> Design:
    return run_design(scan_repository(write_tree(root, files)))


def _held(design: Design) -> dict[str, set[str]]:
    """Return the last names of the functions that each component holds, methods with their class."""
    functions = {s.id for s in design.graph.symbols if s.kind == "function"}
    return {c.id: {s.rpartition(".")[2] for s in c.symbols if s in functions} for c in design.architecture.components}


def test_functions_that_ask_through_a_client_are_components_with_their_helpers(tmp_path: Path) -> None:
    answer = """
    from client import ModelClient
    client = ModelClient()

    def rephrase(question, history):
        return client.complete(f"Rephrase {question} {_lines(history)}")

    def _lines(history):
        return "\\n".join(history)

    def answer(question, passages):
        return client.complete(f"Answer {question} from {format_passages(passages)}")

    def format_passages(passages):
        return " ".join(passages)
    """
    made = _made(tmp_path, {"client.py": CLIENT, "answering.py": re.sub(r"(?m)^ {4}", "", answer)})

    assert set(map(frozenset, _held(made).values())) == {
        frozenset({"__init__", "complete"}),
        frozenset({"rephrase", "_lines"}),
        frozenset({"answer", "format_passages"}),
    }


def test_endpoints_are_in_the_picture_and_those_without_a_model_are_one(tmp_path: Path) -> None:
    service = """
from fastapi import FastAPI
from client import ModelClient
app = FastAPI()

@app.post("/chat")
def chat(question: str):
    return ModelClient().complete(question)

@app.get("/health")
def health():
    return "ok"

@app.get("/version")
def version():
    return "1"
"""
    made = _made(tmp_path, {"client.py": CLIENT, "service.py": service})

    held = _held(made)
    assert {"chat"} in held.values()
    assert {"health", "version"} in held.values()
    assert {(e.src, e.dst) for e in made.architecture.edges} == {("chat_endpoint", "model_client")}


def test_a_loop_of_model_and_tools_is_one_agent(tmp_path: Path) -> None:
    agent = """
from langchain_openai import ChatOpenAI
from langgraph.graph import StateGraph
from langgraph.prebuilt import ToolNode

def call_model(state):
    return ChatOpenAI().invoke(state)

def is_done(state):
    return "end"

graph = StateGraph(dict)
graph.add_node("model", call_model)
graph.add_node("tools", ToolNode([]))
graph.add_conditional_edges("model", is_done)
"""
    made = _made(tmp_path, {"travel_assistant.py": agent})

    assert _held(made) == {"travel_assistant": {"call_model", "is_done"}}


def test_nodes_with_prompts_of_their_own_are_components(tmp_path: Path) -> None:
    pipeline = """
from langchain_openai import ChatOpenAI
from langgraph.graph import StateGraph

def extract_date(state):
    return ChatOpenAI().invoke("Which date? " + state)

def write_reply(state):
    return ChatOpenAI().invoke("Reply to " + state)

graph = StateGraph(dict)
graph.add_node("extract", extract_date)
graph.add_node("write", write_reply)
"""
    made = _made(tmp_path, {"dates.py": pipeline})

    assert _held(made) == {"extract_date": {"extract_date"}, "write_reply": {"write_reply"}}


def test_tools_and_prompts_of_an_agent_are_one_component_called_by_its_variable(tmp_path: Path) -> None:
    agents = """
from pydantic_ai import Agent

refund_agent = Agent("m")
stock_agent = Agent("m")

@refund_agent.system_prompt
def rules():
    return "Be kind."

@refund_agent.tool
def find_order(ctx, number):
    return number

@stock_agent.tool
def count_items(ctx, name):
    return name
"""
    made = _made(tmp_path, {"agents.py": agents})

    assert _held(made) == {"refund_agent": {"rules", "find_order"}, "stock_agent": {"count_items"}}


def test_subclasses_that_differ_in_a_prompt_are_one_component(tmp_path: Path) -> None:
    writers = """
from client import ModelClient

class Writer:
    def write(self, text):
        return ModelClient().complete(self.prompt() + text)
    def prompt(self):
        raise NotImplementedError

class Poet(Writer):
    def prompt(self):
        return "A poem: "

class Lawyer(Writer):
    def prompt(self):
        return "A contract: "
"""
    made = _made(tmp_path, {"client.py": CLIENT, "writers.py": writers})

    assert {"write", "prompt"} in _held(made).values()
    assert len(made.architecture.components) == 2


@pytest.mark.parametrize(
    "path", ["utils.py", "app/utils/llm_utils.py", "helpers.py", "llm.py", "main.py", "default.py"]
)
def test_a_name_says_what_its_function_does(path: str, tmp_path: Path) -> None:
    source = CLIENT + "\ndef summarise_ticket(text):\n    return ModelClient().complete('Summarise ' + text)\n"

    made = _made(tmp_path, {path: source, "other/" + path: source})

    names = [c.id for c in made.architecture.components]
    assert len(set(names)) == len(names)
    assert not [
        n for n in names if re.search(r"(_utils?|_helpers|_common|_llm|_\d+)$|^(utils|helpers|common|llm|default)$", n)
    ]


def test_a_file_with_patterns_is_in_a_component_or_told_with_the_reason(tmp_path: Path) -> None:
    lonely = (
        "import requests\ndef fetch(u):\n    try:\n        return requests.get(u)\n    except OSError:\n        pass\n"
    )
    used = "import client\nimport tools\n\ndef answer(q):\n    return client.ModelClient().complete(tools.read(q))\n"
    tools = "def read(path):\n    try:\n        return open(path).read()\n    except OSError:\n        return ''\n"

    made = _made(tmp_path, {"client.py": CLIENT, "answering.py": used, "tools.py": tools, "lonely.py": lonely})

    held = {path for c in made.architecture.components for path in c.files}
    told = {m.path: m.why for m in made.architecture.missing}
    assert {h.path for h in made.hits} <= held | set(told)
    assert told == {"lonely.py": "has patterns, but nothing calls it"}


def test_confidence_falls_where_a_component_has_no_edge(tmp_path: Path) -> None:
    apart = CLIENT.replace("ModelClient", "OtherClient")

    made = _made(tmp_path, {"client.py": CLIENT, "apart.py": apart})

    assert made.architecture.edges == []
    assert all(c.confidence <= 0.7 for c in made.architecture.components)
    assert made.architecture.overall_confidence <= 0.7


def test_who_calls_a_plain_function_of_a_file_does_not_use_the_component_that_the_file_holds(tmp_path: Path) -> None:
    client = "import datetime\n" + CLIENT + "\ndef today():\n    return str(datetime.date.today())\n"
    report = """
from openai import OpenAI
from client import ModelClient, today

def write_report(topic):
    return OpenAI().chat.completions.create(model="m", messages=[{"role": "user", "content": topic + today()}])

def write_summary(topic):
    return ModelClient().complete(topic + today())
"""
    made = _made(tmp_path, {"client.py": client, "report.py": report})

    evidence = [line for e in made.architecture.edges for line in e.evidence]
    assert any("ModelClient.complete" in line for line in evidence)
    assert not any("today" in line for line in evidence)


def test_a_way_in_without_work_or_that_hands_on_to_another_belongs_to_the_way_in_of_its_file(tmp_path: Path) -> None:
    service = """
from client import ModelClient
from fastapi import FastAPI

app = FastAPI()
client = ModelClient()


@app.post("/ask")
def ask(question: str):
    return client.complete(f"Answer {question} in one sentence.")


@app.post("/ask-json")
def ask_json(body: dict):
    return ask(body["question"])


@app.get("/")
def greet():
    return {"status": "up"}
"""
    made = _made(tmp_path, {"client.py": CLIENT, "service.py": service})

    assert {"ask", "ask_json", "greet"} in _held(made).values()


def test_a_class_that_one_class_of_its_file_calls_is_a_part_of_it(tmp_path: Path) -> None:
    index = """
import sqlite3
from client import ModelClient


class IndexReader:
    def read(self, words):
        return sqlite3.connect("index.db").execute("select text from parts where word in (?)", words).fetchall()


class Index:
    def __init__(self):
        self.reader, self.client = IndexReader(), ModelClient()

    def answer(self, question):
        return self.client.complete(f"Answer {question} from {self.reader.read(question.split())}.")
"""
    made = _made(tmp_path, {"client.py": CLIENT, "index.py": index})

    assert {"__init__", "answer", "read"} in _held(made).values()


def test_classes_of_one_kind_are_called_by_the_kind(tmp_path: Path) -> None:
    one = "import httpx\n\nclass {name}SearchProvider:\n    def search(self, query):\n        return httpx.get('https://{name}.example')\n"
    all_of_them = "\n".join(
        one.format(name=name).replace("import httpx\n", "") for name in ("Bing", "Serper", "Tavily")
    )
    use = "from providers import BingSearchProvider, SerperSearchProvider, TavilySearchProvider\n" + (
        "def answer(question):\n    found = [p().search(question) for p in\n"
        "             (BingSearchProvider, SerperSearchProvider, TavilySearchProvider)]\n"
        "    return ModelClient().complete(f'{question} {found}')\n"
    )
    files = {
        "client.py": CLIENT,
        "providers.py": f"import httpx\n{all_of_them}",
        "main.py": f"from client import ModelClient\n{use}",
    }
    made = _made(tmp_path, files)

    assert "search_providers" in {c.id for c in made.architecture.components}


def test_many_endpoints_of_a_file_are_named_for_it_and_those_that_reach_a_model_stand_alone(tmp_path: Path) -> None:
    listed = "".join(
        f'@app.get("/{n}")\ndef list_{n}():\n    return store.execute("{n}")\n\n' for n in ("a", "b", "c", "d", "e")
    )
    orders = (
        "import sqlite3\nfrom fastapi import FastAPI\nfrom client import ModelClient\n\n"
        f'app = FastAPI()\nstore = sqlite3.connect("x")\n\n{listed}'
        '@app.post("/explain")\ndef explain(question):\n    return ModelClient().complete(question)\n'
    )
    made = _made(tmp_path, {"client.py": CLIENT, "orders.py": orders})

    held = _held(made)
    assert held["orders_endpoints"] == {f"list_{n}" for n in ("a", "b", "c", "d", "e")}
    assert held["explain_endpoint"] == {"explain"}


def test_many_functions_of_a_file_that_is_named_like_any_other_are_named_for_its_folder(tmp_path: Path) -> None:
    names = ("read_user", "read_order", "save_user", "save_order", "drop_order")
    common = "import sqlite3\nstore = sqlite3.connect('x')\n" + "".join(
        f"def {n}(key):\n    return store.execute('{n}', key)\n" for n in names
    )
    asking = (
        "from client import ModelClient\nfrom shared.common_fn import *\n\n"
        "def explain(key):\n    return ModelClient().complete((read_user(key), read_order(key), save_user(key)))\n"
    )
    made = _made(tmp_path, {"client.py": CLIENT, "shared/common_fn.py": common, "asking.py": asking})

    assert set(names) <= _held(made)["shared_functions"]


def test_a_long_name_ends_with_a_word(tmp_path: Path) -> None:
    name = "extract_knowledge_graph_from_uploaded_file"
    source = f"from client import ModelClient\ndef {name}(x):\n    return ModelClient().complete(x)\n"

    assert "extract_knowledge_graph_from_uploaded" in _held(_made(tmp_path, {"client.py": CLIENT, "graphs.py": source}))


def test_each_tool_of_an_agent_is_a_component_beside_what_the_tools_share(tmp_path: Path) -> None:
    tools = """
import requests
from langchain_core.tools import tool


def fetch_articles():
    return requests.get("https://support.example/articles").json()


@tool
def search_articles(query):
    return [a for a in fetch_articles() if query in a["title"]]


@tool
def read_article(number):
    return fetch_articles()[number]
"""
    agent = """
from langchain.agents import create_agent
from tools import read_article, search_articles

agent = create_agent("openai:gpt-4o", tools=[search_articles, read_article])


def answer(question):
    return agent.invoke({"messages": [question]})
"""
    made = _made(tmp_path, {"tools.py": tools, "m.py": agent})

    held = list(_held(made).values())
    assert all({name} in held for name in ("search_articles", "read_article", "fetch_articles"))
    assert {"answer"} in held
    assert {c.kind for c in made.architecture.components if "m.answer" in c.symbols} == {"agent"}


_PROVIDER = """
from {library} import {client}

class {name}:
    def __init__(self):
        self.client = {client}()

    def inference(self, model, prompt):
        return self.client.chat.completions.create(
            model=model, messages=[{{"role": "user", "content": prompt}}]
        ).choices[0].message.content
"""


def _providers(prompt: str = "prompt") -> dict[str, str]:
    providers = (("openai", "OpenAI"), ("groq", "Groq"), ("openai", "AzureOpenAI"))
    files = {
        f"llm/{library}_{n}.py": _PROVIDER.format(library=library, client=client, name=f"{client}Way")
        for n, (library, client) in enumerate(providers)
    }
    return {path: text.replace('"content": prompt', f'"content": {prompt}') for path, text in files.items()}


def test_clients_of_three_providers_beside_each_other_are_one_component(tmp_path: Path) -> None:
    together = _held(_made(tmp_path / "a", _providers()))
    two = _held(_made(tmp_path / "b", dict(list(_providers().items())[:2])))

    assert together == {"model_clients": {"__init__", "inference"}}
    assert len(two) == 2


def test_classes_that_make_a_prompt_of_their_own_stay_apart(tmp_path: Path) -> None:
    own = repr("Summarise what the customer wants in one sentence, name the product, and say how urgent it is. " * 2)

    steps = {path: text.replace("prompt", "question") for path, text in _providers().items()}

    assert len(_held(_made(tmp_path / "a", _providers(f"{own} + prompt")))) == 3
    assert len(_held(_made(tmp_path / "b", steps))) == 3


def test_readers_of_three_sources_are_one_component(tmp_path: Path) -> None:
    reader = "import requests\n\ndef get_documents_from_{n}(url):\n    return requests.get(url + '/{n}').json()\n"
    files = {f"sources/{n}.py": reader.format(n=n) for n in ("wiki", "tickets", "pages")}
    asks = "".join(f"from sources.{n} import get_documents_from_{n}\n" for n in ("wiki", "tickets", "pages"))
    calls = " + ".join(f"get_documents_from_{n}(url)" for n in ("wiki", "tickets", "pages"))
    asks += f"from client import ModelClient\n\ndef answer(url):\n    return ModelClient().complete(str({calls}))\n"
    held = _held(_made(tmp_path, {"client.py": CLIENT, "answering.py": asks, **files}))

    assert held["get_documents"] == {f"get_documents_from_{n}" for n in ("wiki", "tickets", "pages")}


def test_three_methods_that_ask_in_a_loop_are_agents_of_their_own(tmp_path: Path) -> None:
    phase = """
    def {name}(self, topic):
        for step in range(self.steps):
            reply = self.client.complete("Work on the {name} of " + topic)
            if "DONE" in reply:
                self.notes = reply
                return False
        raise Exception("no {name} within the steps")
"""
    lab = "from client import ModelClient\n\nclass Lab:\n    def __init__(self):\n        self.client = ModelClient()\n"
    names = ("review", "planning", "writing")
    run = "\n    def run(self, topic):\n" + "".join(f"        self.{name}(topic)\n" for name in names)
    held = [
        _held(
            _made(
                tmp_path / n,
                {
                    "client.py": CLIENT,
                    "lab.py": lab
                    + "        self.steps = 5\n"
                    + run
                    + "".join(phase.format(name=name) for name in names[: int(n)]),
                },
            )
        ).values()
        for n in ("2", "3")
    ]

    assert not any(names_held == {"review"} for names_held in held[0])
    assert all({name} in held[1] for name in names)
