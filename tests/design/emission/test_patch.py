"""`gapwatch design REPO --instrument DIR`: a patch with plain OpenTelemetry, and the spans of the patched program."""

from __future__ import annotations

import ast
import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from gapwatch.design.commands.design import design as design_group
from gapwatch.design.emission.patch import make_patch
from gapwatch.design.emission.planned_span import MarkedFunction, PlannedSpan, SpanMark
from gapwatch.design.source.scan import scan_repository
from gapwatch.design.stage import run_design
from tests.design.emission.watched_programs import run_patched
from tests.design.rag_run import APP
from tests.design.source_tree import write_tree


def _applied(repository: Path, folder: Path) -> Path:
    """Copy a repository, design it by the command, and apply the patch."""
    copy = folder / repository.name
    shutil.copytree(repository, copy, ignore=shutil.ignore_patterns("__pycache__"))
    _apply(copy, folder)
    return copy


def _apply(copy: Path, folder: Path) -> None:
    arguments = [str(copy), "--out", str(folder / "d"), "--instrument", str(folder / "p"), "--quiet"]
    result = CliRunner().invoke(design_group, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    # Outside of a repository `git apply` works on the folder; --unsafe-paths is not needed.
    subprocess.run(["git", "apply", str(folder / "p/instrument.patch")], cwd=copy, check=True, timeout=20)


PROGRAM = {
    "shop/__init__.py": "",
    "shop/service.py": (
        '"""Answers."""\n\nfrom __future__ import annotations\n\nimport functools\nimport json\n\n'
        "from openai import OpenAI\n\nfrom shop.reading import read\n\n\n"
        "def kept(f):\n    @functools.wraps(f)\n    def run(*a):\n        return f(*a)\n    return run\n\n\n"
        "class Answerer:\n"
        "    def __init__(self):\n        self.client = OpenAI(api_key='k')\n\n"
        "    @kept\n"
        "    def ask(self, question: str) -> str:\n"
        "        for attempt in range(3):\n"
        "            try:\n"
        "                reply = self.client.chat.completions.create(model='m', messages=[question])\n"
        "                return reply.choices[0].message.content\n"
        "            except TimeoutError:\n"
        "                continue\n"
        "        return ''\n\n"
        "    def answer(self, question: str) -> dict:\n"
        "        text = self.ask(question)\n"
        "        return read(text)\n"
    ),
    "shop/reading.py": (
        "import json\r\n\r\n\r\ndef note(text):\r\n    return text\r\n\r\n\r\n"
        "def read(text):\r\n    try:\r\n        return json.loads(text)\r\n    except ValueError:\r\n        pass\r\n"
        "    return {}"
    ),
}


def test_a_patched_program_parses_runs_and_sends_the_spans_that_the_portfolio_expects(tmp_path: Path) -> None:
    copy = write_tree(tmp_path / "app", PROGRAM)
    before = run_design(scan_repository(copy))
    _apply(copy, tmp_path)

    for path in copy.rglob("*.py"):
        ast.parse(path.read_text())
    assert (copy / "shop/span_recording.py").read_text().count("gapwatch.design") == 0
    found = run_patched(
        "from types import SimpleNamespace as N\n"
        "import sys\n"
        "turns = []\n"
        "def create(**given):\n"
        "    turns.append(1)\n"
        "    if len(turns) == 1: raise TimeoutError\n"
        "    return N(choices=[N(message=N(content='no json'), finish_reason='stop')])\n"
        "client = N(chat=N(completions=N(create=create)))\n"
        "sys.modules['openai'] = N(OpenAI=lambda api_key: client)\n"
        "from shop.service import Answerer\n"
        "assert Answerer().answer('q') == {}\n",
        copy,
    )

    (ask,) = found.named("Answerer.ask")
    assert (ask.attributes["retry_count"], ask.attributes["retry_outcome"]) == (1, "recovered")
    assert ask.attributes["input.value"] == '{"question": "q"}'
    assert ask.attributes["output.value"] == "no json"
    (read,) = found.named("read")
    assert read.attributes["answer_outcome"] == "failed"  # shows what the handler around the parse swallows
    assert {p.span for p in before.planned} >= {s.name for s in found.spans}


def test_a_patched_program_is_asked_for_no_span_again(tmp_path: Path) -> None:
    copy = write_tree(tmp_path / "app", PROGRAM)
    before = run_design(scan_repository(copy))
    _apply(copy, tmp_path)
    left = run_design(scan_repository(copy), is_bounded=False)

    by_hand = {name for p in before.planned for name in p.by_hand}
    asked = {m.name for m in before.metrics if m.is_exported and m.claim["form"] != "ratio"}
    answered = {m.name for m in left.metrics if m.is_answered == "yes"}
    assert not by_hand
    assert asked - answered <= {"answerer_model_cost"}, "no reply of this client says a price"
    assert {c.id for c in left.architecture.components} == {c.id for c in before.architecture.components}


@pytest.mark.slow
def test_the_whole_service_is_patched_and_works(tmp_path: Path) -> None:
    copy = _applied(APP, tmp_path)

    found = run_patched(
        "import sys\nsys.path.insert(0, '..')\n"
        "from rag_app.service import QuestionService\n"
        "from rag_app.retrieval import Passage, PassageIndex\n"
        "from rag_app.store import AnswerStore\n"
        "index = PassageIndex()\nindex.add(Passage('a', 'customers return goods'))\n"
        "service = QuestionService('http://127.0.0.1:9', index, AnswerStore())\n"
        "try:\n    service.ask('return goods')\nexcept Exception as error:\n    print(error)\n",
        copy,
    )

    (retrieved,) = found.named("PassageIndex.retrieve")
    assert retrieved.attributes["retrieved_count"] == 1
    (answer,) = found.named("Answerer.answer")
    assert answer.is_error
    assert (answer.attributes["fallback_depth"], answer.attributes["gapwatch.tier"]) == (1, "ask_small")


@pytest.mark.parametrize(
    ("source", "line", "reason"),
    [
        ("def f(x):\n    try: return int(x)\n    except ValueError: return 0\n", 3, "no statement of its own"),
        ("def f(x):\n    return json.loads(x.read())\n", 2, "has no name"),
        ("def f(x:\n", 1, "cannot be read by this Python"),
    ],
)
def test_what_cannot_be_written_is_told_with_its_place(source: str, line: int, reason: str, tmp_path: Path) -> None:
    write_tree(tmp_path, {"app.py": source})
    action = "text" if "loads" in source else "add"
    function = MarkedFunction("f", 1, [SpanMark(line, action, "swallowed_errors")])
    made = make_patch(tmp_path, [PlannedSpan("c", "f", "chain", "app.py", "app.f", function)], ["app.py"])

    assert [why for _, why in made.left_out if reason in why], made.left_out


@pytest.mark.slow
def test_generators_and_coroutines_are_recorded_whole(tmp_path: Path) -> None:
    write_tree(
        tmp_path,
        {
            "app.py": "async def wait(n):\n    return n\n\n\ndef give(n):\n    yield from 'ab'\n\n\n"
            "async def give_async(n):\n    yield 'c'\n    yield 'd'\n"
        },
    )
    plans = [
        PlannedSpan("c", name, "chain", "app.py", name, MarkedFunction(name, 1), start={"stream_outcome": "of_stream"})
        for name in ("give", "give_async")
    ]
    plans.append(PlannedSpan("c", "wait", "chain", "app.py", "wait", MarkedFunction("wait", 1)))
    (tmp_path / "p.patch").write_text(make_patch(tmp_path, plans, ["app.py"]).text)
    subprocess.run(["git", "apply", "p.patch"], cwd=tmp_path, check=True, timeout=20)

    found = run_patched(
        "import asyncio, app\n"
        "async def main():\n    assert [x async for x in app.give_async(1)] == ['c', 'd']\n"
        "    return await app.wait(2)\n"
        "assert asyncio.run(main()) == 2\nassert list(app.give(1)) == ['a', 'b']\n"
        "g = app.give(2); next(g); g.close()\n",
        tmp_path,
    )

    assert [s.attributes["output.value"] for s in found.named("give")[:1]] == ["ab"]
    assert [s.attributes["stream_outcome"] for s in found.named("give")] == ["completed", "aborted"]
    assert found.named("give_async")[0].attributes["output.value"] == "cd"
    assert found.named("wait")[0].attributes["output.value"] == "2"


def test_a_module_with_the_name_of_its_package_is_not_taken_for_the_package(tmp_path: Path) -> None:
    files = {
        "src/agents/__init__.py": "from agents.agents import ask\n",
        "src/agents/agents.py": "from agents.one import ask\n",
        "src/agents/one.py": "from agents.two import word\n\n\ndef ask(q):\n    return word(q)\n",
        "src/agents/two.py": "def word(q):\n    return q\n",
    }
    write_tree(tmp_path, files)
    plan = PlannedSpan("c", "ask", "chain", "src/agents/one.py", "agents.one.ask", MarkedFunction("ask", 4))
    (tmp_path / "p.patch").write_text(make_patch(tmp_path, [plan], files).text)
    subprocess.run(["git", "apply", "p.patch"], cwd=tmp_path, check=True, timeout=20)

    found = run_patched("import sys\nsys.path.insert(0, 'src')\nfrom agents import ask\nassert ask(1) == 1\n", tmp_path)

    assert (tmp_path / "src/agents/span_recording.py").exists()
    assert [s.name for s in found.spans] == ["ask"]


def test_a_file_that_imports_nothing_gets_the_import_by_which_others_import_it(tmp_path: Path) -> None:
    files = {"src/web/llm/one.py": "def ask(q):\n    return q\n", "src/web/main.py": "from web.llm.one import ask\n"}
    write_tree(tmp_path, files)
    plan = PlannedSpan("c", "ask", "chain", "src/web/llm/one.py", "web.llm.one.ask", MarkedFunction("ask", 1))

    assert "+from web import span_recording" in make_patch(tmp_path, [plan], files).text


def test_a_library_of_the_name_of_a_folder_above_is_no_place_for_the_recorder(tmp_path: Path) -> None:
    files = {
        "channel/web/pages.py": "",
        "channel/desk/serving.py": "import web\nfrom common.log import note\nfrom channel.chat import Chat\n\n\n"
        "def ask(q):\n    return q\n",
        "channel/chat.py": "class Chat: ...\n",
        "common/log.py": "note = print\n",
        "app.py": "from channel.desk.serving import ask\n",
    }
    write_tree(tmp_path, files)
    plan = PlannedSpan(
        "c", "ask", "chain", "channel/desk/serving.py", "channel.desk.serving.ask", MarkedFunction("ask", 6)
    )

    assert "+from common import span_recording" in make_patch(tmp_path, [plan], files).text


def _run_with_recorder(folder: Path, files: dict[str, str], path: str, calls: str) -> str:
    """Patch the function `ask` of a file, run code that calls it, and return the patch."""
    write_tree(folder, files)
    tree = ast.parse(files[path])
    line = next(n.lineno for n in tree.body if isinstance(n, ast.FunctionDef))
    plan = PlannedSpan("c", "ask", "chain", path, "ask", MarkedFunction("ask", line))
    text = make_patch(folder, [plan], files).text
    (folder / "p.patch").write_text(text)
    subprocess.run(["git", "apply", "p.patch"], cwd=folder, check=True, timeout=20)
    assert [s.name for s in run_patched(calls, folder).spans] == ["ask"]
    return text


@pytest.mark.parametrize("init", [True, False])
def test_a_package_below_another_that_has_the_name_of_a_library_is_not_taken_for_the_library(
    init: bool, tmp_path: Path
) -> None:
    inits = dict.fromkeys(["shop/__init__.py", "shop/web/__init__.py", "shop/web/mcp/__init__.py"], "") if init else {}
    files = inits | {
        "shop/web/mcp/runtime.py": "from mcp import Session\nfrom mcp.client.auth import Login\n"
        "from mcp.types import Tool\n\n\ndef ask(q):\n    return q\n",
        "shop/web/start.py": "from shop.web.mcp.runtime import ask\n",
    }
    calls = (
        "import sys, types\n"
        "taken = {'mcp': 'Session', 'mcp.client': '', 'mcp.client.auth': 'Login', 'mcp.types': 'Tool'}\n"
        "for name in taken:\n"
        "    sys.modules[name] = module = types.ModuleType(name)\n    setattr(module, taken[name], 1)\n"
        "from shop.web.start import ask\nask(1)\n"
    )

    assert "+from shop import span_recording" in _run_with_recorder(tmp_path, files, "shop/web/mcp/runtime.py", calls)


def test_a_module_that_a_file_beside_it_imports_relatively_finds_the_recorder_so(tmp_path: Path) -> None:
    files = {
        "voice/cloud/asr.py": "import json\n\n\ndef ask(q):\n    return json.dumps(q)\n",
        "voice/cloud/service.py": "from .asr import ask\n",
        "app.py": "from voice.cloud.service import ask\n",
    }

    patch = _run_with_recorder(tmp_path, files, "voice/cloud/asr.py", "from app import ask\nask(1)\n")

    assert "+from . import span_recording" in patch


def test_a_library_of_the_name_of_a_file_beside_makes_no_folder_of_scripts_of_a_package(tmp_path: Path) -> None:
    files = {
        "back-end/__init__.py": "",
        "back-end/desk/agents.py": "TEAM = []\n",
        "back-end/desk/guards.py": "from agents import Runner\n\n\ndef check(q):\n    return q\n",
        "back-end/main.py": "from desk.agents import TEAM\nfrom desk.guards import check\n",
    }
    write_tree(tmp_path, files)
    plan = PlannedSpan("c", "check", "chain", "back-end/desk/guards.py", "check", MarkedFunction("check", 4))

    assert "+from desk import span_recording" in make_patch(tmp_path, [plan], files).text


def test_a_loop_that_break_leaves_has_succeeded_and_one_that_runs_out_is_exhausted(tmp_path: Path) -> None:
    program = {
        "asking.py": (
            "import json\nimport openai\n\nclient = openai.OpenAI()\n\n\n"
            "def ask(question):\n"
            "    for attempt in range(3):\n"
            "        reply = client.chat.completions.create(model='m', messages=[question])\n"
            "        try:\n"
            "            answer = json.loads(reply.choices[0].message.content)\n"
            "        except ValueError:\n"
            "            continue\n"
            "        if answer:\n"
            "            break\n"
            "    else:\n"
            "        answer = None\n"
            "    return answer\n"
        ),
        "main.py": "import sys\nfrom asking import ask\n\nprint(ask(sys.argv[1]))\n",
    }
    copy = write_tree(tmp_path / "app", program)
    _apply(copy, tmp_path)

    found = run_patched(
        "from types import SimpleNamespace as N\n"
        "import sys\n"
        "replies = iter(['[1]', 'no', '[1]', 'no', 'no', 'no'])\n"
        "def create(**given): return N(choices=[N(message=N(content=next(replies)), finish_reason='stop')])\n"
        "sys.modules['openai'] = N(OpenAI=lambda: N(chat=N(completions=N(create=create))))\n"
        "from asking import ask\n"
        "ask('q'), ask('q'), ask('q')\n",
        copy,
    )

    outcomes = [span.attributes["retry_outcome"] for span in found.named("ask")]
    assert outcomes == ["first_try", "recovered", "exhausted"]


def test_a_call_that_is_given_a_file_keeps_its_caller_beside_whom_a_library_may_look(
    tmp_path: Path,
) -> None:
    source = (
        "import prompty\nfrom fastapi import FastAPI\n\napp = FastAPI()\n\n\n@app.post('/ask')\n"
        "def ask(question: str):\n    answer = prompty.execute('ask.prompty', inputs={'question': question})\n"
        "    return answer\n"
    )
    prompt = "---\nname: ask\n---\nsystem:\nAnswer from what you know alone, and never invent a source: {{question}}\n"
    copy = write_tree(tmp_path / "app", {"app.py": source, "ask.prompty": prompt})
    _apply(copy, tmp_path)

    assert "answer = prompty.execute(" in (copy / "app.py").read_text()


def test_a_patched_program_has_the_design_of_the_one_before(tmp_path: Path) -> None:
    source = (
        "import json\nimport openai\nfrom fastapi import FastAPI\n\napp = FastAPI()\nclient = openai.OpenAI()\n"
        'PROMPT = "Answer in JSON with the keys answer and source, and never invent a source: {question}"\n\n\n'
        "@app.post('/ask')\ndef ask(question: str):\n"
        "    messages = [{'role': 'user', 'content': PROMPT.format(question=question)}]\n"
        "    reply = client.chat.completions.create(model='gpt-4.1', messages=messages)\n"
        "    return json.loads(reply.choices[0].message.content)\n"
    )
    copy = write_tree(tmp_path / "app", {"app.py": source})
    before = run_design(scan_repository(copy))
    _apply(copy, tmp_path)
    after = run_design(scan_repository(copy))

    assert "span_recording" in (copy / "app.py").read_text()
    assert {m.name for m in after.metrics} == {m.name for m in before.metrics}


def test_a_file_whose_name_has_quotes_and_newlines_spoils_no_patch(tmp_path: Path) -> None:
    names = ["it's.py", 'q"uote.py', "new\nline.py", "a b.py", "tab\t.py", "back\\slash.py", "é.py"]
    write_tree(tmp_path / "app", dict.fromkeys(names, "def ask(q):\n    return q\n"))
    plans = [PlannedSpan("c", "ask", "chain", name, "ask", MarkedFunction("ask", 1)) for name in names]
    (tmp_path / "p.patch").write_text(make_patch(tmp_path / "app", plans, names).text)

    subprocess.run(["git", "apply", str(tmp_path / "p.patch")], cwd=tmp_path / "app", check=True, timeout=20)

    assert all("import span_recording" in (tmp_path / "app" / name).read_text() for name in names)


_STREAMS = {
    "shop/__init__.py": "",
    "shop/service.py": (
        "from openai import OpenAI\n\n\n"
        "class Answerer:\n"
        "    def __init__(self):\n        self.client = OpenAI(api_key='k')\n\n"
        "    def ask(self, question):\n"
        "        chunks = self.client.chat.completions.create(model='m', messages=[question], stream=True)\n"
        "        text = ''\n"
        "        for chunk in chunks:\n"
        "            text += chunk.choices[0].delta.content\n"
        "        return {'text': text, 'at': 1}\n\n"
        "    def send(self, question):\n"
        "        for chunk in self.client.chat.completions.create(model='m', messages=[question], stream=True):\n"
        "            yield chunk.choices[0].delta.content\n"
    ),
}


def test_a_patched_program_reads_the_chunks_of_a_streamed_reply(tmp_path: Path) -> None:
    copy = write_tree(tmp_path / "app", _STREAMS)
    _apply(copy, tmp_path)

    found = run_patched(
        "from types import SimpleNamespace as N\n"
        "import sys\n"
        "def chunk(text, reason=None, usage=None):\n"
        "    return N(choices=[N(delta=N(content=text), finish_reason=reason)], usage=usage, model='m')\n"
        "def create(**given):\n"
        "    yield chunk('no ')\n"
        "    yield chunk('answer', 'length', N(prompt_tokens=3, completion_tokens=2))\n"
        "client = N(chat=N(completions=N(create=create)))\n"
        "sys.modules['openai'] = N(OpenAI=lambda api_key: client)\n"
        "from shop.service import Answerer\n"
        "assert Answerer().ask('q') == {'text': 'no answer', 'at': 1}\n"
        "assert list(Answerer().send('q')) == ['no ', 'answer']\n",
        copy,
    )

    for name in ("Answerer.ask", "Answerer.send"):
        (span,) = found.named(name)
        assert span.attributes["output.value"] == "no answer"
        assert span.attributes["gen_ai.response.finish_reasons"] == ["length"]
        assert span.attributes["gen_ai.usage.output_tokens"] == 2
