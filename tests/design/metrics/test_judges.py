"""Judges: which prompts have one, what they read, and which come into a portfolio."""

from __future__ import annotations

from pathlib import Path

import pytest

from gapwatch.design.metrics.metric_design import MetricDesign
from gapwatch.design.metrics.prompt_demands import demand_of, worth_of
from gapwatch.design.metrics.spans import OF_EXCHANGE
from gapwatch.design.source.scan import scan_repository
from gapwatch.design.stage import Design, run_design
from tests.design.source_tree import write_tree

_TASK = "Sum the conversation up in one sentence, and never leave out a number that the user has told."
_HEAD = f'''\
import json

import openai
from fastapi import FastAPI

app = FastAPI()
client = openai.OpenAI()
TASK = "{_TASK}"


def ask(system, text):
    messages = [{{"role": "system", "content": system}}, {{"role": "user", "content": text}}]
    return client.chat.completions.create(model="m", messages=messages).choices[0].message.content


'''


#: Asks by a client whose calls no recorder reads, so that a judge has the function's own input and output.
_UNREAD = _HEAD.replace("openai.OpenAI()", 'cohere.Client("k")').replace("import openai", "import cohere")
_UNREAD = (
    _UNREAD[: _UNREAD.index("    messages =")] + "    return client.chat(preamble=system, message=text).text\n\n\n"
)


def _design(root: Path, code: str, head: str = _HEAD) -> Design:
    return run_design(scan_repository(write_tree(root, {"app.py": head + code})))


def _judges(made: Design) -> list[MetricDesign]:
    every = [*made.metrics, *(s.metric for s in made.selection.shelf)]
    return [m for m in every if m.source == "judge" and not m.reads_search]


OUTPUTS: dict[str, tuple[str, bool]] = {
    "its text": ("    return ask(TASK, text)\n", True),
    "its text, cleaned": ("    said = ask(TASK, text)\n    said = said.strip()\n    return said\n", True),
    "an object with its text": ("    said = ask(TASK, text)\n    return {'summary': said, 'ok': True}\n", True),
    "its text or a text of the code": (
        "    try:\n        return ask(TASK, text)\n    except openai.APIError:\n        return 'no summary'\n",
        True,
    ),
    "its text behind a label": ("    said = ask(TASK, text)\n    return f'Summary of the talk: {said}'\n", True),
    "a failure that quotes it": ("    said = ask(TASK, text)\n    return f'Error in the summary: {said}'\n", False),
    "a sentence around it": (
        "    said = ask(TASK, text)\n    print(said)\n    return f'We kept this text in {said} of the talk.'\n",
        False,
    ),
    "whether it worked": ("    said = ask(TASK, text)\n    print(said)\n    return bool(said)\n", False),
    "a number that it holds": (
        "    score = ask(TASK, text).strip()\n    score = float(score)\n    return score, f'{score}'\n",
        False,
    ),
    "what the code knew already": ("    said = ask(TASK, text)\n    print(said)\n    return text\n", False),
    "its length": ("    said = ask(TASK, text)\n    size = len(said)\n    return {'size': size}\n", False),
    "one of many actions": (
        "    if kind == 'sum':\n        return ask(TASK, text)\n"
        + "".join(f"    if kind == '{n}':\n        return f'{n} {{text}}'\n" for n in "abcd"),
        False,
    ),
}


@pytest.mark.parametrize("name", OUTPUTS)
def test_a_judge_reads_words_of_the_model(name: str, tmp_path: Path) -> None:
    body, is_judged = OUTPUTS[name]
    code = f"@app.post('/sum')\ndef sum_up(text: str, kind: str):\n{body}"
    unread = _judges(_design(tmp_path / "unread", code.replace("openai.APIError", "ValueError"), _UNREAD))
    read = _judges(_design(tmp_path / "read", code))

    assert any("sum_up" in m.symbols[0] for m in unread) == is_judged
    # What the model said is read itself, whatever the function makes of it.
    (judge,) = (m for m in read if "sum_up" in m.symbols[0])
    assert judge.claim["rubric"]["inputs"] == list(OF_EXCHANGE)
    assert judge.when["all_of"][1:] == [{"field": f, "present": True} for f in OF_EXCHANGE]


