"""Prompts: the places where they are found, and texts that are not prompts."""

from __future__ import annotations

from pathlib import Path

import pytest

from gapwatch.design.architecture.prompts import Prompt
from gapwatch.design.source.scan import scan_repository
from gapwatch.design.stage import Design, run_design
from tests.design.source_tree import write_tree

_TEXT = "Answer the question from the context alone: {context}"
_SEND = 'openai.chat.completions.create(model="m", messages=[{prompt}, question])'


def _prompts(root: Path, files: dict[str, str]) -> list[Prompt]:
    made = run_design(scan_repository(write_tree(root, files)))
    return [prompt for found in made.prompts.values() for prompt in found]


def _sender(imports: str, prompt: str) -> str:
    return f"import openai\n{imports}\n\ndef ask(question, context):\n    return {_SEND.replace('{prompt}', prompt)}\n"


_ASSIGNED = f'OTHER = 1\nANSWER = """{_TEXT}"""\n'

PLACES: dict[str, tuple[dict[str, str], str]] = {
    "imported by name": (
        {"texts.py": _ASSIGNED, "m.py": _sender("from texts import ANSWER", "ANSWER.format(context=context)")},
        "texts.py:2",
    ),
    "imported under another name, through a package": (
        {
            "p/__init__.py": "from p.texts import ANSWER\n",
            "p/texts.py": _ASSIGNED,
            "m.py": _sender("from p import ANSWER as A", "A.format(context=context)"),
        },
        "p/texts.py:2",
    ),
    "a member of an imported module": (
        {
            "p/__init__.py": "",
            "p/texts.py": _ASSIGNED,
            "m.py": _sender("from p import texts", "texts.ANSWER.format(context=context)"),
        },
        "p/texts.py:2",
    ),
    "an entry of a dictionary": (
        {
            "texts.py": f'TEXTS = {{}}\nTEXTS["b"] = "Say in five words what it is."\nTEXTS["answer"] = "{_TEXT}"\n',
            "m.py": _sender("from texts import TEXTS", 'TEXTS["answer"].format(context=context)'),
        },
        "texts.py:3",
    ),
    "a member of a class in another file": (
        {
            "texts.py": f'class Texts:\n    answer = "{_TEXT}"\n',
            "m.py": _sender("from texts import Texts", "Texts.answer.format(context=context)"),
        },
        "texts.py:2",
    ),
    "inside what a library makes of it": (
        {
            "texts.py": f'from textwrap import dedent\nANSWER = dedent("""{_TEXT}""").strip()\n',
            "m.py": _sender("from texts import ANSWER", "ANSWER.format(context=context)"),
        },
        "texts.py:2",
    ),
    "the default of an argument": (
        {
            "texts.py": _ASSIGNED,
            "m.py": "import openai\nfrom texts import ANSWER\n\n\ndef ask(question, context, prompt=ANSWER):\n"
            f"    return {_SEND.replace('{prompt}', 'prompt.format(context=context)')}\n",
        },
        "texts.py:2",
    ),
    "what a handler takes in place of one that is fetched": (
        {
            "texts.py": _ASSIGNED,
            "m.py": _sender(
                "from texts import ANSWER as LOCAL\nfrom hub import pull\ntry:\n    ANSWER = pull()\n"
                "except Exception:\n    ANSWER = LOCAL",
                "ANSWER.format(context=context)",
            ),
        },
        "texts.py:2",
    ),
    "what a library keeps of the making of an object": (
        {
            "texts.py": _ASSIGNED,
            "m.py": "import openai\nfrom langchain.agents.middleware import SummarizationMiddleware\n"
            "from texts import ANSWER\n\n\nclass Short(SummarizationMiddleware):\n"
            "    def __init__(self, **options):\n        super().__init__(**options)\n\n"
            "    def ask(self, question, context):\n"
            f"        return {_SEND.replace('{prompt}', 'self.summary_prompt.format(context=context)')}\n\n\n"
            "short = Short(summary_prompt=ANSWER)\n",
        },
        "texts.py:2",
    ),
    "a field of settings that a class method of their base makes": (
        {
            "texts.py": _ASSIGNED,
            "settings.py": "from dataclasses import dataclass, field, fields\nimport texts\n\n\n"
            "@dataclass\nclass Base:\n"
            "    model: str = 'm'\n\n    @classmethod\n    def from_config(cls, config):\n"
            "        return cls(**{k: v for k, v in config.items() if k in fields(cls)})\n\n\n"
            "@dataclass\nclass Settings(Base):\n"
            "    answer: str = field(default=texts.ANSWER,"
            " metadata={'description': 'The prompt by which all questions are answered.'})\n",
            "m.py": "import openai\nfrom settings import Settings\n\n\ndef ask(question, context, config):\n"
            "    settings = Settings.from_config(config)\n"
            f"    return {_SEND.replace('{prompt}', 'settings.answer.format(context=context)')}\n",
        },
        "texts.py:2",
    ),
    "put together by a neighbour in another file": (
        {
            "texts.py": f'def answer_prompt(context):\n    return f"{_TEXT}"\n',
            "m.py": _sender("from texts import answer_prompt", "answer_prompt(context)"),
        },
        "texts.py:2",
    ),
}


