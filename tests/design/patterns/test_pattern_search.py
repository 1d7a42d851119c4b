"""The eleven patterns: shapes that must fire, and similar shapes that must not."""

# ruff: noqa: E501 - one case a line reads as a table
from __future__ import annotations

from pathlib import Path

import pytest

from gapwatch.design.patterns.pattern_search import MOST_HITS
from gapwatch.design.source.scan import scan_repository
from gapwatch.design.stage import run_design
from tests.design.source_tree import patterns, write_tree

FIRES: dict[str, tuple[str, str]] = {
    "swallowing handler": ("has_try_except:swallows", "def f():\n    try:\n        g()\n    except ValueError:\n        return None\n"),
    "translating handler": ("has_try_except:translates", "def f():\n    try:\n        g()\n    except ValueError as e:\n        raise KeyError() from e\n"),
    "suppress": ("has_try_except:swallows", "import contextlib\ndef f():\n    with contextlib.suppress(OSError):\n        g()\n"),
    "attempts": ("has_retry_loop:loop", "def f():\n    for attempt in range(3):\n        try:\n            return g()\n        except OSError:\n            continue\n"),
    "chain of a search and what may be a model": ("calls_llm:direct", "from langchain_core.runnables import RunnableAssign, RunnableLambda\nfrom langchain_core.prompts import ChatPromptTemplate\ndef f(retriever, step, q):\n    chain = {'context': retriever} | ChatPromptTemplate.from_template('{context}') | step\n    return chain.invoke(q)\n"),
    "chain that is made longer": ("calls_llm:direct", "from langchain_core.prompts import ChatPromptTemplate\ndef f(llm, q):\n    chain = ChatPromptTemplate.from_template('{q}') | llm\n    chain = chain | str\n    return chain.invoke(q)\n"),
    "chain of a search with a model": ("calls_llm:direct", "from langchain_core.prompts import ChatPromptTemplate\nfrom langchain.retrievers import MultiQueryRetriever\ndef f(store, llm, q):\n    retriever = MultiQueryRetriever.from_llm(store, llm)\n    chain = {'a': retriever} | ChatPromptTemplate.from_template('{a}')\n    return chain.invoke(q)\n"),
    "chain with a lambda that asks": ("calls_llm:direct", "from langchain_core.runnables import RunnableAssign, RunnableLambda\nfrom langchain_core.prompts import ChatPromptTemplate\ndef f(retriever, llm, q):\n    chain = {'context': retriever} | RunnableLambda(lambda x: llm.invoke(x))\n    return chain.invoke(q)\n"),
    "tries by a setting": ("has_retry_loop:loop", "class S:\n    tries: int = 1\nclass T:\n    tries: int = 3\ndef f(settings):\n    for attempt in range(settings.tries):\n        try:\n            return g()\n        except OSError:\n            continue\n"),
    "tenacity": ("has_retry_loop:decorator", "from tenacity import retry\n@retry\ndef f(): g()\n"),
    "own decorator": (
        "has_retry_loop:attempt",
        "def again(fn):\n    def run(*a):\n        for attempt in range(3):\n            try:\n                return fn(*a)\n            except OSError:\n                pass\n    return run\n@again\ndef f(): ...\n",
    ),
    "attempts of a queue": ("has_retry_loop:queue", "from celery import Celery\napp = Celery()\n@app.task(autoretry_for=(OSError,))\ndef f(): g()\n"),
    "client retries": ("has_retry_loop:client", "from openai import OpenAI\nc = OpenAI(max_retries=4)\n"),
    "handler cascade": ("has_cascade:rules", "def f(q):\n    try:\n        return ask_primary(q)\n    except OSError:\n        return ask_fallback(q)\ndef ask_primary(q): ...\ndef ask_fallback(q): ...\n"),
    "cascade over providers": ("has_cascade:table", "def f(providers, q):\n    for p in providers:\n        try:\n            return p.search(q)\n        except OSError:\n            continue\n"),
    "empty cascade": ("has_cascade:rules", "def f(q):\n    r = search_local(q)\n    if not r:\n        r = search_web_fallback(q)\n    return r\ndef search_local(q): ...\ndef search_web_fallback(q): ...\n"),
    "json of a file": ("parses_json:file", "import json\ndef f(p):\n    with open(p) as h:\n        return json.load(h)\n"),
    "json of a model": ("parses_json:llm", "import json\nfrom openai import OpenAI\ndef f():\n    r = OpenAI().chat.completions.create()\n    return json.loads(r.choices[0].message.content)\n"),
    "request": ("calls_external_api:http", "import requests\ndef f(u): return requests.get(u)\n"),
    "typed session": ("calls_external_api:http", "import httpx\nasync def f(c: httpx.AsyncClient): await c.post('x')\n"),
    "chat": ("calls_llm:direct", "import anthropic\ndef f():\n    c = anthropic.Anthropic()\n    c.messages.create(model='x')\n"),
    "untyped client": ("calls_llm:direct", "def f(client): return client.chat.completions.create(model='x')\n"),
    "model address": ("calls_llm:direct", "import httpx\ndef f(b): return httpx.post(f'{b}/v1/chat/completions')\n"),
    "address given by the caller": ("calls_llm:direct", "import requests\nfrom urllib.parse import urljoin\ndef post(url, payload): return requests.post(url, json=payload)\ndef f(b, p): return post(urljoin(b, 'api/chat'), {'model': 'x', 'messages': p})\n"),
    "agent of an annotated maker": ("calls_llm:direct", "from llama_index.agent.openai import OpenAIAgent\nasync def made(tools) -> OpenAIAgent:\n    return OpenAIAgent.from_tools(tools=tools)\nasync def f(q):\n    agent = await made([])\n    return await agent.astream_chat(q)\n"),
    "chain": ("calls_llm:direct", "from langchain_openai import ChatOpenAI\ndef f(p, x):\n    return (p | ChatOpenAI()).invoke(x)\n"),
    "run of what a model calls": ("calls_external_api:tool", "from langgraph.prebuilt import ToolExecutor\nasync def f(tools, actions):\n    return await ToolExecutor(tools).abatch(actions)\n"),
    "graph whose node is a chain": ("calls_llm:direct", "from langchain_openai import ChatOpenAI\nfrom langgraph.graph import StateGraph\ndef build(prompt):\n    graph = StateGraph(dict)\n    graph.add_node('agent', prompt | ChatOpenAI())\n    return graph.compile().with_config(tags=['a'])\nasync def f(q): return await build('p').ainvoke(q)\n"),
    "engine over images": ("calls_llm:direct", "from llama_index.core.query_engine import SimpleMultiModalQueryEngine\nclass E:\n    def __init__(self, engine: SimpleMultiModalQueryEngine): self.engine = engine\n    def f(self, q): return self.engine.query(q)\n"),
    "run of a chain that is handed on": ("calls_llm:direct", "from langchain_core.runnables import Runnable\nasync def f(app: Runnable, q):\n    async for event in app.astream_events(q): yield event\n"),
    "wrapper": ("calls_llm:wrapped:1", "import litellm\ndef complete(p): return litellm.completion(model='x')\ndef f(): complete('a')\n"),
    "wrapper in a pool": ("calls_llm:wrapped:2", "import litellm\nfrom concurrent.futures import ThreadPoolExecutor\ndef complete(p): return litellm.completion(model='x')\ndef ask(p):\n    with ThreadPoolExecutor() as pool:\n        return pool.submit(complete, p).result()\ndef f(): return ask('a')\n"),
    "memo": ("has_cache:lookup", "CACHE = {}\ndef f(k):\n    if k in CACHE:\n        return CACHE[k]\n    CACHE[k] = v = work(k)\n    return v\ndef work(k): ...\n"),
    "lru": ("has_cache:decorator", "from functools import lru_cache\n@lru_cache\ndef f(k): ...\n"),
    "sql": ("has_db_write:sql", "import sqlite3\ndef f():\n    q = 'insert into t values (1)'\n    sqlite3.connect('x').execute(q)\n"),
    "session": ("has_db_write:orm", "from sqlalchemy.orm import Session\ndef f(s: Session, x): s.add(x)\n"),
    "vectors": ("has_db_write:vector", "from qdrant_client import QdrantClient\ndef f(c: QdrantClient): c.upsert('a', [])\n"),
    "streamed chunks": ("streams_response:generator", "from openai import OpenAI\ndef f():\n    for c in OpenAI().chat.completions.create(stream=True):\n        yield c.choices[0].delta\n"),
    "streaming response": ("streams_response:response", "from fastapi.responses import StreamingResponse\ndef f(g): return StreamingResponse(g(), media_type='text/event-stream')\n"),
    "chain that a response runs": ("calls_llm:direct", "from lanarky.responses import StreamingResponse\nfrom langchain import LLMChain\ndef f(llm, p, q):\n    chain = LLMChain(llm=llm, prompt=p)\n    return StreamingResponse.from_chain(chain, q)\n"),
    "called instance": ("calls_llm:direct", "import dspy\nclass M(dspy.Module):\n    def __init__(self): self.answer = dspy.Predict('q -> a')\n    def forward(self, q): return self.answer(q=q)\n"),
    "called component": ("calls_llm:direct", "import adalflow as adal\nclass R(adal.Component):\n    def __init__(self): self.ask = adal.Generator(model_client=None)\n    def call(self, q): return self.ask(prompt_kwargs={'q': q})\n"),
    "lazy module": ("calls_llm:direct", "import importlib\nclass Lazy:\n    inner = None\n    def __getattr__(self, name):\n        self._load()\n        return getattr(self.inner, name)\n    def _load(self): self.inner = importlib.import_module('litellm')\nlitellm = Lazy()\ndef f(m): return litellm.completion(model='x', messages=m)\n"),
    "untyped model": ("calls_llm:direct", "class A:\n    def __init__(self, model): self.model = model\n    def f(self, p): return self.model.invoke(p)\n"),
    "statement by a wrapper": ("has_db_write:sql", "class S:\n    async def put(self, v): await self._execute('INSERT INTO t VALUES ($1)', v)\n    async def _execute(self, sql, *args): ...\n"),
    "table of statements": ("has_db_write:sql", "SQL = {'put': 'INSERT INTO t VALUES (?)'}\ndef f(db, v): db.execute(SQL['put'], v)\n"),
    "sent by a helper": ("streams_response:websocket", "from langchain_openai import ChatOpenAI\nclass A:\n    def __init__(self, websocket): self.llm = ChatOpenAI(); self.websocket = websocket\n    async def say(self, t): await self.websocket.send_json(t)\n    async def f(self, m):\n        async for chunk in self.llm.astream(m): await self.say(chunk)\n"),
    "broker": ("has_queue:broker", "from aiokafka import AIOKafkaProducer\nasync def f(p: AIOKafkaProducer): await p.send_and_wait('t', b'')\n"),
    "local queue": ("has_queue:local", "import queue\nQ = queue.Queue()\ndef f(x): Q.put(x)\ndef g(): return Q.get()\n"),
    "own breaker": (
        "has_circuit_breaker:built",
        "class B:\n    def __init__(self):\n        self.failures = 0\n    def call(self, fn):\n        if self.failures >= 3:\n            raise RuntimeError\n        try:\n            r = fn()\n            self.failures = 0\n            return r\n        except OSError:\n            self.failures += 1\n            raise\n",
    ),
    "breaker library": ("has_circuit_breaker:library", "from circuitbreaker import circuit\n@circuit\ndef f(): ...\n"),
    "breaker by state": (
        "has_circuit_breaker:class",
        "import time\nclass Breaker:\n    def _update(self):\n        if time.time() - self.opened_at > 30:\n            self.state = 'half_open'\n    def call(self, fn):\n        self._update()\n        if self.state == 'open':\n            return None\n        try:\n            return fn()\n        except OSError:\n            self._failed()\n            raise\n    def _failed(self):\n        self.failures += 1\n        if self.failures > 3:\n            self.state, self.opened_at = 'open', time.time()\n",
    ),
    "breaker by gate": (
        "has_circuit_breaker:built",
        "import time\nclass Breaker:\n    def is_allowed(self, url):\n        if url in self._blocked_urls:\n            if time.time() < self._blocked_urls[url]:\n                return False\n        return True\n    def record_failure(self, url):\n        self._failures[url].append(time.time())\n        if len(self._failures[url]) > 3:\n            self._blocked_urls[url] = time.time() + 60\n",
    ),
    "ways of a runnable that retries": ("has_retry_loop:client", "def f(model): return model.with_retry(stop_after_attempt=3)\n"),
}  # fmt: skip

