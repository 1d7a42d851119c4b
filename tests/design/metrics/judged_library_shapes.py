"""The same with the chains, engines and pipelines of libraries."""

from __future__ import annotations

from tests.design.metrics.judged_shapes import RULES_OF_SHOP, Shape

LIBRARY_SHAPES: dict[str, Shape] = {}

_CHAIN_HEAD = f'''\
from fastapi import FastAPI
from langchain_chroma import Chroma
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate, PromptTemplate
from langchain_openai import ChatOpenAI

app = FastAPI()
llm = ChatOpenAI(model="m")
store = Chroma("pages")
RULES = """{RULES_OF_SHOP}"""
'''
_CHAINS = {
    "a chain with a pipe": """

@app.post("/ask")
def ask(question: str):
    docs = store.similarity_search(question, k=4)
    context = "\\n".join(doc.page_content for doc in docs)
    chain = ChatPromptTemplate.from_template(RULES) | llm | StrOutputParser()
    return chain.invoke({"context": context, "question": question})
""",
    "a chain of documents": """
from langchain.chains.combine_documents import create_stuff_documents_chain


@app.post("/ask")
def ask(question: str):
    docs = store.as_retriever().invoke(question)
    chain = create_stuff_documents_chain(llm, ChatPromptTemplate.from_template(RULES))
    return chain.invoke({"context": docs, "question": question})
""",
    "a chain of retrieval": """
from langchain.chains import create_retrieval_chain
from langchain.chains.combine_documents import create_stuff_documents_chain


@app.post("/ask")
def ask(question: str):
    documents = create_stuff_documents_chain(llm, ChatPromptTemplate.from_template(RULES))
    chain = create_retrieval_chain(store.as_retriever(), documents)
    return chain.invoke({"input": question})["answer"]
""",
    "a chain of a conversation": """
from langchain.chains import ConversationalRetrievalChain


@app.post("/ask")
def ask(question: str):
    prompt = PromptTemplate.from_template(RULES)
    chain = ConversationalRetrievalChain.from_llm(
        llm, retriever=store.as_retriever(), combine_docs_chain_kwargs={"prompt": prompt}
    )
    return chain.invoke({"question": question, "chat_history": []})["answer"]
""",
    "an old chain": """
from langchain.chains import LLMChain


@app.post("/ask")
def ask(question: str):
    docs = store.similarity_search(question)
    chain = LLMChain(llm=llm, prompt=PromptTemplate(template=RULES, input_variables=["context", "question"]))
    return chain.run(context="\\n".join(d.page_content for d in docs), question=question)
""",
}
LIBRARY_SHAPES |= {
    name: Shape({"app.py": _CHAIN_HEAD + code}, frozenset({"app.ask"})) for name, code in _CHAINS.items()
}

LIBRARY_SHAPES["a chain that streams in the background"] = Shape(
    {
        "prompts.yaml": "rag:\n  default: |\n    You answer questions of customers. Never invent a price.\n"
        "    Take nothing but the passages: {{context}}\n    Question: {{question}}\n"
        "  empty: |\n    Answer the question of the customer. Never invent a price.\n    Question: {{question}}\n"
        "title:\n  default: |\n    Name the conversation in at most five words, and nothing else.\n",
        "settings.py": """\
import yaml


def get_prompt_template(type: str, name: str) -> str | None:
    with open("prompts.yaml") as file:
        held = yaml.safe_load(file)
    return held.get(type, {}).get(name)
""",
        "app.py": """\
import asyncio

from fastapi import FastAPI
from langchain.callbacks import AsyncIteratorCallbackHandler
from langchain_chroma import Chroma
from langchain_core.prompts import ChatPromptTemplate
from langchain_openai import ChatOpenAI
from sse_starlette.sse import EventSourceResponse

from settings import get_prompt_template

app = FastAPI()


@app.post("/ask")
async def ask(question: str, prompt_name: str = "default"):
    async def pieces():
        docs = Chroma("pages").similarity_search(question)
        callback = AsyncIteratorCallbackHandler()
        llm = ChatOpenAI(model="m", streaming=True, callbacks=[callback])
        context = "\\n\\n".join([doc.page_content for doc in docs])
        template = get_prompt_template("rag", prompt_name)
        chain = ChatPromptTemplate.from_messages([("human", template)]) | llm
        task = asyncio.create_task(chain.ainvoke({"context": context, "question": question}))
        async for token in callback.aiter():
            yield token
        await task

    return EventSourceResponse(pieces())
""",
    },
    frozenset({"app.ask.pieces"}),
)

_INDEX = """\
from fastapi import FastAPI
from llama_index.core import PromptTemplate, VectorStoreIndex
from llama_index.vector_stores.chroma import ChromaVectorStore

app = FastAPI()
index = VectorStoreIndex.from_vector_store(ChromaVectorStore("pages"))
"""
LIBRARY_SHAPES["a query engine"] = Shape(
    {
        "app.py": _INDEX
        + """

@app.post("/ask")
def ask(question: str):
    engine = index.as_query_engine(similarity_top_k=4)
    return str(engine.query(question))
"""
    },
    frozenset({"app.ask"}),
    told="",
)
LIBRARY_SHAPES["a chat engine that streams"] = Shape(
    {
        "app.py": _INDEX
        + """from fastapi.responses import StreamingResponse

RULES = "You answer questions of customers from the pages of the shop alone. Never invent a price. Be short."


def get_chat_engine():
    return index.as_chat_engine(chat_mode="context", system_prompt=RULES)


@app.post("/ask")
async def ask(question: str):
    response = await get_chat_engine().astream_chat(question)

    async def pieces():
        async for token in response.async_response_gen():
            yield token

    return StreamingResponse(pieces())
"""
    },
    frozenset({"app.ask"}),
)