@pytest.mark.parametrize("name", sorted(PLACES))
def test_a_prompt_is_found_where_it_stands(name: str, tmp_path: Path) -> None:
    files, place = PLACES[name]

    found = _prompts(tmp_path, files)

    assert [str(prompt.place) for prompt in found] == [place]
    assert found[0].text == _TEXT
    # Nothing fetches it: a name alone makes no evidence.
    assert found[0].evidence_fields == ()


def test_what_is_written_for_people_is_no_prompt(tmp_path: Path) -> None:
    body = '    logger.info(f"Asking the model of today about {question}")\n'
    source = _sender("import logging\nlogger = logging.getLogger()", "context").replace(
        "    return", f"{body}    return"
    )

    assert not _prompts(tmp_path, {"m.py": source})


def test_an_assignment_to_nothing_ends_nothing(tmp_path: Path) -> None:
    source = _sender("", "context").replace("    return", f'    () = "{_TEXT}"\n    return')

    assert _prompts(tmp_path, {"m.py": source}) == []


_CLIENT = (
    "import openai\n\n\ndef complete(prompt):\n"
    '    return openai.chat.completions.create(model="m", messages=[prompt]).choices[0].message.content\n'
)
_LONG = "Write three questions that a search engine answers best, one a line, for what the user asks: {question}"


def _designed(root: Path, files: dict[str, str]) -> Design:
    return run_design(scan_repository(write_tree(root, files)))


def test_who_asks_through_a_shared_client_with_a_prompt_of_its_own_is_a_tier_with_a_judge(tmp_path: Path) -> None:
    asking = (
        f'from client import complete\n\nPLAN = "{_LONG}"\n\n\ndef plan(question):\n'
        "    return complete(PLAN.format(question=question))\n\n\ndef hand_on(text):\n    return complete(text)\n"
    )
    made = _designed(tmp_path, {"client.py": _CLIENT, "asking.py": asking})

    tiers = {t.symbol: c.id for c in made.architecture.components for t in c.tiers if t.by == "llm"}
    assert set(tiers) == {"client.complete", "asking.plan"}
    every = [*made.metrics, *(s.metric for s in made.selection.shelf)]
    mine = {m.source: m for m in every if m.symbols == ["asking.plan"]}
    assert [str(place) for place in mine["judge"].places] == ["asking.py:3"]
    # That an answer is there is said once, where it is made.
    present = {"form": "check", "field": "output", "present": True}
    assert [m.symbols for m in every if m.claim == present] == [["client.complete"]]
    assert not [m for m in made.metrics if "asking.plan" in m.symbols and m.family == "tokens_per_call"]


def test_a_model_that_stands_behind_a_variable_is_found(tmp_path: Path) -> None:
    asking = (
        f'PLAN = "{_LONG}"\n\n\ndef plan(question, config):\n    ask = config["ask"]\n'
        "    return ask(PLAN.format(question=question))\n"
    )
    main = 'from asking import plan\nfrom client import complete\n\nplan("why", {"ask": complete})\n'
    made = _designed(tmp_path, {"client.py": _CLIENT, "asking.py": asking, "main.py": main})

    assert [(h.line, h.kind) for h in made.hits if h.symbol == "asking.plan" and h.pattern == "calls_llm"] == [
        (6, "wrapped:1")
    ]


