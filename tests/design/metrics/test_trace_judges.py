"""Judges of runs: answers that rest on what tools and searches gave, whoever asks."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from gapwatch.design.metrics.metric_design import MetricDesign
from gapwatch.design.metrics.spans import OF_EXCHANGE
from gapwatch.design.reports.export_portfolio import portfolio_data, portfolio_yaml
from gapwatch.design.source.scan import scan_repository
from gapwatch.design.stage import Design, run_design
from gapwatch.scorers.loading.load import parse_portfolio
from tests.design.source_tree import write_tree

_TASK = "Answer from the pages that you have read. Never invent a price. Do not name other shops. Keep it short."


def _design(root: Path, code: str, judge: str | None = None) -> Design:
    return run_design(scan_repository(write_tree(root, {"app.py": code})), judge_model=judge)


def _of_traces(made: Design) -> dict[str, MetricDesign]:
    every = [*made.metrics, *(s.metric for s in made.selection.shelf)]
    return {
        m.family: m
        for m in every
        if m.source == "judge" and (m.is_of_trace or m.family in ("rests_on_its_passages", "rests_on_its_tools"))
    }


_AGENT = '''\
import chromadb
from fastapi import FastAPI
from langchain.agents import create_agent
from langchain_core.tools import tool

app = FastAPI()
pages = chromadb.PersistentClient("pages").get_collection("pages")
TASK = "{task}"


@tool
def search_pages(question: str) -> str:
    """Search the pages of the shop."""
    return {found}


agent = create_agent("openai:m", tools=[search_pages], system_prompt=TASK)


@app.post("/ask")
def ask(question: str):
    return agent.invoke({{"messages": [question]}})["messages"][-1].content
'''


#: What a model is sent, and whether the result of a tool is in it.
_SENT = {
    '[{"role": "system", "content": "Use your tools."}, {"role": "user", "content": "Hello"}]': False,
    '{"tools": [{"name": "look_up"}], "messages": [{"role": "user", "content": "What is a tool result?"}]}': False,
    '[{"role": "assistant", "tool_calls": [{"name": "look_up"}], "tool_call_id": null}]': False,
    '[{"role": "user", "content": "Hello"}, {"role": "tool", "content": "9 pages"}]': True,
    '[{"role": "user", "content": [{"type": "tool_result", "content": "9 pages"}]}]': True,
    '[{"type": "function_call_output", "output": "9 pages"}]': True,
    '{"body": "{\\"role\\": \\"tool\\", \\"content\\": \\"9 pages\\"}"}': True,
    "Action: look_up\nObservation: 9 pages": True,
}


def test_an_agent_that_writes_results_in_words_of_its_own_is_judged_whatever_it_was_sent(tmp_path: Path) -> None:
    code = _MUST_CALL.replace("CHOICE", '"auto"')
    told = _of_traces(_design(tmp_path / "told", code))["rests_on_its_tools"]
    assert any("matches" in part for part in told.when["all_of"])
    own = _of_traces(_design(tmp_path / "own", code.replace('"role": "tool"', '"role": "user"')))["rests_on_its_tools"]
    assert not any("matches" in part for part in own.when["all_of"])


def test_the_answer_of_an_agent_rests_on_what_its_tools_gave(tmp_path: Path) -> None:
    code = _AGENT.format(task=_TASK, found='"".join(pages.query(query_texts=[question])["documents"][0])')
    made = _of_traces(_design(tmp_path, code))["rests_on_its_tools"]

    assert made.concern == "groundedness" and made.claim["rubric"]["inputs"] == list(OF_EXCHANGE)
    assert [str(p) for p in made.evidence_from] == ["app.py:14"]
    assert made.spans == ["ask"] and "app.py:14" in made.claim["rubric"]["criterion"]
    *present, final, given = made.when["all_of"][1:]
    assert present == [{"field": f, "present": True} for f in OF_EXCHANGE]
    # Who called no tool talks, or answers from what the model knows.
    assert given["field"] == OF_EXCHANGE[0] and "where no tool was called" in made.valid_when
    for sent, is_given in _SENT.items():
        assert bool(re.search(given["matches"], sent)) == is_given
    # A reply that calls tools is no answer yet.
    assert final["field"] == OF_EXCHANGE[1] and re.search(final["not_matches"], '[{"name": "search_pages"}]')
    assert any("left out" in step for step in made.claim["rubric"]["steps"])


def test_an_agent_whose_answer_is_a_call_of_a_tool_is_judged_by_it(tmp_path: Path) -> None:
    code = _MUST_CALL.replace("CHOICE", '"any"')
    made = _of_traces(_design(tmp_path / "must", code))["rests_on_its_tools"]
    assert not any("not_matches" in part for part in made.when["all_of"])
    free = _of_traces(_design(tmp_path / "may", code.replace('"any"', '"auto"')))["rests_on_its_tools"]
    assert any("not_matches" in part for part in free.when["all_of"])


_MUST_CALL = """\
import chromadb
import openai
from fastapi import FastAPI

