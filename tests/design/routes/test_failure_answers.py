"""Failures given back as answers: shapes that must fire, and similar shapes that must not."""

# ruff: noqa: E501 - one case a line reads as a table
from __future__ import annotations

from pathlib import Path

import pytest

from tests.design.source_tree import patterns

#: Name: (kind, line, source).
FAILURES: dict[str, tuple[str, int, str]] = {
    "error text of a tool": ("error text", 5, "def f(x):\n    try:\n        return tool(x)\n    except Exception as e:\n        return f'Error executing tool: {e}'\n"),
    "an error event of a stream": ("error text", 6, "def f(x):\n    try:\n        for part in ask(x):\n            yield part\n    except Exception as e:\n        yield {'type': 'error', 'content': str(e)}\n"),
    "None": ("empty", 5, "def f(x):\n    try:\n        return tool(x)\n    except OSError:\n        return None\n"),
    "an empty list": ("empty", 5, "def f(x):\n    try:\n        return tool(x)\n    except OSError:\n        return []\n"),
    "a flag": ("error text", 5, "def f(x):\n    try:\n        return tool(x)\n    except OSError as e:\n        return {'success': False, 'error': str(e)}\n"),
    "an apology": ("fixed text", 5, "def f(x):\n    try:\n        return ask(x)\n    except OSError:\n        return 'Sorry, nobody can answer now.'\n"),
    "the argument": ("argument", 5, "def f(prompt):\n    try:\n        return prompt + examples(prompt)\n    except OSError:\n        return prompt\n"),
    "after the handler": ("empty", 6, "def f(x):\n    try:\n        return tool(x)\n    except OSError:\n        log.warning('x')\n    return None\n"),
    "a fixed refusal in the place of a model's": ("fixed text", 7, "from openai import OpenAI\nclient = OpenAI()\ndef rejection_of(x):\n    try:\n        return client.chat.completions.create(model='m', messages=[x]).choices[0].message.content\n    except Exception:\n        return FALLBACK_REJECTION\ndef f(x):\n    return {'messages': [rejection_of(x)], 'blocked': True}\n"),
    "a sentinel": ("nothing found", 5, "import requests\ndef f(x):\n    rows = requests.get(x).json()\n    if not rows:\n        return 'NO_DATA_AVAILABLE'\n    return rows\n"),
    "a sentence for nothing found": ("nothing found", 5, "import requests\ndef f(x):\n    rows = requests.get(x).json()\n    if not rows:\n        return 'Nothing was found for this.'\n    return rows\n"),
    "nothing, after an error is told": ("empty", 5, "def f(answer):\n    data = parse(answer)\n    if 'review' not in data:\n        log.error('no review')\n        return ''\n    return data['review']\n"),
    "an attribute, after an error is told": ("empty", 6, "def f(self, diff):\n    if diff:\n        self.answer = ask(diff)\n    else:\n        log.error('no diff')\n        self.answer = ''\n"),
    "a fixed value for what the handler replaces": ("fixed text", 5, "def f(row, scores):\n    try:\n        row['score'] = tool(scores)\n    except KeyError:\n        row['score'] = 7\n"),
    "a default for an invalid value": ("default for an invalid value", 4, "def f(priority):\n    if priority in ('P1', 'P2', 'P3'):\n        return priority\n    return 'P3'\n"),
    "an empty dictionary for what the handler replaces": ("empty", 5, "def f(x):\n    try:\n        rows = tool(x)\n    except OSError:\n        rows = {}\n    return rows\n"),
    "an error in words": ("error text", 5, "def f(x):\n    try:\n        return {'message': ask(x)}\n    except OSError as e:\n        return {'message': 'Sorry.', 'error': str(e)}\n"),
    "a word of failure through an own function": ("error text", 7, "def told(status, message=None, error=None):\n    return {'status': status, 'message': message, 'error': error}\ndef f(x):\n    try:\n        return told('Success', message=tool(x))\n    except OSError:\n        return told('Failed', message='No contact.', error='Internal server error')\n"),
    "a word of failure that was bound before": ("error text", 8, "def told(status, message=None, error=None):\n    return {'status': status, 'message': message, 'error': error}\ndef f(x):\n    try:\n        return told('Success', message=tool(x))\n    except OSError:\n        state = 'Failed'\n        return told(state, message='No contact.')\n"),
    "a word of failure after a check": ("error text", 6, "def told(status, message=None, error=None):\n    return {'status': status, 'message': message, 'error': error}\ndef f(x):\n    rows = tool(x)\n    if rows.get('error'):\n        return told(status='failed', message='No rows.')\n    return told('ok', rows)\n"),
    "no success through an own function": ("error text", 7, "def told(success, data=None):\n    return {'success': success, 'data': data}\ndef f(x):\n    try:\n        return told(True, tool(x))\n    except OSError:\n        return told(False)\n"),
    "nothing, after a handler that only tells of it": ("empty", 5, "def f(x):\n    try:\n        return tool(x)\n    except OSError:\n        log.error('x')\n"),
    "a record of a failure in a list of results": ("error text", 7, "def f(xs):\n    done = []\n    for x in xs:\n        try:\n            done.append({'name': tool(x), 'status': 'Success'})\n        except OSError:\n            done.append({'name': x, 'status': 'Failed'})\n    return done\n"),
    "a sentence that a branch binds where the other one binds the answer": ("fixed text", 9, "import requests\ndef search(q):\n    return requests.get(q).json()\ndef f(q):\n    rows = search(q)\n    if rows:\n        text = rows['text']\n    else:\n        text = 'There is nothing about this.'\n    return {'text': text}\n"),
    "the branch that binds a sentence, and not the line that gives either": ("error text", 9, "import requests\ndef search(q):\n    return requests.get(q).json()\ndef f(q):\n    rows = search(q)\n    if rows.get('items'):\n        text = tool(rows)\n    else:\n        text = 'Error in the query.'\n    other = {'message': text}\n    return other\n"),
    "an error text that begins with a mark": ("error text", 4, "def f(code):\n    process = start(code)\n    if process.is_alive():\n        return '[CODE EXECUTION ERROR]: it took too long'\n    return process.output\n"),
    "an error text with a form": ("error text", 5, "def f(x):\n    try:\n        return tool(x)\n    except TimeoutError:\n        return 'Compilation failed after {} seconds'.format(30)\n"),
    "an exit code": ("error text", 5, "def f(x):\n    try:\n        return run(x)\n    except OSError:\n        return {'output': '', 'returncode': -1}\n"),
    "a flag of a tool's result": ("error text", 3, "def f(x):\n    if x.is_late:\n        return ToolResult(output='too late', is_error=True)\n    return ToolResult(output=tool(x))\n"),
    "no success, in a tuple": ("error text", 4, "def f(x):\n    rows = tool(x)\n    if rows.late:\n        return False, 'The table is too large'\n    return True, rows\n"),
    "a record with a word of failure": ("error text", 6, "def f(x):\n    code = tool(x)\n    if code != 0:\n        told = {'status': 'FAIL', 'code': code}\n        told['why'] = ask(x)\n        return told\n    return {'status': 'PASS', 'code': code}\n"),
    "a status that is set": ("status", 4, "def f(job):\n    rows = tool(job)\n    if not rows:\n        job.status = 'INVALID'\n    else:\n        job.status = 'VALID'\n    return job\n"),
    "a status of an enumeration": ("status", 3, "def f(job):\n    if job.is_late:\n        job.status = Status.FAILED.value\n    else:\n        job.rows = tool(job)\n    return job\n"),
    "what a handler binds to what is given back": ("error text", 5, "def f(job):\n    try:\n        tool(job)\n    except TimeoutError:\n        job = with_error(job, 'It took too long.')\n    return job\n"),
    "words of failure in one of two branches": ("error text", 4, "def f(job):\n    job.run()\n    if job.failed:\n        text = f'Edit FAILED for this reason: {job.why}'\n    else:\n        text = 'The text was edited.'\n    return text, job.rows\n"),
    "a sentence that there is nothing, after the branch that gives it": ("nothing found", 5, "import requests\ndef f(q):\n    rows = requests.get(q).json()\n    if rows: return {'rows': rows}\n    return 'No rows were found for this.'\n"),
    "a search that says in a form that it found nothing": ("nothing found", 9, "import requests\ndef f(q):\n    rows, count, text = requests.get(q).json(), 0, ''\n    for one in rows:\n        if one.fits:\n            text += one.text\n            count += 1\n    if count == 0:\n        return f'No news found for {q}'\n    return text\n"),
    "a word for no data, and why": ("nothing found", 9, "import requests\ndef f(q):\n    missed = None\n    for url in URLS:\n        try: return requests.get(url + q).json()\n        except NoRows as e:\n            missed = e\n    if missed is not None:\n        return f'NO_DATA_AVAILABLE: nothing is known of {missed.name}'\n    raise LookupError(q)\n"),
    "the result of a tool that says that nothing matched": ("nothing found", 5, "import requests\ndef f(q):\n    names = requests.get(q).json()\n    if set(names) <= set(KNOWN):\n        return ToolResult(output='No tables matched the query.')\n    return ToolResult(output=names)\n"),
    "a text that is streamed and says that nothing was found": ("nothing found", 7, "import requests\ndef streamed(text, slow):\n    yield text\ndef f(q):\n    rows = requests.get(q).json()\n    if len(rows) == 0:\n        return streamed('No good result was found', True)\n    return streamed(rows['text'], False)\n"),
    "an apology for an answer that is missing in a state": ("fixed text", 5, "async def f(message, state):\n    await state.graph.run(message)\n    answer = state.answer\n    if not answer:\n        answer = \"I'm sorry, I don't have an answer for that.\"\n    await Message(content=answer).send()\n"),
    "an argument's own part, given back": ("argument", 6, "def f(result):\n    message = result[0].message\n    try:\n        return actions_of(message)\n    except Exception:\n        return Finish(output=message.content)\n"),
    "an answer without its second part": ("empty", 6, "def f(x):\n    found = tool(x)\n    try:\n        return found, parse(found)\n    except ValueError:\n        return found, {}\n"),
    "nothing read of what a model said": ("no right form", 8, "import openai, yaml\ndef load_tests(text):\n    return yaml.safe_load(text.strip())\ndef f(x):\n    said = openai.OpenAI().chat.completions.create(model='m', messages=[x]).choices[0].message.content\n    tests = load_tests(said)\n    if tests is None:\n        return {}\n    return tests\n"),
    "no form, of a text that is named for its model": ("no right form", 3, "def parse_files(llm_output):\n    if '~~~' not in llm_output:\n        return False\n    return llm_output.split('~~~')\n"),
    "no form, of a text that a caller got of a model": ("no right form", 5, "import openai\ndef extract_plan(text):\n    for line in text.splitlines():\n        if line.startswith('PLAN'): return line[4:]\n    return None\ndef f(x):\n    said = openai.OpenAI().chat.completions.create(model='m', messages=[x]).choices[0].message.content\n    return extract_plan(said)\n"),
    "an apology that is sent": ("fixed text", 5, "async def f(socket, x):\n    try:\n        await socket.send_text(ask(x))\n    except OSError:\n        await socket.send_text('Sorry, nobody can answer now.')\n"),
    "an apology for a stream that was empty": ("fixed text", 7, "import openai\nasync def f(socket, x):\n    text = ''\n    for part in openai.OpenAI().chat.completions.create(model='m', messages=[x]):\n        text += part\n    if text.strip() == '':\n        await socket.send('Sorry, there is no answer to this.')\n"),
}  # fmt: skip

