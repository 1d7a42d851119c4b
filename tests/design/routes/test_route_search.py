"""Routes: shapes with more than one ordered way to an answer, and shapes that only look like it."""

# ruff: noqa: E501 - one case a line reads as a table
from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from tests.design.source_tree import routes

#: What each fixture begins with: a model, a search and rules.
HEAD = """\
import json, logging, requests
from openai import OpenAI
client = OpenAI()
def ask(prompt, model="large"):
    return client.chat.completions.create(model=model, messages=[prompt])
def rules(prompt):
    return prompt.upper()
def search(query):
    return requests.get("https://search.example", params={"q": query}).json()
"""
FIRST = HEAD.count("\n") + 1

#: Name: (kind, lines of the arms counted from the fixture's own first line, the fixture).
ROUTES: dict[str, tuple[str, list[int], str]] = {
    "second call in the handler": ("rules", [3, 5], "def f(p):\n    try:\n        return ask(p)\n    except Exception:\n        return rules(p)\n"),
    "second call after the handler": ("rules", [3, 6], "def f(p):\n    try:\n        return ask(p)\n    except Exception:\n        logging.warning('failed')\n    return rules(p)\n"),
    "assigned and then returned": ("rules", [3, 5], "def f(p):\n    try:\n        text = ask(p)\n    except OSError:\n        text = rules(p)\n    return text\n"),
    "another receiver": ("model", [4, 6], "class A:\n    def f(self, p):\n        try:\n            return self.llm.invoke(p)\n        except Exception:\n            return self.fallback_llm.invoke(p)\n"),
    "a receiver by name": ("model", [4, 6], "def f(llm, fallback_llm, name, p):\n    method = getattr(fallback_llm, name)\n    try:\n        return llm.invoke(p)\n    except Exception:\n        return fallback_llm.invoke(p)\n"),
    "the same wrapper with another model": ("model", [3, 5], "def f(p):\n    try:\n        return ask(p, model='large')\n    except Exception:\n        return ask(p, model='small')\n"),
    "no result": ("tool", [2, 4], "def f(q):\n    found = search(q)\n    if not found:\n        found = requests.get('https://other.example', params={'q': q})\n    return found\n"),
    "None": ("model", [2, 4], "def f(p):\n    text = ask(p)\n    if text is None:\n        return ask(p, model='small')\n    return text\n"),
    "a good result is returned": ("rules", [2, 5], "def f(p):\n    text = ask(p)\n    if text is not None:\n        return text\n    return rules(p)\n"),
    "low confidence": ("model", [2, 4], "def f(p):\n    answer = ask(p)\n    if answer.confidence < 0.5:\n        answer = ask(p, model='larger')\n    return answer\n"),
    "success is not set": ("model", [2, 5], "def f(p):\n    answer = ask(p)\n    if answer.get('success'):\n        return answer\n    return ask(p, model='small')\n"),
    "a broader query": ("query", [2, 5], "def f(q):\n    found = search(q)\n    if len(found) == 0:\n        q = q.split()[0]\n        found = search(q)\n    return found\n"),
    "one or the other": ("rules", [2, 2], "def f(p):\n    return search_index(p) or search_index_fallback(p)\ndef search_index(p): return requests.get(p)\ndef search_index_fallback(p): return p\n"),
    "one if it is there else the other": ("rules", [2, 3], "def f(p):\n    text = ask(p)\n    return text if text is not None else rules(p)\n"),
    "a table of providers": ("table", [4, 4], "def f(providers, p):\n    for provider in providers:\n        try:\n            return provider.complete(p)\n        except Exception:\n            continue\n    raise RuntimeError\n"),
    "a table of models, then a text": ("table", [4, 7], "def f(p):\n    for model in ('large', 'small'):\n        try:\n            return ask(p, model=model)\n        except Exception:\n            logging.warning('next')\n    return 'Please ask again later.'\n"),
    "models with options, each tried again": ("table", [6, 6], "def f(llms, p):\n    for i, (name, llm) in enumerate(llms):\n        asked = llm.with_structured_output(dict)\n        for attempt in range(3):\n            try:\n                return wait_for(asked.invoke(p), timeout=9)\n            except Exception as e:\n                if attempt < 2:\n                    continue\n                logging.error(name)\n    raise RuntimeError\ndef wait_for(result, timeout): return result\n"),
    "a table by results": ("table", [3, 3], "def f(retrievers, q):\n    for retriever in retrievers:\n        found = retriever.search(q)\n        if found:\n            return found\n    return None\n"),
    "a cache in front": ("cache", [3, 6], "def f(cache, q):\n    key = q.lower()\n    found = cache.get(key)\n    if found is not None:\n        return found\n    found = search(q)\n    cache.set(key, found)\n    return found\n"),
    "a cache in a condition": ("cache", [2, 4], "def f(redis, key, q):\n    if (found := redis.get(key)):\n        return json.loads(found)\n    return search(q)\n"),
    "what is read is stored again": ("cache", [6, 9], "class A:\n    def _read(self, key): return open(key).read()\n    def _write(self, key, value): open(key, 'w').write(value)\n    def f(self, fetch, name):\n        key = f'{name}.json'\n        hit = self._read(key)\n        if hit is not None:\n            return hit\n        value = fetch()\n        self._write(key, value)\n        return value\n"),
    "a second stream where the first one sent nothing": ("rules", [5, 10], "def f(llm, other, p):\n    is_sent = False\n    try:\n        logging.info(p)\n        for part in llm.invoke(p):\n            yield part\n            is_sent = True\n    except Exception:\n        logging.warning('failed')\n    if not is_sent: yield other.invoke(p)\n"),
    "a canned text": ("canned text", [3, 5], "def f(p):\n    try:\n        return ask(p)\n    except Exception:\n        return 'Sorry, nobody can answer now.'\n"),
    "a canned object": ("canned text", [3, 5], "def f(p):\n    try:\n        return ask(p)\n    except Exception:\n        return Answer(text='Please ask a person.', category='unknown')\nclass Answer: ...\n"),
    "a canned event of a stream": ("canned text", [3, 6], "def f(p):\n    try:\n        for part in ask(p):\n            yield part\n    except Exception:\n        reply = Reply(text='Please ask a person.')\n        yield f'data: {json.dumps(reply.dict())}'\nclass Reply: ...\n"),
    "no steps are left": ("canned text", [2, 4], "def f(state):\n    answer = ask(state)\n    if state['remaining_steps'] < 2 and answer.tool_calls:\n        return 'Sorry, this needs more steps.'\n    return answer\n"),
    "the prompt as it was": ("partial answer", [4, 8], "def f(retriever, prompt):\n    text = prompt\n    try:\n        found = retriever.similarity_search(prompt)\n        return prompt + found\n    except Exception:\n        logging.warning('without examples')\n        return prompt\n"),
    "a person": ("person", [3, 5], "from langgraph.types import interrupt\ndef f(p):\n    answer = ask(p)\n    if answer.date is None:\n        answer = interrupt('When was it?')\n    return answer\n"),
    "parsers": ("parser", [3, 7], "def f(text):\n    try:\n        return json.loads(text)\n    except ValueError:\n        pass\n    start = text.find('{')\n    return json.loads(text[start:])\n"),
    "batch, then one by one": ("model", [3, 5], "def f(client, ps):\n    try:\n        return ask(ps)\n    except Exception:\n        return [ask(p) for p in ps]\n"),
    "attempts, then another way": ("rules", [4, 7], "def f(p):\n    for attempt in range(3):\n        try:\n            return ask(p)\n        except OSError:\n            logging.warning('again')\n    return rules(p)\n"),
    "a judged answer": ("model", [2, 5], "def f(p):\n    answer = ask(p)\n    verdict = judge(p, answer)\n    if verdict.state == 'partial':\n        answer = ask(p + 'more')\n    return answer\ndef judge(p, a): return client.chat.completions.create(model='j', messages=[p, a])\n"),
    "work without a result": ("rules", [3, 5], "def f(job):\n    try:\n        job.run(job.args)\n    except TimeoutError:\n        job.fallback(job.args)\n"),
    "work without a result, by the same method of something else": ("rules", [3, 6], "def f(stored, kept, m):\n    try:\n        stored.add_message(m)\n    except Exception:\n        logging.warning('not stored')\n        kept.add_message(m)\n"),
    "YAML, or what a function makes of it that mends": ("parser", [4, 6], "import yaml\ndef f(text):\n    try:\n        found = yaml.safe_load(text)\n    except Exception:\n        found = mend_yaml(text)\n    return found\ndef mend_yaml(text): return text.strip('`')\n"),
    "two patterns": ("query", [3, 5], "import re\ndef f(text):\n    found = re.findall(r'```json(.*?)```', text)\n    if not found:\n        found = re.findall(r'{.*?}', text)\n    return found\n"),
    "files of a service, or those that are there": ("rules", [3, 5], "def f(api, name):\n    try:\n        names = api.list_repo_files(name)\n    except ConnectionError:\n        names = list_local_repo_files(name)\n    return names\ndef list_local_repo_files(name): return [name]\n"),
    "a fixed list in place of what a service gives": ("canned text", [4, 6], "NAMES = ['a', 'b']\ndef f(q):\n    try:\n        names = search(q)\n    except Exception:\n        names = list(NAMES)\n    return [n.upper() for n in names]\n"),
    "what a private function makes in place of a file": ("rules", [3, 6], "def f(path):\n    try:\n        with open(path) as file:\n            return decode_sound(file)\n    except OSError:\n        return _silence()\ndef _silence(): return b'' * 4\ndef decode_sound(file): return file\n"),
    "a value that is kept for some time": ("cache", [5, 6], "kept = {'at': 0.0, 'version': ''}\ndef f():\n    age = time.time() - kept['at']\n    if age < 60:\n        return kept['version']\n    version = search('version')\n    kept['version'] = version\n    return version\n"),
    "a function that is passed in, with each of several models": ("table", [4, 4], "def f(run, models):\n    for i, (model, site) in enumerate(zip(models, sites(models))):\n        try:\n            return run(model)\n        except Exception as e:\n            if i == len(models) - 1:\n                raise RuntimeError from e\ndef sites(models): return models\n"),
    "YAML, and the text mended": ("parser", [4, 7], "import yaml\ndef f(text):\n    try:\n        return yaml.safe_load(text)\n    except Exception:\n        pass\n    return yaml.safe_load(text.strip('`'))\n"),
    "all in one request, or each": ("query", [2, 5], "def f(items):\n    is_done = requests.post('https://a.example', json=items)\n    if not is_done:\n        for item in items:\n            requests.post('https://a.example', json=[item])\n"),
    "option of a library": ("option", [2, 2], "import litellm\ndef f(p): return litellm.completion(model='a', messages=[p], fallbacks=['b'])\n"),
    "ways of a runnable": ("option", [1, 1], "def f(a, b): return a.with_fallbacks([b])\n"),
    "models behind that of an agent": ("option", [2, 2, 2], "from langchain.agents.middleware import ModelFallbackMiddleware\ndef f(): return ModelFallbackMiddleware('a', 'b')\n"),
    "models behind that of an agent, from a list": ("option", [2, 2], "from langchain.agents.middleware import ModelFallbackMiddleware\ndef f(names): return ModelFallbackMiddleware(*names)\n"),
    "runnables that variables hold": ("option", [2, 3], "def f(make, names):\n    first = make('a')\n    others = [make(n) for n in names]\n    return first.with_fallbacks(others)\n"),
    "a router": ("option", [2, 2], "from litellm import Router\ndef f(): return Router(model_list=[], fallbacks=[{'a': ['b']}])\n"),
    "the last resort of retries": ("option", [2, 2], "from tenacity import retry\n@retry(retry_error_callback=rules)\ndef f(p): return ask(p)\n"),
    "an answer, or a sentence for nothing found": ("canned text", [4, 6], "def f(q):\n    found = search(q)\n    if found:\n        text, cost = ask(found)\n    else:\n        text = \"I couldn't find anything to answer from.\"\n        cost = 0\n    return {'text': text, 'cost': cost}\n"),
    "a part of the answer, or a sentence": ("canned text", [2, 4], "def f(p):\n    reply = ask(p)\n    if not reply or not reply.get('text'):\n        text = 'Something went wrong'\n    else:\n        text = reply['text']\n    return {'text': text}\n"),
    "a sentence where a stream was empty": ("canned text", [3, 7], "async def f(socket, p):\n    text = ''\n    for part in ask(p):\n        text += part\n        await socket.send(text)\n    if text.strip() == '':\n        await socket.send('Sorry, there is no answer to this.')\n"),
    "a text that is named as the one that stands in": ("canned text", [4, 6], "FALLBACK_REJECTION = 'This is about something else.'\ndef f(p):\n    try:\n        return ask(p)\n    except Exception:\n        return FALLBACK_REJECTION\n"),
    "a cache that tells whether it holds": ("cache", [3, 6], "def _cached(key): return redis.get(key) is not None, redis.get(key)\ndef f(key):\n    held, value = _cached(key)\n    if held:\n        return value\n    return search(key)\n"),
}  # fmt: skip