app = FastAPI()
pages = chromadb.PersistentClient("pages").get_collection("pages")
TASK = "Answer from the pages that you have read. Never invent a price. Do not name other shops. Keep it short."


def search_pages(question):
    return pages.query(query_texts=[question])["documents"][0]


@app.post("/work")
def work(question: str):
    messages = [{"role": "system", "content": TASK}, {"role": "user", "content": question}]
    for _ in range(9):
        reply = openai.OpenAI().chat.completions.create(
            model="m", tools=[], tool_choice=CHOICE, messages=messages
        ).choices[0].message
        call = reply.tool_calls[0]
        if call.function.name == "done":
            return call.function.arguments
        messages.append({"role": "tool", "content": search_pages(call.function.arguments)})
    return reply.content
"""


def test_an_agent_whose_tools_find_nothing_states_nothing_of_them(tmp_path: Path) -> None:
    code = _AGENT.format(task=_TASK, found="str(1 + 1)").replace("search_pages", "add_numbers")
    assert "rests_on_its_tools" not in _of_traces(_design(tmp_path, code))


@pytest.mark.parametrize(("name", "is_evidence"), [("get_page", True), ("send_page", False), ("get_token", False)])
def test_a_tool_that_reads_gives_evidence(name: str, is_evidence: bool, tmp_path: Path) -> None:
    code = _AGENT.format(task=_TASK, found='httpx.get("https://shop.example", params={"q": question}).text')
    made = _of_traces(_design(tmp_path, "import httpx\n" + code.replace("search_pages", name)))

    assert ("rests_on_its_tools" in made) == is_evidence


_CHAIN = """\
from fastapi import FastAPI
from langchain_chroma import Chroma
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnablePassthrough
from langchain_openai import ChatOpenAI

app = FastAPI()
llm = ChatOpenAI(model="m")
TASK = "Answer the question. Take nothing but the context: {{context}} Question: {{question}}"


@app.post("/ask")
def ask(question: str):
    retriever = Chroma("pages").as_retriever()
    prompt = ChatPromptTemplate.from_template(TASK)
    chain = {chain} | prompt | llm | StrOutputParser()
    return chain.invoke(question)
"""
CHAINS: dict[str, tuple[str, bool]] = {
    "a dictionary": ('{"context": retriever, "question": RunnablePassthrough()}', True),
    "a dictionary with a formatter": ('{"context": retriever | str, "question": RunnablePassthrough()}', True),
    "assigned": ("RunnablePassthrough.assign(context=retriever)", True),
    "no search": ('{"context": RunnablePassthrough(), "question": RunnablePassthrough()}', False),
}


@pytest.mark.parametrize("name", CHAINS)
def test_the_answer_of_a_chain_rests_on_what_its_search_gave(name: str, tmp_path: Path) -> None:
    chain, is_judged = CHAINS[name]
    found = _of_traces(_design(tmp_path, _CHAIN.replace("{chain}", chain).replace("{{", "{").replace("}}", "}")))

    assert ("rests_on_its_passages" in found) == is_judged
    for judge in found.values() if is_judged else ():
        # What the search gave stands in what the model was sent, and in no span of the search.
        assert (judge.is_of_trace, judge.claim["rubric"]["inputs"], judge.spans) == (False, list(OF_EXCHANGE), ["ask"])


_OWN = """\
import anthropic
from fastapi import FastAPI

app = FastAPI()
client = anthropic.Anthropic()
TASK = "{task}"


def run(name, given):
    return open(given["path"]).read()


@app.post("/work")
def work(question: str):
    messages = [{{"role": "user", "content": question}}]
    for _ in range(9):
        reply = client.messages.create(model="m", max_tokens=900, system=TASK, tools=[], messages=messages)
        if reply.stop_reason != "tool_use":
            break
        for block in reply.content:
            if block.type == "tool_use":
                messages.append({{"role": "user", "content": run(block.name, block.input)}})
    return {given}
