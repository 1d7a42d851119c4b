"""Issues, tests and triage: made, changed, joined and dropped, append-only with who and when."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
import orjson
import pytest

from gapwatch.sinks.store.opening import remove_unused
from tests.gapwatch_command import Ran, gapwatch
from tests.paths import ROOT
from tests.streams.replayed import PORTFOLIO, replay, trace, written

SEED = ROOT / "tests" / "data" / "grafite_seed"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "s.duckdb"


def issue(*words: object) -> Ran:
    return gapwatch("issue", *words)


def rows(store: Path, sql: str) -> list[tuple[Any, ...]]:
    with duckdb.connect(str(store), read_only=True) as con:
        return con.execute(sql).fetchall()


def test_each_change_is_a_version_with_who_and_why(store: Path) -> None:
    made = issue(
        "new", "Wrong day", "--store", store, "--tag", "dates", "--guideline", "The day is right.", "--by", "ann"
    )
    id_ = made.out.strip()
    issue("set", id_, "--status", "open", "--why", "three users", "--store", store, "--by", "bob")
    issue("set", id_[:6], "--domain", "flights", "--store", store, "--by", "eve")

    shown = issue("show", id_, "--store", store, "--format", "json").json()
    assert (shown["status"], shown["domain"], shown["tags"], shown["by"]) == ("open", "flights", ["dates"], "eve")
    assert [(one["by"], one["status"], one["why"]) for one in shown["changes"]] == [
        ("ann", "draft", None), ("bob", "open", "three users"), ("eve", "open", None),
    ]  # fmt: skip
    assert rows(store, "SELECT count(*) FROM issues") == [(3,)]
    assert issue("set", "nobody", "--status", "open", "--store", store).status == 2
    assert "nothing to change" in issue("set", id_, "--store", store).err
    assert issue("new", "x", "--store", store, "--by", "TODO").status == 2


def test_a_test_inherits_from_its_issue_where_it_does_not_differ(store: Path) -> None:
    id_ = issue("new", "T", "--store", store, "--guideline", "be kind", "--template", "3").out.strip()
    issue("add-test", id_, "--input", "hello", "--store", store)
    chat = json.dumps([{"role": "system", "content": "s"}, {"role": "user", "content": "u"}])
    issue(
        "add-test",
        id_,
        "--input",
        chat,
        "--template",
        "1",
        "--reference",
        "r",
        "--guideline",
        "be right",
        "--store",
        store,
    )

    from gapwatch.sinks.issues.issue_query import read_issues, read_tests

    with duckdb.connect(str(store), read_only=True) as con:
        issues, tests = read_issues(con), list(read_tests(con).values())
    assert [test.setup(issues[id_]) for test in tests] == [(3, "be kind"), (1, "be right")]
    assert tests[1].input_text() == "system: s\n\nuser: u"
    assert tests[0].sha(issues[id_]) != tests[1].sha(issues[id_])


def failing(number: int, question: str) -> str:
    """Return a trace of which the answer is missing."""
    record = json.loads(trace(number))
    for span in record["spans"]:
        if span["component"] == "agent":
            span.update(input=question, output="", parent_id=None)
    return json.dumps(record)


def test_a_failing_trace_becomes_a_test_and_leaves_the_queue(store: Path) -> None:
    (store.parent / "shop.yaml").write_text(PORTFOLIO.replace("4000", "100"))  # every text is kept
    lines = [failing(n, f"When does flight {n} leave? Mail jo@example.org") for n in range(1, 4)]
    replay(store, written(store.parent / "a.jsonl", lines))
    thumbs = written(
        store.parent / "f.jsonl",
        [
            json.dumps(
                {"id": "f9", "trace_id": json.loads(lines[2])["trace_id"], "value": "down", "comment": "no answer"}
            )
        ],
    )
    gapwatch("feedback", thumbs, "--store", store)
    queue = gapwatch("triage", "list", "--store", store, "--format", "json").json()
    assert [one["kind"] for one in queue] == ["feedback", "row", "row", "row"]
    assert "answers" in queue[1]["metrics"]

    first, second = queue[1]["key"], queue[2]["key"]
    made = gapwatch("triage", "make", first, "--store", store, "--title", "No answer", "--by", "ann")
    assert made.status == 0, made.err
    near = gapwatch("triage", "make", second, "--store", store, "--by", "ann")
    assert near.status == 2
    assert "similar issues exist" in near.err and made.out.strip() in near.err
    assert gapwatch("triage", "join", second, made.out.strip(), "--store", store, "--by", "bob").status == 0
    assert gapwatch("triage", "drop", "feedback:f9", "--why", "seen", "--store", store, "--by", "bob").status == 0
    left = gapwatch("triage", "list", "--store", store, "--format", "json").json()
    assert [one["kind"] for one in left] == ["row"]
    assert gapwatch("triage", "drop", first, "--why", "again", "--store", store).status == 2

    shown = issue("show", made.out.strip(), "--store", store, "--format", "json").json()
    assert [(one["kind"], one["decision"], one["by"]) for one in shown["from"]] == [
        ("row", "made", "ann"), ("row", "joined", "bob"),
    ]  # fmt: skip
    inputs = [orjson.loads(test["inputs"])[0]["content"] for test in shown["tests"]]
    assert len(inputs) == 2
    assert all(text.startswith("When does flight") and "[redacted]" in text for text in inputs)
    one = issue("from-trace", left[0]["item"], "--issue", made.out.strip(), "--store", store, "--by", "ann")
    assert one.status == 0, one.err
    assert gapwatch("triage", "list", "--store", store, "--format", "json").json() == []


def test_the_seed_of_grafite_is_imported_with_its_failed_call_as_an_error(store: Path, tmp_path: Path) -> None:
    said = issue("import", SEED, "--store", store, "--by", "ann").out
    assert "20 issues, 20 tests, 1 runs, 20 results, 60 verdicts, 1 of them failed calls" in said
    verdicts = rows(store, "SELECT outcome, count(*) FROM test_verdicts GROUP BY ALL ORDER BY ALL")
    assert verdicts == [("error", 1), ("fail", 34), ("pass", 25)]
    assert "in the store already" in issue("import", SEED, "--store", store).err

    assert "wrote 20 issues and 20 tests" in issue("export", tmp_path / "x.jsonl", "--store", store).out
    again = tmp_path / "again.duckdb"
    assert "20 issues, 20 tests" in issue("import", tmp_path / "x.jsonl", "--store", again, "--by", "ann").out
    same = "SELECT issue_id, title, tags, status FROM issues ORDER BY ALL"
    assert rows(again, same) == rows(store, same)


def test_test_cases_of_promptfoo_and_examples_of_data_sets_are_tests(store: Path, tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(
        'tests:\n- vars: {question: "When?"}\n  assert:\n  - {type: llm-rubric, value: gives a day}\n'
        '- vars: {question: "Where?"}\n  assert: [{type: equals, value: Rome}]\n'
    )
    written(tmp_path / "d.jsonl", [json.dumps({"input": {"q": 1}, "expected_output": "one"})])
    assert issue("import", tmp_path / "p.yaml", "--store", store).err == ""
    issue("import", tmp_path / "d.jsonl", "--store", store)
    found = rows(store, "SELECT reference, template, guideline FROM issue_tests ORDER BY seq, reference NULLS FIRST")
    assert found == [
        (None, None, "gives a day"), ("Rome", 1, None), ("one", 1, None),
    ]  # fmt: skip
    written(tmp_path / "bad.jsonl", ['{"input": "x"}', "nope"])
    told = issue("import", tmp_path / "bad.jsonl", "--store", store)
    assert told.status == 2 and "line 2" in told.err


def test_a_configuration_of_promptfoo_has_prompts_defaults_and_assertions_that_are_named(
    store: Path, tmp_path: Path
) -> None:
    (tmp_path / "promptfooconfig.yaml").write_text("""