NO_ROUTES: dict[str, str] = {
    "what the answer itself holds": "def f(p):\n    answer = ask(p)\n    if answer.is_unclear:\n        return Command(goto=END, update=[Message(content=answer.question)])\n    return Command(goto='next', update=[Message(content=answer.words)])\n",
    "the node that is next": "def f(state):\n    reply = ask(state)\n    if reply.plan:\n        return [Send('plan', {**state, 'plan': reply.plan})]\n    elif reply.tasks:\n        return [Send('search', {**state, 'tasks': reply.tasks})]\n    return []\n",
    "the node that is next, with the reply": "def f(state):\n    reply = ask(state)\n    plan = json.loads(reply)\n    if plan.get('is_enough'):\n        return Command(update={'messages': [AIMessage(content=reply, name='planner')]}, goto='report')\n    return Command(update={'messages': [AIMessage(content=reply, name='planner')]}, goto='person')\n",
    "a row that is written where there is none": "def f(db, sub):\n    if row := db.fetchrow('SELECT * FROM users WHERE sub = $1', sub):\n        return row\n    return db.fetchrow('INSERT INTO users (sub) VALUES ($1) RETURNING *', sub)\n",
    "one of two, by what is given": "import tiktoken\ndef f(model):\n    return tiktoken.encoding_for_model(model) if 'gpt' in model else tiktoken.get_encoding('o200k_base')\n",
    "a comment after what could not be read": "def f(host, text):\n    try:\n        old = host.session.get('https://a.example/comments')\n        print(old)\n    except Exception:\n        pass\n    return requests.post('https://a.example/new', json=text)\n",
    "a value that is made once": "kept = {}\ndef f():\n    if 'client' in kept:\n        return kept['client']\n    kept['client'] = OpenAI()\n    return kept['client']\n",
    "an answer of a stream that comes whether or not a word before it failed": "def f(p, is_plain):\n    if not is_plain:\n        try:\n            yield ask(p)\n        except Exception:\n            print(p)\n    if is_plain:\n        for part in tell(p):\n            yield part\n",
    "a status in a stream, before the answer": "def f(p):\n    plan = ask(p)\n    if plan.verdict == 'partial':\n        yield 'Still looking for more.'\n        more = search(p)\n        print(more)\n",
    "a query that counts, then the one that lists": "def f(engine, column):\n    rows = engine.execute('count').fetchall()\n    if len(rows) > 0 and MIN_ROWS < rows[0][0] <= MAX_ROWS:\n        listed = engine.execute('list').fetchall()\n        return [r[0] for r in listed]\n    return None\n",
    "what a model decides to do next": "def f(p):\n    is_needed: bool = decide(p)\n    if not is_needed:\n        return 'There is nothing to be done.'\n    return search(p)\ndef decide(p) -> bool:\n    return 'yes' in ask(p)\n",
    "one score after the other": "def f(text):\n    score = html_score(text)\n    if score >= 0.5:\n        return score\n    other = markdown_score(text)\n    return other\ndef html_score(t): return t.count('<')\ndef markdown_score(t): return t.count('#')\n",
    "predicates": "def f(x): return is_a(x) or is_b(x)\ndef is_a(x): return requests.get(x)\ndef is_b(x): return requests.get(x)\n",
    "get or create": "def f(db, n):\n    row = db.find(n)\n    if row is None:\n        row = db.create(n)\n    return row\n",
    "singleton": "_client = None\ndef f():\n    global _client\n    if _client is None:\n        _client = OpenAI()\n    return _client\n",
    "memo in a dictionary": "class A:\n    def __init__(self): self._cache = {}\n    def f(self, k):\n        found = self._cache.get(k)\n        if found is None:\n            found = rules(k)\n        return found\n",
    "dispatch": "def f(kind, p):\n    if kind == 'a':\n        return ask(p)\n    return search(p)\n",
    "dispatch on a result": "def f(p):\n    intent = ask(p)\n    if intent.kind == 'weather':\n        return search(p)\n    return ask(p, model='x')\n",
    "settings": "import os\ndef f(): return os.environ.get('A') or os.environ.get('B')\n",
    "a setting, then a file": "def f(config):\n    value = config.get_value('a')\n    if value is None:\n        value = config.get_value('b')\n    return value\n",
    "fields of a message": "def f(update):\n    m = update.get('message')\n    if not m:\n        m = update.get('edited')\n    return m\n",
    "refusal before any answer": "def f(p):\n    if not p:\n        return 'Please ask something.'\n    return ask(p)\n",
    "the same call again": "def f(p):\n    try:\n        return ask(p)\n    except OSError:\n        return ask(p)\n",
    "an empty list": "def f(q):\n    try:\n        return search(q)\n    except OSError:\n        return []\n",
    "two forms of a path": "def f(path, root):\n    try:\n        name = path.resolve().relative_to(root)\n    except ValueError:\n        name = path.resolve()\n    return name\n",
    "bytes where it is no text": "def f(path):\n    try:\n        found = path.read_text()\n    except UnicodeDecodeError:\n        found = path.read_bytes()\n    return found\n",
    "a member of another list": "def f(names, others, n):\n    try:\n        names.append(search(n))\n    except Exception:\n        others.append(n)\n",
    "a message to another log": "def f(stored, kept, m):\n    try:\n        stored.log(m)\n    except Exception:\n        kept.log(m)\n",
    "error text": "def f(p):\n    try:\n        return ask(p)\n    except Exception as e:\n        return f'Error: {e}'\n",
    "logs to a service": "def f(p):\n    try:\n        return ask(p)\n    except Exception as e:\n        requests.post('https://log.example', json={'e': str(e)})\n        raise\n",
    "error response": "from fastapi.responses import JSONResponse\ndef f(p):\n    try:\n        return ask(p)\n    except Exception:\n        return JSONResponse(status_code=500, content={'detail': 'try later please'})\n",
    "library that is missing": "def f(p):\n    try:\n        import fancy\n        return fancy.ask(p)\n    except ImportError:\n        return rules(p)\n",
    "tools are done": "def f(p):\n    answer = ask(p)\n    tool_calls = answer.tool_calls\n    if not tool_calls:\n        return ask(answer)\n    return None\n",
    "shapes of one value": "def f(obj):\n    for name in ('model_dump', 'dict'):\n        try:\n            return getattr(obj, name)()\n        except TypeError:\n            continue\n    return obj\n",
    "search in a list": "def f(items, k):\n    for item in items:\n        if item.key == k:\n            return item\n    return None\n",
    "formats of a date": "from datetime import datetime\ndef f(t):\n    try:\n        return datetime.strptime(t, '%Y')\n    except ValueError:\n        return datetime.strptime(t, '%m')\n",
    "formatted answer": "def f(p):\n    answer = ask(p)\n    if answer:\n        answer = rules(answer)\n    return answer\n",
    "two sentences by what a model decided": "def f(p):\n    reply = ask(p)\n    urgent = reply['urgent']\n    if urgent:\n        text = f'A person was told why: {reply}'\n    else:\n        text = 'This can be answered now.'\n    return {'text': text}\n",
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(ROUTES))
def test_a_route_is_found_with_its_arms_in_order(name: str, tmp_path: Path) -> None:
    kind, lines, source = ROUTES[name]

    found = [r for r in routes(tmp_path, {"m.py": HEAD + source}) if r.line >= FIRST]

    assert [(r.kind, [arm.line - FIRST + 1 for arm in r.answers]) for r in found] == [(kind, lines)]


