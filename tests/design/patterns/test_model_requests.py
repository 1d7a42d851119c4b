"""Which HTTP requests ask a model: by verb, address and body; and what own classes of models are asked by."""

# ruff: noqa: E501 - one case a line reads as a table
from __future__ import annotations

from pathlib import Path

import pytest

from tests.design.source_tree import patterns

BODY = "{'model': 'x', 'messages': m}"

ASKS: dict[str, str] = {
    "path of messages and a body with a model": f"import requests\nclass C:\n    def __init__(self): self.base = load()\n    def f(self, m):\n        data = {BODY}\n        return requests.post(f'{{self.base}}/messages', json=data)\n",
    "any address and a body with messages": "import json, requests\ndef f(name, m):\n    url = 'https://host/rpc/chat/' + name\n    payload = {'messages': m, 'system': 's'}\n    return requests.request('POST', url, data=json.dumps(payload))\n",
    "body that another function makes": "import httpx\nclass C:\n    def body(self, m):\n        made = {'messages': m}\n        made['model'] = 'x'\n        return made\n    def f(self, url, m): return httpx.post(url, json=self.body(m))\n",
    "body that the caller makes and the function adds to": "import requests\nclass C:\n    def ask(self, m):\n        params = {'model': 'x', 'messages': m}\n        return self._send(params)\n    def _send(self, params):\n        params['stream'] = True\n        return requests.post(f'{self.base}/messages', json=params)\n",
    "address of a constant of the module": "import requests\nBASE = 'https://host/codex'\nURL = f'{BASE}/responses'\ndef f(q):\n    body = {'model': 'x', 'input': q}\n    def send(): return requests.post(URL, json=body, stream=True)\n    return send()\n",
    "address that the class above holds": "import requests\nclass A:\n    def __init__(self): self.url = 'https://host/v1/chat/completions'\nclass B(A):\n    def f(self, told): return requests.post(self.url, data=written(told))\n",
    "path that most callers give through another function": "import requests\nclass C:\n    def chat(self, path='/chat/completions', **given): return self._request(path, given)\n    def text(self, **given): return self._request('/completions', given)\n    def picture(self, **given): return self._request('/images/generations', given)\n    def _request(self, path, given):\n        url = f'{self.base}{path}'\n        return self._send(url, given)\n    def _send(self, url, given): return requests.post(url, json=given)\n",
    "attribute of a library's base that is a model": "from llama_index.core.response_synthesizers.base import BaseSynthesizer\nclass S(BaseSynthesizer):\n    async def f(self, p): return await self._llm.apredict(p)\n",
    "tools with a streamed chat": "from llama_index.core.llms.function_calling import FunctionCallingLLM\nasync def f(llm: FunctionCallingLLM, t): return await llm.astream_chat_with_tools(t)\n",
    "chains that run at the same time": "from langchain_core.runnables import RunnableParallel\nfrom langchain_openai import ChatOpenAI\ndef f(p, q):\n    chains = {}\n    chains['a'] = p | ChatOpenAI()\n    return RunnableParallel(**chains).invoke(q)\n",
    "agent that nothing types": "async def f(agent, q): return await agent.ainvoke({'messages': q})\n",
}

ASKS_NOT: dict[str, str] = {
    "request without a body": "import requests\ndef f(b):\n    label = '/v1/chat/completions'\n    return requests.get(b, params=label)\n",
    "verb that only reads": "import httpx\ndef f(c: httpx.AsyncClient, b): return c.request('GET', f'{b}/v1/chat/completions')\n",
    "path of messages of a service of messages": "import requests\ndef f(i, t): return requests.post('https://host/open-apis/im/v1/messages', json={'receive_id': i, 'content': t})\n",
    "messages of a channel": "import requests\ndef f(b, c, t): return requests.post(f'{b}/channels/{c}/messages', json={'content': t, 'model': None})\n",
    "picture of a server of models": "import requests\nclass C:\n    def __init__(self, url):\n        self.base = url.rsplit('/chat/completions', 1)[0]\n    def f(self, p): return requests.post('{}/images/generations'.format(self.base), json={'model': 'x', 'prompt': p})\n",
    "sound, however it is asked for": "import requests\ndef f(b, t): return requests.post(f'{b}/audio/speech', json={'model': 'x', 'input': t})\n",
    "checks of texts": "import requests\ndef f(b, t): return requests.post(f'{b}/v1/moderations', json={'model': 'x', 'input': t})\n",
    "passages that are put in order": "import requests\ndef f(url, q, p): return requests.post(url, json={'model': 'x', 'query': q, 'passages': p})\n",
    "client of the program's own server": f"import httpx\nfrom fastapi import FastAPI\napp = FastAPI()\n@app.post('/chat/stream')\ndef serve(body): ...\ndef f(b, m): return httpx.post(f'{{b}}/chat/stream', json={BODY})\n",
    "own agent that asks nothing": "class Agent:\n    async def ainvoke(self, q): return q\nasync def f(q):\n    agent = Agent()\n    return await agent.ainvoke(q)\n",
    "search at the same time": "from langchain_core.runnables import RunnableParallel\nfrom langchain_chroma import Chroma\ndef f(store: Chroma, q): return RunnableParallel({'context': store.as_retriever()}).invoke(q)\n",
}

WRAPPED: dict[str, str] = {
    "query of a class of a model": "import litellm\nclass LitellmModel:\n    def query(self, m): return self._query(m)\n    def _query(self, m): return litellm.completion(model='x', messages=m)\nclass Agent:\n    def __init__(self): self.model = LitellmModel()\n    def step(self, m): return self.model.query(m)\n",
    "method that is run in decorators": "import litellm\ndef counted(func):\n    def wrapper(*a): return func(*a)\n    return wrapper\nclass BaseLLM:\n    def _raw(self, m): return litellm.completion(model='x', messages=m)\n    def gen(self, m):\n        method = counted(self._raw)\n        return method(m)\ndef step(m): return BaseLLM().gen(m)\n",
}


def _hits(tmp_path: Path, code: str) -> set[tuple[str, str]]:
    hits = patterns(tmp_path, {"app.py": code})
    return {(hit.symbol.rpartition(".")[2], hit.kind) for hit in hits if hit.pattern == "calls_llm"}


@pytest.mark.parametrize("case", ASKS)
def test_a_request_that_a_server_of_models_answers_is_a_call_of_a_model(tmp_path: Path, case: str) -> None:
    assert "direct" in {kind for _, kind in _hits(tmp_path, ASKS[case])}


@pytest.mark.parametrize("case", ASKS_NOT)
def test_a_request_for_other_work_is_no_call_of_a_model(tmp_path: Path, case: str) -> None:
    assert not _hits(tmp_path, ASKS_NOT[case])


@pytest.mark.parametrize("case", WRAPPED)
def test_an_own_class_of_a_model_is_asked_by_its_own_names(tmp_path: Path, case: str) -> None:
    assert "step" in {name for name, kind in _hits(tmp_path, WRAPPED[case]) if kind.startswith("wrapped")}


def test_other_work_through_the_same_function_is_no_call_of_a_model(tmp_path: Path) -> None:
    hits = _hits(tmp_path, ASKS["path that most callers give through another function"])

    assert {"chat", "text"} <= {name for name, _ in hits}
    assert "picture" not in {name for name, _ in hits}