prompts: ["Translate to {{ language }}: {{text}}"]
providers: [openai:gpt-4.1-mini]
defaultTest:
  vars: {language: French}
  assert: [{type: llm-rubric, value: is polite}, {type: cost, threshold: 0.01}]
tests:
- vars: {text: Hello}
  assert: [{type: icontains, value: bonjour}, {type: llm-rubric, value: is short}]
- vars: {text: Bye, language: Italian}
  assert: [{type: assert-set, assert: [{type: javascript, value: "output.length < 9"}, {type: equals, value: Ciao}]}]
""")
    assert issue("import", tmp_path / "promptfooconfig.yaml", "--store", store).err == ""
    sql = "SELECT inputs->0->>'content', reference, guideline FROM issue_tests ORDER BY reference"
    assert rows(store, sql) == [
        ("Translate to Italian: Bye", "Ciao", "is polite"),
        ("Translate to French: Hello", "bonjour", "is polite\nis short"),
    ]
    assert rows(store, "SELECT description FROM issues") == [
        ("assertions that are left out: cost (2), javascript (1)",)
    ]
    (tmp_path / "far.yaml").write_text("tests: file://cases.csv")
    assert "cases.csv" in issue("import", tmp_path / "far.yaml", "--store", store).err


def said(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}


#: Lines in the forms that the programs write: Langfuse's items, Phoenix's examples, its two downloads for OpenAI.
FOREIGN = [
    {
        "id": "i1", "datasetName": "d", "input": {"question": "When?"}, "expectedOutput": "Tuesday", "metadata": None,
        "sourceTraceId": "tr-1", "status": "ACTIVE",
    },
    {"id": "i2", "input": "Old?", "expectedOutput": None, "sourceTraceId": None, "status": "ARCHIVED"},
    {"id": "RGF0", "input": {"question": "2 + 2"}, "output": {"answer": "4"}, "metadata": {}, "updated_at": "2026"},
    {"messages": [said("system", "s"), said("user", "u"), said("assistant", "a")]},
    {"messages": [{"role": "user", "content": "v"}], "ideal": "b"},
    {"messages": [{"role": "user", "content": "w"}], "ideal": ""},
    {"input": {"messages": [said("user", "x")]}, "output": {"messages": [said("assistant", "c")]}},
]  # fmt: skip


def test_data_sets_of_langfuse_and_phoenix_keep_answer_trace_and_state(store: Path, tmp_path: Path) -> None:
    written(tmp_path / "d.jsonl", [json.dumps(line) for line in FOREIGN])
    assert issue("import", tmp_path / "d.jsonl", "--store", store).err == ""
    sql = """SELECT inputs->-1->>'content' AS asked, json_array_length(inputs), reference, origin, is_active, template
        FROM issue_tests ORDER BY asked"""
    assert rows(store, sql) == [
        ("2 + 2", 1, "4", "d.jsonl", True, 1),
        ("Old?", 1, None, "d.jsonl", False, None),
        ("When?", 1, "Tuesday", "trace tr-1", True, 1),
        ("u", 2, "a", "d.jsonl", True, 1),
        ("v", 1, "b", "d.jsonl", True, 1),
        ("w", 1, None, "d.jsonl", True, None),
        ("x", 1, "c", "d.jsonl", True, 1),
    ]


def test_a_store_with_nothing_but_an_issue_is_not_unused(store: Path) -> None:
    issue("new", "Wrong day", "--store", store)
    assert not remove_unused(store)
    assert store.exists()


def test_a_store_from_before_is_read_once_it_was_opened_for_writing(store: Path) -> None:
    issue("new", "Wrong day", "--store", store)
    with duckdb.connect(str(store)) as con:
        con.execute("DROP TABLE issues; DROP TABLE issue_tests; DROP TABLE test_runs")
    told = issue("list", "--store", store)
    assert told.status == 1
    assert "gapwatch annotate" in told.err
    issue("new", "Wrong hour", "--store", store)
    assert "Wrong hour" in issue("list", "--store", store).out
