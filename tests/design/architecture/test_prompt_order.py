"""Which of several texts of one call sets the task, and where the text of a file begins."""

from __future__ import annotations

from pathlib import Path

from gapwatch.design.source.scan import scan_repository
from gapwatch.design.stage import Design, run_design
from tests.design.source_tree import write_tree

_SENT = 'client.chat.completions.create(model="m", messages=[{"role": "system", "content": %s}])'
_HEAD = """import openai

client = openai.OpenAI()
TASK = "You look for gaps in a summary about {topic}. Write one question that would close the widest gap of it."
FORM = '''<FORMAT>
Write JSON with these keys: gap, which says what is missing, and question, which asks for it in one sentence.
For instance: a gap that names a measure which the summary leaves out, and a question that asks for its values.
</FORMAT>'''
"""
_CHECK = "Is the record below good? Say what is missing in it, and do not let a record pass that has an empty field."


def _design(root: Path, files: dict[str, str]) -> Design:
    return run_design(scan_repository(write_tree(root, files)))


def _names(made: Design, symbol: str) -> list[str]:
    return [p.name for found in made.prompts.values() for p in found if p.symbol == symbol]


def test_the_text_with_the_form_of_an_answer_stands_behind_the_one_with_the_task(tmp_path: Path) -> None:
    code = f"{_HEAD}\ndef ask(topic):\n    return {_SENT % 'TASK.format(topic=topic) + FORM'}\n"

    assert _names(_design(tmp_path, {"m.py": code}), "m.ask") == ["TASK", "FORM"]


def test_a_text_of_its_own_stands_before_a_longer_one_that_other_functions_send(tmp_path: Path) -> None:
    long = _HEAD.replace("of it.", "of it. " + "Look at each part of the summary once, and at its end again. " * 3)
    own = f'    def check(self, topic):\n        checked = "{_CHECK}"\n        return {_SENT % "TASK + checked"}\n'
    head = f"{long}\n\nclass Work:\n"
    alone = {"m.py": head + own}
    shared = {"m.py": f"{head}    def ask(self, topic):\n        return {_SENT % 'TASK'}\n\n{own}"}

    assert _names(_design(tmp_path / "shared", shared), "m.Work.check") == ["checked", "TASK"]
    assert _names(_design(tmp_path / "alone", alone), "m.Work.check") == ["TASK", "checked"]


def test_the_settings_at_the_head_of_a_file_are_no_part_of_its_prompt(tmp_path: Path) -> None:
    told = "You answer questions about tents. Use only the catalogue that follows.\n---\n{{catalogue}}\n"
    files = {
        "m.py": "import prompty\nimport openai\n\nclient = openai.OpenAI()\n\n\ndef ask(catalogue):\n"
        f'    told = open("tents.prompty").read()\n    return {_SENT % "told"}\n',
        "tents.prompty": f"---\nname: Tents\nmodel:\n  api: chat\n---\n{told}",
    }
    (found,) = (p for some in _design(tmp_path, files).prompts.values() for p in some)

    assert (found.text, found.place.line) == (told, 6)


_AGENTS = """from agents import Agent, Runner, function_tool


@function_tool
def seat_of(booking: str) -> str:
    return f"Seat 4A of {booking}"


def chosen(name):
    every = {"seats": seats_agent, "refunds": refunds_agent}
    return every.get(name, seats_agent)


seats_agent = Agent(name="Seats", instructions="You change seats. Only say what the tools gave you.", tools=[seat_of])
refunds_agent = Agent(name="Refunds", instructions="You pay refunds. Never promise more than is due.", tools=[seat_of])


async def reply(name, question):
    result = await Runner.run(WHO, question)
    return result.final_output
"""


def test_a_run_of_an_agent_that_is_chosen_has_no_judge_of_its_prompt_for_nobody_knows_which_was_sent(
    tmp_path: Path,
) -> None:
    made = {
        who: _design(tmp_path / str(number), {"m.py": _AGENTS.replace("WHO", who)})
        for number, who in enumerate(("chosen(name)", "seats_agent"))
    }
    judges = {
        who: [m for m in d.metrics if m.source == "judge" and m.symbols == ["m.reply"]] for who, d in made.items()
    }

    assert not any(m.concern == "quality" for m in judges["chosen(name)"])
    assert any(m.concern == "quality" for m in judges["seats_agent"])
