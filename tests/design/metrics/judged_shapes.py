"""Small applications in the usual shapes, each with the functions whose answers an owner wants judged."""

from __future__ import annotations

from dataclasses import dataclass

RULES_OF_SHOP = (
    "You answer questions of our customers. Answer from the passages below alone. "
    "If they do not hold the answer, say so. Never invent a price.\n\nPassages:\n{context}\n\nQuestion: {question}"
)
SEARCH_OF_SHOP = """\
import chromadb

pages = chromadb.PersistentClient("pages").get_collection("pages")


def search(question: str) -> list[str]:
    return pages.query(query_texts=[question], n_results=4)["documents"][0]
"""


@dataclass(frozen=True)
class Shape:
    """An application.

    Attributes:
        files: Text of each file.
        grounded: Functions whose answers are judged by what they rest on.
        told: A text that the judge of each must have read, of the prompt that sets the task.
        others: Functions whose answers are judged by their prompt alone.
    """

    files: dict[str, str]
    grounded: frozenset[str]
    told: str = "Never invent a price"
    others: frozenset[str] = frozenset()


SHAPES: dict[str, Shape] = {}

SHAPES["an endpoint that streams"] = Shape(
    {
        "search.py": SEARCH_OF_SHOP,
        "app.py": f'''\
from fastapi import FastAPI
from fastapi.responses import StreamingResponse
from openai import OpenAI

from search import search

app = FastAPI()
client = OpenAI()
RULES = """{RULES_OF_SHOP}"""


def pieces(question: str):
    context = "\\n".join(search(question))
    told = RULES.format(context=context, question=question)
    stream = client.chat.completions.create(model="m", messages=[{{"role": "user", "content": told}}], stream=True)
    for chunk in stream:
        yield chunk.choices[0].delta.content or ""


@app.post("/ask")
def ask(question: str):
    return StreamingResponse(pieces(question), media_type="text/event-stream")
''',
    },
    frozenset({"app.pieces"}),
)

SHAPES["an endpoint with a generator inside"] = Shape(
    {
        "search.py": SEARCH_OF_SHOP,
        "app.py": f'''\
from fastapi import FastAPI
from fastapi.responses import StreamingResponse
from openai import AsyncOpenAI

from search import search

app = FastAPI()
client = AsyncOpenAI()
RULES = """{RULES_OF_SHOP}"""


@app.post("/ask")
async def ask(question: str):
    async def pieces():
        found = search(question)
        context = "\\n".join(found)
        messages = [{{"role": "system", "content": RULES.format(context=context, question=question)}}]
        messages.append({{"role": "user", "content": question}})
        stream = await client.chat.completions.create(model="m", messages=messages, stream=True)
        async for chunk in stream:
            yield chunk.choices[0].delta.content or ""

    return StreamingResponse(pieces(), media_type="text/event-stream")
''',
    },
    frozenset({"app.ask.pieces"}),
)

SHAPES["messages from a system text and a user template"] = Shape(
    {
        "search.py": SEARCH_OF_SHOP,
        "prompts.py": '''\
SYSTEM = "You are the assistant of a shop."
USER = """Answer the question from these passages alone. Never invent a price.

{passages}

Question: {question}"""
''',
        "app.py": """\
from fastapi import FastAPI
from openai import OpenAI

import prompts
from search import search

app = FastAPI()
client = OpenAI()


def answer(question: str) -> str:
    passages = search(question)
    messages = [
        {"role": "system", "content": prompts.SYSTEM},
        {"role": "user", "content": prompts.USER.format(passages="\\n".join(passages), question=question)},
    ]
    reply = client.chat.completions.create(model="m", messages=messages)
    return reply.choices[0].message.content


@app.post("/ask")
def ask(question: str):
    return {"answer": answer(question)}
""",
    },
    frozenset({"app.answer"}),
)

SHAPES["a template of jinja"] = Shape(
    {
        "search.py": SEARCH_OF_SHOP,
        "templates/answer.j2": "You answer questions of customers. Never invent a price.\n\n"
        "{% for passage in passages %}\n- {{ passage }}\n{% endfor %}\n\nQuestion: {{ question }}\n",
        "app.py": """\
import anthropic
from fastapi import FastAPI
from jinja2 import Environment, FileSystemLoader

from search import search

app = FastAPI()
client = anthropic.Anthropic()
templates = Environment(loader=FileSystemLoader("templates"))


@app.post("/ask")
def ask(question: str) -> str:
    passages = search(question)
    told = templates.get_template("answer.j2").render(passages=passages, question=question)
    reply = client.messages.create(model="m", max_tokens=500, messages=[{"role": "user", "content": told}])
    return reply.content[0].text
""",
    },
    frozenset({"app.ask"}),
)