@pytest.mark.parametrize("name", sorted(NO_ROUTES))
def test_what_only_looks_like_a_route_is_none(name: str, tmp_path: Path) -> None:
    found = routes(tmp_path, {"m.py": HEAD + NO_ROUTES[name]})

    assert [r.text for r in found] == []


def test_two_handlers_that_give_the_same_are_one_arm(tmp_path: Path) -> None:
    source = """
    def f(page):
        try:
            return ask(page)
        except TimeoutError:
            logging.warning("too slow")
            return page
        except Exception:
            return page
    """

    (route,) = routes(tmp_path, {"m.py": HEAD + textwrap.dedent(source)})

    assert [arm.line - FIRST for arm in route.answers] == [3, 6]


def test_one_place_with_several_steps_is_one_route(tmp_path: Path) -> None:
    source = """
    def f(cache, p):
        found = cache.get(p)
        if found is not None:
            return found
        try:
            text = ask(p)
        except TimeoutError:
            text = ask(p, model="small")
        except Exception:
            return []
        cache.set(p, text)
        return text
    """

    (route,) = routes(tmp_path, {"m.py": HEAD + textwrap.dedent(source)})

    assert [(arm.line - FIRST, arm.by) for arm in route.arms] == [
        (2, "cache"),
        (6, "llm_chat"),
        (8, "llm_chat"),
        (10, "empty"),
    ]
    assert [arm.goes_on for arm in route.arms[:2]] == ["unless found is not None", "on TimeoutError"]
    assert [arm.tier for arm in route.answers] == ["get", "ask", "ask_2"]