_DIRECT = """\
@app.post("/sum")
def sum_up(messages: list):
    asked = [{"role": "system", "content": TASK}, *messages]
    said = client.chat.completions.create(model="m", messages=asked)
    messages.append(said.choices[0].message.content)
    return GIVEN
"""


@pytest.mark.parametrize(
    ("given", "is_judged"), [("True", True), ("(len(messages), None)", True), ("str(messages)", True)]
)
def test_a_function_that_gives_no_text_is_judged_by_what_its_model_said(
    given: str, is_judged: bool, tmp_path: Path
) -> None:
    direct = _DIRECT.replace("GIVEN", given).replace('client.chat.completions.create(model="m", messages=asked)', "X")
    direct = direct.replace("X", "client.chat(chat_history=asked)").replace("choices[0].message.content", "text")
    judges = _judges(_design(tmp_path, direct, _UNREAD))

    assert bool(judges) == is_judged
    is_kept = "reply of the model in" in judges[0].claim["rubric"]["criterion"]
    assert is_kept == (given != "str(messages)")


def test_the_description_of_a_tool_is_no_prompt(tmp_path: Path) -> None:
    code = """\
SCHEMA = {"name": "look_up", "description": "Look a word up in the dictionary, and return all of its meanings."}


@app.post("/sum")
def sum_up(text: str):
    asked = [{"role": "system", "content": TASK}, {"role": "user", "content": text}]
    return client.chat.completions.create(model="m", messages=asked, tools=[SCHEMA]).choices[0].message.content
"""
    made = _design(tmp_path, code)

    assert [p.text for found in made.prompts.values() for p in found] == [_TASK]


def test_a_member_is_judged_where_the_code_reads_it_from_the_answer(tmp_path: Path) -> None:
    code = """\
@app.post("/plan")
def plan(text: str):
    told = "Make a plan of five steps at most, and return a JSON object with its steps and reasoning."
    said = json.loads(ask(told, text))
    return {"steps": said["steps"], "why": said["reasoning"], "end": finish(text)}


def finish(text):
    return "Done: " + ask(TASK, text)
"""
    judges = _judges(_design(tmp_path, code, _UNREAD))
    read = {(m.symbols[0], m.claim["rubric"]["inputs"][1]) for m in judges}

    # Its thoughts are none of the answer, and the other prompt asks for no member.
    assert read == {("app.plan", "output#/steps"), ("app.plan", "output"), ("app.finish", "output")}


def test_a_judge_knows_all_that_the_model_was_told(tmp_path: Path) -> None:
    long = "Answer in one sentence.\\n" + "Never name a price.\\n" * 600
    code = f'@app.post("/sum")\ndef sum_up(text: str):\n    return ask("{long}", text) + ask(TASK, text)\n'
    steps = {m.claim["rubric"]["steps"][0] for m in _judges(_design(tmp_path, code, _UNREAD))}

    (told,) = steps
    assert "Never name a price." in told and "characters ...]" in told and len(told) < 7_000


@pytest.mark.parametrize("is_followed", [True, False])
def test_what_is_asked_behind_the_answer_is_no_exchange_of_its_judge(is_followed: bool, tmp_path: Path) -> None:
    after = "ask('name it', text)" if is_followed else "said"
    code = "def sum_up(text: str):\n    said = ask(TASK, text)\n    print(AFTER)\n    return said\n"
    made = _design(tmp_path, "@app.post('/sum')\n" + code.replace("AFTER", after))
    (span,) = (p for p in made.planned if p.symbol == "app.sum_up")

    assert any(m.symbols == ["app.sum_up"] for m in _judges(made))
    held = [(m.line, m.value) for m in span.function.marks if m.field == "model_held"]
    assert held == ([(18, 0), (19, 1)] if is_followed else [])
    assert span.start.get("model_held") == (0 if is_followed else None)


_TWICE = """\
COLOURS = "Name the colour that fits this summary best, in one word, and never name more than one colour."


@app.post("/sum")
def sum_up(text: str):
    said = FIRST
    colour = ask(COLOURS, said)
    return ANSWER
"""
_DIRECTLY = "client.chat.completions.create(model='m', messages=[TASK, text]).choices[0].message.content"