SILENT: dict[str, tuple[str, str]] = {
    "what a chain says of itself": ("calls_llm", "from langchain_core.runnables import Runnable\ndef f(app: Runnable): return app.get_input_schema()\n"),
    "list of tools": ("calls_external_api", "from mcp import ClientSession\nasync def f(s: ClientSession): return await s.list_tools()\n"),
    "graph whose nodes are functions": ("calls_llm", "from langgraph.graph import StateGraph\ndef node(state): return state\ndef build():\n    graph = StateGraph(dict)\n    graph.add_node('agent', node)\n    return graph.compile()\nasync def f(q): return await build().ainvoke(q)\n"),
    "own step of a chain": ("calls_llm", "from langchain_core.runnables import RunnableSerializable\nclass Ingest(RunnableSerializable):\n    def invoke(self, x): return x\ningest = Ingest()\ndef f(xs): return ingest.batch(xs)\n"),
    "addresses of several services": ("calls_llm", "import requests\ndef post(url, payload): return requests.post(url, json=payload)\ndef f(b, p): return post(b + '/api/chat', {'model': 'x', 'messages': p})\ndef g(b): return post(b + '/api/orders', {})\n"),
    "clients by key": ("has_cache", "from functools import lru_cache\n@lru_cache(maxsize=8)\ndef _get_client(key): return Client(key)\n"),
    "grouping what is cached": ("has_cache", "def f(rows):\n    cached_results = {}\n    for r in rows:\n        if r.k not in cached_results:\n            cached_results[r.k] = []\n        cached_results[r.k].append(r)\n    return cached_results\n"),
    "making a callable": ("calls_llm:m.f", "import dspy\ndef f(): return dspy.Predict('q -> a')\n"),
    "beside a callable": ("calls_llm:m.f", "import dspy\ndef keep(x): return x\ndef f(): return keep(dspy.Predict('q -> a'))\n"),
    "registered callback": ("calls_llm:m.f", "import litellm, atexit\ndef complete(): return litellm.completion(model='x')\ndef f(): atexit.register(complete)\n"),
    "itertools": ("calls_llm", "from itertools import chain\ndef f(values): return list(chain(*values))\n"),
    "progress of a job": ("streams_response", "import json\nfrom fastapi.responses import StreamingResponse\ndef index_all(docs):\n    def generate():\n        for d in docs: yield json.dumps({'done': d})\n    return StreamingResponse(generate(), media_type='text/event-stream')\n"),
    "work until cancelled": ("has_cascade", "import requests\ndef f(urls, state, headers):\n    for url in urls:\n        if state.cancelled:\n            break\n        try:\n            requests.delete(url, headers=headers)\n        except OSError:\n            state.failed += 1\n"),
    "answer about nothing": ("has_cascade", "def f(doc_id):\n    row = source_row(doc_id)\n    if row is None:\n        return _SourceDecision(doc_id)\n    return row\ndef source_row(doc_id): ...\nclass _SourceDecision: ...\n"),
    "failed once": ("has_circuit_breaker", "_failed = False\ndef load():\n    global _failed\n    if _failed:\n        return None\n    try:\n        return open('x')\n    except OSError:\n        _failed = True\n"),
    "table of jobs": ("has_cache", "class Jobs:\n    def __init__(self): self.jobs = {}\n    def create(self, key):\n        known = self.jobs.get(key)\n        if known is not None:\n            return Refused(known)\n        self.jobs[key] = begin(key)\n        return self.jobs[key]\ndef begin(key): ...\nclass Refused: ...\n"),
    "embedding by any model": ("calls_llm", "import boto3\ndef embed_text(t): return boto3.client('bedrock-runtime').invoke_model(body=t)\n"),
    "reading what a search gave": ("calls_external_api:m.read", "import tavily\nCLIENT = tavily.TavilyClient()\ndef read(rows): return [x.get('url') for x in rows['results']]\ndef g(q):\n    return read(CLIENT.search(q))['n']\n"),
    "making a client": ("calls_external_api", "from azure.storage.blob import BlobServiceClient\ndef f(s): return BlobServiceClient.from_connection_string(s).get_container_client('x')\n"),
    "another way without a library": ("has_cascade", "def f(jobs):\n    try:\n        from fancy import gather_all\n        return gather_all(jobs)\n    except ImportError:\n        return gather_all_fallback(jobs)\ndef gather_all_fallback(jobs): ...\n"),
    "made or opened": ("has_cascade", "def f(db, name):\n    try:\n        return db.create_table(name)\n    except ValueError:\n        return db.open_table(name)\n"),
    "decode or encode": ("has_cascade", "import base64\ndef f(v):\n    try:\n        return base64.b64decode(v)\n    except ValueError:\n        return base64.b64encode(v)\n"),
    "said once": ("has_cache", "from functools import lru_cache\n@lru_cache\ndef warn_once(text: str) -> None: print(text)\n"),
    "environment variable": ("has_cache", "import os\ndef f(p):\n    if 'CACHE_DIR' not in os.environ:\n        os.environ['CACHE_DIR'] = os.path.join(p, 'x')\n    return os.environ['CACHE_DIR']\n"),
    "only finally": ("has_try_except", "def f():\n    try:\n        g()\n    finally:\n        h()\n"),
    "bare raise": ("has_try_except", "def f():\n    try:\n        g()\n    except OSError:\n        raise\n"),
    "optional import": ("has_try_except", "try:\n    import fast\nexcept ImportError:\n    fast = None\n"),
    "pages": ("has_retry_loop", "def f():\n    for page in range(10):\n        try:\n            r = g(page)\n        except OSError:\n            continue\n        if not r:\n            break\n"),
    "one try": ("has_retry_loop", "def f(max_retries=1):\n    for attempt in range(max_retries):\n        try:\n            return g()\n        except OSError:\n            continue\n"),
    "no try more": ("has_retry_loop", "def f(retries=0):\n    for attempt in range(retries + 1):\n        try:\n            return g()\n        except OSError:\n            continue\n"),
    "one try by a setting": ("has_retry_loop", "from pydantic import BaseModel, Field\nclass S(BaseModel):\n    most_tries: int = Field(default=1, ge=1)\ndef f(settings: S):\n    for attempt in range(settings.most_tries):\n        try:\n            return g()\n        except OSError:\n            continue\n"),
    "polling": ("has_retry_loop", "def f(j):\n    while True:\n        if j.status() == 'done':\n            return j\n        sleep(1)\n"),
    "agent steps": ("has_retry_loop", "def f(max_steps):\n    for step in range(max_steps):\n        try:\n            r = act(step)\n        except OSError:\n            continue\n        if r.done:\n            return r\n"),
    "parts of what was tried": ("has_retry_loop", "from tenacity import Retrying\ndef f():\n    message = Retrying()(g)\n    for part in message.blocks():\n        try:\n            keep(part)\n        except OSError as e:\n            raise RuntimeError() from e\n"),
    "items": ("has_retry_loop", "def f(xs):\n    for x in xs:\n        try:\n            return g(x)\n        except OSError:\n            pass\n"),
    "dispatch": ("has_cascade", "def f(kind, x):\n    if kind == 'a':\n        return load_a(x)\n    return load_b(x)\n"),
    "dictionary default": ("has_cascade", "def f(d): return d.get('a') or d.get('b')\n"),
    "environment": ("has_cascade", "import os\ndef f(): return os.getenv('A') or os.getenv('B')\n"),
    "error answer": ("has_cascade", "def f(q):\n    try:\n        return search(q)\n    except OSError as e:\n        return ErrorResponse(q, e)\n"),
    "dump": ("parses_json", "import json\ndef f(x): return json.dumps(x)\n"),
    "response json": ("parses_json", "import requests\ndef f(u): return requests.get(u).json()\n"),
    "header": ("calls_external_api", "import requests\ndef f(r: requests.Response): return r.headers.get('x')\n"),
    "route": ("calls_external_api", "from fastapi import FastAPI\napp = FastAPI()\n@app.get('/')\ndef f(): ...\n"),
    "url parsing": ("calls_external_api", "from urllib.parse import urlparse\ndef f(u): return urlparse(u)\n"),
    "tool": ("calls_llm", "def f(tool, x): return tool.invoke(x)\n"),
    "embedding": ("calls_llm", "from openai import OpenAI\ndef f(): return OpenAI().embeddings.create(input='x')\n"),
    "password": ("calls_llm", "import secrets\ndef generate(n): return secrets.token_hex(n)\ndef f(): return generate(3)\n"),
    "singleton": ("has_cache", "from functools import lru_cache\n@lru_cache\ndef f(): ...\n"),
    "pool": ("has_cache", "CLIENTS = {}\ndef f(k):\n    if k not in CLIENTS:\n        CLIENTS[k] = Client(k)\n    return CLIENTS[k]\n"),
    "grouping": ("has_cache", "def f(xs):\n    groups = {}\n    for x in xs:\n        if x.k not in groups:\n            groups[x.k] = make(x)\n        groups[x.k].append(x)\n    return groups\n"),
    "select": ("has_db_write", "import sqlite3\ndef f(): sqlite3.connect('x').execute('select 1')\n"),
    "dict update": ("has_db_write", "def f(d): d.update(a=1)\n"),
    "chain whose name a response sends": ("calls_llm", "from fastapi.responses import JSONResponse, StreamingResponse\nfrom langchain import LLMChain\ndef f(llm, p):\n    chain = LLMChain(llm=llm, prompt=p)\n    return StreamingResponse(iter([str(chain)]))\n"),
    "chain of a search": ("calls_llm", "from langchain_core.runnables import RunnableAssign, RunnableLambda\nfrom langchain_core.prompts import ChatPromptTemplate\ndef f(store, q, h):\n    retriever = store.as_retriever()\n    if h:\n        step = RunnableLambda(lambda x: retriever.invoke(x, filter=g(h)))\n    else:\n        step = RunnableLambda(lambda x: retriever.invoke(x))\n    retriever_chain = {'context': step} | RunnableAssign({'context': lambda i: i['context']})\n    return retriever_chain.invoke(q)\ndef g(h): return {'a': h}\n"),
    "chain of a prompt and a search": ("calls_llm", "from langchain_core.runnables import RunnableAssign, RunnableLambda\nfrom langchain_core.prompts import ChatPromptTemplate\ndef f(retriever, q):\n    chain = ChatPromptTemplate.from_template('find {q}') | retriever\n    return chain.invoke(q)\n"),
    "csv download": ("streams_response", "from fastapi.responses import StreamingResponse\ndef f(b): return StreamingResponse(b, media_type='text/csv')\n"),
    "ingestion": ("streams_response", "def f(rows):\n    for r in rows:\n        yield r\n"),
    "walk": ("has_queue", "from collections import deque\ndef f(x):\n    queue = deque([x])\n    while queue:\n        queue.popleft()\n"),
    "discard queue": ("has_queue", "import queue\nQ = queue.Queue()\ndef f(x): Q.put(x)\n"),
    "rate limit": ("has_circuit_breaker", "import time\nclass Limit:\n    def f(self, key):\n        now = time.time()\n        self.calls[key].append(now)\n        if self.state == 'full' and now - self.calls[key][0] < 60:\n            return False\n        return True\n"),
    "connection state": ("has_circuit_breaker", "class C:\n    def f(self):\n        if self.state == 'open':\n            raise RuntimeError\n        try:\n            g()\n        except OSError:\n            self.failures += 1\n"),
    "size cap": ("has_circuit_breaker", "class B:\n    def f(self, x):\n        if len(x) > self.max_size:\n            raise ValueError\n"),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(FIRES))
