"""One judge of a pipeline reads what a search was asked and what it found, where one span has both as text."""

from __future__ import annotations

from pathlib import Path

import pytest

from gapwatch.design.metrics.metric_design import MetricDesign
from gapwatch.design.reports.export_portfolio import portfolio_data, portfolio_yaml
from gapwatch.design.source.scan import scan_repository
from gapwatch.design.stage import Design, run_design
from gapwatch.scorers.loading.load import parse_portfolio
from tests.design.source_tree import write_tree

_HEAD = """
from adalflow.components.retriever.faiss_retriever import FAISSRetriever
from azure.search.documents import SearchClient
from fastapi import FastAPI
from langgraph.graph import StateGraph
from openai import OpenAI
from qdrant_client import QdrantClient
import requests

app = FastAPI()
store = QdrantClient()
pages = SearchClient()
"""
_ANSWER = """

def answer(question: str, found):
    told = [
        {"role": "system", "content": f"Answer the question only from this context, and invent nothing: {found}"},
        {"role": "user", "content": question},
    ]
    return OpenAI().chat.completions.create(model="m", messages=told).choices[0].message.content
"""
_ASK = f"""{_ANSWER}

@app.post("/ask")
def ask(question: str):
    return answer(question, USE)
"""
_BY_TEXT = """
def find_passages(question: str):
    hits = store.search("pages", embedded(question))
    return [hit.payload for hit in hits]
"""
_BY_VECTOR = """
def nearest(vector: list[float]):
    return store.search("pages", vector)


def passages_for(question: str):
    return [hit.payload["text"] for hit in nearest(embedded(question))]
"""
_OF_IDS = """
def find_ids(question: str):
    hits = store.search("pages", embedded(question))
    return [hit.id for hit in hits]
"""
_LATER = """
def raw(question: str):
    return pages.search(search_text=question)


def read(question: str):
    return [page["text"] for page in raw(question)]
"""
_OF_STORES = """
class Store:
    def query(self, question: str):
        raise NotImplementedError


class OneStore(Store):
    def query(self, question: str):
        return store.search("one", embedded(question))


class OtherStore(Store):
    def query(self, question: str):
        return store.query_points("other", embedded(question)).points


def search_pages(question: str, chosen: Store):
    return chosen.query(question)
"""
_OF_WEB = """
def search_web(query: str):
    return requests.get("https://search.example", params={"q": query}, timeout=9).json()["results"]
"""
_LISTED = """
def list_pages(owner: str):
    return store.scroll("pages", owner)


def search_emails(query: str):
    return store.search("mails", embedded(query))
"""
_OF_TABLES = """
def find_tables(question: str):
    return [hit.payload for hit in store.search("tables", embedded(question))]
"""


#: Stores of an own kind, beside one of a library, are asked by a method with the name of a search.
_OF_OWN_STORES = """
class Store:
    def query(self, question: str):
        raise NotImplementedError


class Table(Store):
    def query(self, question: str):
        return [row for row in self.rows if question in row]


class Shelf(Store):
    def query(self, question: str):
        return [book for book in self.books if question in book]


class Pages(Store):
    def query(self, question: str):
        return store.search("pages", embedded(question))


def search_pages(question: str, chosen: Store):
    return chosen.query(question)
"""
_USES_STORE = "search_pages(question, [Table(), Shelf(), Pages()][len(question) % 3])"
#: The entry of all tools, of which the first two write, and the third searches.
_OF_TOOLS = """
class Tool:
    def execute(self, text: str):
        return self.work(text)

    def work(self, text: str):
        raise NotImplementedError


class Mail(Tool):
    def work(self, text: str):
        return requests.post("https://mail", json={"text": text}).text


class Note(Tool):
    def work(self, text: str):
        return {"noted": text}


class Pages(Tool):
    def work(self, text: str):
        return store.search("pages", embedded(text))


def use_tool(text: str, chosen: Tool):
    return chosen.execute(text)
"""
_USES_TOOL = "use_tool(question, [Mail(), Note(), Pages()][len(question) % 3])"


def _made(root: Path, search: str, use: str, ask: str = _ASK) -> Design:
    return run_design(scan_repository(write_tree(root, {"app.py": _HEAD + search + ask.replace("USE", use)})))


def _judges(made: Design) -> list[MetricDesign]:
    return [m for m in (*made.metrics, *(s.metric for s in made.selection.shelf)) if m.reads_search]


@pytest.mark.parametrize(
    ("search", "use", "read"),
    [
        (_BY_TEXT, "find_passages(question)", "app.find_passages"),
        (_BY_VECTOR, "passages_for(question)", "app.passages_for"),
        (_LATER, "read(question)", "app.read"),
        (_OF_STORES, "search_pages(question, OneStore() if question else OtherStore())", "app.search_pages"),
        (_OF_WEB, "search_web(question)", "app.search_web"),
        (_OF_IDS, "find_ids(question)", None),
        (_LISTED, "list_pages(question)", None),
        (_LISTED, "search_emails(question)", None),
        (_OF_TABLES, "find_tables(question)", None),
        (_OF_OWN_STORES, _USES_STORE, "app.search_pages"),
        (_OF_TOOLS, _USES_TOOL, "app.Pages.work"),
        ("", "question", None),
    ],
)
def test_the_function_with_the_question_and_the_passages_is_read(
    search: str, use: str, read: str | None, tmp_path: Path
) -> None:
    found = _judges(_made(tmp_path, search, use))

    assert [m.symbols for m in found] == ([[read]] if read else [])