@pytest.mark.parametrize("first", ["ask(TASK, text)", _DIRECTLY])
@pytest.mark.parametrize(("answer", "prompt", "line"), [("said", _TASK, 21), ("colour", "Name the colour", 0)])
def test_a_reply_is_judged_by_the_prompt_that_it_answers(
    first: str, answer: str, prompt: str, line: int, tmp_path: Path
) -> None:
    made = _design(tmp_path, _TWICE.replace("FIRST", first).replace("ANSWER", answer))
    (judge,) = (m for m in _judges(made) if m.symbols == ["app.sum_up"])
    (sent,) = (p for found in made.prompts.values() for p in found if p.place == judge.prompts[0])

    # The first reply fills the second prompt, and is no part of what it tells.
    assert sent.text.startswith(prompt) and len(judge.prompts) == 1 and len(sent.sent_at) == 1
    assert (f"asks at line {line}" in judge.claim["rubric"]["criterion"]) == bool(line)


@pytest.mark.parametrize("is_named", [True, False])
def test_a_reply_to_another_prompt_that_ends_the_run_is_no_exchange_of_a_judge(is_named: bool, tmp_path: Path) -> None:
    code = (
        "def guess(text):\n    return ask('Which tool fits?', text)\n\n\n"
        "def route(text):\n    return guess(text).strip()\n\n\n"
        "@app.post('/sum')\ndef sum_up(text: str):\n    known = FIRST\n    if known:\n        return known\n"
        "    return ask(TASK, text)\n"
    )
    made = _design(tmp_path, code.replace("FIRST", "route(text)" if is_named else "text.strip()"))
    (span,) = (p for p in made.planned if p.symbol == "app.sum_up")

    held = [(m.line, m.value) for m in span.function.marks if m.field == "model_held"]
    assert held == ([(26, 1), (29, 0)] if is_named else [])


def test_prompts_that_ask_for_more_are_judged_first(tmp_path: Path) -> None:
    small = "You are a helpful assistant of the company, number {n}, which sells tools and paint."
    rules = ["Never invent a price.", "Only use the list.", "Do not greet.", "Write JSON.", "Keep it short."]
    big = "Answer the question. " + " ".join(rules)
    steps = [f'def step_{n}(text):\n    return ask("{small.format(n=n)}", text)\n\n\n' for n in range(7)]
    code = "".join(steps) + f'def last(text):\n    return ask("{big}", text)\n\n\n'
    code += (
        "@app.post('/')\ndef run(text: str):\n    return ["
        + ", ".join(f"step_{n}(text)" for n in range(7))
        + ", last(text)]\n"
    )
    made = _design(tmp_path, code)
    chosen = [m.symbols[0] for m in made.metrics if m.source == "judge"]

    assert "app.last" in chosen and len(chosen) < 8
    assert demand_of(big) > 1 > demand_of(small)


def test_a_prompt_that_each_object_gives_is_no_prompt_of_all(tmp_path: Path) -> None:
    code = "class Agent:\n    def work(self, text):\n        return ask(self.task(), text)\n\n\n"
    for n in "ABC":
        task = f"You are agent {n} of three, and you answer the question of the user in one short sentence."
        code += f'class {n}(Agent):\n    def task(self):\n        return "{task}"\n\n\n'
    code += '@app.post("/")\ndef run(text: str):\n    return [agent.work(text) for agent in (A(), B(), C())]\n'
    made = _design(tmp_path, code)
    why = [r.reasoning for m, r in made.dropped if m.source == "judge"]

    assert _judges(made) == [] and why == ["the prompt is one of 3: each object gives its own"]


def test_help_of_a_setting_is_no_prompt(tmp_path: Path) -> None:
    code = """\
class Param:
    def __init__(self, value, help):
        self.value = value


size = Param(3, help="The number of sentences that an answer has at most; a larger one costs more money.")


@app.post("/")
def run(text: str):
    asked = [{"role": "system", "content": TASK}, {"role": "user", "content": text}]
    return client.chat.completions.create(model="m", messages=asked, n=size).choices[0].message.content
"""
    made = _design(tmp_path, code)

    assert [p.text for found in made.prompts.values() for p in found] == [_TASK]


def test_failures_of_a_function_are_no_other_answers(tmp_path: Path) -> None:
    body = "".join(
        f"    except {e}:\n        return reason('{e}')\n" for e in ("KeyError", "OSError", "ValueError", "TypeError")
    )
    code = 'def reason(why):\n    return f"none: {why}"\n\n\n@app.post("/")\ndef run(text: str):\n    try:\n'
    code += f"        return ask(TASK, text)\n{body}"

    assert [m.symbols[0] for m in _judges(_design(tmp_path, code))] == ["app.run"]