def test_a_prompt_of_the_function_around_is_one_of_the_inner_function_that_sends_it(tmp_path: Path) -> None:
    source = (
        f'import openai\n\n\ndef plan(xs):\n    text = "{_LONG}"\n\n    def one(item):\n'
        '        return openai.chat.completions.create(model="m", messages=[text, item])\n\n    return map(one, xs)\n'
    )
    made = _designed(tmp_path, {"m.py": source})

    assert {str(p.place) for found in made.prompts.values() for p in found if p.symbol == "m.plan.one"} == {"m.py:5"}


def test_parts_of_a_prompt_and_what_a_user_asks_beside_it_are_no_prompts_of_their_own(tmp_path: Path) -> None:
    source = (
        "import openai\n\n\ndef ask(question, context):\n"
        '    section = f"Use this knowledge where it helps to answer the question: {context}"\n'
        f'    system_prompt = f"{_LONG} {{section}}"\n'
        '    user_message = f"The latest message of the customer, to be answered now: {question}"\n'
        '    messages = [{"role": "system", "content": system_prompt}, {"role": "user", "content": user_message}]\n'
        '    return openai.chat.completions.create(model="m", messages=messages)\n'
    )

    assert [p.name for p in _prompts(tmp_path, {"m.py": source})] == ["system_prompt"]


def test_what_is_told_in_place_of_an_answer_is_no_prompt(tmp_path: Path) -> None:
    source = _sender("", "context").replace(
        "    return", '    if not context:\n        return "Sorry, I cannot answer that today."\n    return'
    )

    assert not _prompts(tmp_path, {"m.py": source})


_ANSWERING = """import chromadb, openai, dspy
from pydantic_ai import Agent

client = openai.OpenAI()
passages = chromadb.PersistentClient("p").get_collection("c")
HELP = "Ask a question about the handbook and wait for the answer"


class Plan(dspy.Signature):
    \"\"\"Plan the steps of a search that answers the question.\"\"\"

    question: str = dspy.InputField()


agent = Agent("m", system_prompt="You sort requests into billing, travel and leave.")


@agent.system_prompt
def who(ctx):
    return f"The customer who writes to you now is {ctx.deps.name}."


def retrieve(question):
    return passages.query(query_texts=[question])["documents"][0]


def answer(question, found, guess):
    print(HELP)
    prompt = f"Answer only from these passages: {found} and not from {guess}."
    return client.chat.completions.create(model="m", messages=[{"role": "system", "content": prompt}])


def think(question):
    return client.chat.completions.create(model="m", messages=[{"role": "user", "content": question}])


def ask(question):
    return answer(question, retrieve(question), think(question))
"""


def test_prompts_and_evidence_follow_the_data_and_not_names(tmp_path: Path) -> None:
    made = run_design(scan_repository(write_tree(tmp_path, {"app.py": _ANSWERING})))
    found = {p.text.strip()[:12]: p for some in made.prompts.values() for p in some}

    assert set(found) == {"Plan the ste", "You sort req", "The customer", "Answer only "}
    answering = found["Answer only "]
    assert answering.evidence_fields == ("found",)
    assert [str(place) for place in answering.evidence_from] == [
        f"app.py:{_ANSWERING[: _ANSWERING.index('return answer(')].count(chr(10)) + 1}"
    ]


_CHAIN = """from langchain_core.prompts import ChatPromptTemplate
from langchain_openai import ChatOpenAI

ONE = "Write a title and a summary of the passages that follow: {passages}"
MANY = "Join the summaries that follow to a single one: {passages}"


def format_documents(found):
    return "\\n".join(f"This passage belongs to the source {d.source} and holds the text {d.text}" for d in found)


def make_chain(model, is_parent=False, template=ONE):
    if is_parent:
        template = MANY
    prompt = ChatPromptTemplate.from_messages([("human", template)])
    return prompt | model


def summarize(found):
    passages = format_documents(found)
    chain = make_chain(ChatOpenAI())
    return chain.invoke({"passages": passages})
"""


def test_the_prompts_of_a_chain_are_those_of_the_function_that_makes_it(tmp_path: Path) -> None:
    found = _prompts(tmp_path, {"m.py": _CHAIN})

    assert {p.text[:8] for p in found} == {"Write a ", "Join the"}


_ENGINE = """from llama_index.agent.openai import OpenAIAgent
from llama_index.core import VectorStoreIndex
from llama_index.core.tools import QueryEngineTool, ToolMetadata

TASK = "You are an analyst who answers only from the tools that you have."


def make_agent(files):
    index = VectorStoreIndex.from_documents(files)
    about = ToolMetadata(name="reports", description="Answers questions about the reports that the user has chosen.")
    tools = [QueryEngineTool(query_engine=index.as_query_engine(), metadata=about)]
    return OpenAIAgent.from_tools(tools=tools, system_prompt=TASK)


async def reply(question, files):
    agent = make_agent(files)
    return await agent.achat(question)
"""