SHAPES["prompts of a YAML file by name"] = Shape(
    {
        "search.py": SEARCH_OF_SHOP,
        "prompts.yaml": "rag:\n  system: |\n    You answer questions of customers. Never invent a price.\n"
        "    Take nothing but the passages.\n  user: |\n    Passages: {context}\n    Question: {question}\n"
        "title:\n  system: |\n    Name the conversation in at most five words, and nothing else.\n"
        "  user: |\n    {text}\n",
        "app.py": """\
import yaml
from fastapi import FastAPI
from openai import OpenAI

from search import search

app = FastAPI()
client = OpenAI()
with open("prompts.yaml") as file:
    PROMPTS = yaml.safe_load(file)


def ask_model(name: str, **values: str) -> str:
    told = PROMPTS[name]
    messages = [
        {"role": "system", "content": told["system"]},
        {"role": "user", "content": told["user"].format(**values)},
    ]
    return client.chat.completions.create(model="m", messages=messages).choices[0].message.content


@app.post("/ask")
def ask(question: str):
    passages = "\\n".join(search(question))
    return ask_model("rag", context=passages, question=question)


@app.post("/title")
def title(text: str):
    return ask_model("title", text=text)
""",
    },
    frozenset({"app.ask"}),
    others=frozenset({"app.title"}),
)

SHAPES["prompts of a TOML file by name"] = Shape(
    {
        "search.py": SEARCH_OF_SHOP,
        "settings/answer_prompt.toml": '[answer_prompt]\nsystem="""You are an assistant of a shop."""\n'
        'user="""Answer from the passages alone. Never invent a price.\n{{ passages }}\nQuestion: {{ question }}"""\n',
        "settings/title_prompt.toml": '[title_prompt]\nsystem="""You name conversations."""\n'
        'user="""Name the conversation in at most five words, and return nothing else.\n{{ text }}"""\n',
        "config.py": """\
from dynaconf import Dynaconf

settings = Dynaconf(settings_files=["settings/answer_prompt.toml", "settings/title_prompt.toml"])


def get_settings():
    return settings
""",
        "app.py": """\
from fastapi import FastAPI
from jinja2 import Environment
from litellm import completion

from config import get_settings
from search import search

app = FastAPI()


def build_prompt(file: str, **values) -> dict:
    held = get_settings().get(file)
    environment = Environment()
    system = environment.from_string(held.system).render(**values)
    user = environment.from_string(held.user).render(**values)
    return {"system": system, "user": user}


def call_model(prompt: dict) -> tuple[str, int]:
    messages = [{"role": "system", "content": prompt["system"]}, {"role": "user", "content": prompt["user"]}]
    reply = completion(model="m", messages=messages)
    return reply.choices[0].message.content, reply.usage.total_tokens


@app.post("/ask")
def ask(question: str):
    prompt = build_prompt(file="answer_prompt", passages=search(question), question=question)
    answer, tokens = call_model(prompt)
    return answer


@app.post("/title")
def title(text: str):
    answer, tokens = call_model(build_prompt(file="title_prompt", text=text))
    return answer
""",
    },
    frozenset({"app.ask"}),
    others=frozenset({"app.title"}),
)

SHAPES["a prompt of the settings of the environment"] = Shape(
    {
        "search.py": SEARCH_OF_SHOP,
        "config.py": f'''\
import os

RULES = os.environ.get("RULES", """{RULES_OF_SHOP}""")
''',
        "app.py": """\
from fastapi import FastAPI
from openai import OpenAI

import config
from search import search

app = FastAPI()
client = OpenAI()


@app.post("/ask")
def ask(question: str):
    told = config.RULES.format(context=search(question), question=question)
    return client.responses.create(model="m", input=told).output_text
""",
    },
    frozenset({"app.ask"}),
)

SHAPES["a field of a settings class"] = Shape(
    {
        "search.py": SEARCH_OF_SHOP,
        "config.py": f'''\
from pydantic_settings import BaseSettings


class Settings(BaseSettings):
    model: str = "m"
    rules: str = """{RULES_OF_SHOP}"""


settings = Settings()
''',
        "app.py": """\
from fastapi import FastAPI
from openai import OpenAI

from config import settings
from search import search

app = FastAPI()
client = OpenAI()


@app.post("/ask")
def ask(question: str):
    found = search(question)
    told = settings.rules.format(context="\\n".join(found), question=question)
    reply = client.chat.completions.create(model=settings.model, messages=[{"role": "user", "content": told}])
    return {"answer": reply.choices[0].message.content, "sources": found}
""",
    },
    frozenset({"app.ask"}),
)