LIBRARY_SHAPES["Azure OpenAI on your data"] = Shape(
    {
        "app.py": """\
import os

from fastapi import FastAPI
from openai import AzureOpenAI

app = FastAPI()
client = AzureOpenAI(azure_endpoint=os.environ["ENDPOINT"])
RULES = "You answer questions of customers from the pages of the shop alone. Never invent a price. Be short."
SOURCE = {"type": "azure_search", "parameters": {"endpoint": os.environ["SEARCH"], "index_name": "pages"}}


@app.post("/ask")
def ask(messages: list[dict]):
    reply = client.chat.completions.create(
        model="m",
        messages=[{"role": "system", "content": RULES}, *messages],
        extra_body={"data_sources": [SOURCE]},
    )
    return {"answer": reply.choices[0].message.content}
"""
    },
    # What the service finds by itself is in nothing that the application sends.
    frozenset(),
)

LIBRARY_SHAPES["extraction by a tool"] = Shape(
    {
        "app.py": '''\
import json

from fastapi import FastAPI
from openai import OpenAI

app = FastAPI()
client = OpenAI()
RULES = """Take the order of the customer out of the mail. Never guess a number: leave out what is not written.

Mail: {mail}"""
TOOL = {"type": "function", "function": {"name": "note_order", "parameters": {"type": "object"}}}


@app.post("/order")
def order(mail: str):
    reply = client.chat.completions.create(
        model="m",
        messages=[{"role": "user", "content": RULES.format(mail=mail)}],
        tools=[TOOL],
        tool_choice={"type": "function", "function": {"name": "note_order"}},
    )
    return json.loads(reply.choices[0].message.tool_calls[0].function.arguments)
'''
    },
    frozenset(),
    told="Never guess a number",
    others=frozenset({"app.order"}),
)

LIBRARY_SHAPES["extraction with a schema"] = Shape(
    {
        "app.py": """\
from fastapi import FastAPI
from langchain_core.prompts import ChatPromptTemplate
from langchain_openai import ChatOpenAI
from pydantic import BaseModel

app = FastAPI()


class Order(BaseModel):
    article: str
    number: int


PROMPT = ChatPromptTemplate.from_messages(
    [
        ("system", "Take the order out of the mail. Never guess a number: leave out what is not written in it."),
        ("human", "{mail}"),
    ]
)


@app.post("/order")
def order(mail: str):
    chain = PROMPT | ChatOpenAI(model="m").with_structured_output(schema=Order)
    return chain.invoke({"mail": mail})
"""
    },
    frozenset(),
    told="Never guess a number",
    others=frozenset({"app.order"}),
)

LIBRARY_SHAPES["a pipeline of nodes"] = Shape(
    {
        "provider.py": """\
from litellm import acompletion


class Provider:
    def get_generator(self, system_prompt: str):
        async def _run(prompt: str):
            messages = [{"role": "system", "content": system_prompt}, {"role": "user", "content": prompt}]
            reply = await acompletion(model="m", messages=messages)
            return {"replies": [choice.message.content for choice in reply.choices]}

        return _run
""",
        "answering.py": '''\
import sys

from hamilton import base
from hamilton.async_driver import AsyncDriver
from haystack.components.builders.prompt_builder import PromptBuilder

from provider import Provider

SYSTEM = "You are an analyst. Answer from the rows alone, in Markdown. Never invent a price. Leave out technical words."
USER = """Question: {{ question }}
Rows: {{ rows }}"""


def prompt(question: str, rows: dict, prompt_builder: PromptBuilder) -> dict:
    return prompt_builder.run(question=question, rows=rows)


async def generate_answer(prompt: dict, generator) -> dict:
    return await generator(prompt=prompt.get("prompt"))


class Answering:
    def __init__(self, provider: Provider):
        self._components = {
            "prompt_builder": PromptBuilder(template=USER),
            "generator": provider.get_generator(system_prompt=SYSTEM),
        }
        self._pipe = AsyncDriver({}, sys.modules[__name__], result_builder=base.DictResult())

    async def run(self, question: str, rows: dict) -> dict:
        return await self._pipe.execute(
            ["generate_answer"], inputs={"question": question, "rows": rows, **self._components}
        )
''',
        "app.py": """\
import duckdb
from fastapi import FastAPI

from answering import Answering
from provider import Provider

app = FastAPI()
answering = Answering(Provider())


@app.post("/ask")
async def ask(question: str, sql: str):
    rows = duckdb.connect("shop.db").execute(sql).fetchall()
    said = await answering.run(question=question, rows=rows)
    return said["generate_answer"]["replies"][0]
""",
    },
    frozenset({"answering.generate_answer"}),
)

LIBRARY_SHAPES["a prompt in a file of prompty, with a head of settings"] = Shape(
    {
        "app.prompty": f"""\
---
name: answers of a shop
model:
  api: chat
inputs:
  context:
    type: string
---
system:
{RULES_OF_SHOP.replace("{context}", "{{context}}").replace("{question}", "{{question}}")}
""",
        "app.py": """\
import chromadb
import prompty
import prompty.azure
from fastapi import FastAPI
from prompty.tracer import trace

app = FastAPI()
pages = chromadb.Client().get_collection("pages")


def search(question):
    return pages.query(query_texts=[question], n_results=3)["documents"][0]


@app.post("/ask")
@trace
def ask(question: str):
    context = "\\n".join(search(question))
    return prompty.execute("app.prompty", inputs={"context": context, "question": question})
""",
    },
    frozenset({"app.ask"}),
)