def test_what_only_a_person_sees_of_the_web_has_no_judge(tmp_path: Path) -> None:
    page = '\n\n@app.get("/pages")\ndef browse(word: str):\n    return search_web(word)\n'
    assert _judges(_made(tmp_path, _OF_WEB, "question", _ASK + page)) == []


def test_a_service_that_only_searches_has_a_judge(tmp_path: Path) -> None:
    page = '\n\n@app.get("/pages")\ndef browse(word: str):\n    return find_passages(word)\n'
    (judge,) = _judges(_made(tmp_path, _BY_TEXT, "question", _ASK + page))

    assert judge.symbols == ["app.find_passages"]


def test_a_retriever_that_is_an_object_is_read_where_it_gives_its_documents(tmp_path: Path) -> None:
    rag = """
class Rag:
    def __init__(self, documents):
        self.retriever = FAISSRetriever(documents=documents)

    def call(self, query: str):
        documents = self.retriever(query)
        return answer(query, documents), documents
"""
    (judge,) = _judges(_made(tmp_path, rag, "Rag([]).call(question)[0]"))
    assert judge.symbols == ["app.Rag.call"]


def test_nodes_of_a_graph_that_search_alike_are_read_by_one_judge(tmp_path: Path) -> None:
    graph = """
class Graph:
    def retrieve(self, state):
        return {"documents": store.search("pages", embedded(state["question"]))}

    def retrieve_more(self, state):
        return {"documents": store.search("pages", embedded(state["messages"][-1]))}

    def generate(self, state):
        return {"answer": answer(state["question"], state["documents"])}


def build(steps):
    graph, nodes = StateGraph(dict), Graph()
    for step in steps:
        graph.add_node(step, getattr(nodes, step))
    return graph.compile()
"""
    (judge,) = _judges(_made(tmp_path, graph, "question", _ANSWER))
    assert judge.spans == ["Graph.retrieve", "Graph.retrieve_more"]


def test_sql_judges_what_is_found_to_write_it_from(tmp_path: Path) -> None:
    ask = _ASK.replace("answer(", "write_sql(").replace(
        "Answer the question only from this context, and invent nothing", "Write an SQL query that answers the question"
    )
    made = _made(tmp_path, _BY_TEXT, "find_passages(question)", ask)

    assert any(m.family.endswith("sql_answers_the_question") for m in made.metrics)
    assert _judges(made) == []


def test_an_empty_result_is_not_judged_and_the_portfolio_is_valid(tmp_path: Path) -> None:
    code = {"app.py": _HEAD + _BY_TEXT + _ASK.replace("USE", "find_passages(question)")}
    made = run_design(scan_repository(write_tree(tmp_path, code)), judge_model="openai/gpt-4.1")
    (judge,) = [m for m in made.metrics if m.reads_search]

    assert judge.when is not None
    assert judge.claim["rubric"]["inputs"] == ["input", "output"]
    conditions = judge.when["all_of"]
    assert {"field": "attributes.retrieved_count", "range": {"min": 1}} in conditions[-1]["any_of"]
    assert parse_portfolio(portfolio_yaml(portfolio_data(made, "p"), made)) is not None
    (span,) = [p for p in made.planned if p.symbol == "app.find_passages"]
    assert span.kind == "retrieval"


_STEPS = """

@app.post("/plan")
def plan(text: str):
    told = [{"role": "system", "content": "You plan. Write three steps, each in one line. Never write more."}]
    return OpenAI().chat.completions.create(model="m", messages=told + [text]).choices[0].message.content


@app.post("/sum")
def sum_up(text: str):
    told = [{"role": "system", "content": "Sum up the text. You must write one sentence. Do not add a title."}]
    return OpenAI().chat.completions.create(model="m", messages=told + [text]).choices[0].message.content
"""


def test_a_portfolio_has_one_judge_of_a_prompt_behind_those_of_answers_and_searches(tmp_path: Path) -> None:
    made = _made(tmp_path, _BY_TEXT, "find_passages(question)", _ASK + _STEPS)
    judges = [m for m in made.metrics if m.source == "judge"]

    assert sorted(m.family.endswith("follows_its_prompt") for m in judges) == [False, False, True]
    assert sum(m.reads_search for m in judges) == 1
    assert sum(m.concern == "groundedness" for m in judges) == 2


@pytest.mark.parametrize(
    ("text", "is_judged"),
    [
        ('hint = "You must use only the tools. Never answer without one of them."', False),
        ('said = "(older entries are left out, you must use the tool to read them)"', False),
        ('rules = "You plan. Write three steps, each in one line. Never write more."', True),
        ('rules = ""\n    if text:\n        rules = "You plan. Write three steps, each in one line."', False),
    ],
)
def test_a_hint_or_a_text_of_some_calls_is_no_task(text: str, is_judged: bool, tmp_path: Path) -> None:
    name = text.partition(" ")[0]
    ask = f"""

@app.post("/plan")
def plan(text: str):
    {text}
    told = [{{"role": "system", "content": {name}}}, {{"role": "user", "content": text}}]
    return OpenAI().chat.completions.create(model="m", messages=told).choices[0].message.content
"""
    made = _made(tmp_path, "", "question", ask)

    assert any(m.family.endswith("follows_its_prompt") for m in made.metrics) == is_judged