def test_a_pattern_is_found(name: str, tmp_path: Path) -> None:
    wanted, source = FIRES[name]

    found = {f"{h.pattern}:{h.kind}" for h in patterns(tmp_path, {"m.py": source})}

    assert wanted in found


@pytest.mark.parametrize("name", sorted(SILENT))
def test_what_only_looks_like_it_is_left_alone(name: str, tmp_path: Path) -> None:
    unwanted, source = SILENT[name]

    hits = patterns(tmp_path, {"m.py": source})

    assert unwanted not in {h.pattern for h in hits} | {f"{h.pattern}:{h.symbol}" for h in hits}


def test_a_hit_cites_its_lines(tmp_path: Path) -> None:
    source = "import json\n\n\ndef f(t):\n    return json.loads(\n        t\n    )\n"

    (hit,) = [h for h in patterns(tmp_path, {"m.py": source}) if h.pattern == "parses_json"]

    assert (hit.path, hit.line, hit.symbol) == ("m.py", 5, "m.f")


def test_a_generated_function_has_a_bounded_number_of_hits(tmp_path: Path) -> None:
    lines = "".join(f"    d[{n}] = json.loads(open(str({n})).read())\n" for n in range(MOST_HITS + 40))
    write_tree(tmp_path, {"made.py": f"import json\n\n\ndef load(d):\n{lines}    return d\n"})
    made = run_design(scan_repository(tmp_path))

    assert sum(h.pattern == "parses_json" for h in made.hits) == MOST_HITS