_GRAPH = """\
import chromadb
import openai
from fastapi import FastAPI
from langgraph.graph import END, START, StateGraph

app = FastAPI()
client = openai.OpenAI()
pages = chromadb.PersistentClient("pages").get_collection("pages")
TASK = "TEXT {context} Say so where it does not tell. Question: {question}"


def retrieve(state):
    found = pages.query(query_texts=[state["question"]])["documents"][0]
    return {"documents": found}


def choose(state):
    return {"documents": state["documents"][:3]}


def NAME(state):
    asked = TASK.format(context=state["documents"], question=state["question"])
    said = client.chat.completions.create(model="m", messages=[{"role": "system", "content": asked}])
    return {"answer": said.choices[0].message.content}


graph = StateGraph(dict)
graph.add_node("retrieve", retrieve)
graph.add_node("choose", choose)
graph.add_node("NAME", NAME)
graph.add_edge(START, "retrieve")
graph.add_edge("retrieve", "choose")
graph.add_edge("choose", "NAME")
graph.add_edge("NAME", END)
chain = graph.compile()


@app.post("/ask")
def ask(question: str):
    return chain.invoke({"question": question})["answer"]
"""


@pytest.mark.parametrize(
    ("name", "text", "is_judged"),
    [
        ("answer", "Answer the question from the context alone.", True),
        ("answer_question", "Answer the question from the context alone.", True),
        ("make_questions", "Ask for what is missing.", False),
        ("rewrite", "Generate a better query for the search from what was found.", False),
    ],
)
def test_what_nodes_before_found_is_evidence_of_statements(
    name: str, text: str, is_judged: bool, tmp_path: Path
) -> None:
    code = _GRAPH.replace("NAME", name).replace("TEXT", text)
    made = run_design(scan_repository(write_tree(tmp_path, {"app.py": code})))
    found = [m for m in _judges(made) if m.concern == "groundedness"]

    assert bool(found) == is_judged
    assert all([str(p) for p in m.evidence_from] == ["app.py:13"] for m in found)


def test_messages_of_a_state_are_no_evidence(tmp_path: Path) -> None:
    code = (
        _GRAPH.replace("NAME", "answer").replace("TEXT", "Answer in another tone.").replace('"documents"', '"messages"')
    )
    made = run_design(
        scan_repository(write_tree(tmp_path, {"app.py": code.replace(')["messages"][0]', ')["pages"][0]')}))
    )

    assert [m for m in _judges(made) if m.concern == "groundedness"] == []


@pytest.mark.parametrize(
    ("told", "is_judged"),
    [
        ("You are an AI assistant that helps people find information.", False),
        ("You are an AI assistant. You are friendly, curious and good at numbers.", False),
        ("You are an AI assistant that answers only in French.", True),
        ("You are an AI assistant. Sum the conversation up for the user.", True),
    ],
)
def test_who_a_model_is_sets_no_task(told: str, is_judged: bool, tmp_path: Path) -> None:
    code = _HEAD.replace(_TASK, told) + _DIRECT.replace("GIVEN", "said.choices[0].message.content")
    made = run_design(scan_repository(write_tree(tmp_path, {"app.py": code})))

    assert bool(_judges(made)) == is_judged


@pytest.mark.parametrize(
    ("given", "is_judged"),
    [
        ("{'query': query, 'found': found.json()}", True),
        ("f'{query}: {found.json()}'", False),
        ("f'{query}: {text}'", True),
    ],
)
def test_what_a_server_said_of_a_reply_is_no_reply(given: str, is_judged: bool, tmp_path: Path) -> None:
    code = f"""\
import requests


@app.post("/sum")
def sum_up(text: str):
    query = ask(TASK, text)
    try:
        found = requests.get("http://prometheus/api", params={{"query": query}})
    except requests.RequestException as error:
        told = f"{{query}}: {{error}}"
        print(told)
        return told
    told = {given}
    return told
"""
    assert any("sum_up" in m.symbols[0] for m in _judges(_design(tmp_path, code, _UNREAD))) == is_judged