SHAPES["passages beside the prompt, by a query of the model"] = Shape(
    {
        "search.py": SEARCH_OF_SHOP,
        "app.py": """\
from fastapi import FastAPI
from openai import OpenAI

from search import search

app = FastAPI()
client = OpenAI()
QUERY = "Write one query for the search engine of the shop, in the words of the customer. Write nothing else."
RULES = "You answer questions of customers from the passages alone. Never invent a price. Be short and friendly."


def ask_model(system: str, user: str) -> str:
    messages = [{"role": "system", "content": system}, {"role": "user", "content": user}]
    return client.chat.completions.create(model="m", messages=messages).choices[0].message.content


def make_query(question: str) -> str:
    return ask_model(QUERY, question)


def find_passages(question: str) -> list[str]:
    query = ask_model(QUERY, question)
    return search(query)


@app.post("/query")
def query(question: str):
    return make_query(question)


@app.post("/ask")
def ask(question: str):
    context = "\\n".join(find_passages(question))
    messages = [{"role": "system", "content": RULES}, {"role": "user", "content": context}]
    messages.append({"role": "user", "content": question})
    return client.chat.completions.create(model="m", messages=messages).choices[0].message.content
""",
    },
    frozenset({"app.ask"}),
    others=frozenset({"app.make_query", "app.find_passages"}),
)

SHAPES["prompts of a table that a function fills"] = Shape(
    {
        "search.py": SEARCH_OF_SHOP,
        "prompts.py": f'''\
from enum import Enum
from types import MappingProxyType


class Name(str, Enum):
    TITLE = "TITLE"
    ANSWER = "ANSWER"


def _define() -> dict[Name, str]:
    made: dict[Name, str] = {{}}
    told = "Name the conversation in at most five words, and return nothing else. {{text}}"
    made[Name.TITLE] = told
    told = """{RULES_OF_SHOP}"""
    made[Name.ANSWER] = told
    return made


_held = _define()
prompts = MappingProxyType(_held)
''',
        "app.py": """\
from fastapi import FastAPI
from openai import OpenAI

from prompts import Name, prompts
from search import search

app = FastAPI()
client = OpenAI()


@app.post("/ask")
def ask(question: str):
    told = prompts[Name.ANSWER].format(context=search(question), question=question)
    return client.responses.create(model="m", input=told).output_text


@app.post("/title")
def title(text: str):
    return client.responses.create(model="m", input=prompts[Name.TITLE].format(text=text)).output_text
""",
    },
    frozenset({"app.ask"}),
    others=frozenset({"app.title"}),
)

SHAPES["a class that asks through a client of many"] = Shape(
    {
        "search.py": SEARCH_OF_SHOP,
        "llm/openai_client.py": """\
import openai


class OpenAi:
    def __init__(self) -> None:
        self.client = openai.OpenAI()

    def inference(self, name: str, prompt: str) -> str:
        messages = [{"role": "user", "content": prompt}]
        return self.client.chat.completions.create(model=name, messages=messages).choices[0].message.content
""",
        "llm/client.py": """\
import logging

from llm.openai_client import OpenAi


class LLM:
    def __init__(self, name: str) -> None:
        self.name = name

    def inference(self, prompt: str) -> str:
        try:
            return OpenAi().inference(self.name, prompt).strip()
        except ValueError as error:
            logging.error("no answer: %s", error)
            raise
""",
        "llm/__init__.py": "",
        "answering.py": f'''\
from llm.client import LLM

RULES = """{RULES_OF_SHOP}"""


class Answerer:
    def __init__(self, name: str) -> None:
        self.name = name

    def render(self, question: str, context: str) -> str:
        return RULES.format(context=context, question=question)

    def execute(self, question: str, context: str) -> str:
        prompt = self.render(question, context)
        response = LLM(self.name).inference(prompt)
        while not response:
            return self.execute(question, context)
        return response
''',
        "app.py": """\
from fastapi import FastAPI

from answering import Answerer
from search import search

app = FastAPI()
answerer = Answerer("m")


@app.post("/ask")
def ask(question: str):
    return answerer.execute(question, "\\n".join(search(question)))
""",
    },
    frozenset({"answering.Answerer.execute"}),
)
