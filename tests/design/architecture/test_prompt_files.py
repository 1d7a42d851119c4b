"""Prompts that stand in files of their own: templates, plain texts, and entries of YAML, TOML and JSON."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from gapwatch.design.architecture.prompts import Prompt
from gapwatch.design.source.scan import scan_repository
from gapwatch.design.source.text_files import TextFiles
from gapwatch.design.stage import run_design
from tests.design.source_tree import write_tree

_TEXT = "Answer the question from the passages alone, and say so where they do not hold it."
_OTHER = "Write a title of at most five words for the conversation that follows below."
_SEND = 'return openai.chat.completions.create(model="m", messages=[{{"role": "system", "content": {prompt}}}])'


def _asking(head: str, prompt: str, before: str = "") -> str:
    sent = _SEND.format(prompt=prompt)
    return f"import openai\n{head}\n\n\ndef ask(question):\n{before}    {sent}\n"


def _found(root: Path, files: dict[str, str]) -> list[Prompt]:
    made = run_design(scan_repository(write_tree(root, files)))
    return [prompt for found in made.prompts.values() for prompt in found]


_YAML = f"title:\n  system: |\n    {_OTHER}\nanswer:\n  system: |\n    {_TEXT}\n"

#: By name: files, and the place of the only prompt.
FORMS: dict[str, tuple[dict[str, str], str]] = {
    "a jinja template by an environment": (
        {
            "p/prompts/answer.j2": f"{_TEXT}\n{{{{ question }}}}\n",
            "p/prompts/title.j2": _OTHER,
            "p/m.py": _asking(
                "from jinja2 import Environment\nENV = Environment(loader=None)",
                'ENV.get_template("answer.j2").render(question=question)',
            ),
        },
        "p/prompts/answer.j2:1-3",
    ),
    "a template by a name without its ending": (
        {
            "prompts/chat/answer.jinja": _TEXT,
            "prompts/title/answer.jinja": _OTHER,
            "m.py": _asking(
                "from ai_prompter import Prompter", 'Prompter(prompt_template="chat/answer").render(data={})'
            ),
        },
        "prompts/chat/answer.jinja:1",
    ),
    "a text below the folder of the code": (
        {
            "p/texts/answer.txt": _TEXT,
            "q/texts/answer.txt": _OTHER,
            "p/m.py": _asking(
                'from pathlib import Path\nANSWER = (Path(__file__).parent / "texts" / "answer.txt").read_text()',
                "ANSWER",
            ),
        },
        "p/texts/answer.txt:1",
    ),
    "a text that a with statement opens": (
        {
            "texts/answer.md": _TEXT,
            "m.py": _asking(
                "import os",
                "prompt",
                '    with open(os.path.join("texts", "answer.md")) as file:\n        prompt = file.read()\n',
            ),
        },
        "texts/answer.md:1",
    ),
    "a loader that makes the path of a name": (
        {
            "texts/answer.txt": _TEXT,
            "texts/title.txt": _OTHER,
            "load.py": "from pathlib import Path\n\n\ndef load_text(name):\n"
            '    return (Path("texts") / f"{name}.txt").read_text()\n',
            "m.py": _asking("from load import load_text", 'load_text("answer")'),
        },
        "texts/answer.txt:1",
    ),
    "an entry of a YAML file": (
        {
            "texts.yaml": _YAML,
            "m.py": _asking(
                'import yaml\nwith open("texts.yaml") as file:\n    TEXTS = yaml.safe_load(file)',
                'TEXTS["answer"]["system"]',
            ),
        },
        "texts.yaml:5-6",
    ),
    "an entry of a JSON file, kept by an object": (
        {
            "texts.json": f'{{\n  "title": "{_OTHER}",\n  "answer": "{_TEXT}"\n}}\n',
            "m.py": "import json, openai\n\n\nclass Asking:\n    def __init__(self):\n"
            '        self.texts = json.load(open("texts.json"))\n\n    def ask(self, question):\n        '
            + _SEND.format(prompt='self.texts["answer"]')
            + "\n",
        },
        "texts.json:3",
    ),
    "a member of settings in TOML": (
        {
            "conf/answer.toml": f'[answer_texts]\nlimit = 3\nsystem = """\n{_TEXT}\n"""\nuser = "{{q}}"\n',
            "conf.py": 'from dynaconf import Dynaconf\n\nSETTINGS = Dynaconf(settings_files=["conf/answer.toml"])\n',
            "m.py": _asking("from conf import SETTINGS", "SETTINGS.answer_texts.system"),
        },
        "conf/answer.toml:3-5",
    ),
    "an entry that a method reads by its argument": (
        {
            "texts.yaml": f"title: {_OTHER}\nanswer: {_TEXT}\n",
            "load.py": "import yaml\n\n\nclass Texts:\n    def __init__(self, path):\n"
            "        self.held = yaml.safe_load(open(path))\n\n    def get_prompt(self, name):\n"
            "        return self.held[name]\n",
            "m.py": _asking('from load import Texts\nTEXTS = Texts("texts.yaml")', 'TEXTS.get_prompt("answer")'),
        },
        "texts.yaml:2",
    ),
}


@pytest.mark.parametrize("name", sorted(FORMS))
def test_a_prompt_in_a_file_is_found_where_it_stands(name: str, tmp_path: Path) -> None:
    files, place = FORMS[name]

    found = _found(tmp_path, files)

    assert [str(prompt.place) for prompt in found] == [place]
    assert " ".join(_TEXT.split()) in " ".join(found[0].text.split())


def test_a_crew_has_its_prompts_in_its_files(tmp_path: Path) -> None:
    source = (
        "from crewai import Agent, Crew, Task\nfrom crewai.project import CrewBase, agent, crew, task\n\n\n@CrewBase\n"
        "class Desk:\n    @agent\n    def writer(self):\n        return Agent(config=self.agents_config['writer'])\n\n"
        "    @task\n    def title(self):\n        return Task(config=self.tasks_config['title'])\n\n"
        "    @crew\n    def crew(self):\n        return Crew(agents=[self.writer()])\n"
    )
    files = {
        "desk/config/agents.yaml": f"writer:\n  role: Writer\n  goal: >\n    {_TEXT}\n",
        "desk/config/tasks.yaml": f"title:\n  description: {_OTHER}\n  agent: writer\n",
        "desk/crew.py": source,
        "desk/main.py": "from desk.crew import Desk\n\n\ndef run(topic):\n    return Desk().crew().kickoff()\n",
    }

    assert {p.place.path for p in _found(tmp_path, files)} == {"desk/config/agents.yaml", "desk/config/tasks.yaml"}


def test_a_file_that_no_code_names_is_no_prompt(tmp_path: Path) -> None:
    files = {"README.md": _TEXT, "prompts/answer.txt": _OTHER, "m.py": _asking("", "question")}

    assert _found(tmp_path, files) == []


def test_what_a_run_has_kept_is_no_prompt_of_the_code(tmp_path: Path) -> None:
    code = _asking("import json\nKEPT = json.load(open('FOLDER/agent.json'))\n", "KEPT['system_prompt']")
    for folder, is_found in (("settings", True), ("cache", False)):
        files = {
            f"{folder}/agent.json": json.dumps({"system_prompt": _TEXT}),
            "m.py": code.replace("FOLDER", folder),
        }

        assert bool(_found(tmp_path / folder, files)) == is_found


def test_the_fields_of_a_template_are_its_variables_and_what_fills_them_is_followed(tmp_path: Path) -> None:
    template = (
        f"{_TEXT}\n{{% for passage in passages %}}- {{{{ passage.text }}}}\n{{% endfor %}}{{{{ question | upper }}}}\n"
    )
    head = (
        "import chromadb\nfrom jinja2 import Environment\nENV = Environment()\n"
        'STORE = chromadb.PersistentClient("p").get_collection("c")'
    )
    before = "    found = STORE.query(query_texts=[question])\n"
    prompt = 'ENV.get_template("answer.jinja").render(passages=found, question=question)'

    (found,) = _found(tmp_path, {"answer.jinja": template, "m.py": _asking(head, prompt, before)})

    assert found.fields == ("passages", "question")
    assert found.evidence_fields == ("passages",)
    assert [str(place) for place in found.evidence_from] == ["m.py:9"]


def test_files_of_strangers_are_read_as_data(tmp_path: Path) -> None:
    write_tree(
        tmp_path,
        {
            "bomb.yaml": "a: &a [x, x]\n"
            + "".join(f"b{i}: &b{i} [*{'a' if not i else f'b{i - 1}'}, x]\n" for i in range(40)),
            "tag.yaml": "a: !!python/object/apply:os.system ['touch made']\n",
            "broken.json": '{"a": ',
            "broken.toml": "a = ",
            "deep.json": "[" * 100_000,
            "large.txt": "word " * 100_000,
        },
    )
    (tmp_path / "bytes.txt").write_bytes(b"\xff\xfe\x00" * 50)
    (tmp_path / "link.txt").symlink_to("/etc/passwd")
    os.mkfifo(tmp_path / "pipe.txt")
    files = TextFiles(tmp_path, tuple(sorted(p.name for p in tmp_path.iterdir())))

    for path in sorted(p.name for p in tmp_path.iterdir()):
        files.entries(path)
    assert [p for p in ("bytes.txt", "link.txt", "pipe.txt", "large.txt") if files.text(p) is not None] == []
    assert files.entries("broken.json") == files.entries("broken.toml") == files.entries("deep.json") == {}
    assert not (tmp_path / "made").exists()


def test_a_value_of_the_settings_is_no_task_where_a_template_of_the_code_takes_it_in(tmp_path: Path) -> None:
    settings = f"style: |\n  {_TEXT}\n  {_TEXT}\n"
    head = (
        "import yaml\nSETTINGS = yaml.safe_load(open('settings.yaml'))\n"
        "TASK = 'Write the mail anew, and keep what it says. {style} {draft}'"
    )
    code = _asking(head, "TASK.format(style=SETTINGS['style'], draft=question)")

    found = _found(tmp_path, {"settings.yaml": settings, "m.py": code})

    assert found[0].text.startswith("Write the mail anew")


def test_the_file_that_a_library_reads_by_itself_is_the_prompt_of_the_agent_that_it_makes(tmp_path: Path) -> None:
    agent = (
        "from managed_deepagents import define_deep_agent\n\n\ndef look_up(name):\n    return name\n\n\n"
        'agent = define_deep_agent(name="desk", model="m", tools=[look_up])\n'
    )

    found = _found(tmp_path, {"agent.py": agent, "instructions.md": _TEXT, "README.md": _OTHER})

    assert [(p.symbol, str(p.place)) for p in found] == [("agent", "instructions.md:1")]