def test_a_text_for_each_tool_sets_no_task(tmp_path: Path) -> None:
    code = """\
def described(tools: list):
    out = []
    for tool in tools:
        out.append(f"{tool.name}: Call this tool to work with the API of {tool.name}. Always give its arguments.")
    return "\\n".join(out)


def told_of(rules: list):
    return TASK + "".join(rules)


@app.post("/sum")
def sum_up(text: str, tools: list):
    said = ask(told_of(tools) + described(tools), text)
    return {"said": said}
"""
    made = _design(tmp_path, code)

    assert {p.text for found in made.prompts.values() for p in found if p.symbol == "app.sum_up"} == {_TASK}


def test_what_fills_a_frame_is_the_task(tmp_path: Path) -> None:
    code = """\
FRAME = "You work with others. Use each of your tools at most once. {system_message}"


@app.post("/sum")
def sum_up(text: str):
    system_message = "Sum the conversation up in one sentence." + " Never leave out a number that was told you."
    told = FRAME.format(system_message=system_message)
    asked = [{"role": "system", "content": told}, {"role": "user", "content": text}]
    return client.chat.completions.create(model="m", messages=asked).choices[0].message.content
"""
    made = _design(tmp_path, code)
    (judge,) = _judges(made)

    # The prompt itself is in what the judge reads; its line says which one is meant.
    (place,) = {str(p.place) for found in made.prompts.values() for p in found if "Sum the conversation" in p.text}
    assert f"made at {place}," in judge.claim["rubric"]["criterion"]


def test_what_a_function_fetches_is_no_prompt(tmp_path: Path) -> None:
    code = """\
import requests


def fetch_messages(word: str):
    found = requests.get("https://example.org", params={"q": word}).json()
    if not found:
        return f"<no messages found for {word} in the last seven days on this site>"
    return "\\n".join(found)


@app.post("/sum")
def sum_up(text: str):
    asked = [{"role": "system", "content": TASK}, {"role": "user", "content": fetch_messages(text)}]
    return client.chat.completions.create(model="m", messages=asked).choices[0].message.content
"""
    made = _design(tmp_path, code)

    assert [p.text for found in made.prompts.values() for p in found] == [_TASK]


def test_what_a_tool_gave_is_no_prompt(tmp_path: Path) -> None:
    code = """\
@app.post("/sum")
def sum_up(text: str):
    asked = [{"role": "system", "content": TASK}, {"role": "user", "content": text}]
    for _ in range(3):
        said = client.chat.completions.create(model="m", messages=asked).choices[0].message.content
        if said:
            break
        asked.append({"role": "user", "content": f"[OBSERVATION] {text}\\n\\nNow write the sentence."})
        asked.append({"role": "user", "content": "[OBSERVATION] ERROR: your reply was empty. Reply with a sentence."})
    return said
"""
    made = _design(tmp_path, code)

    assert [p.text for found in made.prompts.values() for p in found] == [_TASK]


def test_a_name_for_a_screen_is_worth_less_than_an_answer() -> None:
    told = ["Never use more than five words."]

    assert worth_of("app.make_title", told) == 0 < worth_of("app.entitle", told) < worth_of("app.write_answer", told)
    assert worth_of("app._get_answer", told) == worth_of("app.answer", told) > worth_of("app.entitle", told)
    # Who reads it is said by the prompt, too; what is asked again is worth less.
    assert worth_of("app.step", [*told, "Write the final report."]) > worth_of("app.step", told)
    assert worth_of("app.regenerate", told) < worth_of("app.step", told)


@pytest.mark.parametrize(("given", "is_judged"), [("self, text", True), ("self", False)])
def test_a_method_is_judged_where_it_is_given_what_the_model_is_asked(
    given: str, is_judged: bool, tmp_path: Path
) -> None:
    asked = "text" if is_judged else "self.text"
    code = (
        "class Chat:\n    def __init__(self, text):\n        self.text = text\n\n"
        f"    def summary({given}):\n        return ask(TASK, {asked})\n\n\n"
        f'@app.post("/sum")\ndef total(text: str):\n    return Chat(text).summary({"text" if is_judged else ""})\n'
    )
    judged = [m for m in _judges(_design(tmp_path, code, _UNREAD)) if m.symbols == ["app.Chat.summary"]]

    assert bool(judged) == is_judged