NO_FAILURES: dict[str, str] = {
    "a word by which a model says on demand that it has nothing": "def parse_filter(llm_output):\n    llm_output = llm_output.strip()\n    if llm_output.upper().startswith('NO_FILTER') or not llm_output:\n        return None\n    return llm_output.split()\n",
    "a line of a stream of events without data": "import json, openai\ndef parse_line(line):\n    if not line.startswith('data:'):\n        return None\n    try:\n        return json.loads(line[5:])\n    except json.JSONDecodeError:\n        return None\ndef f(x):\n    reply = openai.OpenAI().chat.completions.create(model='m', messages=[x], stream=True)\n    return [parse_line(one) for one in reply]\n",
    "nothing in a list that somebody looks at": "import requests\ndef list_rows(q):\n    rows, count = requests.get(q).json(), 0\n    for one in rows:\n        count += 1\n    if count == 0:\n        return 'No rows found.'\n    return rows\n",
    "a key that is not set": "import requests\ndef f(q, key):\n    rows = requests.get(q).json()\n    if key is None:\n        return 'No API key found.'\n    return rows\n",
    "nothing among what the caller gives": "def f(rows):\n    if not rows:\n        return 'No rows found.'\n    return rows\n",
    "nothing read of a file": "import yaml\ndef load_tests(text):\n    return yaml.safe_load(text)\ndef f(path):\n    tests = load_tests(path.read_text())\n    if tests is None:\n        return {}\n    return tests\n",
    "an answer whose second part is never there": "def f(x):\n    found = tool(x)\n    try:\n        return parse(found), None\n    except ValueError:\n        raise\n",
    "a table of words": "def f(language):\n    if language == 'sol':\n        return ['contract ', 'function ', 'event ', 'error ', 'struct ']\n    return parse(language)\n",
    "a greeting for a message that is missing": "async def f(message, state):\n    text = state.text\n    if not text:\n        text = 'Welcome to the desk.'\n    await Message(content=text).send()\n",
    "nothing to say, in a comment": "import requests\ndef f(q, page):\n    rows = requests.get(q).json()\n    if q.fits(rows):\n        return page.publish_comment('No code suggestions found for this.')\n    return rows\n",
    "an apology that nobody is sent": "def f(state):\n    answer = state.answer\n    if not answer:\n        answer = 'Sorry, there is no answer.'\n",
    "an exception": "def f(x):\n    try:\n        return tool(x)\n    except OSError as e:\n        raise RuntimeError from e\n",
    "a status that says it": "from fastapi.responses import JSONResponse\ndef f(x):\n    try:\n        return tool(x)\n    except OSError as e:\n        return JSONResponse(status_code=502, content={'error': str(e)})\n",
    "another way": "def f(x):\n    try:\n        return tool(x)\n    except OSError:\n        return other(x)\n",
    "a library that is missing": "def f(x):\n    try:\n        import fancy\n        return fancy.ask(x)\n    except ImportError:\n        return None\n",
    "a feature that is off": "def f(settings, x):\n    if not settings.enabled:\n        return None\n    return tool(x)\n",
    "a heading in capitals": "def f(x):\n    if not x:\n        return Group(Text('YOUR ORDERS'), Text('none yet'))\n    return Group(Text('ORDERS'), x)\n",
    "the error of a job that is reported": "def f(job):\n    status = ask(job)\n    return {'id': job, 'status': status.state, 'error_message': status.error}\n",
    "a number that a person has to write": "def f(self, event):\n    try:\n        self.capital = float(event)\n    except ValueError:\n        self.notify('Enter a number.')\n        return None\n    return self.capital\n",
    "what the caller wants instead": "def f(value, default):\n    try:\n        return float(value)\n    except ValueError:\n        return default\n",
    "what the normal course gives too": "def f(paths):\n    try:\n        if ask(paths):\n            return False\n    except OSError:\n        log.error('x')\n    return True\n",
    "a record that is not there": "import requests\ndef f(x):\n    reply = requests.get(x)\n    if reply.status_code == 404:\n        return None\n    return reply.json()\n",
    "a token that is refused": "import jwt\ndef f(token):\n    try:\n        return decode(token)\n    except jwt.ExpiredSignatureError:\n        return None\n",
    "a text that refuses what is given": "def f(self, kind):\n    if kind not in self.kinds:\n        return {'success': False, 'message': 'Unknown kind of job'}\n    return ask(kind)\n",
    "an exception that words itself": "class ToolError(Exception):\n    def told(self):\n        return {'error': 'failed', 'message': 'Sorry.'}\n",
    "a second attempt that is told of the first": "def f(x):\n    try:\n        return ask(x)\n    except ValueError as e:\n        return ask_again(x, prior_error=e)\n",
    "the same answer by the other call": "def f(self, x):\n    try:\n        for part in self.llm.stream(x):\n            yield part\n    except NotImplementedError:\n        text = self.llm.complete(x).text\n        yield Document(channel='chat', content=text)\n",
    "a refusal that a model writes": "from openai import OpenAI\nclient = OpenAI()\ndef rejection_of(x):\n    return client.chat.completions.create(model='m', messages=[x]).choices[0].message.content\ndef f(x):\n    if ask(x) == 'allowed':\n        return None\n    text = rejection_of(x)\n    return {'messages': [text], 'blocked': True}\n",
    "a sentence for what a model decided": "import openai\ndef decide(x) -> bool:\n    return 'yes' in openai.OpenAI().chat.completions.create(model='m', messages=[x])\ndef f(x):\n    is_needed = decide(x)\n    if not is_needed:\n        return 'There is nothing to be done.'\n    return tool(x)\n",
    "a block on the line of its condition": "def f(code):\n    if 'exit(' in code: return '[CODE EXECUTION ERROR] it ends itself'\n    return run(code)\n",
    "a text that says there are no errors": "def f(x):\n    rows = tool(x)\n    if not rows.errors:\n        return 'No errors in the code.'\n    return rows\n",
    "a text that holds what a function says of common errors": "def f(self, rows):\n    return f'Avoid these: {self.common_errors()} {rows}'\n",
    "a dictionary that a process fills": "def f(code, manager):\n    result = manager.dict({'output': '', 'success': False})\n    start(code, result)\n    return dict(result)\n",
    "what a cache does not hold": "def f(cache, key):\n    if key not in cache:\n        return False, None\n    return True, cache[key]\n",
    "what a person gave wrong, in a tuple": "def validate_upload(file):\n    if file.size > 10:\n        return False, 'The file is too large.'\n    return True, ''\n",
    "a function that words errors": "def classify_error(e):\n    if e.status == 401:\n        return 'Invalid key of the service'\n    return 'Error of the service'\n",
    "a status that is set again": "def f(x):\n    told = {'status': 'failed', 'rows': []}\n    if rows := tool(x):\n        told['status'] = 'ok'\n    return told\n",
    "a record that is replaced": "def f(x):\n    told = {'status': 'failed'}\n    told = tool(x)\n    return told\n",
    "a status that an exception follows": "def f(job):\n    if not tool(job):\n        job.status = 'failed'\n        raise RuntimeError(job)\n    return job\n",
    "a form that a person writes": "def parse_date(text):\n    if '-' not in text:\n        return None\n    return text.split('-')\n",
    "a predicate on an answer": "def validate_answer(response):\n    if 'x' not in response:\n        return False\n    return True\n",
    "a welcome": "import requests\ndef f(q):\n    user = requests.get(q).json()\n    if user:\n        return f'Hello {user}'\n    return 'Hello and welcome to this place.'\n",
    "one of two words": "def f(kind):\n    if kind in ('a', 'b'):\n        return tool(kind)\n    return other(kind)\n",
    "a word of failure that is asked for": "import requests\ndef jobs(status):\n    return requests.get('http://jobs/', params={'status': status}).json()\ndef f(x):\n    return jobs('failed')\n",
    "a success that holds the failure of a part": "def told(status, message=None, error=None):\n    return {'status': status, 'message': message, 'error': error}\ndef f(x):\n    rows = tool(x)\n    state = {'status': 'Failed'}\n    return told('Success', message=state, error=None)\n",
    "a message that a guard refuses": "from agents import InputGuardrailTripwireTriggered\ndef f(x):\n    try:\n        return ask(x)\n    except InputGuardrailTripwireTriggered:\n        return 'Sorry, only questions about travel can be answered.'\n",
    "a kind that is not accepted": "def told(status, message=None, error=None):\n    return {'status': status, 'message': message, 'error': error}\ndef f(x, kind):\n    if kind == 'web':\n        return told('Success', tool(x))\n    return told('Failed', message='kind is other than accepted kind')\n",
    "a name that may say success": "def told(status, message=None, error=None):\n    return {'status': status, 'message': message, 'error': error}\ndef f(x):\n    state = 'Success'\n    if not tool(x):\n        state = 'Failed'\n    return told(state)\n",
    "a handler that goes on to other work": "def f(x):\n    try:\n        return tool(x)\n    except OSError:\n        log.error('x')\n        raise\n",
    "one of two sentences": "import requests\ndef search(q):\n    return requests.get(q).json()\ndef f(q):\n    rows = search(q)\n    if rows:\n        text = 'There is something about this.'\n    else:\n        text = 'There is nothing about this.'\n    return {'text': text, 'rows': rows}\n",
    "nothing, which the normal course may give too": "def f(x):\n    try:\n        if x.has_more:\n            return tool(x)\n    except OSError:\n        log.error('x')\n",
    "a key of the environment through an own function": "import os\ndef setting(key, default):\n    return os.environ.get(key) or default\ndef f():\n    return setting('SERVICE_NAMESPACE', 'main')\n",
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(FAILURES))
def test_a_failure_given_back_is_found_at_its_line(name: str, tmp_path: Path) -> None:
    kind, line, source = FAILURES[name]

    found = [(h.kind, h.line) for h in patterns(tmp_path, {"m.py": source}) if h.pattern == "returns_failure"]

    assert found == [(kind, line)]


@pytest.mark.parametrize("name", sorted(NO_FAILURES))
def test_what_tells_its_failure_is_left_alone(name: str, tmp_path: Path) -> None:
    hits = patterns(tmp_path, {"m.py": NO_FAILURES[name]})

    assert "returns_failure" not in {h.pattern for h in hits}


def test_a_message_that_a_guard_refuses_is_no_second_way_of_an_answer(tmp_path: Path) -> None:
    source = NO_FAILURES["a message that a guard refuses"].replace(
        "def f(x)", "from agents import Runner\ndef ask(x):\n    return Runner.run_sync(agent, x)\ndef f(x)"
    )

    assert "has_cascade" not in {h.pattern for h in patterns(tmp_path / "guard", {"m.py": source})}
    other = source.replace("InputGuardrailTripwireTriggered", "ModelError")
    assert "has_cascade" in {h.pattern for h in patterns(tmp_path / "other", {"m.py": other})}
