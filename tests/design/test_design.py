"""Questions and facts, verification of edges, difference of designs, the store, the command line."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest
from click.testing import CliRunner

from gapwatch.design.architecture.edges import build_edges, find_symbol, verify_pair
from gapwatch.design.architecture.model import ComponentDraft
from gapwatch.design.commands.design import design as design_group
from gapwatch.design.metrics.questions import fact_of
from gapwatch.design.metrics.refine import ComponentOperation, apply_operations
from gapwatch.design.metrics.spans import MAX_FUNCTIONS
from gapwatch.design.patterns.libraries import LibraryCatalog, default_catalog
from gapwatch.design.reports.export_store import write_store
from gapwatch.design.reports.output import print_summary
from gapwatch.design.reports.summary import summary
from gapwatch.design.source.scan import scan_repository
from gapwatch.design.stage import Design, run_design
from gapwatch.scorers.errors import UsageError
from gapwatch.scorers.loading.load import load_portfolio
from tests.design.rag_run import APP
from tests.design.source_tree import graph, write_tree


@pytest.fixture(scope="module")
def made() -> Design:
    return run_design(scan_repository(APP))


def _run(*arguments: str) -> str:
    result = CliRunner().invoke(design_group, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_service_is_understood(made: Design) -> None:
    components = {c.id: c for c in made.architecture.components}

    assert components["model_client"].role == "ai_core"
    assert components["passage_index"].pattern == "rag"
    assert [t.id for t in components["answerer"].tiers] == ["ask_large", "ask_small"]
    assert "fallback" in components["answerer"].semantics
    assert all(e.verification == "verified" for e in made.architecture.edges)
    assert not made.architecture.missing
    assert not made.critique.cross_component_issues


def test_no_component_names_a_file_that_is_not_there(made: Design) -> None:
    assert all((APP / path).is_file() for c in made.architecture.components for path in c.files)


def test_few_functions_a_pattern_are_asked_for_a_span_and_metrics_name_no_other(tmp_path: Path) -> None:
    handlers = "".join(
        f"    def part_{i}(self, t):\n        try:\n            return tool(t)\n"
        f"        except OSError:\n            return {i}\n"
        for i in range(30)
    )
    source = (
        "from openai import OpenAI\n\n\nclass Answerer:\n    def __init__(self):\n        self.client = OpenAI()\n\n"
        "    def ask(self, q):\n        asked = [q + self.part_29(q) + self.others(q)]\n"
        "        return self.client.chat.completions.create(model='m', messages=asked)\n\n"
    )
    others = " + ".join(f"self.part_{i}(t)" for i in range(29))
    handlers += f"    def others(self, t):\n        return {others}\n"
    made = run_design(scan_repository(write_tree(tmp_path, {"answering.py": source + handlers})))

    asked = {p.name for p in made.points}
    assert "Answerer.ask" in asked
    assert "Answerer.part_29" in asked, "what the model's caller uses comes first"
    assert sum("part_" in name for name in asked) == MAX_FUNCTIONS
    assert [g.missing for g in made.gaps if g.metric == "answerer"] == [
        f"functions without a requested span: {30 - MAX_FUNCTIONS} with has_try_except, "
        f"{30 - MAX_FUNCTIONS} with returns_failure"
    ]
    assert {p.name for p in made.points if p.is_first} == {"Answerer.ask"}
    assert "swallowed_errors" not in {m.family for m in made.metrics}, "its handlers give the failure back"
    (failing,) = [m for m in made.metrics if m.family == "failure_answers"]
    assert set(failing.spans) <= asked


def test_clients_of_one_file_that_share_a_node_are_told_apart_by_their_class(tmp_path: Path) -> None:
    vendors = [
        f"{name}{letter}"
        for name in ("Vendor", "Seller", "Dealer", "Trader")
        for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    ]
    ask = "return self.client.chat.completions.create(model='m', messages=[q])"
    source = "from openai import OpenAI\n\n\n" + "".join(
        f"class {vendor}:\n    def __init__(self):\n        self.client = OpenAI()\n\n"
        f"    def request(self, q):\n        {ask}\n\n\n"
        for vendor in vendors
    )

    made = run_design(scan_repository(write_tree(tmp_path, {"vendors.py": source})))

    shared = [c for c in made.architecture.components if len(c.tiers) > 1]
    assert shared, "104 clients do not fit into 80 nodes"
    for component in shared:
        assert all(re.fullmatch(r"(vendor|seller)_?[a-z]_request", t.id) for t in component.tiers), component.tiers


def test_questions_have_stable_ids_and_at_most_three_for_a_component(made: Design) -> None:
    again = run_design(scan_repository(APP))
    by_component: dict[str | None, int] = {}
    for question in made.questions:
        by_component[question.component] = by_component.get(question.component, 0) + 1

    assert [q.id for q in made.questions] == [q.id for q in again.questions]
    assert all(count <= 3 for component, count in by_component.items() if component)
    assert all(q.why and q.default for q in made.questions)


def test_a_repository_without_a_model_asks_and_guesses_nothing(tmp_path: Path) -> None:
    found = run_design(
        scan_repository(write_tree(tmp_path, {"m.py": "import requests\ndef f(u): return requests.get(u)\n"}))
    )

    assert not found.has_model
    assert found.questions[0].id == "q-pipeline-model-call"
    assert not any(m.source == "judge" for m in found.metrics)


def test_the_practitioner_can_name_the_call_that_reaches_the_model(tmp_path: Path) -> None:
    root = write_tree(tmp_path, {"m.py": "from inhouse import gate\ndef answer(q):\n    return gate.talk(q)\n"})
    asked = run_design(scan_repository(root)).questions[0]

    found = run_design(scan_repository(root), facts=(fact_of(asked, "m.py:answer", "maria", "2026-11-02"),))

    assert found.has_model
    assert "calls_llm" in {m.pattern for m in found.metrics}
    assert asked.id not in {q.id for q in found.open_questions}
    assert not found.stale_facts


def test_an_acceptable_default_wakes_nobody(made: Design) -> None:
    asked = next(q for q in made.questions if q.id == "q-question_service-default")

    found = run_design(scan_repository(APP), facts=(fact_of(asked, "acceptable", "maria", "2026-11-02"),))

    severities = {m.name: m.severity for m in found.metrics}
    assert severities["question_service_swallowed_errors"] == "note"


def test_an_answer_verifies_a_direction_and_survives_a_change_of_the_code(tmp_path: Path) -> None:
    facts = tmp_path / "facts.yaml"
    _run(
        "answer",
        str(APP),
        "q-answerer-cascade",
        "degraded",
        "--facts",
        str(facts),
        "--by",
        "maria",
        "--at",
        "2026-11-02",
        "--quiet",
    )
    moved = tmp_path / "rag_app"
    write_tree(moved, {p.name: "# moved\n\n" + p.read_text() for p in APP.glob("*.py")})
    _run(str(moved), "--out", str(tmp_path / "out"), "--facts", str(facts), "--quiet")

    portfolio = load_portfolio(tmp_path / "out" / "portfolio.yaml")
    metric = next(m for m in portfolio.metrics if m.name == "answerer_fallback_rate")
    assert metric.direction is not None
    assert (metric.direction.better, metric.direction.verdict, metric.direction.fact) == (
        "lower",
        "verified",
        "f-answerer-cascade",
    )
    assert "q-answerer-cascade" not in {q.id for q in portfolio.questions}


def test_a_wrong_answer_is_refused_with_what_may_be_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="expected one of degraded, expected, either"):
        _run("answer", str(APP), "q-answerer-cascade", "maybe", "--facts", str(tmp_path / "f.yaml"), "--by", "m")
    with pytest.raises(UsageError, match="q-answerer-cascade"):
        _run("answer", str(APP), "q-nothing", "x", "--facts", str(tmp_path / "f.yaml"), "--by", "m")


def test_judges_are_exported_once_a_model_may_judge(tmp_path: Path) -> None:
    _run(str(APP), "--out", str(tmp_path), "--judge-model", "openai/gpt-4.1", "--all", "--quiet")

    judges = [m for m in load_portfolio(tmp_path / "portfolio.yaml").metrics if m.claim.form == "judge"]
    assert judges
    assert all(m.monitors for m in judges)


def test_a_goal_comes_first(tmp_path: Path) -> None:
    found = run_design(scan_repository(APP), goal="the answer store must never lose what was saved")

    assert found.architecture.components[0].id == "answer_store"
    assert found.architecture.components[0].priority == "secondary"


def test_edges_are_verified_inferred_or_unsupported(tmp_path: Path) -> None:
    made = graph(
        tmp_path,
        {
            "m.py": "import threading\ndef a(): b()\ndef b(): ...\ndef c(): threading.Thread(target=b)\ndef "
            "d(): helper()\ndef helper(): b()\n"
        },
    )

    def status(src: str, dst: str) -> str:
        return verify_pair([edge for edge in made.edges if (edge.src, edge.dst) == (src, dst)])[0]

    callers = [ComponentDraft(name, name, [], [f"m.{name}"], f"m.{name}") for name in ("d", "b")]

    assert status("m.a", "m.b") == "verified"
    assert status("m.c", "m.b") == "inferred"
    assert status("m.b", "m.a") == "unsupported"
    assert [edge.because for edge in build_edges(callers, made)] == ["through m.helper"]
    assert find_symbol(made, "`helper()`") == "m.helper"


def test_every_number_of_the_report_is_one_query(made: Design, tmp_path: Path) -> None:
    write_store(made, tmp_path / "d.duckdb")
    write_store(made, tmp_path / "d.duckdb")
    numbers = summary(made)
    with duckdb.connect(str(tmp_path / "d.duckdb"), read_only=True) as store:

        def one(query: str) -> float:
            found = store.execute(query).fetchone()
            assert found is not None
            return float(found[0])

        assert one("SELECT count(*) FROM versions") == 1
        assert one("SELECT count(*) FROM components WHERE NOT pruned") == numbers["components"]
        assert one("SELECT avg((verification = 'verified')::INT) FROM edges") == numbers["edges_verified_share"]
        assert one("SELECT count(*) FROM metrics WHERE exported") == numbers["metrics_exported"]
        assert one("SELECT count(*) FROM verdicts WHERE verdict = 'pass' AND NOT dropped") == numbers["passed"]
        assert one("SELECT overall_confidence FROM versions") == numbers["overall_confidence"]
        assert one("SELECT min(confidence) FROM annotations") == numbers["lowest_confidence"]


def test_operations_of_a_refiner_are_checked_one_by_one(made: Design) -> None:
    architecture = run_design(scan_repository(APP)).architecture
    refused = apply_operations(
        architecture,
        [
            ComponentOperation("rename", "answerer", "Answer writer"),
            ComponentOperation("rename", "phantom", "x"),
            ComponentOperation("merge", "answerer", "model_client"),
            ComponentOperation("explode", "answerer", "x"),
        ],
    )

    assert architecture.component("answerer").name == "Answer writer"
    assert len(architecture.components) == len(made.architecture.components) - 1
    assert [r.partition(":")[0] for r in refused] == ["rename phantom", "explode answerer"]


@pytest.mark.parametrize(
    ("dotted", "capability"),
    [
        ("openai.AsyncOpenAI.chat.completions.create", "llm_chat"),
        ("openai.OpenAI.embeddings.create", "embedding"),
        ("langchain_openai.ChatOpenAI.bind_tools.ainvoke", "llm_chat"),
        ("requests.get", "http"),
        ("requests.get.headers.get", None),
        ("boto3.client", None),
        ("boto3.client.invoke_model", "llm_chat"),
        ("json.dumps", None),
        ("os.path.join", None),
    ],
)
def test_the_catalog_knows_what_a_call_does(dotted: str, capability: str | None) -> None:
    assert default_catalog().capability(dotted) == capability


def test_a_catalog_with_an_unknown_key_is_refused() -> None:
    with pytest.raises(UsageError, match=r"own\.toml: \[x\]: unknown keys \['chat'\]"):
        LibraryCatalog('[x]\nprefixes = ["x"]\nchat = ["y"]\n', "own.toml")


def test_the_graph_in_the_form_of_the_benchmark(tmp_path: Path) -> None:
    write_tree(tmp_path, {"main.py": "def f(): len([])\nf()\n"})

    found = json.loads(_run("graph", str(tmp_path), "--format", "pycg", "--no-cache", "--quiet"))

    assert found == {"<builtin>.len": [], "main": ["main.f"], "main.f": ["<builtin>.len"]}


def test_the_cache_answers_the_same_and_a_broken_entry_is_worked_out_anew(tmp_path: Path) -> None:
    write_tree(tmp_path / "repo", {"m.py": "def f(): g()\ndef g(): ...\n"})
    cache = tmp_path / "cache"
    arguments = ("graph", str(tmp_path / "repo"), "--cache", str(cache), "--quiet")
    first = _run(*arguments)
    again = _run(*arguments)
    for entry in cache.iterdir():
        entry.write_text('{"symbols": 1}')
    anew = _run(*arguments)

    assert first == again == anew
    assert json.loads(first)["edges"][0]["sites"] == [["m.py", 1]]


def test_a_missing_repository_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="give the path of a repository"):
        _run("graph", str(tmp_path / "nothing"))


def test_components_are_plain_values(made: Design) -> None:
    assert all(isinstance(c, ComponentDraft) and c.entry in c.symbols for c in made.architecture.components)


def test_each_parser_is_held_to_the_keys_that_it_reads_itself(tmp_path: Path) -> None:
    source = (
        "import json\nfrom openai import OpenAI\nfrom pydantic import BaseModel\n\n\nclass Answerer:\n"
        "    def __init__(self):\n        self.client = OpenAI()\n\n"
        "    def ask(self, q):\n        return self.client.chat.completions.create(model='m', messages=[q])\n\n"
        "    def plan(self, q):\n        found = json.loads(self.ask(q))\n"
        "        return found['steps'], found['why'] if 'why' in found else ''\n\n"
        "    def grade(self, q):\n        found = json.loads(self.ask(q))\n        return found['score']\n"
    )
    made = run_design(scan_repository(write_tree(tmp_path, {"answering.py": source})), is_bounded=False)

    forms = {m.family: (m.claim.get("json"), m.spans) for m in made.metrics if "parsed_text" in str(m.claim)}
    assert forms == {
        "output_parses": (None, ["Answerer.grade", "Answerer.plan"]),
        "grade_output_fields": ({"required": ["/score"]}, ["Answerer.grade"]),
        "plan_output_fields": ({"required": ["/steps"]}, ["Answerer.plan"]),
    }


def test_only_fields_that_an_answer_must_hold_are_required(tmp_path: Path) -> None:
    source = (
        "from openai import OpenAI\nfrom pydantic import BaseModel, Field\n\n\nclass Plan(BaseModel):\n"
        "    goal: str\n    steps: list[str] = Field(description='in order')\n    note: str = ''\n"
        "    cost: float | None\n    kind: str = Field(default='a')\n    at: str = Field(alias='when')\n\n\n"
        "def plan(q):\n    answer = OpenAI().chat.completions.create(model='m', messages=[q])\n"
        "    text = answer.choices[0].message.content\n"
        "    return Plan.model_validate_json(text)\n"
    )
    made = run_design(scan_repository(write_tree(tmp_path, {"planning.py": source})), is_bounded=False)

    (form,) = [m.claim for m in made.metrics if m.family == "output_parses"]
    assert form["json"] == {"required": ["/goal", "/steps"]}


def test_fields_are_read_of_the_parsed_text_and_not_of_the_message_that_held_its_name(tmp_path: Path) -> None:
    source = (
        "import json\nfrom openai import OpenAI\n\n\ndef plan(q):\n"
        "    reply = OpenAI().chat.completions.create(model='m', messages=[q]).to_dict()\n"
        "    reply = json.loads(reply['content'])\n"
        "    reply['code'] = f\"sh -c {reply['code']}\"\n    reply['at'] = 1\n"
        "    return reply['code'], reply['thought'], reply['at']\n"
    )
    made = run_design(scan_repository(write_tree(tmp_path, {"planning.py": source})), is_bounded=False)

    (form,) = [m.claim for m in made.metrics if m.family == "output_parses"]
    assert form["json"] == {"required": ["/code", "/thought"]}


def test_one_component_pages_for_what_its_user_feels_first(tmp_path: Path, made: Design) -> None:
    pages = {
        c.id: [m.family for m in made.metrics if m.component == c.id and m.severity == "page"]
        for c in made.architecture.components
    }

    assert 1 <= max(len(p) for p in pages.values()) <= 2
    # Requests and runs that fail are felt by whoever sent them, whichever component answers.
    felt = {c: [f for f in p if f not in ("failed_requests", "failed_runs")] for c, p in pages.items()}
    assert all(p == [] for c, p in felt.items() if made.architecture.component(c).priority != "primary")


def test_the_screen_says_what_comes_next_also_where_nothing_is_asked(
    made: Design, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    print_summary(replace(made, questions=[q for q in made.questions if q not in made.open_questions]), tmp_path)
    told = " ".join(capsys.readouterr().out.split())

    assert "0 open questions" in told
    assert {m.name for m in made.metrics if m.is_exported} <= set(told.split())
    assert "Next: let `gapwatch instrument --design" in told
    assert told.endswith("gapwatch run --otlp receives and scores them, gapwatch replay scores a file of them.")