def test_the_prompt_of_an_agent_that_a_function_makes_is_sent_by_who_runs_it_and_what_a_tool_says_of_itself_is_none(
    tmp_path: Path,
) -> None:
    found = _prompts(tmp_path, {"m.py": _ENGINE})

    assert {p.text for p in found} == {"You are an analyst who answers only from the tools that you have."}
    assert "m.reply" in {p.symbol for p in found}


def test_what_a_setting_of_an_agent_says_of_a_tool_is_no_prompt_of_who_runs_the_agent(tmp_path: Path) -> None:
    source = (
        "from langchain_core.runnables import Runnable\nfrom own_agents import make_agent\n\n"
        'agent = make_agent(search_description="Looks up what was uploaded; the best way to answer about files.")\n\n\n'
        "async def run(app: Runnable, question):\n    return await app.ainvoke(question)\n\n\n"
        "async def reply(question):\n    return await run(agent, question)\n"
    )

    assert _prompts(tmp_path, {"m.py": source}) == []
    told = source.replace("search_description", "system_prompt")
    assert [p.symbol for p in _prompts(tmp_path, {"m.py": told})] != []


def test_what_a_prompt_is_filled_with_is_no_prompt_of_its_own(tmp_path: Path) -> None:
    source = (
        "from langchain_core.messages import SystemMessage\nfrom langchain_openai import ChatOpenAI\n\n\n"
        "def ask(question, is_first):\n"
        '    tone = "Greet the customer by name." if is_first else "Do not greet the customer once more."\n'
        '    task = f"You sort the requests of customers into teams, and name one team. {tone}"\n'
        "    return ChatOpenAI().invoke([SystemMessage(content=task), question])\n"
    )

    assert {p.text[:12] for p in _prompts(tmp_path, {"m.py": source})} == {"You sort the"}


def test_local_names_that_two_functions_share_carry_no_prompt_from_one_to_the_other(tmp_path: Path) -> None:
    ask = (
        "def {name}(question):\n    prompt = {text}.format(question=question)\n"
        "    messages = [SystemMessage(content=prompt)]\n    return MODEL.invoke(messages)\n"
    )
    source = (
        "from langchain_core.messages import SystemMessage\nfrom langchain_openai import ChatOpenAI\n\n"
        'PLAN = "Plan the steps of a search that answers this question: {question}"\n'
        'REPORT = "Write a report on what was found for this question: {question}"\n'
        "MODEL = ChatOpenAI()\n\n\n"
        + ask.format(name="plan", text="PLAN")
        + "\n\n"
        + ask.format(name="report", text="REPORT")
    )

    found = {(p.symbol, p.name) for p in _prompts(tmp_path, {"m.py": source})}

    assert found == {("m.plan", "PLAN"), ("m.report", "REPORT")}


def test_a_task_that_fills_a_short_frame_is_quoted_beside_it(tmp_path: Path) -> None:
    source = (
        "from langchain_core.prompts import ChatPromptTemplate\n"
        "from langchain_openai import ChatOpenAI\n\n"
        "llm = ChatOpenAI()\n\n"
        "def language():\n    return ''\n\n"
        "def analyst(state):\n"
        "    system_message = (\n"
        "        'You analyse the news of the last week that bear on the company. Be detailed, and name each source.'\n"
        "        + ' End with a Markdown table of the points of the report, one line a point.'\n"
        "        + language()\n    )\n"
        "    prompt = ChatPromptTemplate.from_messages([\n"
        "        ('system', 'You are a helpful assistant among others. Today is {date}. {system_message}'),\n    ])\n"
        "    prompt = prompt.partial(system_message=system_message)\n"
        "    chain = prompt | llm\n"
        "    return chain.invoke(state['messages']).content\n"
    )
    made = run_design(scan_repository(write_tree(tmp_path, {"news.py": source})))

    every = [*made.metrics, *(s.metric for s in made.selection.shelf)]
    (judge,) = (m for m in every if m.source == "judge")
    assert [p.line for p in judge.prompts] == [10, 10, 15], "a text in two parts, and then its frame"