"""


def test_an_agent_that_finds_nothing_is_judged_by_no_trace(tmp_path: Path) -> None:
    code = _OWN.replace("{given}", "{'done': True}").replace("{task}", _TASK).replace("{{", "{").replace("}}", "}")

    assert _of_traces(_design(tmp_path, code)) == {}


def test_the_portfolio_with_a_judge_of_an_agent_can_be_loaded(tmp_path: Path) -> None:
    code = _AGENT.format(task=_TASK, found='"".join(pages.query(query_texts=[question])["documents"][0])')
    made = _design(tmp_path, code, judge="openai/gpt-4.1-mini")
    data: dict[str, Any] = portfolio_data(made)
    portfolio = parse_portfolio(portfolio_yaml(data, made))

    (judge,) = (m for m in portfolio.metrics if m.name.endswith("rests_on_its_tools"))
    assert not judge.is_trace and judge.component is not None


def test_an_agent_that_is_made_when_the_program_starts_is_judged(tmp_path: Path) -> None:
    code = """\
from fastapi import FastAPI
from langchain.chains import RetrievalQA
from langchain_community.vectorstores import FAISS
from langchain_openai import ChatOpenAI, OpenAIEmbeddings

app = FastAPI()


def make_chain():
    pages = FAISS.load_local("pages", OpenAIEmbeddings())
    return RetrievalQA.from_chain_type(llm=ChatOpenAI(), retriever=pages.as_retriever())


chain = make_chain()


@app.post("/ask")
def ask(question: str):
    return chain.invoke({"query": question})["result"]
"""
    made = _of_traces(_design(tmp_path, code))["rests_on_its_passages"]

    assert [str(p) for p in made.evidence_from] == ["app.py:11"]


_MAKER = """\
from llama_index.core import VectorStoreIndex
from llama_index.core.tools import QueryEngineTool
from llama_index.agent.openai import OpenAIAgent


def make_agent(files):
    if not files:
        return "There are no files yet. Please load some files first."
    engine = VectorStoreIndex.from_documents(files).as_query_engine()
    return OpenAIAgent.from_tools(tools=[QueryEngineTool.from_defaults(engine)]), files
"""
_DESK = """\
from fastapi import FastAPI
from maker import make_agent

app = FastAPI()


class Cache:
    def __init__(self, agent):
        self.agent = agent


@app.post("/files")
def load(files: list[str]):
    agent, _ = make_agent(files)
    app.state.cache = cache = Cache(agent)
    return len(files)


@app.post("/ask")
def ask(question: str, cache: Cache):
    return str(cache.agent.chat(question))
"""


def test_who_asks_an_agent_that_another_file_makes_is_judged_and_its_maker_is_not(tmp_path: Path) -> None:
    both = {"maker.py": _MAKER, "app.py": _DESK}
    made = run_design(scan_repository(write_tree(tmp_path / "both", both)))
    judge = _of_traces(made)["rests_on_its_passages"]

    assert "`app.ask`" in judge.claim["rubric"]["criterion"]
    assert [str(p) for p in judge.evidence_from] == ["maker.py:9"]
    plain = _DESK.replace("cache.agent.chat(question)", "question")
    alone = run_design(scan_repository(write_tree(tmp_path / "alone", {"maker.py": _MAKER, "app.py": plain})))
    assert "rests_on_its_passages" not in _of_traces(alone)


_BOTH_WAYS = """\
from fastapi import FastAPI
from fastapi.responses import StreamingResponse
from langchain_community.vectorstores import FAISS
from langchain_core.runnables import RunnableParallel, RunnablePassthrough
from langchain_openai import ChatOpenAI, OpenAIEmbeddings

app = FastAPI()
pages = FAISS.load_local("pages", OpenAIEmbeddings())


class Desk:
    async def stream(self, chain, question: str):
        async for chunk in chain.astream(question):
            yield chunk.content

    async def answer(self, question: str, is_stream: bool):
        found = RunnableParallel({"context": pages.as_retriever(), "question": RunnablePassthrough()})
        chain = found | ChatOpenAI()
        if is_stream:
            return StreamingResponse(self.stream(chain, question))
        return (await chain.ainvoke(question)).content

    async def sum_up(self, question: str):
        found = RunnableParallel({"context": pages.as_retriever(), "question": RunnablePassthrough()})
        return (await (found | ChatOpenAI()).ainvoke(question)).content


@app.post("/ask")
async def ask(question: str, is_stream: bool):
    return await Desk().answer(question, is_stream)


@app.post("/sum")
async def sum_up(question: str):
    return await Desk().sum_up(question)
"""


def test_an_answer_is_read_where_it_is_streamed_and_where_it_is_whole(tmp_path: Path) -> None:
    made = _of_traces(_design(tmp_path, _BOTH_WAYS))["rests_on_its_passages"]

    assert made.spans == ["Desk.answer", "Desk.stream"]
    assert made.when["all_of"][0] == {"field": "name", "one_of": made.spans}
    # Those of another answer are none of this one.
    assert [str(p) for p in made.evidence_from] == ["app.py:17"]
