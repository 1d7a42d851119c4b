"""Variables of one name in several functions: the prompt of one is not sent by another."""

from __future__ import annotations

from pathlib import Path

from gapwatch.design.source.scan import scan_repository
from gapwatch.design.stage import run_design
from tests.design.source_tree import write_tree

_PROMPTS = """
from langchain.prompts import PromptTemplate

plan_prompt = PromptTemplate(template="Name the steps to reach {goal}, as a list of at most five short lines.")
chat_prompt = PromptTemplate(template="Answer in {language} from the messages alone, and never invent anything.")
"""
_SERVICE = """
from fastapi import FastAPI
from langchain import LLMChain
from langchain.chat_models import ChatOpenAI
from langchain.prompts import ChatPromptTemplate, SystemMessagePromptTemplate

from prompts import chat_prompt, plan_prompt

app = FastAPI()


async def handled(func, *args, **given):
    return await func(*args, **given)


async def with_handling(model, prompt, given):
    chain = LLMChain(llm=model, prompt=prompt)
    return await handled(chain.arun, given)


class Service:
    def __init__(self):
        self.model = ChatOpenAI()

    async def plan(self, goal):
        prompt = ChatPromptTemplate.from_messages([SystemMessagePromptTemplate(prompt=plan_prompt)])
        return await with_handling(self.model, prompt, {"goal": goal})

    async def chat(self, language):
        prompt = ChatPromptTemplate.from_messages([SystemMessagePromptTemplate(prompt=chat_prompt)])
        return await LLMChain(llm=self.model, prompt=prompt).ainvoke({"language": language})


service = Service()


@app.post("/plan")
async def plan(goal: str):
    return await service.plan(goal)


@app.post("/chat")
async def chat(language: str):
    return await service.chat(language)
"""


def test_a_prompt_in_a_local_variable_is_not_sent_by_a_function_with_a_variable_of_the_same_name(
    tmp_path: Path,
) -> None:
    made = run_design(
        scan_repository(write_tree(tmp_path, {"s.py": _SERVICE, "prompts.py": _PROMPTS})), is_bounded=False
    )
    judges = [m for m in made.metrics if m.source == "judge" and m.symbols == ["s.Service.chat"]]

    assert {place.line for m in judges for place in m.prompts} == {5}
